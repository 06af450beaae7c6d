//! Work of an op whose variables have been found: what is given to a stream as it is, or recorded.

#![expect(unsafe_code, reason = "kernels are given addresses that a plan vouches for")]

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

use bireme_engine::device::{Address, DeviceCall, Operand};

use crate::driver::{Error, Function, ProductSpec, Products, Result, Span, Stream};
use crate::exchange::Ask;
use crate::lanes::Access;
use crate::merge::Joint;
use crate::profile::PieceWork;
use crate::work::{Arg, Base, Ref};

/// Work before its variables are found, with everything else ready.
pub(crate) enum Ready {
    Kernel {
        function: Function,
        blocks: [u32; 3],
        threads: u32,
        args: Vec<Arg>,
        joint: Option<Joint>,
    },
    Product {
        spec: ProductSpec,
        a: Ref,
        b: Ref,
        out: Ref,
        bias: Ref,
    },
    Copy {
        from: Ref,
        to: Ref,
        bytes: usize,
    },
    Clear {
        at: Ref,
        bytes: usize,
    },
}

/// How long the variables of an op are, in bytes: where its work may reach.
#[derive(Default)]
pub(crate) struct Extents {
    /// Values and row numbers of each input.
    pub(crate) inputs: Vec<[usize; 2]>,
    /// Values and row numbers of each output.
    pub(crate) outputs: Vec<[usize; 2]>,
    /// Where each piece of scratch memory begins, and how long it is.
    pub(crate) scratch: Vec<(usize, usize)>,
}

/// Work with addresses.
pub(crate) enum Bound {
    Kernel(Call),
    Product { spec: ProductSpec, a: Piece, b: Piece, out: Piece, bias: Option<Piece> },
    Copy { from: u64, to: u64, bytes: usize },
    Clear { at: u64, bytes: usize },
    Exchange(Ask),
}

/// A kernel with its arguments.
pub(crate) struct Call {
    pub(crate) function: Function,
    pub(crate) blocks: [u32; 3],
    pub(crate) threads: u32,
    /// The bytes of each argument, in words so that any type is aligned.
    pub(crate) args: Vec<Vec<u64>>,
    /// How it can be one with others.
    pub(crate) joint: Option<Joint>,
}

/// Memory of the card.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    address: u64,
    bytes: usize,
}

/// Where the variables of one run of an op lie.
pub(crate) struct Places<'a> {
    pub(crate) call: &'a DeviceCall<'a>,
    pub(crate) extents: &'a Extents,
}

