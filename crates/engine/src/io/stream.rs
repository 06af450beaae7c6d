//! One tensor in Paddle's stream format, both ways.
//!
//! A record is: u32 version (0) · u64 number of LoD levels, each a u64 byte count and that many
//! bytes of u64 offsets · u32 tensor version (0) · i32 byte count of a `TensorDesc` message and
//! that message · the elements. All little-endian. Reading compares every size with the bytes
//! that are left before it allocates, and its errors name the file, the variable and the byte.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use bireme_ir::DType;
use prost::Message;

use crate::tensor::{Dims, Lod, MAX_RANK, Tensor};
use crate::{Error, Result};

/// The version of records and of the tensors in them.
const VERSION: u32 = 0;

/// Longest `TensorDesc` that is read; one of the most dimensions takes about a hundred bytes.
const MAX_DESC_BYTES: u64 = 4096;

/// `VarType.TensorDesc` of Paddle's `framework.proto`.
#[derive(Clone, PartialEq, Message)]
struct TensorDesc {
    #[prost(int32, required, tag = "1")]
    data_type: i32,
    #[prost(int64, repeated, packed = "false", tag = "2")]
    dims: Vec<i64>,
}

/// Writes one record.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_tensor(out: &mut (impl Write + ?Sized), tensor: &Tensor) -> std::io::Result<()> {
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&(tensor.lod().len() as u64).to_le_bytes())?;
    for level in tensor.lod() {
        out.write_all(&(size_of_val(level.as_slice()) as u64).to_le_bytes())?;
        for offset in level {
            out.write_all(&(*offset as u64).to_le_bytes())?;
        }
    }
    let dims = tensor.dims().iter().map(|dim| *dim as i64).collect();
    let desc = TensorDesc { data_type: tensor.dtype().code(), dims }.encode_to_vec();
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&(desc.len() as i32).to_le_bytes())?;
    out.write_all(&desc)?;
    out.write_all(tensor.as_bytes())
}

/// Reads records one after another.
pub struct TensorReader<R> {
    input: R,
    /// For messages.
    path: PathBuf,
    /// Bytes read so far.
    offset: u64,
    /// Bytes of the whole input.
    len: u64,
}

impl TensorReader<BufReader<File>> {
    /// Reads from a file.
    ///
    /// # Errors
    /// When it does not exist, is no regular file, or cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<TensorReader<BufReader<File>>> {
        let path = path.as_ref();
        let failed = |error| Error::file(path, format!("cannot read it: {error}"));
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(Error::file(path, "it is not a file, so it holds no parameters"));
        }
        Ok(TensorReader::new(BufReader::new(file), path, metadata.len()))
    }
}

impl<R: Read> TensorReader<R> {
    /// Reads from `input`, which holds `len` bytes; messages call it `path`.
    pub fn new(input: R, path: impl Into<PathBuf>, len: u64) -> TensorReader<R> {
        TensorReader { input, path: path.into(), offset: 0, len }
    }

    /// Bytes that have not been read.
    pub fn remaining(&self) -> u64 {
        self.len - self.offset
    }

    /// Reads the next record; `var` is the variable it is for.
    ///
    /// # Errors
    /// When the input ends inside the record, or is not such a record.
    pub fn read(&mut self, var: &str) -> Result<Tensor> {
        self.record().map_err(|Problem { at, problem }| {
            let what = format!("variable `{var}`, byte {at}: {problem}");
            Error::file(&self.path, what)
        })
    }

    fn record(&mut self) -> std::result::Result<Tensor, Problem> {
        self.version("record")?;
        let lod = self.lod()?;
        self.version("tensor")?;
        let (dtype, dims) = self.desc()?;
        let at = self.offset;
        let mut tensor = Tensor::zeros(dtype, dims);
        self.fill(tensor.as_mut_bytes(), "the elements")?;
        if dtype == DType::Bool && tensor.as_bytes().iter().any(|byte| *byte > 1) {
            return Err(Problem::new(at, "a truth value is neither 0 nor 1"));
        }
        tensor.with_lod(&lod).map_err(|error| Problem::new(at, error))
    }

    fn version(&mut self, of: &str) -> std::result::Result<(), Problem> {
        let at = self.offset;
        match u32::from_le_bytes(self.array("a version")?) {
            VERSION => Ok(()),
            other => Err(Problem::new(
                at,
                format!(
                    "{of} version {other} is not supported (is it a parameter file of Paddle?)"
                ),
            )),
        }
    }

