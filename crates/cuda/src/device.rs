//! A card as the engine sees it.

#![expect(unsafe_code, reason = "memory of the card is reached by address")]

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bireme_engine::device::{
    Address, Arrival, Complaint, Complaints, Device, DeviceCall, DeviceKernel, DeviceMemory,
    DeviceMeta, Exchange, KeySet, PageLocked, Problem, Recording, Region, Uploads,
};
use bireme_engine::op::OpView;
use bireme_engine::{Error, Place, Result};
use bireme_ir::DType;

use crate::bound::{Bound, Call, Extents, Places, Ready, failed};
use crate::cache::{Block, Cache, Keeping};
use crate::distinct::Distinct;
use crate::driver::{
    Card, Communicator, Compute, Element, Epilogue, Event, Graph, GroupName, Operand, Pinned,
    ProductSpec, Products, Span, Stream, Timing,
};
use crate::exchange::Joined;
use crate::lanes::{self, Access};
use crate::lower::{self, Lowered};
use crate::merge::{self, Joint};
use crate::page_locked::{Flights, Landing, Pages};
use crate::profile::{Piece, Profile};
use crate::recorded::{NoMoreRecorded, RECORDED, Recorded, is_recording};
use crate::uploads::Ring;
use crate::work::{self, Base, Product, Work};

/// The variable that asks for the time of each piece of work that is recorded.
const PROFILE: &str = "BIREME_CUDA_PROFILE";

/// The variable that says whether tables lie in lines with the state of their optimizers; `0` for no.
const LINES: &str = "BIREME_CUDA_LINES";

/// The variable that says whether recorded kernels may start early; `0` for no.
const EARLY_LAUNCH: &str = "BIREME_CUDA_EARLY_LAUNCH";

/// The variable that says up to how many rows products of ours take gradients through the relu below; `0` for none.
const RELU_ROWS: &str = "BIREME_CUDA_RELU_ROWS";

/// Where nobody says it: with more rows the library's product with a pass behind it is as fast.
const USUAL_RELU_ROWS: usize = 4096;

/// One card, opened.
pub(crate) struct Cuda {
    own: Weak<Cuda>,
    card: Arc<Card>,
    /// What everything runs on, in order.
    stream: Arc<Stream>,
    cache: Arc<Cache>,
    pages: Arc<Pages>,
    flights: Flights,
    products: OnceLock<Products>,
    /// Whether rows that are updated together should lie together.
    has_lines: bool,
    /// Rows up to which products take gradients through the relu below.
    relu_rows: usize,
    /// Whether recorded kernels may start while those before them still run.
    starts_early: bool,
    /// Streams on which work is recorded.
    lanes: Mutex<Vec<Arc<Stream>>>,
    /// How long the pieces of recordings take, while somebody asks.
    profiles: Mutex<Option<Vec<Profile>>>,
}

/// As the kernels write it (`prelude.cuh`).
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct RawComplaint {
    is_taken: u32,
    op: u32,
    problem: u32,
    unused: u32,
    value: i64,
    position: i64,
    bound: i64,
}

/// Whether products of 32-bit floats may round their factors: a flag of the process, as in Paddle.
static TF32: AtomicBool = AtomicBool::new(false);

/// Lets products round their factors, in programs that are prepared from now on.
pub(crate) fn allow_tf32(allow: bool) {
    TF32.store(allow, Ordering::Relaxed);
}