impl Places<'_> {
    /// Where a reference leads, and how far its memory goes.
    fn find(&self, at: Ref) -> Piece {
        let [inputs, outputs] = [self.call.inputs, self.call.outputs];
        let extents = self.extents;
        let (base, bytes) = match at.base {
            Base::Null => return Piece { address: 0, bytes: 0 },
            Base::Input(i) => (values(inputs[i]), extents.inputs[i][0]),
            Base::InputRows(i) => (rows(inputs[i]), extents.inputs[i][1]),
            Base::Output(i) => (values(outputs[i]), extents.outputs[i][0]),
            Base::OutputRows(i) => (rows(outputs[i]), extents.outputs[i][1]),
            Base::Scratch => {
                let end = extents.scratch.iter().map(|(start, bytes)| start + bytes).max();
                (self.call.scratch, end.unwrap_or(0))
            }
            Base::Step => (self.call.step, 8),
            Base::Complaint => (self.call.complaints, 0),
        };
        if base == Address::NULL {
            return Piece { address: 0, bytes: 0 };
        }
        Piece { address: base.plus(at.offset).0, bytes: bytes.saturating_sub(at.offset) }
    }

    /// Memory that work reaches through a reference.
    fn access(&self, at: Ref) -> Option<Access> {
        let whole = match at.base {
            Base::Null | Base::Complaint | Base::Step => return None,
            Base::Scratch => {
                // They rise, and one may begin where another ends.
                let mut pieces = self.extents.scratch.iter().rev();
                let (start, bytes) = *pieces.find(|(start, _)| *start <= at.offset)?;
                let address = self.call.scratch.plus(start).0;
                return Some(Access { start: address, bytes: bytes as u64, writes: true });
            }
            _ => self.find(Ref { offset: 0, ..at }),
        };
        let writes = matches!(at.base, Base::Output(_) | Base::OutputRows(_));
        let is_there = whole.address != 0 && whole.bytes > 0;
        is_there.then_some(Access { start: whole.address, bytes: whole.bytes as u64, writes })
    }

    /// What a piece of work reads and writes.
    pub(crate) fn accesses(&self, ready: &Ready) -> Vec<Access> {
        let refs: Vec<Ref> = match ready {
            Ready::Kernel { args, .. } => args
                .iter()
                .flat_map(|arg| match arg {
                    Arg::Ref(at) => std::slice::from_ref(at),
                    Arg::Refs(all) => all,
                    Arg::Value(_) | Arg::Op => &[],
                })
                .copied()
                .collect(),
            Ready::Product { a, b, out, bias, .. } => vec![*a, *b, *out, *bias],
            Ready::Copy { from, to, .. } => vec![*from, *to],
            Ready::Clear { at, .. } => vec![*at],
        };
        refs.into_iter().filter_map(|at| self.access(at)).collect()
    }

    /// The work with addresses; none when there is nothing to do.
    pub(crate) fn bind(&self, ready: &Ready) -> Option<Bound> {
        Some(match ready {
            Ready::Kernel { function, blocks, threads, args, joint } => Bound::Kernel(Call {
                function: function.clone(),
                blocks: *blocks,
                threads: *threads,
                args: args.iter().map(|arg| self.words(arg)).collect(),
                joint: joint.clone(),
            }),
            Ready::Product { spec, a, b, out, bias } => Bound::Product {
                spec: *spec,
                a: self.find(*a),
                b: self.find(*b),
                out: self.find(*out),
                bias: (bias.base != Base::Null).then(|| self.find(*bias)),
            },
            Ready::Copy { from, to, bytes } => {
                let (from, to) = (self.find(*from).address, self.find(*to).address);
                if from == to || from == 0 || to == 0 {
                    return None;
                }
                Bound::Copy { from, to, bytes: *bytes }
            }
            Ready::Clear { at, bytes } => match self.find(*at).address {
                0 => return None,
                at => Bound::Clear { at, bytes: *bytes },
            },
        })
    }

    fn words(&self, arg: &Arg) -> Vec<u64> {
        let mut words = Vec::new();
        self.add_words(arg, &mut words);
        words
    }

    fn add_words(&self, arg: &Arg, to: &mut Vec<u64>) {
        match arg {
            Arg::Ref(at) => to.push(self.find(*at).address),
            Arg::Refs(all) => to.extend(all.iter().map(|at| self.find(*at).address)),
            Arg::Op => to.push(u64::from(self.call.op)),
            Arg::Value(bytes) => to.extend(bytes.chunks(8).map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_ne_bytes(word)
            })),
        }
    }

    /// Gives work to a stream at once: as [`Places::bind`] and [`Bound::run`], without memory of its own.
    ///
    /// # Errors
    /// When the card takes no more work.
    pub(crate) fn run<'p>(
        &self,
        ready: &Ready,
        stream: &Stream,
        products: &dyn Fn() -> Result<&'p Products>,
    ) -> Result<()> {
        let Ready::Kernel { function, blocks, threads, args, .. } = ready else {
            return self.bind(ready).map_or(Ok(()), |bound| bound.run(stream, products));
        };
        WORDS.with_borrow_mut(|Words { words, starts, pointers }| {
            words.clear();
            starts.clear();
            for arg in args {
                starts.push(words.len());
                self.add_words(arg, words);
            }
            pointers.clear();
            pointers.extend(starts.iter().map(|start| (&raw mut words[*start]).cast::<c_void>()));
            // SAFETY: as in `Bound::run`.
            unsafe { stream.launch(function, *blocks, *threads, 0, pointers) }
        })
    }
}

/// The arguments of the launch that a thread is about to make; the memory is kept for the next.
#[derive(Default)]
struct Words {
    words: Vec<u64>,
    /// Where each argument starts.
    starts: Vec<usize>,
    pointers: Vec<*mut c_void>,
}

thread_local! {
    static WORDS: RefCell<Words> = RefCell::default();
}

fn values(operand: Operand) -> Address {
    match operand {
        Operand::None => Address::NULL,
        Operand::Dense(at) => at,
        Operand::Rows { values, .. } => values,
    }
}

fn rows(operand: Operand) -> Address {
    match operand {
        Operand::Rows { rows, .. } => rows,
        Operand::None | Operand::Dense(_) => Address::NULL,
    }
}

