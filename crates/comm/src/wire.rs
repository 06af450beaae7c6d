//! Bytes of a message: a small head with numbers and names, then the arrays, which are sent from
//! where they lie and read where they arrive.
//!
//! Head and arrays each start at a multiple of [`ALIGN`] bytes, so that arrays of any element can
//! be looked at in place. Every length is checked against what is really there, before anything is
//! allocated for it.

use bytemuck::Pod;

/// What starts at a multiple of it in a body.
pub const ALIGN: usize = 8;

/// Entries of a list in a head at most: each takes more memory when it is read than it has bytes.
const MAX_LIST: usize = 1 << 20;

/// Bytes between an array's end and the next one's start.
static PADDING: [u8; ALIGN] = [0; ALIGN];

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message cannot be read: {0}; do all processes run the same version of Bireme?")]
pub struct Damaged(String);

/// The error of bytes that are no message.
pub fn damaged(problem: &str) -> Damaged {
    Damaged(problem.to_owned())
}

/// What is read, or what is wrong with the bytes.
pub type Result<T> = std::result::Result<T, Damaged>;

/// A message ready to be sent: [`Encoded::parts`] one after the other.
#[derive(Debug)]
pub struct Encoded<'a> {
    head: Vec<u8>,
    arrays: Vec<&'a [u8]>,
}

impl<'a> Encoded<'a> {
    /// The message that `write` writes.
    pub fn new(write: impl FnOnce(&mut Writer<'a>)) -> Encoded<'a> {
        let mut head = Vec::with_capacity(64);
        // The head's length comes here.
        head.extend_from_slice(&[0; 4]);
        let mut to = Writer { head, arrays: Vec::new() };
        write(&mut to);
        let Writer { mut head, arrays } = to;
        head.resize(head.len().next_multiple_of(ALIGN), 0);
        let length = head.len() as u32;
        head[..4].copy_from_slice(&length.to_le_bytes());
        Encoded { head, arrays }
    }

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

/// Reads a body to its end with `read`.
///
/// # Errors
/// When `read` fails, or something follows what it reads.
pub fn decode<'a, T>(body: &'a [u8], read: impl FnOnce(&mut Reader<'a>) -> Result<T>) -> Result<T> {
    let mut from = Reader::new(body)?;
    let message = read(&mut from)?;
    if from.head.len() >= ALIGN || !from.arrays.is_empty() {
        return Err(damaged("something follows its end"));
    }
    Ok(message)
}

/// Writes a message, field by field.
#[derive(Debug)]
pub struct Writer<'a> {
    head: Vec<u8>,
    arrays: Vec<&'a [u8]>,
}

impl<'a> Writer<'a> {
    /// Bytes of the head.
    pub fn head(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    /// The number of things that follow in the head.
    pub fn count(&mut self, count: usize) {
        self.head(&(count as u32).to_le_bytes());
    }

    /// A text in the head.
    pub fn text(&mut self, text: &str) {
        self.count(text.len());
        self.head(text.as_bytes());
    }

    /// An array and, in the head, its length.
    pub fn slice<T: Pod>(&mut self, values: &'a [T]) {
        self.head(&(values.len() as u64).to_le_bytes());
        self.array(bytemuck::cast_slice(values));
    }

    /// An array whose length the reader knows from elsewhere.
    pub fn array(&mut self, bytes: &'a [u8]) {
        if !bytes.is_empty() {
            self.arrays.push(bytes);
        }
    }
}

/// Reads a message, field by field.
#[derive(Debug)]
pub struct Reader<'a> {
    head: &'a [u8],
    arrays: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(body: &'a [u8]) -> Result<Reader<'a>> {
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

    /// The next `count` bytes of the head.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn head(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.head.len() {
            return Err(damaged("it ends too early"));
        }
        let (bytes, rest) = self.head.split_at(count);
        self.head = rest;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        let bytes = self.head(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were read")))
    }

    /// The number of things that follow in the head, each of `least` bytes at least.
    ///
    /// # Errors
    /// When the head has no room for so many.
    pub fn count(&mut self, least: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        if count > MAX_LIST {
            return Err(damaged(&format!("a list has more than {MAX_LIST} entries")));
        }
        match count.checked_mul(least) {
            Some(bytes) if bytes <= self.head.len() => Ok(count),
            _ => Err(damaged("a list is longer than it")),
        }
    }

    /// The next array, of `count` elements.
    ///
    /// # Errors
    /// When it is shorter or not aligned.
    pub fn array<T: Pod>(&mut self, count: u64) -> Result<&'a [T]> {
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
}

fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN) - bytes
}
