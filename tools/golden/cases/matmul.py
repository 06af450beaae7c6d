"""Matrix products, inner products and norms."""

from golden import Case, f32, f64, values


def einsum(equation, *operands, **options):
    """Paddle's op keeps operands and shapes; what exactly is its own affair."""
    count = len(operands)
    return Case("einsum", {"Operands": list(operands)}, {"equation": equation},
                outputs=["Out", ("InnerCache", count), ("XShape", count)], check=["Out"],
                **options)


CASES = [
    Case("mul", {"X": f32(3, 4), "Y": f32(4, 2)}),
    Case("mul", {"X": f32(2, 3, 4), "Y": f32(4, 5)}, {"x_num_col_dims": 2}),
    Case("mul", {"X": f32(2, 3, 2), "Y": f32(3, 2, 2)}, {"x_num_col_dims": 1, "y_num_col_dims": 2}),
    Case("mul", {"X": f64(2, 3), "Y": f64(3, 2)}, grad=["Y"]),
    Case("matmul", {"X": f32(3, 4), "Y": f32(4, 2)}),
    Case("matmul", {"X": f32(3, 4), "Y": f32(2, 4)}, {"transpose_Y": True, "alpha": 0.5}),
    Case("matmul", {"X": f32(4, 3), "Y": f32(4, 2)}, {"transpose_X": True}),
    Case("matmul", {"X": f32(4, 3), "Y": f32(2, 4)}, {"transpose_X": True, "transpose_Y": True, "alpha": 2.0}),
    Case("matmul", {"X": f32(2, 3, 4), "Y": f32(2, 4, 2)}),
    Case("matmul", {"X": f32(2, 3, 4), "Y": f32(4, 2)}),
    Case("matmul", {"X": f64(4), "Y": f64(4)}),
    Case("matmul", {"X": f32(2, 3, 4), "Y": f32(4)}),
    Case("matmul_v2", {"X": f32(3, 4), "Y": f32(4, 2)}),
    Case("matmul_v2", {"X": f64(4, 3), "Y": f64(4, 2)}, {"trans_x": True}),
    Case("matmul_v2", {"X": f32(3, 4), "Y": f32(2, 4)}, {"trans_y": True}),
    Case("matmul_v2", {"X": f32(4, 3), "Y": f32(2, 4)}, {"trans_x": True, "trans_y": True}),
    Case("matmul_v2", {"X": f32(2, 3, 4), "Y": f32(4, 2)}),
    Case("matmul_v2", {"X": f32(2, 4, 3), "Y": f32(4, 2)}, {"trans_x": True}),
    Case("matmul_v2", {"X": f32(3, 4), "Y": f32(2, 4, 2)}),
    Case("matmul_v2", {"X": f32(2, 1, 3, 4), "Y": f32(3, 4, 2)}, grad=[]),  # Paddle's gradient fails
    Case("matmul_v2", {"X": f32(2, 1, 4, 3), "Y": f32(1, 3, 2, 4)}, {"trans_x": True, "trans_y": True}),
    Case("matmul_v2", {"X": f32(4), "Y": f32(4)}),
    Case("matmul_v2", {"X": f32(4), "Y": f32(4, 3)}),
    Case("matmul_v2", {"X": f32(2, 3, 4), "Y": f32(4)}),
    Case("bmm", {"X": f32(2, 3, 4), "Y": f32(2, 4, 2)}),
    Case("bmm", {"X": f64(3, 1, 2), "Y": f64(3, 2, 1)}),
    Case("dot", {"X": f32(3, 4), "Y": f32(3, 4)}),
    Case("dot", {"X": f32(19), "Y": f32(19)}),
    Case("dot", {"X": f64(2, 5), "Y": f64(2, 5)}),
    Case("p_norm", {"X": f32(3, 4)}),
    Case("p_norm", {"X": f32(2, 3, 2)}, {"porder": 1.0, "axis": 1}),
    Case("p_norm", {"X": f32(2, 3, 2)}, {"porder": 3.0, "axis": 0, "keepdim": True}),
    Case("p_norm", {"X": f32(3, 4)}, {"porder": 0.5, "axis": 1}),
    Case("p_norm", {"X": f32(3, 4)}, {"porder": 2.0, "asvector": True}),
    Case("p_norm", {"X": f32(3, 4)}, {"porder": 2.0, "asvector": True, "keepdim": True}),
    Case("p_norm", {"X": f32(3, 4)}, {"porder": float("inf"), "axis": 1}),
    Case("p_norm", {"X": f32(3, 4)}, {"porder": float("-inf"), "axis": 0}),
    Case("p_norm", {"X": values([[1.0, 0.0, 2.0]])}, {"porder": 0.0}, fd=False),  # a count
    einsum("ij,jk->ik", f32(3, 4), f32(4, 5)),
    einsum("ij,jk->ki", f32(3, 4), f32(4, 5)),
    einsum("ji,kj->ik", f32(4, 3), f32(5, 4)),
    einsum("bij,bjk->bik", f32(2, 3, 4), f32(2, 4, 5)),
    einsum("ibj,jkb->kbi", f32(2, 3, 4), f32(4, 2, 3)),
    einsum("ij,ij->ij", f32(2, 3), f32(2, 3)),
    einsum("ij,ij->i", f32(2, 3), f32(2, 3)),
    einsum("ij,ij->", f32(2, 3), f32(2, 3)),
    einsum("i,j->ji", f32(2), f32(3)),
    einsum("ij,k->i", f32(2, 3), f32(4)),
    einsum("abcd,cbe->eda", f32(2, 3, 2, 2), f32(2, 3, 2)),
    einsum("ijk->ki", f32(2, 3, 4)),
    einsum("ij->", f32(2, 3)),
    einsum("ij->ji", f64(2, 3)),
    einsum("ii->i", f32(3, 3)),
    einsum("ii->", f32(3, 3)),
    einsum("iji->ij", f32(3, 2, 3)),
    einsum("ii,i->i", f32(3, 3), f32(3)),
    einsum("i->ii", f32(3)),
    einsum("...ij,...jk->...ik", f32(2, 3, 4), f32(2, 4, 2)),
    einsum("...ij,...jk->...ik", f32(1, 3, 4), f32(2, 4, 2)),
    # Paddle has no gradient of this one.
    einsum("...ij,jk->...ik", f32(2, 2, 3, 2), f32(2, 3), grad=[]),
    einsum("i...->...", f32(3, 4)),
    einsum("...i->i...", f32(2, 3, 4)),
    einsum("ab...,b...->...a", f32(2, 3, 4), f32(3, 4)),
]