/// The cards that are open: two users of one share its memory and its kernels.
fn open_cards() -> MutexGuard<'static, HashMap<u32, Weak<Cuda>>> {
    static OPEN: OnceLock<Mutex<HashMap<u32, Weak<Cuda>>>> = OnceLock::new();
    OPEN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cuda {
    pub(crate) fn open(number: u32) -> Result<Arc<Cuda>> {
        let mut open = open_cards();
        if let Some(device) = open.get(&number).and_then(Weak::upgrade) {
            return Ok(device);
        }
        let device = Cuda::new(number, None).map_err(failed)?;
        open.insert(number, Arc::downgrade(&device));
        Ok(device)
    }

    /// A card of its own, with memory that is kept as `keeping` says.
    pub(crate) fn open_alone(number: u32, keeping: Keeping) -> Result<Arc<Cuda>> {
        Cuda::new(number, Some(keeping)).map_err(failed)
    }

    fn new(number: u32, keeping: Option<Keeping>) -> crate::driver::Result<Arc<Cuda>> {
        let card = Card::open(number as usize)?;
        let stream = Stream::new(&card)?;
        let cache = Cache::new(&stream, keeping.unwrap_or_else(|| usual_keeping(&card)));
        let pages = Pages::new(&card);
        Ok(Arc::new_cyclic(|own| Cuda {
            own: own.clone(),
            card,
            stream,
            cache,
            pages,
            flights: Flights::default(),
            products: OnceLock::new(),
            has_lines: is_on(LINES),
            relu_rows: relu_rows(),
            starts_early: is_on(EARLY_LAUNCH),
            lanes: Mutex::default(),
            profiles: Mutex::default(),
        }))
    }

    /// Gives what is kept back to the driver, and what that keeps to other processes.
    pub(crate) fn empty_cache(&self) -> Result<()> {
        self.cache.empty().map_err(failed)
    }

    /// The card itself.
    pub(crate) fn card(&self) -> &Arc<Card> {
        &self.card
    }

    /// What everything runs on, in order.
    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    fn products(&self) -> crate::driver::Result<&Products> {
        if let Some(products) = self.products.get() {
            return Ok(products);
        }
        let products = Products::new(&self.card)?;
        Ok(self.products.get_or_init(|| products))
    }

    /// Gives work to the stream, or notes it where this thread records.
    pub(crate) fn submit(
        &self,
        op: &'static str,
        work: Bound,
        accesses: impl FnOnce() -> Vec<Access>,
    ) -> Result<()> {
        let work = RECORDED.with_borrow_mut(|recorded| match recorded {
            Some(recorded) => {
                recorded.push(Recorded { op, work, accesses: accesses() });
                None
            }
            None => Some(work),
        });
        match work {
            Some(work) => work.run(&self.stream, &|| self.products()).map_err(failed),
            None => Ok(()),
        }
    }

    /// Loads the kernels of an op, and fixes what its products are computed with.
    fn ready(&self, work: Work) -> crate::driver::Result<Ready> {
        Ok(match work {
            Work::Kernel { name, blocks, threads, args, many } => {
                let function = self.card.function(&name)?;
                let joint = match many {
                    Some(many) => Some(Joint { function: self.card.function(&many.name)?, many }),
                    None => None,
                };
                Ready::Kernel { function, blocks, threads, args, joint }
            }
            Work::Product(product) => {
                self.products()?;
                let spec = self.spec(&product);
                let Product { a, b, out, bias, .. } = product;
                Ready::Product { spec, a, b, out, bias }
            }
            Work::Copy { from, to, bytes } => Ready::Copy { from, to, bytes },
            Work::Clear { at, bytes } => Ready::Clear { at, bytes },
        })
    }

    fn spec(&self, product: &Product) -> ProductSpec {
        let element = |float: work::Float| match float {
            work::Float::F32 => Element::F32,
            work::Float::F64 => Element::F64,
            work::Float::Bf16 => Element::Bf16,
            work::Float::F16 => Element::F16,
        };
        let compute = match product.inputs {
            work::Float::F64 => Compute::F64,
            work::Float::F32 if TF32.load(Ordering::Relaxed) => Compute::Tf32,
            _ => Compute::F32,
        };
        let operand = |i: usize, transposed| Operand {
            row_step: product.pitches[i],
            batch_step: product.strides[i],
            transposed,
        };
        ProductSpec {
            m: product.m,
            n: product.n,
            k: product.k,
            batch: product.batch,
            a: operand(0, product.transpose_a),
            b: operand(1, product.transpose_b),
            out: operand(2, false),
            input: element(product.inputs),
            output: element(product.output),
            compute,
            epilogue: match product.epilogue {
                work::Epilogue::None => Epilogue::None,
                work::Epilogue::Bias => Epilogue::Bias,
                work::Epilogue::BiasRelu => Epilogue::BiasRelu,
            },
            alpha: f64::from(product.alpha),
            beta: f64::from(product.beta),
        }
    }

    /// Runs `work`, and says how long the pieces of what it records take.
    pub(crate) fn profiled<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<Profile>) {
        let profiles = || self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        *profiles() = Some(Vec::new());
        let done = work();
        let found = profiles().take().unwrap_or_default();
        (done, found)
    }

    /// Measures recorded work, if somebody asks.
    #[expect(clippy::print_stderr, reason = "a developer asked for it")]
    fn note_profile(&self, work: &[Recorded]) -> crate::driver::Result<()> {
        let is_printed = std::env::var_os(PROFILE).is_some();
        let is_kept = self.profiles.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !is_printed && !is_kept {
            return Ok(());
        }
        let profile = self.profile(work)?;
        if is_printed {
            eprintln!("{profile}");
        }
        let mut profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        profiles.iter_mut().for_each(|kept| kept.push(profile.clone()));
        Ok(())
    }

    /// How long each piece of recorded work takes by itself. It is run again and again, so what it computes is of no
    /// use afterwards.
    fn profile(&self, work: &[Recorded]) -> crate::driver::Result<Profile> {
        // The emulated card takes no time that would be worth measuring.
        let runs: u32 = if self.card.is_emulated() { 1 } else { 20 };
        let event = || Event::new(&self.card, Timing::On);
        let events =
            (0..=work.len()).map(|_| event()).collect::<crate::driver::Result<Vec<_>>>()?;
        let mut times = vec![0.0; work.len()];
        for _ in 0..runs {
            self.stream.record(&events[0])?;
            for (piece, event) in work.iter().zip(&events[1..]) {
                piece.work.run(&self.stream, &|| self.products())?;
                self.stream.record(event)?;
            }
            self.stream.synchronize()?;
            for (time, pair) in times.iter_mut().zip(events.windows(2)) {
                *time += pair[1].milliseconds_since(&pair[0])? * 1000.0 / runs as f32;
            }
        }
        let pieces = work.iter().zip(times);
        let pieces = pieces.map(|(piece, us)| Piece { op: piece.op, work: piece.work.piece(), us });
        Ok(Profile { pieces: pieces.collect() })
    }

    /// Records work on as many streams as may run side by side. With `starts_early`, a kernel that waits for nothing but
    /// the kernel before it on its stream may start while that still runs.
    fn capture(&self, work: &[Recorded], starts_early: bool) -> crate::driver::Result<Graph> {
        let accesses: Vec<Vec<Access>> = work.iter().map(|piece| piece.accesses.clone()).collect();
        let placed = lanes::place(&accesses);
        let follows_kernel = |at: usize| {
            let lane = |placed: &lanes::Placed| placed.lane;
            let before = placed[..at].iter().rposition(|other| lane(other) == lane(&placed[at]));
            before.is_some_and(|before| work[before].work.is_kernel())
        };
        let count = placed.iter().map(|placed| placed.lane + 1).max().unwrap_or(1);
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        while lanes.len() < count {
            lanes.push(Stream::new(&self.card)?);
        }
        let lanes = &lanes[..count];
        for (piece, placed) in work.iter().zip(&placed) {
            if piece.work.is_product() {
                self.products()?.prepare(&lanes[placed.lane])?;
            }
        }
        // What is waited for by another lane, and what a lane begins with.
        let event = || Event::new(&self.card, Timing::Off);
        let mut awaited: HashMap<usize, Event> = HashMap::new();
        for waits in placed.iter().map(|placed| &placed.waits) {
            for earlier in waits {
                awaited.insert(*earlier, event()?);
            }
        }
        let start = event()?;
        let ends = lanes.iter().map(|_| event()).collect::<crate::driver::Result<Vec<_>>>()?;
        lanes[0].capture(|| {
            lanes[0].record(&start)?;
            lanes[1..].iter().try_for_each(|lane| lane.wait(&start))?;
            for (at, (piece, placed)) in work.iter().zip(&placed).enumerate() {
                let lane = &lanes[placed.lane];
                for earlier in &placed.waits {
                    lane.wait(&awaited[earlier])?;
                }
                if starts_early && placed.waits.is_empty() && follows_kernel(at) {
                    piece.work.run_early(lane, &|| self.products())?;
                } else {
                    piece.work.run(lane, &|| self.products())?;
                }
                if let Some(event) = awaited.get(&at) {
                    lane.record(event)?;
                }
            }
            for (lane, end) in lanes.iter().zip(&ends).skip(1) {
                lane.record(end)?;
                lanes[0].wait(end)?;
            }
            Ok(())
        })
    }
}

