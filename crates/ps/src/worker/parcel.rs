//! What one step pushes, on its way: one request to each server for all dense gradients and sliced
//! rows, one more for each keyed table. Parcels of several steps can be merged into one.
//!
//! A parcel is used again after it has been sent, and its memory with it.

use bireme_comm::Lane;
use bireme_engine::Value;
use bireme_engine::tensor::{SelectedRows, Tensor};

use super::distinct::Distinct;
use super::link::{Ask, Links};
use super::merge::{RowSums, add_dense, scale};
use super::route::Route;
use crate::Result;
use crate::message::{Array, Request};

/// The pushes of one step, or of several merged ones.
#[derive(Default)]
pub(crate) struct Parcel {
    items: Vec<Item>,
    tables: Vec<TablePush>,
    /// Where the next item is looked for first: steps send in the same order.
    cursor: usize,
    /// How many steps it holds.
    pub(crate) steps: u64,
}

/// One value for one server.
struct Item {
    server: usize,
    name: String,
    value: Value,
    merge_add: bool,
    /// Whether the value belongs to this step; otherwise it is memory to be used again.
    filled: bool,
}

/// Gradients of rows of a keyed table, for all servers.
#[derive(Default)]
struct TablePush {
    table: String,
    width: usize,
    /// For each server: its number, the table's name there, and its part of the keys.
    parts: Vec<(usize, String, std::ops::Range<usize>)>,
    keys: Vec<u64>,
    grads: Vec<f32>,
    counts: Option<Vec<[f32; 2]>>,
    filled: bool,
}

impl Parcel {
    /// Whether it holds nothing of this step.
    pub(crate) fn is_empty(&self) -> bool {
        !self.items.iter().any(|item| item.filled) && !self.tables.iter().any(|table| table.filled)
    }

    /// Whether it holds a value of this name for this server.
    pub(crate) fn holds(&self, server: usize, name: &str) -> bool {
        self.items.iter().any(|item| item.filled && item.server == server && item.name == name)
    }

    /// Whether it holds a push to this table.
    pub(crate) fn holds_table(&self, table: &str) -> bool {
        self.tables.iter().any(|push| push.filled && push.table == table)
    }

