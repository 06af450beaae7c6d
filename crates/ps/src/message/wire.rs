//! Bytes of a message: a small head with numbers and names, then the arrays, which are sent from
//! where they lie and read where they arrive.
//!
//! Head and arrays each start at a multiple of [`ALIGN`] bytes, so that arrays of any element can
//! be looked at in place. Every length is checked against what is really there.

use bireme_engine::tensor::{Dims, MAX_RANK};
use bireme_ir::DType;
use bytemuck::Pod;

use super::Array;
use crate::{Error, Result};

/// What starts at a multiple of it in a body.
pub(crate) const ALIGN: usize = 8;

/// Entries of a list in a head at most: each takes more memory when it is read than it has bytes.
const MAX_LIST: usize = 1 << 20;

/// Bytes between an array's end and the next one's start.
static PADDING: [u8; ALIGN] = [0; ALIGN];

/// A message ready to be sent: [`Encoded::parts`] one after the other.
#[derive(Debug)]
pub struct Encoded<'a> {
    head: Vec<u8>,
    arrays: Vec<&'a [u8]>,
}

impl<'a> Encoded<'a> {
    /// What to send, in order.
    pub fn parts(&self) -> Vec<&[u8]> {
        let mut parts = Vec::with_capacity(1 + 2 * self.arrays.len());
        parts.push(self.head.as_slice());
        for array in &self.arrays {
            parts.push(array);
            let padding = padding(array.len());
            if padding > 0 {
                parts.push(&PADDING[..padding]);
            }
        }
        parts
    }

    /// The length of all parts.
    pub fn bytes(&self) -> usize {
        let arrays = self.arrays.iter().map(|array| array.len() + padding(array.len()));
        self.head.len() + arrays.sum::<usize>()
    }
}

/// Writes a message.
pub(crate) struct Writer<'a> {
    head: Vec<u8>,
    arrays: Vec<&'a [u8]>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new() -> Writer<'a> {
        let mut head = Vec::with_capacity(64);
        // The head's length comes here.
        head.extend_from_slice(&[0; 4]);
        Writer { head, arrays: Vec::new() }
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.head.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.head.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.head.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.head.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn maybe_text(&mut self, text: Option<&str>) {
        self.u8(u8::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }

    pub(crate) fn texts(&mut self, texts: &[&str]) {
        self.u32(texts.len() as u32);
        for text in texts {
            self.text(text);
        }
    }

    pub(crate) fn slice<T: Pod>(&mut self, values: &'a [T]) {
        self.u64(values.len() as u64);
        self.raw(bytemuck::cast_slice(values));
    }

    pub(crate) fn array(&mut self, array: &Array<'a>) {
        match array {
            Array::Dense { dtype, dims, start, bytes } => {
                self.u8(0);
                self.shape(*dtype, dims);
                self.u64(*start);
                self.slice(bytes);
            }
            Array::Rows { dtype, dims, height, rows, bytes } => {
                self.u8(1);
                self.shape(*dtype, dims);
                self.u64(*height);
                self.slice(rows);
                self.raw(bytes);
            }
        }
    }

    pub(crate) fn arrays(&mut self, arrays: &[(&'a str, Array<'a>)]) {
        self.u32(arrays.len() as u32);
        for (name, array) in arrays {
            self.text(name);
            self.array(array);
        }
    }

    pub(crate) fn finish(mut self) -> Encoded<'a> {
        self.head.resize(self.head.len().next_multiple_of(ALIGN), 0);
        let length = self.head.len() as u32;
        self.head[..4].copy_from_slice(&length.to_le_bytes());
        Encoded { head: self.head, arrays: self.arrays }
    }

    fn raw(&mut self, bytes: &'a [u8]) {
        if !bytes.is_empty() {
            self.arrays.push(bytes);
        }
    }

    fn shape(&mut self, dtype: DType, dims: &Dims) {
        self.u8(dtype_code(dtype));
        self.u8(dims.len() as u8);
        for dim in dims.iter() {
            self.u64(*dim as u64);
        }
    }
}

