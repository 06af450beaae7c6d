//! Tensors: typed at run time, row-major, optionally ragged (LoD).
//!
//! A tensor owns its memory or is a window into memory that the plan owns; the difference is
//! invisible to kernels, which see slices.

mod buffer;
mod dims;
mod element;
mod list;
mod selected_rows;
mod shared;

#[cfg(test)]
mod tests;

pub use buffer::{ALIGN, Buffer};
pub use dims::{Dims, MAX_RANK};
pub use element::Element;
pub use list::List;
pub(crate) use list::not_a_list;
pub use selected_rows::SelectedRows;
pub use shared::{Elements, Shared};

use std::panic::resume_unwind;
use std::sync::Arc;

use bireme_ir::DType;

use crate::{Error, Result};

/// Offsets of sequences, level by level; empty for a plain tensor. Each level starts with 0, and
/// the last level ends with the number of rows.
pub type Lod = Vec<Vec<usize>>;

/// A dense, row-major array.
#[derive(Debug)]
pub struct Tensor {
    dtype: DType,
    dims: Dims,
    lod: Lod,
    buffer: Buffer,
    /// What it holds in place of elements, if it is a list.
    list: Option<Arc<List>>,
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Panics
    /// When no tensor can be as large as these dimensions say; shape rules reject such programs
    /// before any tensor exists.
    pub fn zeros(dtype: DType, dims: impl Into<Dims>) -> Tensor {
        let dims = dims.into();
        let buffer = Buffer::zeroed(bytes_of(dtype, dims));
        Tensor { dtype, dims, lod: Lod::new(), buffer, list: None }
    }

    /// A tensor with no elements; what a variable holds before it is first written.
    pub fn empty(dtype: DType) -> Tensor {
        Tensor::zeros(dtype, [0])
    }

    /// A tensor holding a copy of `values`.
    ///
    /// # Errors
    /// When the number of values is not the product of the dimensions, or that product does not fit
    /// the address space.
    pub fn from_slice<T: Element>(dims: impl Into<Dims>, values: &[T]) -> Result<Tensor> {
        let dims = dims.into();
        check_size(T::DTYPE, dims)?;
        if dims.numel() != values.len() {
            return Err(Error::ElementCount { dims, values: values.len() });
        }
        let mut tensor = Tensor::zeros(T::DTYPE, dims);
        tensor.as_mut_slice::<T>()?.copy_from_slice(values);
        Ok(tensor)
    }

