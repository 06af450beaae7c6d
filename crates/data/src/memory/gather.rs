//! Writes the values of shuffled samples into tensors.
//!
//! Slots of fixed width: some samples at a time, whose records are looked up once and lie in the nearest
//! cache while each slot takes its values; meanwhile the records of the next ones are on their way. Other
//! slots: one after the other, with their values requested some samples ahead.

use std::ops::Range;

use bireme_engine::tensor::Tensor;

use super::chunk::{Field, Layout, Record};
use super::store::Store;
use crate::{Kind, Slot};

/// Samples whose records are read together.
pub(super) const BLOCK: usize = 64;
/// How many samples ahead of the current one the values of a ragged slot are requested; what says where
/// they are, twice as many.
const AHEAD: usize = 16;

const TYPE: &str = "the tensor of a slot has the type of its kind";

/// How many values a slot has for these samples.
pub(super) fn count(store: &Store, order: &[u32], at: usize, slot: &Slot) -> usize {
    let of_sample = |(number, &sample): (usize, &u32)| {
        if let Some(next) = order.get(number + 2 * AHEAD) {
            let (chunk, row) = store.find(*next);
            chunk.prefetch_end(at, row);
        }
        let (chunk, row) = store.find(sample);
        chunk.count(at, row)
    };
    match slot.width() {
        Some(width) => width * order.len(),
        None => order.iter().enumerate().map(of_sample).sum(),
    }
}

/// Writes the values of these samples into the tensors of the slots that are wanted, which have room for
/// them.
pub(super) fn gather(
    store: &Store,
    order: &[u32],
    slots: &[Slot],
    tensors: &mut [Tensor],
    is_wanted: impl Fn(usize) -> bool,
) {
    let mut outs = Vec::with_capacity(slots.len());
    for (at, (slot, tensor)) in slots.iter().zip(tensors).enumerate() {
        match slot.width() {
            _ if !is_wanted(at) => {}
            Some(_) => outs.push(Out { slot: at, to: To::of(slot, tensor) }),
            None => gather_ragged(store, order, at, slot, tensor),
        }
    }
    if !outs.is_empty() {
        gather_records(store, order, &mut outs);
    }
}

/// The tensor of a slot of fixed width that is being written: what is left of it.
struct Out<'a> {
    slot: usize,
    to: To<'a>,
}

enum To<'a> {
    Ids(&'a mut [i64]),
    Floats(&'a mut [f32]),
}

impl<'a> To<'a> {
    fn of(slot: &Slot, tensor: &'a mut Tensor) -> To<'a> {
        match slot.kind {
            Kind::Ids => To::Ids(tensor.as_mut_slice().expect(TYPE)),
            Kind::Floats => To::Floats(tensor.as_mut_slice().expect(TYPE)),
        }
    }
}

fn gather_records<'a>(store: &'a Store, order: &[u32], outs: &mut [Out<'_>]) {
    let mut blocks = order.chunks(BLOCK);
    let mut load = |to: &mut Vec<Record<'a>>| {
        to.clear();
        to.extend(blocks.next().into_iter().flatten().map(|sample| store.record(*sample)));
    };
    let (mut block, mut next) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
    load(&mut next);
    // Where layouts are different, what is asked for ahead may be a little too much or too little.
    let of_slots = |record: &Record<'_>| record.layout.span(outs.iter().map(|out| out.slot));
    let span: Range<usize> = next.first().map(of_slots).unwrap_or_default();
    next.iter().for_each(|record| record.prefetch(&span));
    while !next.is_empty() {
        std::mem::swap(&mut block, &mut next);
        load(&mut next);
        // Some after each slot, because a core can wait for a dozen lines at a time, and no more.
        let mut asked = next.iter();
        let at_once = next.len().div_ceil(outs.len());
        let layout = block[0].layout;
        let shared = block.iter().all(|record| std::ptr::eq(record.layout, layout));
        for out in &mut *outs {
            asked.by_ref().take(at_once).for_each(|record| record.prefetch(&span));
            out.take(&block, shared.then_some(layout));
        }
    }
}

impl Out<'_> {
    /// Appends the values of some samples, which may all have the same layout.
    fn take(&mut self, block: &[Record<'_>], layout: Option<&Layout>) {
        let field = |layout: &Layout| {
            layout.field(self.slot).expect("a slot of fixed width is in every sample's record")
        };
        let all = |field: Field| move |_: &Record<'_>| field;
        let own = |record: &Record<'_>| field(record.layout);
        let width = field(block[0].layout).width;
        match (&mut self.to, layout) {
            (To::Ids(to), Some(layout)) => {
                write_ids(taken(to, width * block.len()), width, block, all(field(layout)));
            }
            (To::Ids(to), None) => write_ids(taken(to, width * block.len()), width, block, own),
            (To::Floats(to), Some(layout)) => {
                write_floats(taken(to, width * block.len()), width, block, all(field(layout)));
            }
            (To::Floats(to), None) => {
                write_floats(taken(to, width * block.len()), width, block, own);
            }
        }
    }
}

/// Takes the first values of a slice away from it.
fn taken<'a, T>(slice: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    let (first, rest) = std::mem::take(slice).split_at_mut(count);
    *slice = rest;
    first
}

#[inline]
fn write_ids(
    to: &mut [i64],
    width: usize,
    block: &[Record<'_>],
    field: impl Fn(&Record<'_>) -> Field,
) {
    if width == 1 {
        for (to, record) in to.iter_mut().zip(block) {
            let field = field(record);
            *to = record.id(field.offset, field.mask()) as i64;
        }
        return;
    }
    for (to, record) in to.chunks_exact_mut(width.max(1)).zip(block) {
        let field = field(record);
        let mask = field.mask();
        for (at, to) in to.iter_mut().enumerate() {
            *to = record.id(field.at(at), mask) as i64;
        }
    }
}

#[inline]
fn write_floats(
    to: &mut [f32],
    width: usize,
    block: &[Record<'_>],
    field: impl Fn(&Record<'_>) -> Field,
) {
    for (to, record) in to.chunks_exact_mut(width.max(1)).zip(block) {
        to.iter_mut().zip(record.floats(field(record))).for_each(|(to, value)| *to = value);
    }
}

/// A slot that has any number of values, or as many as its line says.
fn gather_ragged(store: &Store, order: &[u32], at: usize, slot: &Slot, tensor: &mut Tensor) {
    let (mut end, mut ends) = (0, Vec::with_capacity(order.len()));
    let mut to = To::of(slot, tensor);
    for (number, sample) in order.iter().enumerate() {
        if let Some(next) = order.get(number + 2 * AHEAD) {
            let (chunk, row) = store.find(*next);
            chunk.prefetch_end(at, row);
        }
        if let Some(next) = order.get(number + AHEAD) {
            let (chunk, row) = store.find(*next);
            chunk.find(at, row).prefetch();
        }
        let (chunk, row) = store.find(*sample);
        let found = chunk.find(at, row);
        match &mut to {
            To::Ids(to) => found.write_ids(taken(to, found.len())),
            To::Floats(to) => found.write_floats(taken(to, found.len())),
        }
        end += found.len();
        ends.push(end);
    }
    if slot.shape.is_none() {
        tensor.set_lod(&[slot.offsets(end, ends.into_iter())]);
    }
}