    /// Empties it and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.items.iter_mut().for_each(|item| item.filled = false);
        self.tables.iter_mut().for_each(|table| table.filled = false);
        self.cursor = 0;
        self.steps = 0;
    }

    /// Copies a value into it; rows named more than once are added up.
    pub(crate) fn put(
        &mut self,
        server: usize,
        name: &str,
        merge_add: bool,
        value: &Value,
        sums: &mut RowSums,
    ) -> Result<()> {
        let at = self.item(server, name);
        let item = &mut self.items[at];
        item.filled = true;
        item.merge_add = merge_add;
        match value {
            Value::Tensor(from) => {
                if let Value::Rows(_) = item.value {
                    item.value = Value::Tensor(Tensor::empty(from.dtype()));
                }
                item.value.tensor_mut()?.copy_from(from);
            }
            Value::Rows(from) => {
                if let Value::Tensor(_) = item.value {
                    item.value = Value::Rows(SelectedRows::empty(from.value.dtype()));
                }
                let Value::Rows(to) = &mut item.value else { unreachable!("made rows above") };
                sums.copy(name, from, to)?;
            }
        }
        Ok(())
    }

    fn item(&mut self, server: usize, name: &str) -> usize {
        let is_it = |item: &Item| item.server == server && item.name == name;
        let at = if self.items.get(self.cursor).is_some_and(is_it) {
            self.cursor
        } else if let Some(found) = self.items.iter().position(is_it) {
            found
        } else {
            let value = Value::Tensor(Tensor::empty(bireme_ir::DType::F32));
            let (name, merge_add, filled) = (name.to_owned(), false, false);
            self.items.push(Item { server, name, value, merge_add, filled });
            self.items.len() - 1
        };
        self.cursor = at + 1;
        at
    }

    /// Adds up the gradients of a keyed table's rows into it.
    pub(crate) fn put_rows(
        &mut self,
        table: &str,
        width: usize,
        servers: Vec<(usize, String)>,
        route: &Route,
        grads: &[&[f32]],
        counts: Option<&[[f32; 2]]>,
    ) {
        let at = self.tables.iter().position(|push| push.table == table).unwrap_or_else(|| {
            self.tables.push(TablePush { table: table.to_owned(), ..TablePush::default() });
            self.tables.len() - 1
        });
        let push = &mut self.tables[at];
        push.filled = true;
        push.width = width;
        let parts = servers.into_iter().enumerate();
        push.parts = parts.map(|(i, (server, name))| (server, name, route.range(i))).collect();
        push.keys.clear();
        (0..route.servers()).for_each(|server| push.keys.extend_from_slice(route.keys(server)));
        route.gather(width, grads, &mut push.grads);
        push.counts = counts.map(|counts| {
            let mut sums = push.counts.take().unwrap_or_default();
            route.gather_counts(counts, &mut sums);
            sums
        });
    }

    /// Adds what `more` holds.
    pub(crate) fn merge(&mut self, more: &Parcel, sums: &mut RowSums) -> Result<()> {
        self.steps += more.steps;
        for item in more.items.iter().filter(|item| item.filled) {
            let at = self.item(item.server, &item.name);
            let sum = &mut self.items[at];
            match (&mut sum.value, &item.value) {
                _ if !sum.filled => {
                    sum.filled = true;
                    sum.merge_add = item.merge_add;
                    sum.value = item.value.clone();
                }
                (Value::Rows(sum), Value::Rows(rows)) => sums.add(&item.name, sum, rows)?,
                (sum, more) => add_dense(&item.name, sum.tensor_mut()?, more.tensor()?)?,
            }
        }
        for push in more.tables.iter().filter(|push| push.filled) {
            match self.tables.iter_mut().find(|sum| sum.filled && sum.table == push.table) {
                Some(sum) => sum.merge(push),
                None => self.tables.push(push.copy()),
            }
        }
        Ok(())
    }

    /// Turns sums over its steps into averages, but for what must be added up.
    pub(crate) fn average(&mut self) -> Result<()> {
        let factor = 1.0 / self.steps.max(1) as f64;
        for item in self.items.iter_mut().filter(|item| item.filled && !item.merge_add) {
            match &mut item.value {
                Value::Tensor(tensor) => scale(tensor, factor)?,
                Value::Rows(rows) => scale(&mut rows.value, factor)?,
            }
        }
        for push in self.tables.iter_mut().filter(|push| push.filled) {
            push.grads.iter_mut().for_each(|grad| *grad *= factor as f32);
        }
        Ok(())
    }

    /// The requests that carry it.
    pub(crate) fn asks(&self, links: &Links) -> Vec<Ask<'_>> {
        let mut asks = Vec::new();
        for server in 0..links.len() {
            push_values(links, server, self.values(server), &mut asks);
        }
        for push in self.tables.iter().filter(|push| push.filled) {
            push.asks(links, &mut asks);
        }
        asks
    }

    /// The values for one server.
    pub(crate) fn values(&self, server: usize) -> impl Iterator<Item = (&str, Array<'_>)> {
        let mine = self.items.iter().filter(move |item| item.filled && item.server == server);
        mine.map(|item| (item.name.as_str(), Array::of_value(&item.value)))
    }

    /// Bytes of the values for one server.
    pub(crate) fn bytes(&self, server: usize) -> usize {
        self.values(server).map(|(_, array)| array.bytes().len()).sum()
    }

    /// Forgets the values for one server, which have been sent.
    pub(crate) fn clear_values(&mut self, server: usize) {
        let mine = self.items.iter_mut().filter(|item| item.server == server);
        mine.for_each(|item| item.filled = false);
    }
}

