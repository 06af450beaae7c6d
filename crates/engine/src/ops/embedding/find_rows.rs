//! `find_rows`: any 64-bit keys to the rows that they have in a table of a pass. Ours: what GPUBox
//! trains by, see `fleet/src/gpubox`.
//!
//! `Index` is a hash table, `[slots, 2]` with a power of two of slots: key and row, probed one slot
//! after the other from where [`first_slot`] says; a row below 0 is a slot without a key. Who makes
//! one uses [`PassIndex`].

use crate::ops::prelude::*;
use crate::prefetch::prefetch;

/// How many keys ahead of the current one slots are requested from memory.
const AHEAD: usize = 16;

pub(super) const DEF: OpDef = OpDef::new("find_rows", kernel)
    .inputs(&[Slot::many("Ids"), Slot::one("Index")])
    .outputs(&[Slot::many("Out")])
    .attrs(&[attr::long("padding_idx", -1)])
    .infer(infer)
    .split(SplitRule::batch(&["Ids"]));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let index = cx.input("Index")?;
    if index.dtype != DType::I64 || index.dims.len() != 2 || index.dims[1] != 2 {
        let (dtype, dims) = (index.dtype, &index.dims);
        return Err(Error::kernel(format!(
            "`Index` must be int64 [slots, 2], not {dtype} {dims:?}"
        )));
    }
    let ids = cx.inputs("Ids");
    if let Some(other) = ids.iter().find(|ids| ids.dtype != DType::I64) {
        return Err(Error::kernel(format!("keys are int64, not {}", other.dtype)));
    }
    cx.set_each("Out", ids.into_iter().cloned());
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (ids, mut outs, index) = (op.inputs("Ids"), op.outputs("Out"), op.input("Index")?);
    let padding = Some(op.i64("padding_idx")?).filter(|padding| *padding != -1);
    Ok(Box::new(move |run| {
        let index = View::of(run.get::<i64>(index)?)?;
        for (slot, (ids, out)) in ids.iter().zip(&mut outs).enumerate() {
            let (from, to) = (run.tensor(*ids)?, run.out(out)?);
            to.resize(DType::I64, from.dims());
            to.set_lod(from.lod());
            find(&index, from.as_slice()?, padding, slot, to.as_mut_slice()?)?;
        }
        Ok(())
    }))
}

/// The row of each key; 0 for padding.
fn find(
    index: &View<'_>,
    keys: &[i64],
    padding: Option<i64>,
    slot: usize,
    rows: &mut [i64],
) -> Result<()> {
    for (at, (key, row)) in keys.iter().zip(rows).enumerate() {
        if let Some(next) = keys.get(at + AHEAD) {
            prefetch(index.slots, 2 * first_slot(*next as u64, index.shift), 2);
        }
        *row = match index.row(*key) {
            _ if Some(*key) == padding => 0,
            Some(row) => row,
            None => return Err(Error::kernel(unknown_key(*key, at, slot))),
        };
    }
    Ok(())
}

/// What is wrong with a key that has no row.
pub(crate) fn unknown_key(key: i64, position: usize, slot: usize) -> String {
    format!(
        "key {} at position {position} of slot {slot} is not among the keys of this pass: begin a \
         pass with the data that it trains",
        key as u64
    )
}

/// The slot in which a key is looked for first, in a table of `1 << (64 - shift)` slots.
fn first_slot(key: u64, shift: u32) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize
}

/// An index as it lies in a tensor.
struct View<'a> {
    slots: &'a [i64],
    mask: usize,
    shift: u32,
}

