//! Reads parts of tensors from a `safetensors` file, and verifies the file as a whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bireme_ir::DType;
use serde::Deserialize;

use super::super::bad;
use super::super::manifest::FileEntry;
use super::{KEYS, code};
use crate::Result;

/// No header is larger; `safetensors` has the same limit.
const MAX_HEADER: u64 = 100_000_000;

/// An open file.
pub(crate) struct TensorReader {
    path: PathBuf,
    file: File,
    /// Where the tensors begin.
    data: u64,
    tensors: BTreeMap<String, Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl TensorReader {
    /// Compares a file with what the manifest says of it; `progressed` is called on the way.
    pub(crate) fn verify(dir: &Path, entry: &FileEntry, progressed: &dyn Fn()) -> Result<()> {
        let path = dir.join(&entry.name);
        let mut file = open(&path)?;
        let wrong = |problem: String| bad(&path, format!("{problem}: load an earlier checkpoint"));
        let length = file.metadata().map_err(|error| unreadable(&path, &error))?.len();
        if length != entry.bytes {
            let expected = entry.bytes;
            return Err(wrong(format!("it has {length} bytes, the manifest says {expected}")));
        }
        let mut crc = 0;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut buffer).map_err(|error| unreadable(&path, &error))?;
            if read == 0 {
                break;
            }
            crc = crc32c::crc32c_append(crc, &buffer[..read]);
            progressed();
        }
        if format!("{crc:08x}") != entry.crc32c.to_lowercase() {
            let expected = &entry.crc32c;
            return Err(wrong(format!(
                "it is damaged: its checksum is {crc:08x}, the manifest says {expected}"
            )));
        }
        Ok(())
    }

    /// Opens a file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<TensorReader> {
        let mut file = open(path)?;
        let damaged = |what: String| {
            bad(
                path,
                format!("it is no proper safetensors file: {what}: load an earlier checkpoint"),
            )
        };
        let length = file.metadata().map_err(|error| unreadable(path, &error))?.len();
        let mut size = [0; 8];
        file.read_exact(&mut size).map_err(|_| damaged("it is too short".to_owned()))?;
        let header = u64::from_le_bytes(size);
        if header > MAX_HEADER || header > length.saturating_sub(8) {
            return Err(damaged(format!("its header claims {header} bytes")));
        }
        let mut text = vec![0; usize::try_from(header).expect("at most 100 MB")];
        file.read_exact(&mut text).map_err(|error| unreadable(path, &error))?;
        let data = 8 + header;
        let tensors = parse(&text, length - data).map_err(damaged)?;
        Ok(TensorReader { path: path.to_owned(), file, data, tensors })
    }

    /// The number of keys of a tensor of keys.
    pub(crate) fn keys_len(&self, name: &str) -> Result<usize> {
        let entry = self.entry(name)?;
        match (entry.dtype.as_str(), entry.shape.as_slice()) {
            (KEYS, [rows]) => Ok(usize::try_from(*rows).expect("checked against the file")),
            _ => Err(self.wrong(name, "it does not hold keys")),
        }
    }

    /// Reads a tensor of keys.
    pub(crate) fn keys(&mut self, name: &str) -> Result<Vec<u64>> {
        let mut keys = vec![0u64; self.keys_len(name)?];
        self.bytes(name, 0, bytemuck::cast_slice_mut(&mut keys))?;
        Ok(keys)
    }

    /// Whether a column has `rows` rows of `width` numbers.
    pub(crate) fn check_column(&self, name: &str, rows: usize, width: usize) -> Result<()> {
        let elements = self.elements(name, DType::F32)?;
        if rows.checked_mul(width) != Some(elements) {
            let problem = format!("it has {elements} elements, not {rows} rows of {width}");
            return Err(self.wrong(name, &problem));
        }
        Ok(())
    }

    /// Reads a column of `rows` rows of `width` numbers.
    pub(crate) fn column(&mut self, name: &str, rows: usize, width: usize) -> Result<Vec<f32>> {
        self.check_column(name, rows, width)?;
        let mut cells = vec![0f32; rows * width];
        self.bytes(name, 0, bytemuck::cast_slice_mut(&mut cells))?;
        Ok(cells)
    }

    /// The number of elements of a tensor, which must have this type.
    pub(crate) fn elements(&self, name: &str, dtype: DType) -> Result<usize> {
        let entry = self.entry(name)?;
        if entry.dtype != code(dtype) {
            let problem = format!("it holds {}, the manifest says {}", entry.dtype, code(dtype));
            return Err(self.wrong(name, &problem));
        }
        let [start, end] = entry.data_offsets;
        Ok(usize::try_from((end - start) / dtype.size() as u64).expect("checked against the file"))
    }

    /// Reads the bytes of a tensor from `offset` on until `into` is full.
    pub(crate) fn bytes(&mut self, name: &str, offset: usize, into: &mut [u8]) -> Result<()> {
        let [start, end] = self.entry(name)?.data_offsets;
        let from = start + offset as u64;
        if from + into.len() as u64 > end {
            return Err(self.wrong(name, "it is shorter than the manifest says"));
        }
        let read = self.file.seek(SeekFrom::Start(self.data + from));
        let read = read.and_then(|_| self.file.read_exact(into));
        read.map_err(|error| unreadable(&self.path, &error))
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        self.tensors.get(name).ok_or_else(|| self.wrong(name, "it is missing"))
    }

    fn wrong(&self, name: &str, what: &str) -> crate::Error {
        bad(&self.path, format!("tensor `{name}`: {what}: load an earlier checkpoint"))
    }
}

/// Reads a header; `data` bytes of tensors follow it.
fn parse(text: &[u8], data: u64) -> std::result::Result<BTreeMap<String, Entry>, String> {
    let values: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(text).map_err(|error| format!("its header is damaged ({error})"))?;
    let mut tensors = BTreeMap::new();
    for (name, value) in values {
        if name == "__metadata__" {
            continue;
        }
        let entry: Entry = serde_json::from_value(value)
            .map_err(|error| format!("tensor `{name}` is not described ({error})"))?;
        let [start, end] = entry.data_offsets;
        let numel = entry.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
        let size = DType::ALL.into_iter().find(|dtype| code(*dtype) == entry.dtype);
        let size = size.map(|dtype| dtype.size() as u64);
        let size = size.or((entry.dtype == KEYS).then_some(8));
        let bytes = numel.zip(size).and_then(|(numel, size)| numel.checked_mul(size));
        if start > end || end > data || bytes != Some(end - start) {
            return Err(format!("tensor `{name}` does not lie inside it"));
        }
        tensors.insert(name, entry);
    }
    Ok(tensors)
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let problem = "it is missing though the manifest lists it: copy it from the machine \
                           of the server that wrote it, or load an earlier checkpoint";
            bad(path, problem)
        }
        _ => unreadable(path, &error),
    })
}

fn unreadable(path: &Path, error: &std::io::Error) -> crate::Error {
    bad(path, format!("cannot read it: {error}"))
}