/// Pushes of these values, as few as their sizes allow; a dense value that is too large for one
/// message goes in pieces.
pub(crate) fn push_values<'a>(
    links: &Links,
    server: usize,
    values: impl Iterator<Item = (&'a str, Array<'a>)>,
    asks: &mut Vec<Ask<'a>>,
) {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for (name, array) in values.flat_map(|(name, array)| pieces(name, array, links.max_bytes)) {
        if bytes > 0 && bytes + array.bytes().len() > links.max_bytes {
            asks.push(push(links, server, std::mem::take(&mut batch)));
            bytes = 0;
        }
        bytes += array.bytes().len();
        batch.push((name, array));
    }
    if !batch.is_empty() {
        asks.push(push(links, server, batch));
    }
}

fn push<'a>(links: &Links, server: usize, values: Vec<(&'a str, Array<'a>)>) -> Ask<'a> {
    let what = match values.as_slice() {
        [(name, _)] => format!("push of `{name}`"),
        more => format!("push of {} values", more.len()),
    };
    let request = Request::Push { trainer: links.trainer, values };
    Ask { server, lane: Lane::Send, what, request }
}

/// A dense value in pieces of at most `limit` bytes.
pub(crate) fn pieces<'a>(
    name: &'a str,
    array: Array<'a>,
    limit: usize,
) -> impl Iterator<Item = (&'a str, Array<'a>)> {
    let (size, all) = (array.dtype().size(), array.bytes());
    let step = match array {
        Array::Dense { .. } if all.len() > limit => limit / size * size,
        _ => all.len().max(1),
    };
    (0..all.len().max(1)).step_by(step.max(1)).map(move |from| match array {
        Array::Dense { dtype, dims, start, .. } => {
            let bytes = &all[from..all.len().min(from + step)];
            (name, Array::Dense { dtype, dims, start: start + (from / size) as u64, bytes })
        }
        rows => (name, rows),
    })
}

impl TablePush {
    fn copy(&self) -> TablePush {
        TablePush {
            table: self.table.clone(),
            width: self.width,
            parts: self.parts.clone(),
            keys: self.keys.clone(),
            grads: self.grads.clone(),
            counts: self.counts.clone(),
            filled: true,
        }
    }

    /// Adds up equal keys of both; the servers are the same, since a key's server is.
    fn merge(&mut self, more: &TablePush) {
        let (width, mut distinct) = (self.width, Distinct::default());
        let (mut keys, mut grads, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let counted = self.counts.is_some() || more.counts.is_some();
        let mut parts = Vec::new();
        for ((server, name, mine), (_, _, theirs)) in self.parts.iter().zip(&more.parts) {
            let first = keys.len();
            distinct.reset(mine.len() + theirs.len());
            for (push, range) in [(&*self, mine), (more, theirs)] {
                for at in range.clone() {
                    let to = first + distinct.number(push.keys[at]) as usize;
                    if to == keys.len() {
                        keys.push(push.keys[at]);
                        grads.resize(grads.len() + width, 0.0);
                        counts.push([0.0; 2]);
                    }
                    let row = &push.grads[at * width..][..width];
                    let sums = &mut grads[to * width..][..width];
                    sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += *value);
                    let [show, click] = push.counts.as_ref().map_or([0.0; 2], |counts| counts[at]);
                    counts[to] = [counts[to][0] + show, counts[to][1] + click];
                }
            }
            parts.push((*server, name.clone(), first..keys.len()));
        }
        self.parts = parts;
        self.keys = keys;
        self.grads = grads;
        self.counts = counted.then_some(counts);
    }

