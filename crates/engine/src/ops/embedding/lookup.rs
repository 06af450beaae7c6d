//! `lookup_table` and `lookup_table_v2`: rows of table `W` by id. They differ in one point: the
//! first expects ids of shape `[.., 1]` and drops that 1.
//!
//! With `is_sparse` the table's gradient is selected rows, one for each id in order of occurrence;
//! otherwise it is dense.

use bireme_ir::VarKind;

use super::table::Table;
use crate::ops::prelude::*;

/// `padding_idx` and `is_sparse` matter here; the others tell parameter servers about the table.
const ATTRS: &[AttrSpec] = &[
    attr::long("padding_idx", NO_PADDING),
    attr::bool("is_sparse", false),
    attr::bool("is_distributed", false),
    attr::bool("remote_prefetch", false),
    attr::bool("is_test", false),
    attr::bool("grad_inplace", false),
    attr::int("trainer_id", 0),
    attr::int("slot", 0),
    attr::longs("height_sections", &[]),
    attr::strings("epmap", &[]),
    attr::strings("table_names", &[]),
    attr::str("table_class", "none"),
    attr::str("entry", "none"),
    attr::str("entry_config", ""),
];

/// The `padding_idx` of a table without padding.
const NO_PADDING: i64 = -1;

pub(super) const V1: OpDef = definition("lookup_table").infer(infer_v1);
pub(super) const V2: OpDef = definition("lookup_table_v2").infer(infer_v2);

const fn definition(name: &'static str) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("W"), Slot::one("Ids")] })
        .outputs(const { &[Slot::one("Out")] })
        .attrs(ATTRS)
        .shared(&["W"])
        .lod_from("Ids")
        .split(SplitRule::batch(&["Ids"]))
        .gradient(
            Gradient::new(&["W"], grad_kernel)
                .reads(&["W", "Ids"])
                .shared(&["W"])
                .second(second)
                .infer(infer_grad),
        )
}

/// The gradient of a dense gradient is a lookup, too.
fn second(view: &OpView<'_>) -> Result<Vec<bireme_ir::Op>> {
    if view.bool("is_sparse")? {
        return Err(Error::kernel(
            "there is no gradient of a gradient for an embedding with `sparse=True`",
        ));
    }
    second::linear(view)
}

fn infer_v1(cx: &mut Infer<'_>) -> Result<()> {
    let ids = cx.input("Ids")?;
    match ids.dims.split_last() {
        Some((1 | -1, rest)) => infer(cx, rest),
        _ => Err(Error::kernel(format!(
            "`Ids` must have a last dimension of 1, but its shape is {:?}; \
             `lookup_table_v2` takes ids without it",
            ids.dims
        ))),
    }
}

fn infer_v2(cx: &mut Infer<'_>) -> Result<()> {
    let ids = cx.input("Ids")?;
    infer(cx, &ids.dims)
}

fn infer(cx: &mut Infer<'_>, ids: &[i64]) -> Result<()> {
    let table = cx.input("W")?;
    let &[_, width] = table.dims.as_slice() else {
        return Err(Error::kernel(format!("table `W` must have rank 2, not {:?}", table.dims)));
    };
    let mut out = table.with_dims([ids, &[width]].concat());
    out.lod_level = cx.input("Ids")?.lod_level;
    cx.set("Out", out);
    Ok(())
}

fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    let mut grad = cx.input("W")?.clone();
    grad.kind = if cx.op().bool("is_sparse")? { VarKind::SelectedRows } else { VarKind::LodTensor };
    cx.set("W@GRAD", grad);
    Ok(())
}

fn table(weights: &Tensor, padding: i64) -> Table {
    let (rows, width) = (weights.rows(), weights.dims().get(1).copied().unwrap_or(1));
    Table { rows, width, padding: (padding != NO_PADDING).then_some(padding) }
}

