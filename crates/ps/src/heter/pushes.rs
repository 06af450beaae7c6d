//! What the ops of a unit would send to the servers, caught; and the sum over the units of a step,
//! which is sent.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use bireme_engine::Value;
use bireme_engine::remote::{GeoParam, Piece, Remote, Sending, TableRef};
use bireme_engine::tensor::{Dims, SelectedRows, Tensor};
use bireme_ir::{Attr, DType, Op, Program, VarKind};

use crate::worker::Worker;

/// One `send` or push of rows.
pub(super) enum Push {
    Values { how: Sending, values: Vec<Value> },
    Rows { table: TableRef, ids: Vec<Vec<i64>>, grads: Vec<Vec<f32>>, counts: Vec<[f32; 2]> },
}

/// Answers the ops of a section: pushes are kept, everything else the servers answer.
pub(super) struct Catch {
    worker: Arc<Worker>,
    caught: Mutex<Vec<Push>>,
}

impl Catch {
    pub(super) fn new(worker: Arc<Worker>) -> Catch {
        Catch { worker, caught: Mutex::default() }
    }

    /// What was caught since the last call.
    pub(super) fn take(&self) -> Vec<Push> {
        std::mem::take(&mut *self.caught.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep(&self, push: Push) {
        self.caught.lock().unwrap_or_else(PoisonError::into_inner).push(push);
    }
}

impl Remote for Catch {
    fn send(&self, how: &Sending, values: &[&Value]) -> bireme_engine::Result<()> {
        let values = values.iter().map(|value| (*value).clone()).collect();
        self.keep(Push::Values { how: how.clone(), values });
        Ok(())
    }

    fn send_barrier(&self, endpoints: &[String]) -> bireme_engine::Result<()> {
        self.worker.send_barrier(endpoints)
    }

    fn recv(
        &self,
        pieces: &[Piece],
        outs: &mut [&mut Tensor],
        versions: &mut [u64],
    ) -> bireme_engine::Result<()> {
        self.worker.recv(pieces, outs, versions)
    }

    fn fetch_barrier(&self, endpoints: &[String]) -> bireme_engine::Result<()> {
        self.worker.fetch_barrier(endpoints)
    }

    fn pull_rows(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        outs: &mut [&mut [f32]],
    ) -> bireme_engine::Result<()> {
        self.worker.pull_rows(table, ids, outs)
    }

    fn push_rows(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        grads: &[&[f32]],
        counts: Option<&[[f32; 2]]>,
    ) -> bireme_engine::Result<()> {
        self.keep(Push::Rows {
            table: table.clone(),
            ids: ids.iter().map(|ids| ids.to_vec()).collect(),
            grads: grads.iter().map(|grads| grads.to_vec()).collect(),
            counts: counts.map_or_else(Vec::new, <[_]>::to_vec),
        });
        Ok(())
    }

    fn exchange(&self, params: &mut [GeoParam<'_>]) -> bireme_engine::Result<()> {
        self.worker.exchange(params)
    }

    fn whoami(&self) -> String {
        self.worker.whoami()
    }
}

/// What a step without samples pushes: nothing of everything. Servers divide by the number of those
/// who push, so who has nothing to add must say so.
pub(super) fn zeros(program: &Program) -> Vec<Push> {
    let global = program.global();
    let of = |name: &String| {
        let var = global.var(name)?;
        let shape: Option<Vec<usize>> =
            var.shape.iter().map(|d| usize::try_from(*d).ok()).collect();
        let shape = shape?;
        if var.kind == VarKind::SelectedRows {
            let mut rows = SelectedRows::empty(var.dtype);
            rows.height = shape.first().copied().unwrap_or(0);
            rows.value = Tensor::zeros(var.dtype, Dims::new(&shape).with_rows(0));
            return Some(Value::Rows(rows));
        }
        Some(Value::Tensor(Tensor::zeros(var.dtype, Dims::new(&shape))))
    };
    let push = |op: &Op| {
        let text = |name: &str| match op.attrs.get(name) {
            Some(Attr::Strings(texts)) => texts.clone(),
            _ => Vec::new(),
        };
        let values: Option<Vec<Value>> = op.inputs_of("X").iter().map(of).collect();
        let pieces = text("send_varnames").into_iter().zip(text("epmap"));
        let pieces = pieces.map(|(name, endpoint)| Piece { name, endpoint }).collect();
        Some(Push::Values { how: Sending { pieces, merge_add: false }, values: values? })
    };
    let gradients =
        |op: &&Op| op.kind == "send" && op.attrs.get("use_send_handler") == Some(&Attr::Bool(true));
    global.ops.iter().filter(gradients).filter_map(push).collect()
}

/// Sends the weighted sum of units, in their order, to the servers. Units are runs of one program,
/// so they push the same things in the same order.
///
/// # Errors
/// When a server is lost.
pub(super) fn send_sum(
    worker: &Worker,
    units: Vec<(f32, Vec<Push>)>,
    as_is: &HashSet<String>,
) -> bireme_engine::Result<()> {
    let mut columns: Vec<Vec<(f32, Push)>> = Vec::new();
    for (weight, pushes) in units {
        columns.resize_with(columns.len().max(pushes.len()), Vec::new);
        for (column, push) in columns.iter_mut().zip(pushes) {
            column.push((weight, push));
        }
    }
    for column in columns {
        match sum(column, as_is) {
            Some(Push::Values { how, values }) => {
                worker.send(&how, &values.iter().collect::<Vec<_>>())?;
            }
            Some(Push::Rows { table, ids, grads, counts }) => {
                let ids: Vec<&[i64]> = ids.iter().map(Vec::as_slice).collect();
                let grads: Vec<&[f32]> = grads.iter().map(Vec::as_slice).collect();
                let counts = (!counts.is_empty()).then_some(counts.as_slice());
                worker.push_rows(&table, &ids, &grads, counts)?;
            }
            None => {}
        }
    }
    Ok(())
}

fn sum(column: Vec<(f32, Push)>, as_is: &HashSet<String>) -> Option<Push> {
    let mut parts = column.into_iter();
    let (weight, mut total) = parts.next()?;
    scale(&mut total, weight, as_is);
    for (weight, part) in parts {
        add(&mut total, part, weight, as_is);
    }
    Some(total)
}

fn scale(push: &mut Push, weight: f32, as_is: &HashSet<String>) {
    // The product with 1 is what was there: one unit pushes what a trainer alone would.
    if weight.to_bits() == 1f32.to_bits() {
        return;
    }
    match push {
        Push::Values { how, values } => {
            let gradients = how.pieces.iter().zip(values);
            for (_, value) in gradients.filter(|(piece, _)| !as_is.contains(&piece.name)) {
                match value {
                    Value::Tensor(tensor) => scale_tensor(tensor, weight),
                    Value::Rows(rows) => scale_tensor(&mut rows.value, weight),
                }
            }
        }
        Push::Rows { grads, .. } => {
            grads.iter_mut().flatten().for_each(|grad| *grad *= weight);
        }
    }
}

fn scale_tensor(tensor: &mut Tensor, weight: f32) {
    if let Ok(values) = tensor.as_mut_slice::<f32>() {
        values.iter_mut().for_each(|value| *value *= weight);
    } else if let Ok(values) = tensor.as_mut_slice::<f64>() {
        values.iter_mut().for_each(|value| *value *= f64::from(weight));
    }
}

fn add(total: &mut Push, mut part: Push, weight: f32, as_is: &HashSet<String>) {
    match (total, &mut part) {
        (Push::Values { how, values }, Push::Values { values: more, .. }) => {
            for ((piece, value), more) in how.pieces.iter().zip(values).zip(more) {
                match (value, more) {
                    // The newest counts: it is the same in every unit, or a later reading.
                    (value, more) if as_is.contains(&piece.name) => *value = more.clone(),
                    (Value::Rows(value), Value::Rows(more)) => {
                        scale_tensor(&mut more.value, weight);
                        value.append(more);
                    }
                    (Value::Tensor(value), Value::Tensor(more)) => add_tensor(value, more, weight),
                    _ => {}
                }
            }
        }
        (Push::Rows { ids, grads, counts, .. }, part @ Push::Rows { .. }) => {
            scale(part, weight, as_is);
            if let Push::Rows { ids: more, grads: their, counts: seen, .. } = part {
                ids.append(more);
                grads.append(their);
                counts.append(seen);
            }
        }
        _ => {}
    }
}

fn add_tensor(value: &mut Tensor, more: &Tensor, weight: f32) {
    if value.dtype() == DType::F64 {
        if let (Ok(value), Ok(more)) = (value.as_mut_slice::<f64>(), more.as_slice::<f64>()) {
            value.iter_mut().zip(more).for_each(|(v, m)| *v += m * f64::from(weight));
        }
    } else if let (Ok(value), Ok(more)) = (value.as_mut_slice::<f32>(), more.as_slice::<f32>()) {
        value.iter_mut().zip(more).for_each(|(v, m)| *v += m * weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(piece: &str, value: Value) -> Push {
        let piece = Piece { name: piece.to_owned(), endpoint: String::new() };
        Push::Values { how: Sending { pieces: vec![piece], merge_add: false }, values: vec![value] }
    }

    fn tensor(values: &[f32]) -> Value {
        Value::Tensor(Tensor::from_slice([values.len()], values).unwrap())
    }

    #[test]
    fn gradients_add_up_by_weight_and_the_rest_comes_once() {
        let as_is = HashSet::from(["step".to_owned()]);
        let pair = |grad: [f32; 2], weight: f32| {
            (weight, vec![values("w@GRAD", tensor(&grad)), values("step", tensor(&[1.0]))])
        };
        let (first, second) = (pair([4.0, 8.0], 0.25), pair([2.0, 4.0], 0.75));
        let columns = first.1.into_iter().zip(second.1);
        let sums: Vec<Vec<f64>> = columns
            .map(|(a, b)| match sum(vec![(0.25, a), (0.75, b)], &as_is) {
                Some(Push::Values { values, .. }) => values[0].tensor().unwrap().to_f64_vec(),
                _ => unreachable!("values add up to values"),
            })
            .collect();
        assert_eq!(sums, [vec![2.5, 5.0], vec![1.0]]);
    }

    #[test]
    fn rows_follow_one_another() {
        let rows = |ids: &[i64], grad: f32| Push::Rows {
            table: TableRef {
                name: "emb".to_owned(),
                width: 1,
                padding: None,
                spread: bireme_engine::remote::RowSpread::Keys { shards: 1 },
                endpoints: Vec::new(),
                names: Vec::new(),
            },
            ids: vec![ids.to_vec()],
            grads: vec![vec![grad; ids.len()]],
            counts: Vec::new(),
        };
        let both = vec![(0.5, rows(&[7, 8], 2.0)), (0.5, rows(&[7], 4.0))];
        let Some(Push::Rows { ids, grads, .. }) = sum(both, &HashSet::new()) else {
            unreachable!("rows add up to rows")
        };
        assert_eq!((ids, grads), (vec![vec![7, 8], vec![7]], vec![vec![1.0, 1.0], vec![2.0]]));
    }
}
