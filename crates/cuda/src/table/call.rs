//! The calls of a table that can find fault with numbers on the card, and where their kernels say so.

use std::sync::Arc;

use bireme_engine::device::{Complaint, Complaints as _};

use super::error::{Error, Result};
use crate::device::Book;
use crate::driver::{Error as DriverError, Stream};

/// A call, by the number that kernels know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Find,
    Rows,
    FindOrInsert,
    RowsOrInsert,
    Gather,
    Scatter,
    Update,
    Import,
    Remove,
}

impl Call {
    const ALL: [Call; 9] = [
        Call::Find,
        Call::Rows,
        Call::FindOrInsert,
        Call::RowsOrInsert,
        Call::Gather,
        Call::Scatter,
        Call::Update,
        Call::Import,
        Call::Remove,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Call::Find => "find",
            Call::Rows => "rows",
            Call::FindOrInsert => "find_or_insert",
            Call::RowsOrInsert => "rows_or_insert",
            Call::Gather => "gather",
            Call::Scatter => "scatter",
            Call::Update => "update",
            Call::Import => "import",
            Call::Remove => "remove",
        }
    }
}

/// Where the kernels of a table complain.
pub(super) struct Complaints(Book);

impl Complaints {
    pub(super) fn new(stream: &Arc<Stream>) -> Result<Complaints> {
        Ok(Complaints(Book::new(stream)?))
    }

    pub(super) fn address(&self) -> u64 {
        self.0.address().0
    }

    /// Fails if a call complained, as far as that is known. It waits for nothing.
    pub(super) fn heed(&self) -> Result<()> {
        let lost = |_| Error::Driver(DriverError::Lost);
        let Some(complaint) = self.0.take().map_err(lost)? else { return Ok(()) };
        let Complaint { op, value, position, bound, .. } = complaint;
        let call = Call::ALL.get(op as usize).map_or("gather", |call| call.name());
        Err(Error::NoSuchRow { call, number: value, position, rows: bound })
    }
}
