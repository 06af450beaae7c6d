//! Memory for packed operands, kept by each thread from product to product.

use std::cell::RefCell;

/// A cache line, so that no vector of a packed operand lies on two.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([f32; Line::LEN]);

impl Line {
    /// Floats in a line.
    pub(super) const LEN: usize = 16;
    const ZERO: Line = Line([0.0; Line::LEN]);
}

/// Words of 32 bits, from the beginning of a cache line on.
#[derive(Clone, Default)]
pub(super) struct Buffer(Vec<Line>);

impl Buffer {
    /// Room for `words`, which hold whatever was there before.
    pub(super) fn room(&mut self, words: usize) -> *mut f32 {
        let lines = words.div_ceil(Line::LEN);
        if self.0.len() < lines {
            self.0.resize(lines, Line::ZERO);
        }
        self.0.as_mut_ptr().cast()
    }

    /// The words.
    pub(super) fn words(&self) -> *const f32 {
        self.0.as_ptr().cast()
    }

    /// All of them.
    #[expect(unsafe_code, reason = "cache lines are floats")]
    pub(super) fn as_slice(&self) -> &[f32] {
        // SAFETY: lines are arrays of floats, without gaps between them.
        unsafe { std::slice::from_raw_parts(self.words(), self.len()) }
    }

    /// The words that fit.
    pub(super) fn len(&self) -> usize {
        self.0.len() * Line::LEN
    }
}

/// What a thread packs into.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) lhs: Buffer,
    pub(super) rhs: Buffer,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = const { RefCell::new(Buffers::NONE) };
    static SHARED: RefCell<Buffers> = const { RefCell::new(Buffers::NONE) };
}

impl Buffers {
    const NONE: Buffers = Buffers { lhs: Buffer(Vec::new()), rhs: Buffer(Vec::new()) };
}

/// Calls `f` with the buffers of this thread.
pub(super) fn with<R>(f: impl FnOnce(&mut Buffers) -> R) -> R {
    BUFFERS.with_borrow_mut(f)
}

/// Calls `f` with buffers of this thread for what threads that help it use, too.
pub(super) fn with_shared<R>(f: impl FnOnce(&mut Buffers) -> R) -> R {
    SHARED.with_borrow_mut(f)
}
