//! The one rule for reading table rows by id and for adding gradients to them.
//!
//! An id outside the table is an error that names it; the padding id reads as zeros and its
//! gradient is dropped.

use crate::ops::prelude::*;
use crate::prefetch::prefetch;
use crate::tensor::Elements;

/// How many ids ahead of the current one rows are requested from memory.
const AHEAD: usize = 16;

/// An integer that can name a row.
pub(crate) trait Id: Element {
    /// The id as Paddle stores it in selected rows.
    fn long(self) -> i64;
}

impl Id for i64 {
    fn long(self) -> i64 {
        self
    }
}

impl Id for i32 {
    fn long(self) -> i64 {
        i64::from(self)
    }
}

/// The shape of a table, and the id that stands for nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// Rows.
    pub(super) rows: usize,
    /// Elements in a row.
    pub(super) width: usize,
    /// The id that stands for nothing, if there is one.
    pub(super) padding: Option<i64>,
}

impl Table {
    /// Writes row `ids[i]` of `table` to row `i` of `out`.
    ///
    /// # Errors
    /// When an id lies outside the table, or `out` has another size.
    pub(super) fn gather<T: Real, I: Id>(
        self,
        table: impl Elements<T>,
        ids: &[I],
        out: &mut [T],
    ) -> Result<()> {
        self.check_sizes(table.count(), ids.len(), out.len())?;
        // A row of no elements still needs a valid id, but chunks cannot be empty.
        for (at, out) in out.chunks_exact_mut(self.width.max(1)).enumerate() {
            if let Some(next) = ids.get(at + AHEAD) {
                table.prefetch((next.long() as usize).wrapping_mul(self.width), self.width);
            }
            match self.row(ids, at)? {
                Some(row) => table.load(row * self.width, out),
                None => out.fill(T::ZERO),
            }
        }
        Ok(())
    }

    /// Adds row `i` of `grad` to row `ids[i]` of `out`.
    ///
    /// # Errors
    /// As for [`Table::gather`].
    pub(super) fn scatter_add<T: Real, I: Id>(
        self,
        grad: &[T],
        ids: &[I],
        out: &mut [T],
    ) -> Result<()> {
        self.check_sizes(out.len(), ids.len(), grad.len())?;
        for (at, grad) in grad.chunks_exact(self.width.max(1)).enumerate() {
            if let Some(next) = ids.get(at + AHEAD) {
                prefetch(out, (next.long() as usize).wrapping_mul(self.width), self.width);
            }
            if let Some(row) = self.row(ids, at)? {
                for (out, grad) in out[row * self.width..][..self.width].iter_mut().zip(grad) {
                    *out += *grad;
                }
            }
        }
        Ok(())
    }

    /// Makes `out` the gradient: one row for each id in order of occurrence, without padding.
    ///
    /// # Errors
    /// As for [`Table::gather`].
    pub(super) fn select<T: Real, I: Id>(
        self,
        grad: &[T],
        ids: &[I],
        out: &mut SelectedRows,
    ) -> Result<()> {
        self.check_sizes(self.rows * self.width, ids.len(), grad.len())?;
        out.height = self.rows;
        out.rows.clear();
        for at in 0..ids.len() {
            if self.row(ids, at)?.is_some() {
                out.rows.push(ids[at].long());
            }
        }
        out.value.resize(T::DTYPE, [out.rows.len(), self.width]);
        let value = out.value.as_mut_slice::<T>()?;
        if out.rows.len() == ids.len() {
            value.copy_from_slice(grad);
            return Ok(());
        }
        let kept = ids.iter().zip(grad.chunks_exact(self.width.max(1)));
        let kept = kept.filter(|(id, _)| Some(id.long()) != self.padding);
        for (value, (_, grad)) in value.chunks_exact_mut(self.width.max(1)).zip(kept) {
            value.copy_from_slice(grad);
        }
        Ok(())
    }

    /// The row that `ids[at]` names; none for padding.
    #[inline]
    fn row<I: Id>(self, ids: &[I], at: usize) -> Result<Option<usize>> {
        let id = ids[at].long();
        if Some(id) == self.padding {
            return Ok(None);
        }
        match usize::try_from(id) {
            Ok(row) if row < self.rows => Ok(Some(row)),
            _ => Err(self.outside(id, at)),
        }
    }

    #[cold]
    fn outside(self, id: i64, at: usize) -> Error {
        let rows = self.rows;
        Error::kernel(format!(
            "id {id} at position {at} of `Ids` lies outside the table, which has {rows} rows"
        ))
    }

    fn check_sizes(self, table: usize, ids: usize, values: usize) -> Result<()> {
        if table == self.rows * self.width && values == ids * self.width {
            return Ok(());
        }
        Err(Error::kernel(format!(
            "{ids} ids of a table of {} rows of {} elements do not fit {table} and {values} elements",
            self.rows, self.width
        )))
    }
}