    fn lod(&mut self) -> std::result::Result<Lod, Problem> {
        let levels = u64::from_le_bytes(self.array("the number of LoD levels")?);
        // Each level has at least a byte count of eight bytes.
        self.expect(levels.saturating_mul(8), "the LoD levels")?;
        let mut lod = Lod::new();
        for _ in 0..levels {
            let at = self.offset;
            let bytes = u64::from_le_bytes(self.array("the size of a LoD level")?);
            if bytes % 8 != 0 {
                return Err(Problem::new(at, format!("a LoD level has {bytes} bytes, not 8 each")));
            }
            self.expect(bytes, "a LoD level")?;
            lod.push(self.offsets(bytes / 8)?);
        }
        Ok(lod)
    }

    fn offsets(&mut self, count: u64) -> std::result::Result<Vec<usize>, Problem> {
        let mut offsets = Vec::new();
        for _ in 0..count {
            let at = self.offset;
            let offset = u64::from_le_bytes(self.array("a LoD level")?);
            let offset = usize::try_from(offset)
                .map_err(|_| Problem::new(at, format!("offset {offset} is too large")))?;
            offsets.push(offset);
        }
        Ok(offsets)
    }

    fn desc(&mut self) -> std::result::Result<(DType, Dims), Problem> {
        let at = self.offset;
        let size = i32::from_le_bytes(self.array("the size of the tensor's description")?);
        let size = u64::try_from(size).ok().filter(|size| *size <= MAX_DESC_BYTES);
        let Some(size) = size else {
            return Err(Problem::new(at, "the size of the tensor's description is out of range"));
        };
        self.expect(size, "the tensor's description")?;
        let mut bytes = vec![0; size as usize];
        let at = self.offset;
        self.fill(&mut bytes, "the tensor's description")?;
        let desc = TensorDesc::decode(bytes.as_slice())
            .map_err(|error| Problem::new(at, format!("no tensor description: {error}")))?;
        let dtype = DType::from_code(desc.data_type).ok_or_else(|| {
            let code = desc.data_type;
            Problem::new(at, format!("elements of type number {code} are not supported"))
        })?;
        let dims = dims_of(&desc.dims, dtype).map_err(|problem| Problem::new(at, problem))?;
        self.expect((dims.numel() * dtype.size()) as u64, "the elements")?;
        Ok((dtype, dims))
    }

    fn array<const N: usize>(&mut self, what: &str) -> std::result::Result<[u8; N], Problem> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    /// That `bytes` more bytes are there.
    fn expect(&self, bytes: u64, what: &str) -> std::result::Result<(), Problem> {
        if bytes <= self.remaining() {
            return Ok(());
        }
        Err(Problem::new(
            self.offset,
            format!(
                "{what} should take {bytes} bytes, but {} are left: the file is truncated or \
                 damaged, save it again or get a complete copy",
                self.remaining()
            ),
        ))
    }

    fn fill(&mut self, bytes: &mut [u8], what: &str) -> std::result::Result<(), Problem> {
        self.expect(bytes.len() as u64, what)?;
        self.input
            .read_exact(bytes)
            .map_err(|error| Problem::new(self.offset, format!("cannot read {what}: {error}")))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// What is wrong at which byte.
struct Problem {
    at: u64,
    problem: String,
}

impl Problem {
    fn new(at: u64, problem: impl ToString) -> Problem {
        Problem { at, problem: problem.to_string() }
    }
}

/// The dimensions, when a tensor of them can exist.
fn dims_of(dims: &[i64], dtype: DType) -> std::result::Result<Dims, String> {
    if dims.len() > MAX_RANK {
        return Err(format!("{} dimensions are more than {MAX_RANK}", dims.len()));
    }
    let sizes = dims.iter().map(|dim| usize::try_from(*dim));
    let Ok(sizes) = sizes.collect::<std::result::Result<Vec<usize>, _>>() else {
        return Err(format!("shape {dims:?} is not the shape of a stored tensor"));
    };
    // Zeros are left out: strides of the other dimensions must not overflow either.
    let mut factors = sizes.iter().copied().filter(|dim| *dim > 0);
    let bytes = factors.try_fold(dtype.size(), usize::checked_mul);
    match bytes.filter(|bytes| isize::try_from(*bytes).is_ok()) {
        Some(_) => Ok(Dims::new(&sizes)),
        None => Err(format!("a tensor of shape {dims:?} is too large")),
    }
}

#[cfg(test)]
mod tests;
