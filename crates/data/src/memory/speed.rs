//! How quickly one thread assembles batches and looks rows up. The contender reads columns, one slot after
//! the other, as samples lay in memory before they had records: what a shuffled sample costs there is what
//! records are for.

use std::time::Instant;

use bireme_engine::ops::PassIndex;
use bireme_engine::prefetch::prefetch;
use bireme_engine::tensor::Tensor;

use super::columns::{Columns, Narrow};
use super::*;
use crate::testing::Numbers;
use crate::{Batch, Samples, Values};

/// So many that no cache holds them.
const SAMPLES: usize = 1 << 22;
const KEYS: u64 = 2_000_000;
const CHUNK: usize = 1 << 16;
const ROUNDS: usize = 3;

fn hash(at: u64) -> u64 {
    at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// A label, 26 ids of four bytes, 13 numbers.
fn slots() -> Vec<Slot> {
    let ids = (0..26).map(|slot| Slot::id(format!("s{slot}")));
    std::iter::once(Slot::id("label")).chain(ids).chain([Slot::floats("dense", 13)]).collect()
}

fn samples(numbers: Range<u64>) -> Samples {
    let mut samples = Samples::of(&slots());
    for number in numbers {
        for (slot, column) in samples.columns_mut().iter_mut().enumerate() {
            match column.values_mut() {
                Values::Ids(ids) if slot == 0 => ids.push(number % 2),
                Values::Ids(ids) => ids.push(hash(hash(number * 26 + slot as u64) % KEYS)),
                Values::Floats(values) => values.extend([number as f32; 13]),
            }
        }
        samples.end_row();
    }
    samples
}

/// A batch from columns: every slot looks up every sample again.
fn from_columns(
    chunks: &[Columns],
    rows: Option<&RowNumbers>,
    order: &[u32],
    batch: &mut Batch,
) -> Result<()> {
    let has_rows = |at: usize| rows.is_some_and(|rows| rows.place(at).is_some());
    let shape = |at: usize, slot: &Slot| {
        let dims = slot.dims(order.len(), 0);
        let dtype = if has_rows(at) { bireme_engine::DType::I32 } else { slot.dtype() };
        (dtype, bireme_engine::tensor::Dims::new(&dims))
    };
    batch.refill(order.len(), shape, |_, tensors| {
        for (at, tensor) in tensors.iter_mut().enumerate() {
            let found = order.iter().map(|sample| {
                let (chunk, row) = Store::place(*sample);
                (&chunks[chunk].columns[at], row)
            });
            if has_rows(at) {
                continue;
            }
            if at == 27 {
                let mut out = tensor.as_mut_slice::<f32>()?;
                for (column, row) in found {
                    let Narrow::Floats(values) = &column.values else { panic!("floats") };
                    let values = &values[column.ends.range(row)];
                    let (to, rest) = out.split_at_mut(values.len());
                    to.copy_from_slice(values);
                    out = rest;
                }
            } else {
                let mut out = tensor.as_mut_slice::<i64>()?.iter_mut();
                for (column, row) in found {
                    let ids = column.ends.range(row).map(|at| column.values.id(at) as i64);
                    ids.zip(&mut out).for_each(|(id, out)| *out = id);
                }
            }
        }
        rows.map_or(Ok(()), |rows| numbers_of_blocks(rows, order, &mut tensors[1..27]))
    })
}

/// Row numbers block by block, with the first and the last line of each sample on their way.
fn numbers_of_blocks(rows: &RowNumbers, order: &[u32], tensors: &mut [Tensor]) -> Result<()> {
    let place = |sample: &u32| {
        let (chunk, row) = Store::place(*sample);
        let rows = rows.chunks[chunk].as_ref().unwrap();
        (&rows.rows, rows.start(row))
    };
    let outs = tensors.iter_mut().map(|tensor| tensor.as_mut_slice::<i32>());
    let mut outs = outs.collect::<bireme_engine::Result<Vec<_>>>()?;
    for (number, samples) in order.chunks(128).enumerate() {
        for (rows, start) in order.iter().skip((number + 1) * 128).take(128).map(place) {
            prefetch(rows, start, 26);
        }
        let block: Vec<&[u32]> =
            samples.iter().map(place).map(|(rows, start)| &rows[start..start + 26]).collect();
        let mut unknown = 0;
        for (column, out) in outs.iter_mut().enumerate() {
            for (to, sample) in out[number * 128..].iter_mut().zip(&block) {
                *to = sample[column] as i32;
                unknown |= u32::from(sample[column] == u32::MAX);
            }
        }
        assert_eq!(unknown, 0);
    }
    Ok(())
}

/// Prints how quickly rows are looked up, and batches assembled: `cargo test -p bireme-data --lib -- --ignored
/// speed_of_rows --nocapture`.
#[test]
#[ignore = "prints figures, takes 3 GB"]
fn speed_of_rows() {
    let (mut store, mut columns) = (Store::default(), Vec::new());
    for first in (0..SAMPLES).step_by(CHUNK) {
        let some = samples(first as u64..(first + CHUNK) as u64);
        store.push(Columns::pack(&some, 0..some.len()).into());
        columns.push(Columns::pack(&some, 0..some.len()));
    }
    let in_order: Vec<u32> = (0..SAMPLES)
        .map(|at| (at / CHUNK) * columns::MAX_ROWS + at % CHUNK)
        .map(|at| at as u32)
        .collect();
    let mut shuffled = in_order.clone();
    shuffle(&mut shuffled, 1, "speed", 0);
    let settings = MemorySettings::new(Arc::new(Numbers(vec![vec![0]])), slots());
    let mut data = MemoryDataset::new(MemorySettings { batch_size: 16_384, ..settings }).unwrap();
    (data.held.store, data.loaded) = (Arc::new(store), true);
    data.held.order = Arc::new(in_order.clone());
    let mut index = PassIndex::with_room(KEYS as usize);
    (0..KEYS).for_each(|key| {
        index.insert(hash(key), key + 1);
    });
    let names: Vec<String> = (0..26).map(|slot| format!("s{slot}")).collect();
    let key_slot = |name| KeySlot { name, index: &index, padding: None };
    let key_slots: Vec<KeySlot<'_>> = names.iter().map(|name| key_slot(name)).collect();
    for threads in [1, 2, 1, 2] {
        let started = Instant::now();
        data.row_numbers(&key_slots, None, threads).unwrap();
        let ids = SAMPLES as f64 * 26.0 / started.elapsed().as_secs_f64() / 1e6;
        eprintln!("{threads} threads look up {ids:.0} M ids/s of {KEYS} keys");
    }
    let rows = Arc::new(data.row_numbers(&key_slots, None, 2).unwrap());
    for (how, order) in [("in order", in_order), ("shuffled", shuffled)] {
        data.held.order = Arc::new(order);
        for (what, rows) in [("keys", None), ("rows", Some(&rows))] {
            compare(&data, &columns, rows, &format!("{what} {how}"));
        }
    }
}

/// Both, in turn, so that whatever else the machine does, it does to both.
fn compare(data: &MemoryDataset, columns: &[Columns], rows: Option<&Arc<RowNumbers>>, what: &str) {
    let (mut before, mut after) = (Batch::of(&slots()), Batch::of(&slots()));
    let mut best = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        let mut batches = data.part(0..u64::MAX, rows).unwrap();
        let mut took = [0.0; 2];
        // Different batches, or one would find its samples in the cache.
        for (number, order) in data.held.order.chunks(16_384).enumerate() {
            let started = Instant::now();
            match number % 2 {
                0 => {
                    from_columns(columns, rows.map(Arc::as_ref), order, &mut before).unwrap();
                    took[0] += started.elapsed().as_secs_f64();
                    batches.skip(1).unwrap();
                }
                _ => {
                    batches.next(&mut after).unwrap();
                    took[1] += started.elapsed().as_secs_f64();
                }
            }
        }
        best = [best[0].min(took[0]), best[1].min(took[1])];
    }
    let [columns, records] = best.map(|seconds| SAMPLES as f64 / 2.0 / seconds / 1e6);
    eprintln!(
        "one thread assembles {what}: {columns:.2} M samples/s from columns, {records:.2} from \
         records, {:.1} times",
        records / columns
    );
}
