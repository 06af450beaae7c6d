//! Gradients of some rows of a table: every rank gets the rows of all, in the order of ranks.

use bireme_collective::Group;
use bireme_engine::tensor::{SelectedRows, Tensor};
use bireme_engine::{Error, Result};

use super::tensors::{divide, remote};

/// The rows of all ranks, divided by their number; rows that several have are there several times,
/// and optimizers add them up.
///
/// # Errors
/// When a rank is lost, or its rows do not fit.
pub(super) fn average(group: &Group, rows: &SelectedRows) -> Result<SelectedRows> {
    let parts = group.all_gather_varied(&encode(rows)).map_err(remote)?;
    let (dtype, width) = (rows.value.dtype(), rows.width());
    let row_bytes = width * dtype.size();
    let mut numbers = Vec::new();
    for (rank, part) in parts.iter().enumerate() {
        let count = count_of(part, row_bytes).ok_or_else(|| {
            Error::remote(format!(
                "rank {rank} sent {} bytes, which are not rows of {width} {dtype} values: do all \
                 ranks train the same model?",
                part.len()
            ))
        })?;
        let ids = part[8..8 + count * 8].chunks_exact(8);
        numbers.extend(ids.map(|id| i64::from_le_bytes(id.try_into().expect("8 bytes"))));
    }
    if let Some(row) = numbers.iter().find(|row| **row < 0 || **row >= rows.height as i64) {
        return Err(Error::remote(format!(
            "a rank sent row {row} of a table that has {} rows here",
            rows.height
        )));
    }
    let mut value = Tensor::zeros(dtype, rows.value.dims().with_rows(numbers.len()));
    let mut rest = value.as_mut_bytes();
    for part in &parts {
        let values = &part[8 + count_of(part, row_bytes).unwrap_or(0) * 8..];
        let (here, next) = rest.split_at_mut(values.len());
        here.copy_from_slice(values);
        rest = next;
    }
    divide(&mut value, group.size())?;
    Ok(SelectedRows { rows: numbers, value, height: rows.height })
}

/// A count, the numbers of the rows, their values.
fn encode(rows: &SelectedRows) -> Vec<u8> {
    let values = rows.value.as_bytes();
    let mut bytes = Vec::with_capacity(8 + rows.rows.len() * 8 + values.len());
    bytes.extend_from_slice(&(rows.rows.len() as u64).to_le_bytes());
    for row in &rows.rows {
        bytes.extend_from_slice(&row.to_le_bytes());
    }
    bytes.extend_from_slice(values);
    bytes
}

/// How many rows are encoded in `part`; `None` when it is something else.
fn count_of(part: &[u8], row_bytes: usize) -> Option<usize> {
    let count = usize::try_from(u64::from_le_bytes(part.get(..8)?.try_into().ok()?)).ok()?;
    let bytes = count.checked_mul(8 + row_bytes)?.checked_add(8)?;
    (bytes == part.len()).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(numbers: &[i64]) -> SelectedRows {
        let values: Vec<f32> = numbers.iter().flat_map(|n| [*n as f32, 0.5]).collect();
        let value = Tensor::from_slice([numbers.len(), 2], &values).unwrap();
        SelectedRows { rows: numbers.to_vec(), value, height: 9 }
    }

    #[test]
    fn alone_the_rows_stay_as_they_are() {
        let mine = rows(&[3, 1, 3]);
        let all = average(&Group::alone(), &mine).unwrap();
        assert_eq!(all.rows, [3, 1, 3]);
        assert_eq!(all.value.to_f64_vec(), [3.0, 0.5, 1.0, 0.5, 3.0, 0.5]);
    }

    #[test]
    fn no_rows_are_rows_too_and_garbage_is_not() {
        assert_eq!(average(&Group::alone(), &rows(&[])).unwrap().rows.len(), 0);
        assert_eq!(count_of(&encode(&rows(&[4])), 8), Some(1));
        assert_eq!(count_of(&encode(&rows(&[4])), 4), None);
        assert_eq!(count_of(&[1, 2], 8), None);
        assert_eq!(count_of(&[255; 8], usize::MAX / 2), None);
    }
}
