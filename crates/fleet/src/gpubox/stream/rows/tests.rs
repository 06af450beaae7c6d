//! Random streams against a plain map: every batch finds its own keys, whatever the memory.

use std::collections::HashMap;

use bireme_engine::random::Philox;

use super::super::capacity::{Need, capacities};
use super::*;

/// What variables and index hold after changes were carried out, and what was given back.
#[derive(Default)]
struct Carried {
    /// The key whose record lies in each row.
    rows: Vec<Option<u64>>,
    index: Vec<i64>,
}

impl Carried {
    fn carry_out(&mut self, change: &Change) {
        for (row, key) in change.leaving.iter().zip(&change.leaving_keys) {
            assert_eq!(self.rows[*row as usize].take(), Some(*key), "what leaves is what is there");
        }
        if let Some(Resized { capacity, from }) = &change.resized {
            let old = std::mem::take(&mut self.rows);
            self.rows = match from {
                None => old,
                Some(from) => {
                    let kept = from.iter().map(|row| old[*row as usize]);
                    [None].into_iter().chain(kept).collect()
                }
            };
            self.rows.resize(*capacity, None);
        }
        for (row, key) in change.entering.iter().zip(&change.entering_keys) {
            assert_eq!(self.rows[*row as usize].replace(*key), None, "a row is given once");
        }
        match &change.index {
            Some(index) => self.index = index.as_slice::<i64>().unwrap().to_vec(),
            None => {
                for (slot, words) in change.slots.iter().zip(change.words.chunks_exact(2)) {
                    self.index[2 * *slot as usize..][..2].copy_from_slice(words);
                }
            }
        }
    }
}

/// Trains a random stream, and checks it against a plain map of when each key was named last.
fn check(seed: u64, batches: u64, keys: u64, budget: Option<usize>) {
    let random = Philox::new(seed, "a stream");
    let mut draw = 0;
    let mut next = |below: u64| {
        draw += 1;
        random.u64(draw) % below
    };
    let mut rows = Rows::default();
    let (mut carried, mut model) = (Carried::default(), HashMap::<u64, u64>::new());
    for batch in 1..=batches {
        let count = 1 + next(12);
        // Small numbers are frequent, and come back.
        let ids: Vec<u64> = (0..count).map(|_| next(keys) * next(keys) / keys).collect();
        let named = rows.name(ids.iter().copied(), batch);
        let (held, new) = (rows.held(), named.new.len());
        let need =
            Need { capacity: rows.capacity(), held, named: named.known.len() + new, new, bytes: 1 };
        // What memory there is changes, as it does where other tables grow.
        let budget = budget.map(|budget| budget.max(need.named + 1) + next(3) as usize);
        let mut size = capacities(&[need], budget).unwrap()[0];
        if next(10) == 0 {
            size = need.named + 1 + next(4) as usize;
        }
        let change = rows.place(named, batch, size);
        assert!(change.leaving_keys.iter().all(|key| !ids.contains(key)), "seed {seed}");
        for key in &change.leaving_keys {
            let last = model.remove(key).expect("only what was there leaves");
            let younger = |left: &&u64| model[left] < last && !ids.contains(left);
            assert_eq!(model.keys().find(younger), None, "the oldest leave first, seed {seed}");
        }
        carried.carry_out(&change);
        model.extend(ids.iter().map(|id| (*id, batch)));
        assert_eq!((rows.held(), rows.capacity()), (model.len(), size), "seed {seed}");
        for key in model.keys() {
            let row = rows.index.row(*key).expect("a key that did not leave has a row");
            assert_eq!(carried.rows[row as usize], Some(*key), "seed {seed}, batch {batch}");
        }
        assert_eq!(carried.index, rows.index.tensor().as_slice::<i64>().unwrap());
        let mut own: Vec<u64> =
            change.named.iter().filter_map(|row| carried.rows[*row as usize]).collect();
        let mut distinct = ids.clone();
        distinct.sort_unstable();
        distinct.dedup();
        own.sort_unstable();
        assert_eq!(own, distinct, "the rows of a batch are those of its keys, seed {seed}");
    }
}

#[test]
fn every_batch_finds_its_keys_whatever_the_memory() {
    for seed in 0..60 {
        let keys = 5 + seed * 3;
        check(seed, 150, keys, [None, Some(1), Some(14), Some(40)][seed as usize % 4]);
    }
}

#[test]
fn a_batch_that_fills_all_rows_replaces_the_one_before() {
    let mut rows = Rows::default();
    for batch in 1..5 {
        let named = rows.name((0..7).map(|key| batch * 100 + key), batch);
        assert_eq!(named.new.len(), 7);
        let change = rows.place(named, batch, 8);
        assert_eq!(change.leaving.len(), if batch == 1 { 0 } else { 7 });
        assert_eq!(change.entering.len(), 7);
    }
}