impl Piece {
    fn span(self) -> Span<'static> {
        // SAFETY: who gave the addresses keeps their memory until the work is done, or as long as it is
        // replayed (`Device`'s contract with the plan).
        unsafe { Span::from_raw(self.address, self.bytes) }
    }
}

impl Bound {
    /// Gives the work to a stream.
    ///
    /// # Errors
    /// When the card takes no more work.
    pub(crate) fn run<'p>(
        &self,
        stream: &Stream,
        products: &dyn Fn() -> Result<&'p Products>,
    ) -> Result<()> {
        match self {
            Bound::Kernel(Call { function, blocks, threads, args, .. }) => {
                let mut pointers = pointers(args);
                // SAFETY: lowering gave one argument for each parameter; addresses as in `Piece::span`.
                unsafe { stream.launch(function, *blocks, *threads, 0, &mut pointers) }
            }
            Bound::Product { spec, a, b, out, bias } => {
                products()?.run(stream, spec, a.span(), b.span(), out.span(), bias.map(Piece::span))
            }
            Bound::Copy { from, to, bytes } => {
                let piece = |address| Piece { address, bytes: *bytes }.span();
                stream.copy(piece(*to), piece(*from))
            }
            Bound::Clear { at, bytes } => {
                stream.fill(Piece { address: *at, bytes: *bytes }.span(), 0)
            }
            Bound::Exchange(ask) => ask.run(stream),
        }
    }

    /// Gives the work to a stream behind a kernel, before the end of which a kernel may start.
    ///
    /// # Errors
    /// As [`Bound::run`].
    pub(crate) fn run_early<'p>(
        &self,
        stream: &Stream,
        products: &dyn Fn() -> Result<&'p Products>,
    ) -> Result<()> {
        match self {
            Bound::Kernel(Call { function, blocks, threads, args, .. })
                if self.threads() <= MOST_EARLY_THREADS =>
            {
                let mut pointers = pointers(args);
                // SAFETY: as in `Bound::run`; the caller has given a kernel to the stream before.
                unsafe { stream.launch_early(function, *blocks, *threads, 0, &mut pointers) }
            }
            _ => self.run(stream, products),
        }
    }

    /// What it does, for people.
    pub(crate) fn piece(&self) -> PieceWork {
        match self {
            Bound::Kernel(Call { function, blocks, threads, .. }) => {
                let name = Arc::clone(function.name());
                PieceWork::Kernel { name, blocks: *blocks, threads: *threads }
            }
            Bound::Product { spec, .. } => PieceWork::Product {
                size: [spec.m, spec.n, spec.k],
                transposed: [spec.a.transposed, spec.b.transposed],
            },
            Bound::Copy { bytes, .. } => PieceWork::Copy(*bytes),
            Bound::Clear { bytes, .. } => PieceWork::Clear(*bytes),
            Bound::Exchange(ask) => PieceWork::Exchange(ask.bytes()),
        }
    }

    /// Whether it is small enough for a step whose kernels start early.
    pub(crate) fn is_small(&self) -> bool {
        self.threads() <= 2 * MOST_EARLY_THREADS
    }

    /// Threads of a kernel of ours.
    fn threads(&self) -> u64 {
        match self {
            Bound::Kernel(Call { blocks, threads, .. }) => {
                blocks.iter().map(|count| u64::from(*count)).product::<u64>() * u64::from(*threads)
            }
            _ => 0,
        }
    }

    /// Whether it is a kernel, of ours or the library's.
    pub(crate) fn is_kernel(&self) -> bool {
        matches!(self, Bound::Kernel(_) | Bound::Product { .. })
    }

    /// Whether it is a product, which needs memory of its own on its stream.
    pub(crate) fn is_product(&self) -> bool {
        matches!(self, Bound::Product { .. })
    }
}

/// Threads of a kernel that may start early, at most. While it waits it takes room from what runs beside it: a step of
/// the MNIST perceptron is 5 % faster so, one of a CTR-DNN with 16,384 samples 3 % slower.
const MOST_EARLY_THREADS: u64 = 1 << 17;

fn pointers(args: &[Vec<u64>]) -> Vec<*mut c_void> {
    args.iter().map(|words| words.as_ptr().cast_mut().cast()).collect()
}

/// The error of a driver that the engine passes on.
pub(crate) fn failed(error: Error) -> bireme_engine::Error {
    let problem = error.to_string();
    match error {
        Error::OutOfMemory { .. } => bireme_engine::Error::DeviceMemory { problem },
        _ => bireme_engine::Error::Device { problem },
    }
}
