//! The sum of selected rows over ranks: those of all, in the order of ranks. Who applies them adds
//! equal ones up, in the same order on every rank.

use crate::collective::Collective;
use crate::ops::prelude::*;

/// Bytes of a row's number.
const ID: usize = size_of::<i64>();

/// Makes `rows` the rows of all ranks.
///
/// # Errors
/// When a rank is lost, or has rows of another width.
pub(crate) fn all_gather(peers: &dyn Collective, ring: i32, rows: &mut SelectedRows) -> Result<()> {
    if peers.size(ring)? == 1 {
        return Ok(());
    }
    let row = rows.width() * rows.value.dtype().size();
    // The width travels along: a rank without rows does not know it.
    let mut part = Vec::with_capacity(2 * ID + rows.rows.len() * (ID + row));
    part.extend((rows.rows.len() as u64).to_le_bytes());
    part.extend((rows.height as u64).to_le_bytes());
    part.extend(rows.rows.iter().flat_map(|id| id.to_le_bytes()));
    part.extend_from_slice(rows.value.as_bytes());
    let parts = peers.all_gather_varied(ring, &part)?;
    let parts = parts.iter().map(|part| Part::read(part)).collect::<Option<Vec<_>>>();
    let parts = parts.ok_or_else(|| Error::remote("another rank sent no selected rows"))?;
    let count: usize = parts.iter().map(|part| part.ids.len() / ID).sum();
    let fits = |part: &Part<'_>| part.values.len() == part.ids.len() / ID * row;
    if row > 0 && !parts.iter().all(fits) {
        return Err(Error::remote("the ranks have rows of different widths"));
    }
    rows.height = parts.iter().map(|part| part.height).max().unwrap_or(0);
    rows.rows.clear();
    let dims = rows.value.dims().with_rows(count);
    rows.value.resize(rows.value.dtype(), dims);
    let mut rest = rows.value.as_mut_bytes();
    for part in parts {
        let ids = part.ids.chunks_exact(ID).map(|id| i64::from_le_bytes(array(id)));
        rows.rows.extend(ids);
        let (own, others) = rest.split_at_mut(part.values.len().min(rest.len()));
        own.copy_from_slice(&part.values[..own.len()]);
        rest = others;
    }
    Ok(())
}

/// One rank's rows, as they came.
struct Part<'a> {
    height: usize,
    ids: &'a [u8],
    values: &'a [u8],
}

impl Part<'_> {
    fn read(bytes: &[u8]) -> Option<Part<'_>> {
        let (head, rest) = bytes.split_at_checked(2 * ID)?;
        let count = usize::try_from(u64::from_le_bytes(array(&head[..ID]))).ok()?;
        let height = usize::try_from(u64::from_le_bytes(array(&head[ID..]))).ok()?;
        let (ids, values) = rest.split_at_checked(count.checked_mul(ID)?)?;
        Some(Part { height, ids, values })
    }
}

fn array(bytes: &[u8]) -> [u8; ID] {
    bytes.try_into().expect("eight bytes were taken")
}