impl Device for Cuda {
    fn place(&self) -> Place {
        Place::Cuda(self.card.number() as u32)
    }

    fn describe(&self) -> String {
        format!("{}, card {}", self.card.name(), self.card.number())
    }

    fn memory(&self) -> Result<DeviceMemory> {
        let figures = self.card.memory().map_err(failed)?;
        // What is kept without being used is as good as free.
        let kept = figures.reserved.saturating_sub(figures.used);
        Ok(DeviceMemory { free: figures.free + kept, total: figures.total })
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Region>> {
        let block = self.cache.take(bytes).map_err(failed)?;
        let device = self.own.upgrade().ok_or_else(|| Error::kernel("the card is being closed"))?;
        Ok(Arc::new(OnCard { block, device }))
    }

    fn upload(&self, from: &[u8], to: Address) -> Result<()> {
        self.stream.upload(span(to, from.len()), from).map_err(failed)
    }

    fn page_locked(&self, from: &[u8]) -> Result<Arc<dyn PageLocked>> {
        self.pages.with(from).map_err(failed)
    }

    fn upload_page_locked(
        &self,
        from: &Arc<dyn PageLocked>,
        bytes: usize,
        to: Address,
    ) -> Result<()> {
        if bytes > from.bytes() {
            let problem = format!("{bytes} bytes are to be copied of {from:?}");
            return Err(Error::Device { problem });
        }
        // SAFETY: there are as many bytes, which live and are not written until `flights` lets go of them.
        unsafe { self.stream.upload_from(span(to, bytes), from.start().as_ptr()) }
            .map_err(failed)?;
        let flies = self.flights.add(&self.stream, from);
        // What nothing holds must not be copied from any more.
        flies.or_else(|error| self.stream.synchronize().and(Err(error))).map_err(failed)
    }

    fn page_locked_room(&self, bytes: usize) -> Result<Arc<dyn PageLocked>> {
        self.pages.room(bytes).map_err(failed)
    }

    fn download_page_locked(
        &self,
        from: Address,
        bytes: usize,
        to: &Arc<dyn PageLocked>,
    ) -> Result<Box<dyn Arrival>> {
        if bytes > to.bytes() {
            let problem = format!("{bytes} bytes are to be copied to {to:?}");
            return Err(Error::Device { problem });
        }
        let there = Event::new(&self.card, Timing::Off).map_err(failed)?;
        if bytes > 0 {
            // SAFETY: there are as many bytes, which live and are not looked at until `flights` lets go of them.
            unsafe { self.stream.download_to(to.start().as_ptr(), span(from, bytes)) }
                .map_err(failed)?;
        }
        let flies = self.flights.add(&self.stream, to).and_then(|()| self.stream.record(&there));
        // What nothing holds must not be copied to any more.
        flies.or_else(|error| self.stream.synchronize().and(Err(error))).map_err(failed)?;
        Ok(Box::new(Landing(there)))
    }

    fn mark(&self) -> Result<Box<dyn Arrival>> {
        let there = Event::new(&self.card, Timing::Off).map_err(failed)?;
        self.stream.record(&there).map_err(failed)?;
        Ok(Box::new(Landing(there)))
    }

    fn key_set(&self, expected: usize) -> Result<Option<Box<dyn KeySet>>> {
        Ok(Some(Box::new(Distinct::new(&self.card, expected)?)))
    }

    fn uploads(&self, bytes: &[usize]) -> Result<Box<dyn Uploads>> {
        Ok(Box::new(Ring::new(&self.card, &self.stream, &self.pages, bytes).map_err(failed)?))
    }

    fn download(&self, from: Address, to: &mut [u8]) -> Result<()> {
        let bytes = to.len();
        self.stream.download(to, span(from, bytes)).map_err(failed)
    }

    fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<()> {
        if bytes == 0 || from == to {
            return Ok(());
        }
        self.stream.copy(span(to, bytes), span(from, bytes)).map_err(failed)
    }

    fn copy_rows(
        &self,
        (from, from_pitch): (Address, usize),
        (to, to_pitch): (Address, usize),
        rows: usize,
        row_bytes: usize,
    ) -> Result<()> {
        let bytes = |pitch: usize| rows.saturating_sub(1) * pitch + row_bytes;
        let (to, from) = (span(to, bytes(to_pitch)), span(from, bytes(from_pitch)));
        let copied = self.stream.copy_rows((to, to_pitch), (from, from_pitch), rows, row_bytes);
        copied.map_err(failed)
    }

    fn clear(&self, at: Address, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.stream.fill(span(at, bytes), 0).map_err(failed)
    }

    fn kernel(
        &self,
        op: &OpView<'_>,
        inputs: &[DeviceMeta],
        outputs: &mut [DeviceMeta],
    ) -> Result<Option<Arc<dyn DeviceKernel>>> {
        let Some(Lowered { work, scratch, pieces }) = lower::lowered(op, inputs, outputs)? else {
            return Ok(None);
        };
        let work = work.into_iter().map(|work| self.ready(work));
        let work = work.collect::<crate::driver::Result<Vec<_>>>().map_err(failed)?;
        let sizes = |metas: &[DeviceMeta]| metas.iter().map(DeviceMeta::extent).collect();
        let (inputs, outputs) = (sizes(inputs), sizes(outputs));
        let device = self.own.upgrade().ok_or_else(|| Error::kernel("the card is being closed"))?;
        let extents = Extents { inputs, outputs, scratch: pieces };
        Ok(Some(Arc::new(Kernel { op: op.def.name, device, work, scratch, extents })))
    }

    fn takes_gaps(&self, op: &str) -> &'static [&'static str] {
        lower::takes_gaps(op)
    }

