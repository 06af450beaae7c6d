//! `tdm_child`: the children of nodes of a tree, and which of them are items.
//!
//! A row of `TreeInfo` is a node: the number of its item or 0, its layer, its parent, and its
//! children, 0 where there is none. Node 0 stands for nothing, and has no children.

use super::row_of;
use crate::ops::prelude::*;
use crate::ops::shape::dims::ranked;
use crate::ops::shape::given::extend_integers;

/// What a node says about itself before its children.
const BEFORE_CHILDREN: usize = 3;

pub(super) const DEF: OpDef = OpDef::new("tdm_child", kernel)
    .inputs(&[Slot::one("X"), Slot::one("TreeInfo")])
    .outputs(&[Slot::one("Child"), Slot::one("LeafMask")])
    .attrs(&[attr::required("child_nums", AttrKind::Int), attr::int("dtype", DType::I32.code())])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::batch(&["X"]));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, tree, children) = (cx.input("X")?, cx.input("TreeInfo")?, cx.op().i64("child_nums")?);
    let wide_enough = match tree.dims[..] {
        [_, width] => width < 0 || width >= children + BEFORE_CHILDREN as i64,
        _ => false,
    };
    if children < 1 || !wide_enough {
        return Err(Error::kernel(format!(
            "`TreeInfo` must have {BEFORE_CHILDREN} columns and one for each of `child_nums` \
             {children}, 1 or more, but its shape is {:?}",
            tree.dims
        )));
    }
    let out = x.with_dims(ranked([&x.dims[..], &[children]].concat())?);
    let out = out.with_dtype(cx.op().dtype("dtype")?);
    cx.set("Child", out.clone());
    cx.set("LeafMask", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, tree) = (op.input("X")?, op.input("TreeInfo")?);
    let (mut child, mut leaf) = (op.output("Child")?, op.output("LeafMask")?);
    let count = op.i64("child_nums")? as usize;
    let (mut ids, mut nodes) = (Vec::new(), Vec::new());
    Ok(Box::new(move |run| {
        let tree = run.tensor(tree)?;
        let (rows, width) = (tree.rows(), tree.dims()[1]);
        ids.clear();
        nodes.clear();
        extend_integers(&mut ids, run.tensor(x)?)?;
        extend_integers(&mut nodes, tree)?;
        let (child, leaf) = (run.out(&mut child)?, run.out(&mut leaf)?);
        dispatch!(child.dtype(), T in [i32, i64] => {
            let places = child.as_mut_slice::<T>()?.chunks_exact_mut(count);
            let places = places.zip(leaf.as_mut_slice::<T>()?.chunks_exact_mut(count));
            for (id, (child, leaf)) in ids.iter().zip(places) {
                let node = &nodes[row_of(*id, rows, "node")? * width..][..width];
                let children = &node[BEFORE_CHILDREN..][..count];
                child.fill(0);
                leaf.fill(0);
                if *id == 0 || children[0] == 0 {
                    continue;
                }
                for ((child, leaf), id) in child.iter_mut().zip(leaf).zip(children) {
                    let item = nodes[row_of(*id, rows, "child")? * width];
                    *child = *id as T;
                    *leaf = T::from(item != 0);
                }
            }
            Ok(())
        }, else => Err(Error::kernel(format!("nodes are int32 or int64, not {}", child.dtype()))))
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn nodes_outside_the_tree_are_refused() {
        let op = Op::new("tdm_child").input("X", ["x"]).input("TreeInfo", ["tree"]);
        let op = op.output("Child", ["child"]).output("LeafMask", ["leaf"]).attr("child_nums", 1);
        let tree = Tensor::from_slice([2, 4], &[0i32, 0, 0, 1, 1, 0, 0, 9]).unwrap();
        let mut values = HashMap::from([("tree".to_owned(), tree.into())]);
        for (id, what) in [(-1i64, "node -1"), (2, "node 2"), (1, "child 9")] {
            values.insert("x".to_owned(), Tensor::from_slice([1, 1], &[id]).unwrap().into());
            let error = run_once(&op, &mut values).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("2 of them"), "{error}");
        }
    }
}