    /// A one-element tensor of shape `[1]`, as Paddle 2.6's scalars are.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Tensor::from_slice([1], &[value]).expect("one value fits shape [1]")
    }

    /// A window of this dtype and shape into `buffer`.
    ///
    /// # Panics
    /// When the buffer is too small.
    pub(crate) fn window(dtype: DType, dims: Dims, buffer: Buffer) -> Tensor {
        assert!(bytes_of(dtype, dims) <= buffer.bytes(), "a window holds its tensor");
        Tensor { dtype, dims, lod: Lod::new(), buffer, list: None }
    }

    /// A tensor in memory that somebody else keeps.
    ///
    /// # Errors
    /// When no tensor can have these dimensions.
    ///
    /// # Safety
    /// `start` must be the aligned address of a row-major array of this type and shape, which stays
    /// valid, and is not written in a way that conflicts with the use made of this tensor, for as
    /// long as it exists.
    #[expect(unsafe_code, reason = "the caller vouches for the memory")]
    pub unsafe fn foreign(
        dtype: DType,
        dims: impl Into<Dims>,
        start: std::ptr::NonNull<u8>,
    ) -> Result<Tensor> {
        let dims = dims.into();
        check_size(dtype, dims)?;
        // SAFETY: as the caller promises.
        let buffer = unsafe { Buffer::foreign(start, bytes_of(dtype, dims)) };
        Ok(Tensor { dtype, dims, lod: Lod::new(), buffer, list: None })
    }

    /// The page-locked memory that it lies in, from its first byte on, if it does.
    pub fn page_locked(&self) -> Option<&std::sync::Arc<dyn crate::device::PageLocked>> {
        self.buffer.page_locked()
    }

    /// Its first element's address; for handing the memory to other languages.
    pub fn start(&self) -> std::ptr::NonNull<u8> {
        self.buffer.start()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions.
    pub fn dims(&self) -> Dims {
        self.dims
    }

    /// The first dimension; 1 for a scalar.
    pub fn rows(&self) -> usize {
        self.dims.first().copied().unwrap_or(1)
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.dims.numel()
    }

    /// The sequence offsets.
    pub fn lod(&self) -> &Lod {
        &self.lod
    }

    /// Sets the sequence offsets; the caller has checked them against the rows.
    pub fn set_lod(&mut self, lod: &[Vec<usize>]) {
        // `clone_from` keeps the allocations of the last batch.
        self.lod.resize(lod.len(), Vec::new());
        for (mine, theirs) in self.lod.iter_mut().zip(lod) {
            mine.clone_from(theirs);
        }
    }

    /// Takes over another tensor's offset lists as memory for this one's.
    pub(crate) fn take_lod_memory(&mut self, other: &mut Tensor) {
        self.lod = std::mem::take(&mut other.lod);
    }

    /// Checks `lod` against the rows of this tensor and sets it.
    ///
    /// # Errors
    /// When a level does not start at 0, decreases, or does not end at the number of entries of
    /// the next level (rows, for the last).
    pub fn with_lod(mut self, lod: &[Vec<usize>]) -> Result<Tensor> {
        for (level, offsets) in lod.iter().enumerate() {
            let end = lod.get(level + 1).map_or(self.rows(), |next| next.len().saturating_sub(1));
            let sorted = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
            if offsets.first() != Some(&0) || offsets.last() != Some(&end) || !sorted {
                return Err(Error::BadLod { level, end });
            }
        }
        self.set_lod(lod);
        Ok(self)
    }

    /// The elements.
    ///
    /// # Errors
    /// When they are not stored as `T`.
    #[expect(unsafe_code, reason = "the dtype is checked against the Rust type")]
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.check::<T>()?;
        self.check_own()?;
        // SAFETY: the buffer holds `numel` elements of this type on an aligned address; `T` is Pod.
        Ok(unsafe {
            std::slice::from_raw_parts(self.buffer.start().cast::<T>().as_ptr(), self.numel())
        })
    }

    /// The elements, to be changed.
    ///
    /// # Errors
    /// When they are not stored as `T`.
    #[expect(unsafe_code, reason = "the dtype is checked against the Rust type")]
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        self.check::<T>()?;
        self.check_own()?;
        // SAFETY: as in `as_slice`; `&mut self` makes the access exclusive.
        Ok(unsafe {
            std::slice::from_raw_parts_mut(self.buffer.start().cast::<T>().as_ptr(), self.numel())
        })
    }

    /// The elements, if other threads may write them: there is then no slice of them.
    ///
    /// # Errors
    /// When they are not stored as `T`.
    #[expect(unsafe_code, reason = "the dtype is checked against the Rust type")]
    pub fn as_shared<T: Element>(&self) -> Result<Option<Shared<'_, T>>> {
        self.check::<T>()?;
        // SAFETY: the buffer holds `numel` elements of this type on an aligned address, and is
        // touched by relaxed accesses only.
        let shared = || unsafe { Shared::new(self.buffer.start().cast::<T>(), self.numel()) };
        Ok(self.is_shared().then(shared))
    }

    /// Whether other threads may write the elements.
    pub fn is_shared(&self) -> bool {
        self.buffer.is_shared()
    }

    /// Copies the elements from `at` on, whoever may write them meanwhile.
    ///
    /// # Errors
    /// When they are not stored as `T`, or there are fewer.
    pub fn load<T: Element>(&self, at: usize, to: &mut [T]) -> Result<()> {
        self.check_range(at, to.len())?;
        match self.as_shared::<T>()? {
            Some(shared) => shared.load(at, to),
            None => to.copy_from_slice(&self.as_slice::<T>()?[at..at + to.len()]),
        }
        Ok(())
    }

    /// Overwrites the elements from `at` on, whoever may read them meanwhile.
    ///
    /// # Errors
    /// As [`Tensor::load`].
    pub fn store<T: Element>(&mut self, at: usize, from: &[T]) -> Result<()> {
        self.check_range(at, from.len())?;
        match self.as_shared::<T>()? {
            Some(shared) => shared.store(at, from),
            None => self.as_mut_slice::<T>()?[at..at + from.len()].copy_from_slice(from),
        }
        Ok(())
    }

    /// Overwrites the elements from `at` on by bytes in memory order, whoever may read them
    /// meanwhile.
    ///
    /// # Errors
    /// When there are fewer.
    #[expect(unsafe_code, reason = "elements of any type")]
    pub fn store_bytes(&mut self, at: usize, from: &[u8]) -> Result<()> {
        let size = self.dtype.size();
        self.check_range(at, from.len().div_ceil(size))?;
        if self.is_shared() {
            // SAFETY: the elements lie inside, and are touched by relaxed accesses only.
            unsafe {
                let to = self.buffer.start().add(at * size);
                shared::store(from.as_ptr(), to, from.len() / size, size);
            }
        } else {
            self.as_mut_bytes()[at * size..][..from.len()].copy_from_slice(from);
        }
        Ok(())
    }

    /// The elements as bytes in memory order (little-endian on every supported machine).
    ///
    /// # Panics
    /// When other threads may write them, which the plan keeps from ops that would ask.
    #[expect(unsafe_code, reason = "any element is plain bytes")]
    pub fn as_bytes(&self) -> &[u8] {
        self.check_own().unwrap_or_else(|error| resume_unwind(Box::new(error)));
        let bytes = self.numel() * self.dtype.size();
        // SAFETY: the buffer holds at least this many initialised bytes.
        unsafe { std::slice::from_raw_parts(self.buffer.start().as_ptr(), bytes) }
    }

    /// The elements as bytes, to be changed.
    ///
    /// # Panics
    /// As [`Tensor::as_bytes`].
    #[expect(unsafe_code, reason = "any element is plain bytes")]
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        self.check_own().unwrap_or_else(|error| resume_unwind(Box::new(error)));
        let bytes = self.numel() * self.dtype.size();
        // SAFETY: as in `as_bytes`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.start().as_ptr(), bytes) }
    }

    /// Gives the tensor another type and shape; memory is kept when it suffices, and its contents
    /// are then unspecified.
    ///
    /// # Panics
    /// As [`Tensor::zeros`], and when other threads use the elements.
    pub fn resize(&mut self, dtype: DType, dims: impl Into<Dims>) {
        let dims = dims.into();
        if self.is_shared() && (dtype, dims) != (self.dtype, self.dims) {
            let problem = format!(
                "a variable of shape {} that training threads share cannot change to {dims}",
                self.dims
            );
            resume_unwind(Box::new(Error::kernel(problem)));
        }
        let bytes = bytes_of(dtype, dims);
        if bytes > self.buffer.bytes() {
            self.buffer = Buffer::zeroed(bytes);
        }
        self.dtype = dtype;
        self.dims = dims;
        self.list = None;
    }

    /// Changes the number of rows; rows that stay keep their values. Memory grows by half at
    /// least, so that appending is cheap.
    ///
    /// # Panics
    /// As [`Tensor::zeros`].
    pub fn grow_rows(&mut self, rows: usize) {
        let dims = self.dims.with_rows(rows);
        let bytes = bytes_of(self.dtype, dims);
        if bytes > self.buffer.bytes() {
            let mut grown = Tensor {
                dtype: self.dtype,
                dims: self.dims,
                lod: std::mem::take(&mut self.lod),
                buffer: Buffer::zeroed(bytes.max(self.buffer.bytes() * 3 / 2)),
                list: None,
            };
            grown.as_mut_bytes().copy_from_slice(self.as_bytes());
            *self = grown;
        }
        self.dims = dims;
    }

    /// Gives the tensor another shape with the same number of elements.
    ///
    /// # Errors
    /// When the numbers of elements differ, or the dimensions do not fit the address space.
    pub fn reshape(&mut self, dims: impl Into<Dims>) -> Result<()> {
        let dims = dims.into();
        check_size(self.dtype, dims)?;
        if dims.numel() != self.numel() {
            return Err(Error::ElementCount { dims, values: self.numel() });
        }
        self.dims = dims;
        Ok(())
    }

    /// Makes this tensor an exact copy of `other`, in the memory it has when that suffices.
    pub fn copy_from(&mut self, other: &Tensor) {
        self.resize(other.dtype, other.dims);
        self.set_lod(&other.lod);
        if let Some(list) = &other.list {
            self.list = Some(Arc::clone(list));
            return;
        }
        match (self.is_shared(), other.is_shared()) {
            (false, false) => self.as_mut_bytes().copy_from_slice(other.as_bytes()),
            (true, true) => self.copy_from(&other.clone()),
            (false, true) => other.load_all(self),
            (true, false) => self.store_all(other),
        }
    }

    #[expect(unsafe_code, reason = "elements of any type")]
    fn load_all(&self, to: &mut Tensor) {
        let (from, count, size) = (self.buffer.start(), self.numel(), self.dtype.size());
        // SAFETY: the two have one shape; this memory is shared, the other is not.
        unsafe { shared::load(from, to.as_mut_bytes().as_mut_ptr(), count, size) }
    }

    #[expect(unsafe_code, reason = "elements of any type")]
    fn store_all(&mut self, from: &Tensor) {
        let (to, count, size) = (self.buffer.start(), self.numel(), self.dtype.size());
        // SAFETY: as in `load_all`.
        unsafe { shared::store(from.as_bytes().as_ptr(), to, count, size) }
    }

    /// A window onto all of this tensor's memory, for several threads at a time.
    ///
    /// # Safety
    /// The window must not outlive this tensor's memory, which is touched only through such windows
    /// while there are any in use.
    #[expect(unsafe_code, reason = "a window's lifetime is kept by the plan")]
    pub(crate) unsafe fn shared_window(&self) -> Tensor {
        let (dtype, dims) = (self.dtype, self.dims);
        // SAFETY: the caller's promise.
        let buffer = unsafe { Buffer::shared(self.buffer.start(), bytes_of(dtype, dims)) };
        Tensor { dtype, dims, lod: Lod::new(), buffer, list: None }
    }

    /// A window onto rows `first .. first + rows` of this tensor's memory.
    ///
    /// # Safety
    /// The window must not outlive this tensor's memory, nor be used against its borrows.
    #[expect(unsafe_code, reason = "a window's lifetime is kept by the plan")]
    pub unsafe fn rows_window(&self, first: usize, rows: usize) -> Tensor {
        let row_bytes =
            self.dims.get(1..).map_or(1, |rest| rest.iter().product::<usize>()) * self.dtype.size();
        self.check_own().unwrap_or_else(|error| resume_unwind(Box::new(error)));
        let end = first.checked_add(rows);
        assert!(end.is_some_and(|end| end <= self.rows()), "the rows lie inside the tensor");
        // SAFETY: the rows lie inside the buffer; the caller keeps it alive.
        let buffer = unsafe {
            Buffer::foreign(self.buffer.start().add(first * row_bytes), rows * row_bytes)
        };
        Tensor {
            dtype: self.dtype,
            dims: self.dims.with_rows(rows),
            lod: Lod::new(),
            buffer,
            list: None,
        }
    }

    /// The elements as real numbers, whatever they are stored as.
    pub fn to_f64_vec(&self) -> Vec<f64> {
        if self.is_shared() {
            return self.clone().to_f64_vec();
        }
        macro_rules! all {
            ($($t:ty),*) => {$(
                if let Ok(values) = self.as_slice::<$t>() {
                    return values.iter().map(|value| Element::to_f64(*value)).collect();
                }
            )*};
        }
        all!(f32, f64, i64, i32, u8, i8, i16, half::f16, half::bf16);
        unreachable!("every dtype has a Rust type")
    }

    /// That it has elements, which no other thread may write.
    #[inline]
    fn check_own(&self) -> Result<()> {
        if self.list.is_some() {
            return Err(list::not_elements());
        }
        if self.is_shared() {
            let problem = "an op that was not made for it meets memory that training threads share";
            return Err(Error::kernel(problem));
        }
        Ok(())
    }

    fn check_range(&self, at: usize, len: usize) -> Result<()> {
        match at.checked_add(len) {
            Some(end) if end <= self.numel() => Ok(()),
            _ => Err(Error::kernel(format!(
                "{len} elements from element {at} on lie outside a tensor of {}",
                self.numel()
            ))),
        }
    }

    fn check<T: Element>(&self) -> Result<()> {
        if T::stores(self.dtype) {
            Ok(())
        } else {
            Err(Error::DType { expected: T::DTYPE, given: self.dtype })
        }
    }
}

/// The bytes of a tensor. Every tensor is sized here, so the unsafe code around can rely on it.
fn bytes_of(dtype: DType, dims: Dims) -> usize {
    // Unwinds with an error rather than a text, as `Buffer::zeroed` does: the dimensions are the
    // user's.
    check_size(dtype, dims).unwrap_or_else(|error| resume_unwind(Box::new(error)));
    dims.bytes(dtype).expect("its size was checked")
}

fn check_size(dtype: DType, dims: Dims) -> Result<()> {
    match dims.bytes(dtype) {
        Some(_) => Ok(()),
        None => Err(Error::kernel(format!("a tensor of shape {dims} is too large"))),
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        let mut copy = Tensor::empty(self.dtype);
        copy.copy_from(self);
        copy
    }
}

impl PartialEq for Tensor {
    /// Bit equality: two NaNs of the same bits are equal.
    fn eq(&self, other: &Tensor) -> bool {
        self.dtype == other.dtype
            && self.dims == other.dims
            && self.lod == other.lod
            && match (&self.list, &other.list) {
                (None, None) => self.as_bytes() == other.as_bytes(),
                (one, other) => one == other,
            }
    }
}