    fn lines(&self, op: &str) -> &'static [&'static str] {
        if self.has_lines { lower::lines(op) } else { &[] }
    }

    fn rows_through_relu(&self) -> usize {
        self.relu_rows
    }

    fn takes_lines(&self, op: &str) -> &'static [&'static str] {
        lower::takes_lines(op)
    }

    fn takes_views(&self, op: &str) -> &'static [&'static str] {
        lower::takes_views(op)
    }

    fn record(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Recording>> {
        let recording = NoMoreRecorded::begin();
        work()?;
        let recorded = merge::merge(recording.end());
        let starts_early = self.starts_early && recorded.iter().all(|piece| piece.work.is_small());
        let mut graph = self.capture(&recorded, starts_early);
        if starts_early && graph.is_err() {
            // A driver that records no such launches records others.
            graph = self.capture(&recorded, false);
        }
        let graph = graph.map_err(failed)?;
        self.note_profile(&recorded).map_err(failed)?;
        let held = recorded.into_iter().filter_map(|piece| match piece.work {
            Bound::Exchange(ask) => Some(ask.communicator),
            _ => None,
        });
        let stream = Arc::clone(&self.stream);
        Ok(Box::new(Tape { graph, stream, communicators: held.collect() }))
    }

    fn joined(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if is_recording() {
            return work();
        }
        let recording = NoMoreRecorded::begin();
        work()?;
        let recorded = merge::merge(recording.end());
        let run = |piece: &Recorded| piece.work.run(&self.stream, &|| self.products());
        recorded.iter().try_for_each(run).map_err(failed)
    }

    fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().map_err(failed)
    }

    fn queue(&self) -> u64 {
        self.stream.raw()
    }

    fn hand_over(&self, to: Option<u64>) -> Result<()> {
        let Some(to) = to else { return self.synchronize() };
        let event = Event::new(&self.card, Timing::Off).map_err(failed)?;
        // SAFETY: who names a stream of another library vouches for it (`Device`'s contract).
        let awaited = unsafe { self.stream.is_awaited_by(to, &event) };
        awaited.or_else(|_| self.stream.synchronize()).map_err(failed)
    }

    fn take_over(&self, from: Option<u64>) -> Result<()> {
        let Some(from) = from else { return self.card.synchronize().map_err(failed) };
        let event = Event::new(&self.card, Timing::Off).map_err(failed)?;
        // SAFETY: as above.
        let awaits = unsafe { self.stream.awaits(from, &event) };
        awaits.or_else(|_| self.card.synchronize()).map_err(failed)
    }

    fn identity(&self) -> Option<[u8; 16]> {
        Some(self.card.uuid())
    }

    fn can_join(&self) -> Result<String> {
        let version = Communicator::version().map_err(failed)?;
        Ok(format!("NCCL {version}"))
    }

    fn name_group(&self) -> Result<Vec<u8>> {
        Ok(Communicator::name_group().map_err(failed)?.0.to_vec())
    }

    fn join(
        &self,
        name: &[u8],
        rank: usize,
        size: usize,
        goes_on: &dyn Fn() -> Result<()>,
    ) -> Result<Arc<dyn Exchange>> {
        let Ok(name) = name.try_into() else {
            let problem = format!("a group of cards has no name of {} bytes", name.len());
            return Err(Error::Device { problem });
        };
        let device = self.own.upgrade().ok_or_else(|| Error::kernel("the card is being closed"))?;
        let joined = Communicator::join(&self.card, GroupName(name), rank, size, goes_on)?;
        Ok(Arc::new(Joined::new(device, joined.map_err(failed)?, rank, size)))
    }

    fn complaints(&self) -> Result<Box<dyn Complaints>> {
        Ok(Box::new(Book::new(&self.stream).map_err(failed)?))
    }

    fn check_finite(
        &self,
        at: Address,
        dtype: DType,
        count: usize,
        op: u32,
        complaints: Address,
    ) -> Result<()> {
        let kernel = match dtype {
            DType::F32 => "check_finite_f32",
            DType::F64 => "check_finite_f64",
            DType::BF16 => "check_finite_bf16",
            DType::F16 => "check_finite_f16",
            _ => return Ok(()),
        };
        let function = self.card.function(kernel).map_err(failed)?;
        let blocks = count.div_ceil(256).min(1 << 16) as u32;
        let args =
            [at.0, count as u64, complaints.0, u64::from(op)].map(|word| vec![word]).to_vec();
        let (blocks, threads, joint) = ([blocks, 1, 1], 256, None);
        let work = Bound::Kernel(Call { function, blocks, threads, args, joint });
        let bytes = (count * dtype.size()) as u64;
        self.submit("check_finite", work, || vec![Access { start: at.0, bytes, writes: false }])
    }
}