/// Rows of a table that lives on servers: here it has none, and its ids were checked there.
fn remote_rows(op: &OpView<'_>) -> Result<Option<usize>> {
    if !op.bool("remote_prefetch")? {
        return Ok(None);
    }
    let rows = op.longs("height_sections")?.iter().sum::<i64>();
    Ok(usize::try_from(rows).ok().filter(|rows| *rows > 0))
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (weights, ids, mut out) = (op.input("W")?, op.input("Ids")?, op.output("Out")?);
    let padding = op.i64("padding_idx")?;
    Ok(Box::new(move |run| {
        let (weights, ids) = (run.tensor(weights)?, run.tensor(ids)?);
        let table = table(weights, padding);
        dispatch!(weights.dtype(), T in [f32, f64] => {
            dispatch!(ids.dtype(), I in [i64, i32] => {
                let (ids, out) = (ids.as_slice::<I>()?, run.set(&mut out)?);
                match weights.as_shared::<T>()? {
                    None => table.gather(weights.as_slice::<T>()?, ids, out),
                    Some(weights) => table.gather(weights, ids, out),
                }
            }, else => Err(Error::kernel(format!("ids are int64 or int32, not {}", ids.dtype()))))
        }, else => Err(not_float("W", weights.dtype())))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (weights, ids, dout) = (op.input("W")?, op.input("Ids")?, op.input("Out@GRAD")?);
    let (padding, sparse) = (op.i64("padding_idx")?, op.bool("is_sparse")?);
    let (mut dw, remote) = (op.output("W@GRAD")?, remote_rows(op)?);
    Ok(Box::new(move |run| {
        let (weights, ids, dout) = (run.tensor(weights)?, run.tensor(ids)?, run.tensor(dout)?);
        let mut table = table(weights, padding);
        if weights.rows() == 0 {
            table.rows = remote.unwrap_or(0);
        }
        dispatch!(dout.dtype(), T in [f32, f64] => {
            dispatch!(ids.dtype(), I in [i64, i32] => {
                let (ids, dout) = (ids.as_slice::<I>()?, dout.as_slice::<T>()?);
                if sparse {
                    return table.select(dout, ids, run.out_rows(&mut dw, weights.dtype()));
                }
                let dw = run.set::<T>(&mut dw)?;
                dw.fill(0.0);
                table.scatter_add(dout, ids, dw)
            }, else => Err(Error::kernel(format!("ids are int64 or int32, not {}", ids.dtype()))))
        }, else => Err(not_float("Out@GRAD", dout.dtype())))
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn values(ids: &[i64]) -> HashMap<String, Value> {
        let table: Vec<f32> = (0..8).map(|i| i as f32).collect();
        let dout: Vec<f32> = (0..ids.len() * 2).map(|i| i as f32).collect();
        let dims = [ids.len(), 2];
        HashMap::from([
            ("w".to_owned(), Tensor::from_slice([4, 2], &table).unwrap().into()),
            ("ids".to_owned(), Tensor::from_slice([ids.len()], ids).unwrap().into()),
            ("out@GRAD".to_owned(), Tensor::from_slice(dims, &dout).unwrap().into()),
        ])
    }

    fn grad(sparse: bool) -> Op {
        Op::new("lookup_table_v2_grad")
            .input("W", ["w"])
            .input("Ids", ["ids"])
            .input("Out@GRAD", ["out@GRAD"])
            .output("W@GRAD", ["w@GRAD"])
            .attr("is_sparse", sparse)
            .attr("padding_idx", 1i64)
    }

    #[test]
    fn sparse_gradient_keeps_the_order_of_ids_and_drops_padding() {
        let mut values = values(&[3, 1, 0, 3]);
        run_once(&grad(true), &mut values).unwrap();
        let rows = values["w@GRAD"].rows().unwrap();
        assert_eq!((rows.rows.as_slice(), rows.height), ([3, 0, 3].as_slice(), 4));
        assert_eq!(rows.value.as_slice::<f32>().unwrap(), [0.0, 1.0, 4.0, 5.0, 6.0, 7.0]);
    }

    #[test]
    fn dense_gradient_adds_repeated_ids() {
        let mut values = values(&[3, 1, 0, 3]);
        run_once(&grad(false), &mut values).unwrap();
        let dense = values["w@GRAD"].tensor().unwrap().as_slice::<f32>().unwrap();
        assert_eq!(dense, [4.0, 5.0, 0.0, 0.0, 0.0, 0.0, 6.0, 8.0]);
    }

    #[test]
    fn an_id_outside_the_table_is_named() {
        let op = Op::new("lookup_table_v2").input("W", ["w"]).input("Ids", ["ids"]);
        for id in [4, -7] {
            let error = run_once(&op.clone().output("Out", ["out"]), &mut values(&[0, id]));
            assert_eq!(
                error.unwrap_err().to_string(),
                format!(
                    "op `lookup_table_v2` (`out`): id {id} at position 1 of `Ids` lies outside \
                     the table, which has 4 rows"
                )
            );
        }
    }

    #[test]
    fn no_ids_give_no_rows() {
        let op = Op::new("lookup_table_v2").input("W", ["w"]).input("Ids", ["ids"]);
        let mut values = values(&[]);
        run_once(&op.output("Out", ["out"]), &mut values).unwrap();
        assert_eq!(&*values["out"].tensor().unwrap().dims(), [0, 2]);
        run_once(&grad(true), &mut values).unwrap();
        assert!(values["w@GRAD"].rows().unwrap().rows.is_empty());
    }
}