    fn asks<'a>(&'a self, links: &Links, asks: &mut Vec<Ask<'a>>) {
        let row_bytes = self.width * 4 + 16;
        let most = (links.max_bytes / row_bytes).max(1);
        for (server, name, range) in &self.parts {
            for from in range.clone().step_by(most) {
                let part = from..range.end.min(from + most);
                let request = Request::PushRows {
                    trainer: links.trainer,
                    table: name,
                    keys: &self.keys[part.clone()],
                    grads: &self.grads[part.start * self.width..part.end * self.width],
                    counts: self.counts.as_ref().map(|counts| &counts[part.clone()]),
                };
                let what = format!("push of {} rows of `{}`", part.len(), self.table);
                asks.push(Ask { server: *server, lane: Lane::Send, what, request });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(dense: f32, row: i64, keys: &[u64]) -> Parcel {
        let mut parcel = Parcel { steps: 1, ..Parcel::default() };
        let mut sums = RowSums::default();
        let tensor = Value::Tensor(Tensor::from_slice([2], &[dense, -dense]).unwrap());
        parcel.put(0, "w@GRAD", false, &tensor, &mut sums).unwrap();
        parcel.put(0, "step", true, &Value::Tensor(Tensor::scalar(1f32)), &mut sums).unwrap();
        let value = Tensor::from_slice([2, 1], &[dense, 1.0]).unwrap();
        let rows = SelectedRows { rows: vec![row, row], height: 9, value };
        parcel.put(1, "e@GRAD", false, &Value::Rows(rows), &mut sums).unwrap();
        parcel.tables.push(TablePush {
            table: "t".into(),
            width: 1,
            parts: vec![(0, "t".into(), 0..1), (1, "t".into(), 1..keys.len())],
            keys: keys.to_vec(),
            grads: keys.iter().map(|key| *key as f32).collect(),
            counts: Some(vec![[1.0, 0.0]; keys.len()]),
            filled: true,
        });
        parcel
    }

    #[test]
    fn steps_are_summed_or_averaged() {
        let mut sum = parcel(1.0, 3, &[2, 5]);
        sum.merge(&parcel(3.0, 4, &[2, 7, 5]), &mut RowSums::default()).unwrap();
        assert_eq!(sum.steps, 2);
        let dense = sum.items[0].value.tensor().unwrap();
        assert_eq!(dense.as_slice::<f32>().unwrap(), [4.0, -4.0]);
        let rows = sum.items[2].value.rows().unwrap();
        assert_eq!(rows.rows, [3, 4]);
        assert_eq!(rows.value.as_slice::<f32>().unwrap(), [2.0, 4.0]);
        let table = &sum.tables[0];
        assert_eq!(
            (table.keys.as_slice(), table.grads.as_slice()),
            (&[2, 5, 7][..], &[4., 10., 7.][..])
        );
        assert_eq!(table.counts.as_deref().unwrap(), [[2., 0.], [2., 0.], [1., 0.]]);
        assert_eq!(table.parts[1].2, 1..3);

        sum.average().unwrap();
        let dense = sum.items[0].value.tensor().unwrap();
        assert_eq!(dense.as_slice::<f32>().unwrap(), [2.0, -2.0]);
        let steps = sum.items[1].value.tensor().unwrap();
        assert_eq!(steps.as_slice::<f32>().unwrap(), [2.0], "counters are never averaged");
        assert_eq!(sum.tables[0].grads, [2.0, 5.0, 3.5]);
    }

    #[test]
    fn a_parcel_is_used_again() {
        let mut parcel = parcel(1.0, 3, &[2]);
        parcel.clear();
        assert!(parcel.is_empty() && !parcel.holds(0, "w@GRAD"));
        let items = parcel.items.len();
        let value = Value::Tensor(Tensor::scalar(5f32));
        parcel.put(0, "w@GRAD", false, &value, &mut RowSums::default()).unwrap();
        assert!(parcel.holds(0, "w@GRAD") && !parcel.is_empty());
        assert_eq!(parcel.items.len(), items);
    }

    #[test]
    fn a_large_value_goes_in_pieces() {
        let tensor = Tensor::from_slice([5], &[0f32, 1., 2., 3., 4.]).unwrap();
        let parts: Vec<_> = pieces("w", Array::of_tensor(&tensor), 9).collect();
        let spans: Vec<_> =
            parts.iter().map(|(_, part)| (part.end(), part.bytes().len())).collect();
        assert_eq!(spans, [(2, 8), (4, 8), (5, 4)]);
        let empty = Tensor::empty(bireme_ir::DType::F32);
        assert_eq!(pieces("e", Array::of_tensor(&empty), 9).count(), 1);
    }
}
