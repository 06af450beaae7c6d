//! Weights packed once for several products: the workers of a step all multiply by the same ones.

use super::blocks::{self, Rhs};
use super::buffer::Buffer;
use super::kernel::Kernel;
use super::{Order, Product, Side, areas, choice, holds, library};

/// A right operand of `k` rows and `n` columns, as the kernel of this processor reads it.
///
/// It is packed again and again into the same memory, as weights change; products with it have the same bits as those
/// with the slice it was packed from.
#[derive(Default)]
pub struct PackedRhs {
    k: usize,
    n: usize,
    form: Form,
}

enum Form {
    /// For a kernel of ours.
    Panels(&'static Kernel, Buffer),
    /// For a processor that has none: the library packs for each product.
    Copy(Vec<f32>, Order),
}

impl Default for Form {
    fn default() -> Form {
        match choice::best(false) {
            Some(kernel) => Form::Panels(kernel, Buffer::default()),
            None => Form::Copy(Vec::new(), Order::Plain),
        }
    }
}

impl PackedRhs {
    /// Packs `rhs`, of `k` rows and `n` columns after its order is applied.
    ///
    /// # Panics
    /// When the slice is not as long as that.
    #[expect(unsafe_code, reason = "kernels take pointers; sizes are checked here")]
    pub fn pack(&mut self, k: usize, n: usize, rhs: &[f32], order: Order) {
        assert!(holds(rhs, k, n), "matrices have their sizes");
        (self.k, self.n) = (k, n);
        let side = Side { data: rhs, order };
        match &mut self.form {
            // SAFETY: the kernel is one of this processor, and the length was just checked.
            Form::Panels(kernel, buffer) => unsafe { blocks::pack(kernel, side, [k, n], buffer) },
            Form::Copy(copy, its_order) => {
                copy.clear();
                copy.extend_from_slice(rhs);
                *its_order = order;
            }
        }
    }
}

impl std::fmt::Debug for PackedRhs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PackedRhs({}x{})", self.k, self.n)
    }
}

/// `out = lhs * rhs`, where `out` has `m` rows; the bits are those of [`gemm`](super::gemm).
///
/// # Panics
/// When a slice is not as long as its matrix.
#[expect(unsafe_code, reason = "kernels take pointers; sizes are checked here")]
pub fn gemm_packed(m: usize, out: &mut [f32], lhs: &[f32], lhs_order: Order, rhs: &PackedRhs) {
    let PackedRhs { k, n, form } = rhs;
    match form {
        Form::Panels(kernel, buffer) => {
            assert!(holds(out, m, *n) && holds(lhs, m, *k), "matrices have their sizes");
            let (lhs, none) =
                (Side { data: lhs, order: lhs_order }, Side { data: &[][..], order: Order::Plain });
            let mut product =
                Product { m, n: *n, k: *k, out, add: false, half: false, lhs, rhs: none };
            if product.is_done() {
                return;
            }
            let rhs = Rhs::Packed(buffer);
            // SAFETY: the operand was packed by this kernel for these sizes, and the others were just checked.
            unsafe { areas::run(kernel, product, &rhs) }
        }
        Form::Copy(copy, order) => {
            library::multiply(Product::new([m, *n, *k], out, (lhs, lhs_order), (copy, *order)));
        }
    }
}