impl Drop for Cuda {
    /// Copies may still read memory that is given back with the rest.
    fn drop(&mut self) {
        let _ = self.stream.synchronize();
    }
}

/// Whether a switch of the environment is on, which it is unless somebody turned it off.
fn is_on(variable: &str) -> bool {
    std::env::var_os(variable).is_none_or(|value| value != "0")
}

/// Rows up to which products take gradients through the relu below.
pub(crate) fn relu_rows() -> usize {
    let given = std::env::var(RELU_ROWS).ok().and_then(|rows| rows.parse().ok());
    given.unwrap_or(USUAL_RELU_ROWS)
}

/// The emulated card finds accesses outside of a block by the driver's blocks: there each is one.
fn usual_keeping(card: &Card) -> Keeping {
    if card.is_emulated() { Keeping::Driver } else { Keeping::Kept }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

fn span<'a>(at: Address, bytes: usize) -> Span<'a> {
    // SAFETY: who gives an address keeps its memory until the work is done (`Device`'s contract).
    unsafe { Span::from_raw(at.0, bytes) }
}

/// A block of the card's memory.
struct OnCard {
    block: Block,
    device: Arc<dyn Device>,
}

impl Region for OnCard {
    fn address(&self) -> Address {
        Address(self.block.address())
    }

    fn bytes(&self) -> usize {
        self.block.len()
    }

    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }
}

