//! The description of a call, which travels with its data: kind, operation, type, length, root.
//! Ranks whose descriptions differ disagree about the program they run.

use std::fmt;

use crate::element::TYPES;
use crate::{Element, Reduce};

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    AllReduce = 1,
    Reduce = 2,
    ReduceScatter = 3,
    Broadcast = 4,
    AllGather = 5,
    AllGatherVaried = 6,
    Scatter = 7,
    AllToAll = 8,
    AllToAllVaried = 9,
    Barrier = 10,
    Subgroup = 11,
    Send = 12,
    Form = 13,
}

const KINDS: [&str; 13] = [
    "all_reduce",
    "reduce",
    "reduce_scatter",
    "broadcast",
    "all_gather",
    "all_gather_varied",
    "scatter",
    "all_to_all",
    "all_to_all_varied",
    "barrier",
    "subgroup",
    "send",
    "the forming of the group",
];

/// Bits of the note that hold the length; the others hold the root.
const LENGTH_BITS: u32 = 48;

/// The method of a frame that only tells which call its sender is in.
pub(crate) const ANNOUNCEMENT: u16 = u16::MAX;

/// A call as it is compared between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    /// Kind, operation and type.
    pub(crate) method: u16,
    /// Length in elements, and the root.
    pub(crate) note: u64,
}

impl Call {
    /// A call about bytes.
    pub(crate) fn new(kind: Kind, length: usize, root: usize) -> Call {
        Call { method: u16::from(kind as u8), note: note(length, root) }
    }

    /// A call that reduces.
    pub(crate) fn reducing<T: Element>(kind: Kind, op: Reduce, length: usize, root: usize) -> Call {
        let method = u16::from(kind as u8) | (op as u16) << 4 | u16::from(T::CODE) << 8;
        Call { method, note: note(length, root) }
    }

    /// Whether each rank has its own length; the note is that of the sender then.
    pub(crate) fn is_varied(self) -> bool {
        let kind = self.kind();
        kind == Kind::AllGatherVaried as u16
            || kind == Kind::AllToAllVaried as u16
            || kind == Kind::Send as u16
            || kind == Kind::Form as u16
    }

    fn kind(self) -> u16 {
        self.method & 15
    }

    /// Whether a frame with this description belongs to this call.
    pub(crate) fn agrees(self, other: Call) -> bool {
        self.method == other.method && (self.note == other.note || self.is_varied())
    }
}

fn note(length: usize, root: usize) -> u64 {
    (length as u64 & ((1 << LENGTH_BITS) - 1)) | (root as u64) << LENGTH_BITS
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = KINDS.get((self.kind() as usize).wrapping_sub(1)).unwrap_or(&"an unknown call");
        let length = self.note & ((1 << LENGTH_BITS) - 1);
        let root = self.note >> LENGTH_BITS;
        let rooted = [Kind::Reduce, Kind::Broadcast, Kind::Scatter];
        f.write_str(kind)?;
        if self.is_varied()
            || [Kind::Barrier, Kind::Subgroup, Kind::Form].map(|k| k as u16).contains(&self.kind())
        {
            return Ok(());
        }
        let code = (self.method >> 8 & 15) as usize;
        let name = TYPES.get(code).unwrap_or(&"?");
        if code == 0 {
            write!(f, "({length} bytes")?;
        } else {
            let op = ["sum", "prod", "min", "max"][(self.method >> 4 & 3) as usize];
            write!(f, "({op}, {length} of {name}")?;
        }
        if rooted.map(|kind| kind as u16).contains(&self.kind()) {
            write!(f, ", root {root}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names() {
        let call = Call::reducing::<f32>(Kind::Reduce, Reduce::Max, 10, 3);
        assert_eq!(call.to_string(), "reduce(max, 10 of f32, root 3)");
        assert_eq!(Call::new(Kind::Broadcast, 7, 1).to_string(), "broadcast(7 bytes, root 1)");
        assert_eq!(Call::new(Kind::Barrier, 0, 0).to_string(), "barrier");
        assert_eq!(Call { method: 0, note: 0 }.to_string(), "an unknown call(0 bytes)");
    }

    #[test]
    fn what_differs_disagrees() {
        let sum = Call::reducing::<f32>(Kind::AllReduce, Reduce::Sum, 10, 0);
        assert!(sum.agrees(sum));
        assert!(!sum.agrees(Call::reducing::<f32>(Kind::AllReduce, Reduce::Min, 10, 0)));
        assert!(!sum.agrees(Call::reducing::<i32>(Kind::AllReduce, Reduce::Sum, 10, 0)));
        assert!(!sum.agrees(Call::reducing::<f32>(Kind::AllReduce, Reduce::Sum, 11, 0)));
        let varied = |length| Call::new(Kind::AllGatherVaried, length, 0);
        assert!(varied(1).agrees(varied(2)));
    }
}
