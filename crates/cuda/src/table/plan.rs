//! How large the parts of a table are.

use std::fmt;

use super::error::{Error, Result};

/// Bytes of a group of the index, and keys in it, as in `kernels/table.cuh`.
pub(super) const GROUP_BYTES: usize = 64;
pub(super) const GROUP_KEYS: usize = 5;

/// The most rows: numbers of 32 bits, of which the last stand for none. A sort of row numbers takes 31 bits.
pub(super) const MAX_ROWS: usize = (1 << 31) - 1;

/// Rows of a block that an index is made for, of ten of its slots, and that it is let grow to.
const MADE_FOR: usize = 5;
const GROWS_AT: usize = 7;

/// Floats that are moved at once.
pub(super) const PIECE: usize = 4;

/// The columns of a row: weights, then accumulators as wide as they.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// Columns of weights, a multiple of four.
    pub width: usize,
    /// Accumulators, up to four.
    pub states: usize,
}

impl RowShape {
    pub(super) fn check(self) -> Result<()> {
        let problem = match self {
            RowShape { width: 0, .. } => "rows without columns".to_owned(),
            RowShape { width, .. } if !width.is_multiple_of(PIECE) || width > 1 << 16 => {
                format!("rows of {width} columns: the number must be a multiple of 4, up to 65536")
            }
            RowShape { states: states @ 5.., .. } => {
                format!("{states} accumulators: there can be up to 4")
            }
            _ => return Ok(()),
        };
        Err(Error::Argument { call: "new", problem })
    }

    /// Columns of a whole row.
    pub fn columns(self) -> usize {
        self.width * (1 + self.states)
    }

    /// Floats from one row to the next: a row lies in one line of memory, 128 bytes, where it fits, and begins where
    /// a sector does otherwise.
    pub(super) fn pitch(self) -> usize {
        const LINE: usize = 32;
        const SECTOR: usize = 8;
        match self.columns() {
            columns @ ..=LINE => columns.next_power_of_two(),
            columns => columns.next_multiple_of(SECTOR),
        }
    }
}

/// The memory of a table, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where keys are looked up.
    pub index: usize,
    /// The rows.
    pub rows: usize,
}

impl Plan {
    /// What a table of so many rows takes when it is made for them.
    pub fn new(shape: RowShape, rows: usize) -> Plan {
        let row = shape.pitch() * size_of::<f32>();
        Plan {
            index: index_bytes(groups_for(rows)),
            rows: rows.next_multiple_of(block_rows(rows)) * row,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { index, rows } = self;
        write!(f, "{} bytes ({index} for the index, {rows} for rows)", index + rows)
    }
}

/// Groups of an index for so many keys: half of its slots are then in use.
pub(super) fn groups_for(rows: usize) -> usize {
    (rows * 10).div_ceil(MADE_FOR * GROUP_KEYS).max(1)
}

/// The fewest groups that so many keys may have.
pub(super) fn least_groups_for(rows: usize) -> usize {
    // At least one slot stays free, which ends searches.
    (rows * 10).div_ceil(GROWS_AT * GROUP_KEYS).max(rows / GROUP_KEYS + 1)
}

/// Bytes of an index. One more group is for the key that marks empty slots.
pub(super) fn index_bytes(groups: usize) -> usize {
    (groups + 1) * GROUP_BYTES
}

/// Rows of a block, for a table that is to have so many.
pub(super) fn block_rows(rows: usize) -> usize {
    const MIN: usize = 1 << 8;
    const MAX: usize = 1 << 20;
    (rows / 16).next_power_of_two().clamp(MIN, MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_in_lines() {
        let pitch = |width, states| RowShape { width, states }.pitch();
        assert_eq!([pitch(8, 0), pitch(8, 1), pitch(16, 1), pitch(8, 2)], [8, 16, 32, 32]);
        assert_eq!([pitch(12, 2), pitch(64, 1), pitch(4, 0)], [40, 128, 4]);
    }

    #[test]
    fn an_index_has_room() {
        for rows in (0..2000).chain([1 << 20, MAX_ROWS]) {
            assert!(groups_for(rows) * GROUP_KEYS >= 2 * rows);
            assert!(least_groups_for(rows) * GROUP_KEYS > rows);
            assert!(least_groups_for(rows) <= groups_for(rows).max(rows / GROUP_KEYS + 1));
        }
    }

    #[test]
    fn shapes_that_cannot_be() {
        for (width, states, says) in
            [(0, 0, "without columns"), (6, 0, "multiple of 4"), (8, 5, "up to 4")]
        {
            let error = RowShape { width, states }.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