impl<'a> View<'a> {
    fn of(slots: &'a [i64]) -> Result<View<'a>> {
        let count = slots.len() / 2;
        if count < 2 || !count.is_power_of_two() {
            return Err(Error::kernel(format!(
                "`Index` has {count} slots, no power of two from 2 on"
            )));
        }
        Ok(View { slots, mask: count - 1, shift: 64 - count.trailing_zeros() })
    }

    fn row(&self, key: i64) -> Option<i64> {
        let mut at = first_slot(key as u64, self.shift);
        // A table that is full has no slot to stop at.
        for _ in 0..=self.mask {
            match self.slots[2 * at + 1] {
                ..0 => return None,
                row if self.slots[2 * at] == key => return Some(row),
                _ => at = (at + 1) & self.mask,
            }
        }
        None
    }
}

/// The keys of a pass and their rows, as `find_rows` looks them up.
#[derive(Clone, Debug)]
pub struct PassIndex {
    slots: Tensor,
    len: usize,
}

impl Default for PassIndex {
    fn default() -> PassIndex {
        PassIndex::with_room(0)
    }
}

impl PassIndex {
    /// An empty index with room for so many keys.
    pub fn with_room(keys: usize) -> PassIndex {
        let mut slots = Tensor::zeros(DType::I64, [(keys * 2).next_power_of_two().max(16), 2]);
        if let Ok(slots) = slots.as_mut_slice::<i64>() {
            slots.chunks_exact_mut(2).for_each(|slot| slot[1] = -1);
        }
        PassIndex { slots, len: 0 }
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots, as the op reads them.
    pub fn tensor(&self) -> &Tensor {
        &self.slots
    }

    /// The row of a key.
    pub fn row(&self, key: u64) -> Option<u64> {
        let row = View::of(self.words()).ok()?.row(key as i64)?;
        Some(row as u64)
    }

    /// The row of each key: 0 for padding, `none` for a key that it does not have.
    pub fn find(&self, keys: &[u64], padding: Option<u64>, none: u32, rows: &mut [u32]) {
        let Ok(index) = View::of(self.words()) else { return rows.fill(none) };
        for (at, (key, row)) in keys.iter().zip(rows).enumerate() {
            if let Some(next) = keys.get(at + AHEAD) {
                prefetch(index.slots, 2 * first_slot(*next, index.shift), 2);
            }
            *row = match index.row(*key as i64) {
                _ if Some(*key) == padding => 0,
                Some(row) => row as u32,
                None => none,
            };
        }
    }

    /// Gives a key that it does not have a row; returns the slot. It grows when it is half full, and
    /// then every slot is another.
    pub fn insert(&mut self, key: u64, row: u64) -> usize {
        if (self.len + 1) * 2 > self.words().len() / 2 {
            let mut larger = PassIndex::with_room(self.len * 2 + 8);
            self.for_each(|key, row| {
                larger.insert(key, row);
            });
            *self = larger;
        }
        self.len += 1;
        let count = self.words().len() / 2;
        let mut at = first_slot(key, 64 - count.trailing_zeros());
        let Ok(slots) = self.slots.as_mut_slice::<i64>() else { return at };
        while slots[2 * at + 1] >= 0 {
            at = (at + 1) & (count - 1);
        }
        (slots[2 * at], slots[2 * at + 1]) = (key as i64, row as i64);
        at
    }

    /// Takes a key out; adds the slots that are others afterwards to `changed`. Keys behind it move up,
    /// so that whoever looks for one never stops too early.
    pub fn remove(&mut self, key: u64, changed: &mut Vec<usize>) {
        let count = self.words().len() / 2;
        let (mask, shift) = (count - 1, 64 - count.trailing_zeros());
        let Ok(slots) = self.slots.as_mut_slice::<i64>() else { return };
        let mut hole = first_slot(key, shift);
        while slots[2 * hole + 1] >= 0 && slots[2 * hole] != key as i64 {
            hole = (hole + 1) & mask;
        }
        if slots[2 * hole + 1] < 0 {
            return;
        }
        let mut at = (hole + 1) & mask;
        while slots[2 * at + 1] >= 0 {
            // Only a key that is looked for at the hole or before it may lie there.
            let first = first_slot(slots[2 * at] as u64, shift);
            if (at.wrapping_sub(first) & mask) >= (at.wrapping_sub(hole) & mask) {
                slots.copy_within(2 * at..2 * at + 2, 2 * hole);
                changed.push(hole);
                hole = at;
            }
            at = (at + 1) & mask;
        }
        (slots[2 * hole], slots[2 * hole + 1]) = (0, -1);
        changed.push(hole);
        self.len -= 1;
    }

    /// Shows all keys with their rows, in the order in which they lie.
    pub fn for_each(&self, mut look: impl FnMut(u64, u64)) {
        for slot in self.words().chunks_exact(2).filter(|slot| slot[1] >= 0) {
            look(slot[0] as u64, slot[1] as u64);
        }
    }

    fn words(&self) -> &[i64] {
        self.slots.as_slice::<i64>().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::PassIndex;
    use crate::ops::testing::*;
    use crate::random::Philox;

    fn index(keys: u64) -> PassIndex {
        let mut index = PassIndex::default();
        for key in 0..keys {
            index.insert(key.wrapping_mul(0xdead_beef_1234_5677), key + 1);
        }
        index
    }

    #[test]
    fn keys_are_found_again_in_an_index_that_grew() {
        let index = index(1000);
        assert_eq!(index.len(), 1000);
        for key in 0..1000u64 {
            assert_eq!(index.row(key.wrapping_mul(0xdead_beef_1234_5677)), Some(key + 1));
        }
        assert_eq!(index.row(7), None);
        let mut sum = 0;
        index.for_each(|_, row| sum += row);
        assert_eq!(sum, 500_500);
    }

    #[test]
    fn keys_leave_and_the_slots_that_change_are_named() {
        let mut index = PassIndex::with_room(200);
        let mut copy = index.tensor().clone();
        let mut model = HashMap::new();
        let random = Philox::new(3, "keys that come and go");
        for draw in 0..5000 {
            // Few keys, so that most of them come again; some lie next to each other.
            let key = random.u64(draw) % 400;
            let mut changed = Vec::new();
            match model.remove(&key) {
                Some(row) => {
                    assert_eq!(index.row(key), Some(row));
                    index.remove(key, &mut changed);
                }
                None if model.len() < 200 => {
                    model.insert(key, draw);
                    changed.push(index.insert(key, draw));
                }
                None => index.remove(key, &mut changed),
            }
            let from = index.tensor().as_slice::<i64>().unwrap();
            let to = copy.as_mut_slice::<i64>().unwrap();
            for slot in changed {
                to[2 * slot..2 * slot + 2].copy_from_slice(&from[2 * slot..2 * slot + 2]);
            }
            assert_eq!(index.len(), model.len());
        }
        assert_eq!(index.tensor(), &copy, "no other slot has changed");
        let (keys, mut rows): (Vec<u64>, _) = ((0..400).collect(), vec![0; 400]);
        index.find(&keys, None, u32::MAX, &mut rows);
        for (key, row) in keys.iter().zip(rows) {
            assert_eq!(index.row(*key), model.get(key).copied(), "key {key}");
            assert_eq!(row, model.get(key).map_or(u32::MAX, |row| *row as u32), "key {key}");
        }
    }

    #[test]
    fn several_slots_become_rows_and_an_unknown_key_is_named() {
        let keys = |keys: &[u64]| {
            let keys: Vec<i64> =
                keys.iter().map(|key| key.wrapping_mul(0xdead_beef_1234_5677) as i64).collect();
            Tensor::from_slice([keys.len(), 1], &keys).unwrap()
        };
        let op = Op::new("find_rows")
            .input("Ids", ["a", "b"])
            .input("Index", ["index"])
            .output("Out", ["x", "y"])
            .attr("padding_idx", 77i64);
        let mut values = HashMap::from([
            ("a".to_owned(), keys(&[3, 0, 3]).into()),
            ("b".to_owned(), Tensor::from_slice([1, 1], &[77i64]).unwrap().into()),
            ("index".to_owned(), index(5).tensor().clone().into()),
        ]);
        run_once(&op, &mut values).unwrap();
        assert_eq!(values["x"].tensor().unwrap().as_slice::<i64>().unwrap(), [4, 1, 4]);
        assert_eq!(values["y"].tensor().unwrap().as_slice::<i64>().unwrap(), [0]);
        values.insert("b".to_owned(), Tensor::from_slice([2, 1], &[77i64, 6]).unwrap().into());
        let error = run_once(&op, &mut values).unwrap_err().to_string();
        assert!(error.contains("key 6 at position 1 of slot 1 is not among the keys"), "{error}");
    }
}