impl fmt::Debug for OnCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {:?}", self.bytes(), self.device)
    }
}

/// Page-locked memory that kernels write to when something is wrong with their inputs.
pub(crate) struct Book {
    memory: Pinned,
    stream: Arc<Stream>,
}

impl Book {
    /// One for the kernels of a stream.
    pub(crate) fn new(stream: &Arc<Stream>) -> crate::driver::Result<Book> {
        let memory = Pinned::new(stream.card(), size_of::<RawComplaint>())?;
        Ok(Book { memory, stream: Arc::clone(stream) })
    }
}

impl Complaints for Book {
    fn address(&self) -> Address {
        Address(self.memory.as_ptr() as u64)
    }

    fn take(&self) -> Result<Option<Complaint>> {
        let at = self.memory.as_ptr().cast::<RawComplaint>();
        // SAFETY: the memory is as large, page-aligned, and plain numbers; the card may write it meanwhile,
        // so it is read as it is.
        let raw = unsafe { at.read_volatile() };
        if raw.is_taken == 0 {
            return Ok(None);
        }
        // What is written is whole once the work is done.
        self.stream.synchronize().map_err(failed)?;
        // SAFETY: as above; nothing runs.
        let raw = unsafe {
            let raw = at.read_volatile();
            at.write_volatile(bytemuck::Zeroable::zeroed());
            raw
        };
        let problem = match raw.problem {
            2 => Problem::Label,
            3 => Problem::NotFinite,
            4 => Problem::ZeroDivisor,
            5 => Problem::UnknownKey,
            6 => Problem::TooManyRows,
            _ => Problem::OutOfRange,
        };
        let RawComplaint { op, value, position, bound, .. } = raw;
        Ok(Some(Complaint { op, problem, value, position, bound }))
    }
}