/// Reads a message.
pub(crate) struct Reader<'a> {
    head: &'a [u8],
    arrays: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Result<Reader<'a>> {
        if body.is_empty() {
            return Err(damaged("it is empty"));
        }
        let mut reader = Reader { head: body, arrays: &[] };
        let length = reader.u32()? as usize;
        if length < 4 || !length.is_multiple_of(ALIGN) || length > body.len() {
            return Err(damaged("its head is longer than it"));
        }
        reader.head = &body[4..length];
        reader.arrays = &body[length..];
        Ok(reader)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were read")))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        let bytes = self.bytes(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were read")))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let length = self.u32()? as usize;
        let bytes = self.bytes(length)?;
        std::str::from_utf8(bytes).map_err(|_| damaged("a name is no UTF-8"))
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<&'a str>> {
        match self.flag()? {
            true => self.text().map(Some),
            false => Ok(None),
        }
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged("a flag is neither 0 nor 1")),
        }
    }

    pub(crate) fn texts(&mut self) -> Result<Vec<&'a str>> {
        let count = self.count(4)?;
        (0..count).map(|_| self.text()).collect()
    }

    pub(crate) fn slice<T: Pod>(&mut self) -> Result<&'a [T]> {
        let count = self.u64()?;
        self.elements(count)
    }

    pub(crate) fn array(&mut self) -> Result<Array<'a>> {
        match self.u8()? {
            0 => {
                let (dtype, dims) = self.shape()?;
                let start = self.u64()?;
                let bytes: &[u8] = self.slice()?;
                let array = Array::Dense { dtype, dims, start, bytes };
                array.check()?;
                Ok(array)
            }
            1 => {
                let (dtype, dims) = self.shape()?;
                let height = self.u64()?;
                let rows: &[i64] = self.slice()?;
                let bytes = dims.bytes(dtype).unwrap_or(usize::MAX) as u64;
                let bytes = self.elements(bytes)?;
                let array = Array::Rows { dtype, dims, height, rows, bytes };
                array.check()?;
                Ok(array)
            }
            _ => Err(damaged("an array is neither dense nor selected rows")),
        }
    }

    pub(crate) fn arrays(&mut self) -> Result<Vec<(&'a str, Array<'a>)>> {
        // Name, kind, type, rank, start and length.
        let count = self.count(4 + 3 + 8)?;
        (0..count).map(|_| Ok((self.text()?, self.array()?))).collect()
    }

    /// A number of things that follow in the head, each of `least` bytes at least.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        if count > MAX_LIST {
            return Err(damaged(&format!("a list has more than {MAX_LIST} entries")));
        }
        match count.checked_mul(least) {
            Some(bytes) if bytes <= self.head.len() => Ok(count),
            _ => Err(damaged("a list is longer than it")),
        }
    }

    /// Checks that everything has been read.
    pub(crate) fn finish(self) -> Result<()> {
        if self.head.len() >= ALIGN || !self.arrays.is_empty() {
            return Err(damaged("something follows its end"));
        }
        Ok(())
    }

    fn shape(&mut self) -> Result<(DType, Dims)> {
        let code = self.u8()?;
        let dtype = DType::ALL.into_iter().find(|dtype| dtype_code(*dtype) == code);
        let dtype = dtype.ok_or_else(|| damaged("an array has an unknown element type"))?;
        let rank = usize::from(self.u8()?);
        if rank > MAX_RANK {
            return Err(damaged("an array has too many dimensions"));
        }
        let mut dims = [0; MAX_RANK];
        for dim in &mut dims[..rank] {
            *dim = usize::try_from(self.u64()?).map_err(|_| damaged("a dimension is too large"))?;
        }
        let dims = Dims::new(&dims[..rank]);
        match dims.bytes(dtype) {
            Some(_) => Ok((dtype, dims)),
            None => Err(damaged("no tensor has the dimensions of an array")),
        }
    }

    fn elements<T: Pod>(&mut self, count: u64) -> Result<&'a [T]> {
        let bytes = usize::try_from(count).ok().and_then(|n| n.checked_mul(size_of::<T>()));
        let bytes = bytes.filter(|bytes| *bytes <= self.arrays.len());
        let bytes = bytes.ok_or_else(|| damaged("an array is longer than it"))?;
        let (array, rest) = self.arrays.split_at(bytes);
        let rest = rest.get(padding(bytes)..);
        self.arrays = rest.ok_or_else(|| damaged("the end of an array is missing"))?;
        if array.is_empty() {
            // Aligned too: whoever casts the bytes of an empty array need not think of it.
            const NOTHING: &[u64] = &[];
            return Ok(bytemuck::cast_slice(NOTHING));
        }
        bytemuck::try_cast_slice(array).map_err(|_| damaged("an array is not aligned"))
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.head.len() {
            return Err(damaged("it ends too early"));
        }
        let (bytes, rest) = self.head.split_at(count);
        self.head = rest;
        Ok(bytes)
    }
}

/// The error of bytes that are no message.
pub(crate) fn damaged(problem: &str) -> Error {
    Error::Request(format!(
        "a message cannot be read: {problem}; do all processes run the same version of Bireme?"
    ))
}

/// The number of an element type on the wire: its place in [`DType::ALL`].
fn dtype_code(dtype: DType) -> u8 {
    DType::ALL.iter().position(|known| *known == dtype).expect("`ALL` has every type") as u8
}

fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN) - bytes
}
