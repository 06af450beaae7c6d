//! Writes a `safetensors` file tensor by tensor.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bireme_ir::DType;

use super::super::disk::Disk;
use super::super::manifest::FileEntry;
use super::super::{TableLayout, bad};
use super::{KEYS, code, part_name};
use crate::Result;

/// Rows whose column is copied at a time.
const ROWS_AT_ONCE: usize = 16 << 10;

/// Bytes that are written before somebody is told of the progress.
const BYTES_AT_ONCE: usize = 16 << 20;

/// Bytes that may wait in memory for the disk.
const SYNCED_AT_ONCE: usize = 256 << 20;

/// A file that is being written aside; it gets its name when it is complete.
pub(crate) struct TensorWriter<'a> {
    disk: &'a Disk<'a>,
    dir: &'a Path,
    name: String,
    aside: PathBuf,
    out: BufWriter<File>,
    /// Bytes left free for the header, its length included.
    room: usize,
    header: String,
    /// Bytes of tensors so far, and their checksum.
    at: u64,
    crc: u32,
    /// Bytes since the file was last flushed to disk.
    unsynced: usize,
}

impl<'a> TensorWriter<'a> {
    /// Bytes that the header takes for a tensor with this name, at most.
    pub(crate) fn room_for(name: &str, rank: usize) -> usize {
        let quoted = serde_json::to_string(name).expect("a string can be quoted").len();
        quoted + 80 + 21 * (rank + 2)
    }

    /// Begins the file `name` in `dir`, with `room` for its header.
    pub(crate) fn begin(
        disk: &'a Disk<'a>,
        dir: &'a Path,
        name: String,
        room: usize,
    ) -> Result<Self> {
        let aside = dir.join(format!(".{name}.tmp"));
        let room = (room + 16).next_multiple_of(64);
        let made = disk.create(&aside).and_then(|mut file| {
            file.seek(SeekFrom::Start(room as u64))?;
            Ok(file)
        });
        let file = made.map_err(|error| bad(&dir.join(&name), cannot_write(&error)))?;
        let out = BufWriter::with_capacity(1 << 20, file);
        Ok(TensorWriter {
            disk,
            dir,
            name,
            aside,
            out,
            room,
            header: String::from("{"),
            at: 0,
            crc: 0,
            unsynced: 0,
        })
    }

    /// Bytes left in the header.
    pub(crate) fn room_left(&self) -> usize {
        self.room - 8 - self.header.len() - 1
    }

    /// Writes a tensor.
    pub(crate) fn tensor(
        &mut self,
        name: &str,
        dtype: DType,
        shape: &[usize],
        bytes: &[u8],
    ) -> Result<()> {
        self.declare(name, code(dtype), shape, bytes.len());
        self.put(bytes)
    }

    /// Begins a tensor whose bytes follow by [`TensorWriter::put`].
    pub(crate) fn begin_tensor(&mut self, name: &str, dtype: DType, shape: &[usize]) {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        self.declare(name, code(dtype), shape, bytes);
    }

    /// Writes keys.
    pub(crate) fn keys(&mut self, name: &str, keys: &[u64]) -> Result<()> {
        self.declare(name, KEYS, &[keys.len()], size_of_val(keys));
        self.put(bytemuck::cast_slice(keys))
    }

    /// Writes rows of a table as a part of its own: the keys, and each column.
    pub(crate) fn rows(
        &mut self,
        layout: &TableLayout,
        part: u32,
        keys: &[u64],
        records: &[f32],
    ) -> Result<()> {
        let name = |column: &str| part_name(&layout.name, part, column);
        self.keys(&name("keys"), keys)?;
        let record = layout.record_width();
        let mut first = 0;
        let mut cells: Vec<f32> = Vec::new();
        for column in &layout.columns {
            let rows = keys.len();
            let shape = if column.width == 1 { vec![rows] } else { vec![rows, column.width] };
            self.declare(&name(&column.name), code(DType::F32), &shape, rows * column.width * 4);
            for some in records.chunks(record * ROWS_AT_ONCE) {
                cells.clear();
                for row in some.chunks_exact(record) {
                    cells.extend_from_slice(&row[first..first + column.width]);
                }
                self.put(bytemuck::cast_slice(&cells))?;
            }
            first += column.width;
        }
        Ok(())
    }

    fn declare(&mut self, name: &str, dtype: &str, shape: &[usize], bytes: usize) {
        let quoted = serde_json::to_string(name).expect("a string can be quoted");
        let comma = if self.header.len() > 1 { "," } else { "" };
        let (start, end) = (self.at, self.at + bytes as u64);
        self.header.push_str(&format!(
            "{comma}{quoted}:{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\
             \"data_offsets\":[{start},{end}]}}"
        ));
    }

    /// Writes bytes of the tensor that was begun last.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        for bytes in bytes.chunks(BYTES_AT_ONCE) {
            self.crc = crc32c::crc32c_append(self.crc, bytes);
            self.at += bytes.len() as u64;
            self.unsynced += bytes.len();
            self.out.write_all(bytes).map_err(|error| self.failed(&error))?;
            self.disk.progressed();
            if self.unsynced >= SYNCED_AT_ONCE {
                self.unsynced = 0;
                let synced =
                    self.out.flush().and_then(|()| self.disk.sync_data(self.out.get_ref()));
                synced.map_err(|error| self.failed(&error))?;
            }
        }
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> crate::Error {
        bad(&self.dir.join(&self.name), cannot_write(error))
    }

    /// Writes the header, flushes the file to disk and gives it its name.
    pub(crate) fn finish(mut self, server: u32) -> Result<FileEntry> {
        self.header.push('}');
        assert!(self.header.len() + 8 <= self.room, "room for the header was counted before");
        let mut front = ((self.room - 8) as u64).to_le_bytes().to_vec();
        front.extend_from_slice(self.header.as_bytes());
        front.resize(self.room, b' ');
        let written = (|| {
            self.out.flush()?;
            let file = self.out.get_mut();
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&front)?;
            self.disk.sync(file)?;
            self.disk.rename(&self.aside, &self.dir.join(&self.name))
        })();
        written.map_err(|error| self.failed(&error))?;
        let length = usize::try_from(self.at).expect("files fit the address space");
        let crc = crc32c::crc32c_combine(crc32c::crc32c(&front), self.crc, length);
        Ok(FileEntry {
            name: self.name.clone(),
            server,
            bytes: front.len() as u64 + self.at,
            crc32c: format!("{crc:08x}"),
        })
    }
}

fn cannot_write(error: &std::io::Error) -> String {
    format!("cannot write it: {error}: the checkpoint before it is unchanged")
}