/// An op of the card.
struct Kernel {
    op: &'static str,
    device: Arc<Cuda>,
    work: Vec<Ready>,
    scratch: usize,
    extents: Extents,
}

impl DeviceKernel for Kernel {
    fn scratch(&self) -> usize {
        self.scratch
    }

    fn counts_steps(&self) -> bool {
        let is_step = |arg: &work::Arg| matches!(arg, work::Arg::Ref(at) if at.base == Base::Step);
        self.work.iter().any(|work| match work {
            Ready::Kernel { args, .. } => args.iter().any(is_step),
            _ => false,
        })
    }

    fn launch(&self, call: &DeviceCall<'_>) -> Result<()> {
        let places = Places { call, extents: &self.extents };
        let device = &self.device;
        if !is_recording() {
            let run = |ready| places.run(ready, &device.stream, &|| device.products());
            return self.work.iter().try_for_each(run).map_err(failed);
        }
        for ready in &self.work {
            if let Some(bound) = places.bind(ready) {
                self.device.submit(self.op, bound, || places.accesses(ready))?;
            }
        }
        Ok(())
    }
}

/// Recorded work.
struct Tape {
    graph: Graph,
    stream: Arc<Stream>,
    /// Those whose work it has: NCCL ends one only after the graphs that hold it, so they come last.
    communicators: Vec<Arc<Communicator>>,
}

impl Recording for Tape {
    fn replay(&self) -> Result<()> {
        self.graph.launch(&self.stream).map_err(failed)?;
        // Exchanges of one group in a graph are done when the graph is.
        match self.communicators.first() {
            Some(communicator) => communicator.note(&self.stream).map_err(failed),
            None => Ok(()),
        }
    }
}
