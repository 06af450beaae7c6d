//! Steps on a card give what steps on the host give, whichever ops the card has.
//!
//! The card here is one of host memory that runs the host's kernels: what is tested is the plan, its copies, its
//! memory and its recordings. Kernels of real cards are tested where they are.

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bireme_engine::device::{
    Address, Arrival, Complaint, Complaints, Device, DeviceCall, DeviceKernel, DeviceMemory,
    DeviceMeta, DeviceTensor, FeedBlock, FeedMemory, Operand, PageLocked, Recording, Region,
    Uploads,
};
use bireme_engine::graph::Graph;
use bireme_engine::layers::{self, Act};
use bireme_engine::op::{OpView, run_once};
use bireme_engine::optimizer::{Adam, Optimizer};
use bireme_engine::tensor::{Dims, Tensor};
use bireme_engine::{Error, Executor, Feed, Place, Result, Value};
use bireme_ir::{DType, Op, VarKind};

type Memory = Arc<Mutex<HashMap<u64, Vec<u8>>>>;
type Launches = Arc<Mutex<Option<Vec<Launch>>>>;
type Launch = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// A card of host memory.
pub(crate) struct HostCard {
    own: Weak<HostCard>,
    /// Op types that it has no kernel for.
    lacks: Vec<&'static str>,
    memory: Memory,
    next: AtomicUsize,
    /// Bytes that may still be taken.
    pub(crate) left: AtomicUsize,
    /// What is being recorded.
    recording: Launches,
    replays: Arc<AtomicUsize>,
    /// Copies from page-locked memory, and to it.
    pub(crate) locked: [AtomicUsize; 2],
}

impl HostCard {
    pub(crate) fn new(lacks: &[&'static str]) -> Arc<HostCard> {
        Arc::new_cyclic(|own| HostCard {
            own: own.clone(),
            lacks: lacks.to_vec(),
            memory: Memory::default(),
            next: AtomicUsize::new(0x1000),
            left: AtomicUsize::new(usize::MAX),
            recording: Launches::default(),
            replays: Arc::default(),
            locked: Default::default(),
        })
    }
}

impl fmt::Debug for HostCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a card of host memory")
    }
}

#[derive(Debug)]
struct Block {
    address: Address,
    bytes: usize,
    device: Arc<dyn Device>,
}

impl Region for Block {
    fn address(&self) -> Address {
        self.address
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }
}

/// The part of a block at `at`; blocks are found by the address below it.
fn with<T>(memory: &Memory, at: Address, bytes: usize, look: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut memory = memory.lock().unwrap();
    let (start, block) =
        memory.iter_mut().filter(|(start, _)| **start <= at.0).max_by_key(|b| *b.0).unwrap();
    let from = (at.0 - start) as usize;
    look(&mut block[from..from + bytes])
}

struct HostKernel {
    op: Op,
    inputs: Vec<(String, DeviceMeta)>,
    outputs: Vec<(String, DeviceMeta)>,
    memory: Memory,
    recording: Launches,
}

impl DeviceKernel for HostKernel {
    fn scratch(&self) -> usize {
        100
    }
    fn counts_steps(&self) -> bool {
        false
    }
    fn launch(&self, call: &DeviceCall<'_>) -> Result<()> {
        let (op, memory) = (self.op.clone(), Arc::clone(&self.memory));
        let place = |(vars, at): (&[(String, DeviceMeta)], &[Operand])| {
            let dense = |operand: &Operand| match operand {
                Operand::Dense(at) => *at,
                other => panic!("{other:?} for a dense variable"),
            };
            vars.iter().cloned().zip(at.iter().map(dense)).collect::<Vec<_>>()
        };
        let (inputs, outputs) =
            (place((&self.inputs, call.inputs)), place((&self.outputs, call.outputs)));
        let (scratch, bytes) = (call.scratch, self.scratch());
        let run: Launch = Arc::new(move || {
            with(&memory, scratch, bytes, |scratch| scratch.fill(0x5c));
            let mut values = HashMap::new();
            for ((name, meta), at) in &inputs {
                let dims: Vec<usize> = meta.meta.dims.iter().map(|dim| *dim as usize).collect();
                let mut tensor = Tensor::zeros(meta.meta.dtype, dims);
                let bytes = tensor.as_bytes().len();
                with(&memory, *at, bytes, |from| tensor.as_mut_bytes().copy_from_slice(from));
                values.insert(name.clone(), Value::Tensor(tensor));
            }
            run_once(&op, &mut values)?;
            for ((name, _), at) in &outputs {
                let bytes = values[name].tensor()?.as_bytes();
                with(&memory, *at, bytes.len(), |to| to.copy_from_slice(bytes));
            }
            Ok(())
        });
        match &mut *self.recording.lock().unwrap() {
            Some(list) => list.push(run),
            None => run()?,
        }
        Ok(())
    }
}

/// Feeds that were sent, each to a place of its own.
struct Sent {
    regions: Vec<Arc<dyn Region>>,
}

impl Uploads for Sent {
    fn send(&mut self, feeds: &[Option<&[u8]>], places: &mut [Option<Address>]) -> Result<()> {
        for ((feed, region), place) in feeds.iter().zip(&self.regions).zip(places) {
            let Some(feed) = feed else { continue };
            region.device().upload(feed, region.address())?;
            *place = Some(region.address());
        }
        Ok(())
    }
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

struct Tape {
    launches: Vec<Launch>,
    replays: Arc<AtomicUsize>,
}

impl Recording for Tape {
    fn replay(&self) -> Result<()> {
        self.replays.fetch_add(1, Ordering::Relaxed);
        self.launches.iter().try_for_each(|launch| launch())
    }
}

struct NoComplaints;

impl Complaints for NoComplaints {
    fn address(&self) -> Address {
        Address::NULL
    }
    fn take(&self) -> Result<Option<Complaint>> {
        Ok(None)
    }
}

/// Memory of the host like any other, which counts as page-locked.
#[derive(Debug)]
struct Pages(Vec<[u64; 32]>, usize);

impl PageLocked for Pages {
    fn start(&self) -> NonNull<u8> {
        NonNull::new(self.0.as_ptr().cast_mut().cast()).unwrap()
    }
    fn bytes(&self) -> usize {
        self.1
    }
}

/// What is there already.
struct Here;

impl Arrival for Here {
    fn wait(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Device for HostCard {
    fn page_locked_room(&self, bytes: usize) -> Result<Arc<dyn PageLocked>> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return Err(Error::kernel("there is no page-locked memory left"));
        }
        Ok(Arc::new(Pages(vec![[0; 32]; bytes.div_ceil(256).max(1)], bytes)))
    }
    #[expect(unsafe_code, reason = "page-locked memory is known by its address")]
    fn upload_page_locked(
        &self,
        from: &Arc<dyn PageLocked>,
        bytes: usize,
        to: Address,
    ) -> Result<()> {
        self.locked[0].fetch_add(1, Ordering::Relaxed);
        // SAFETY: the memory has so many bytes.
        let from = unsafe { std::slice::from_raw_parts(from.start().as_ptr(), bytes) };
        self.upload(from, to)
    }
    #[expect(unsafe_code, reason = "as above")]
    fn download_page_locked(
        &self,
        from: Address,
        bytes: usize,
        to: &Arc<dyn PageLocked>,
    ) -> Result<Box<dyn Arrival>> {
        self.locked[1].fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above, and the layout leaves it alone.
        self.download(from, unsafe { std::slice::from_raw_parts_mut(to.start().as_ptr(), bytes) })?;
        Ok(Box::new(Here))
    }
    fn place(&self) -> Place {
        Place::Cuda(0)
    }
    fn describe(&self) -> String {
        format!("{self:?}")
    }
    fn memory(&self) -> Result<DeviceMemory> {
        Ok(DeviceMemory { free: self.left.load(Ordering::Relaxed), total: usize::MAX })
    }
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Region>> {
        let left = self.left.load(Ordering::Relaxed);
        let Some(left) = left.checked_sub(bytes) else {
            return Err(Error::Device { problem: format!("{bytes} bytes do not fit") });
        };
        self.left.store(left, Ordering::Relaxed);
        let size = (bytes + 64).next_multiple_of(256);
        let address = self.next.fetch_add(size, Ordering::Relaxed) as u64;
        self.memory.lock().unwrap().insert(address, vec![0xab; bytes]);
        let device: Arc<dyn Device> = self.own.upgrade().unwrap();
        Ok(Arc::new(Block { address: Address(address), bytes, device }))
    }
    fn upload(&self, from: &[u8], to: Address) -> Result<()> {
        with(&self.memory, to, from.len(), |to| to.copy_from_slice(from));
        Ok(())
    }
    fn download(&self, from: Address, to: &mut [u8]) -> Result<()> {
        with(&self.memory, from, to.len(), |from| to.copy_from_slice(from));
        Ok(())
    }
    fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<()> {
        let copy = with(&self.memory, from, bytes, |from| from.to_vec());
        self.upload(&copy, to)
    }
    fn clear(&self, at: Address, bytes: usize) -> Result<()> {
        with(&self.memory, at, bytes, |at| at.fill(0));
        Ok(())
    }
    fn kernel(
        &self,
        op: &OpView<'_>,
        inputs: &[DeviceMeta],
        outputs: &mut [DeviceMeta],
    ) -> Result<Option<Arc<dyn DeviceKernel>>> {
        let is_dense = |meta: &DeviceMeta| meta.meta.kind == VarKind::LodTensor;
        let is_random = op.def.name.contains("random") || op.def.name == "dropout";
        let has = !self.lacks.contains(&op.def.name) && !is_random;
        if !has || !inputs.iter().chain(&*outputs).all(is_dense) {
            return Ok(None);
        }
        let named = |names: Vec<String>, metas: &[DeviceMeta]| {
            names.into_iter().zip(metas.iter().cloned()).collect()
        };
        Ok(Some(Arc::new(HostKernel {
            op: op.op.clone(),
            inputs: named(op.flat_inputs().cloned().collect(), inputs),
            outputs: named(op.flat_outputs().cloned().collect(), outputs),
            memory: Arc::clone(&self.memory),
            recording: Arc::clone(&self.recording),
        })))
    }
    fn uploads(&self, bytes: &[usize]) -> Result<Box<dyn Uploads>> {
        let regions = bytes.iter().map(|bytes| self.allocate(*bytes));
        Ok(Box::new(Sent { regions: regions.collect::<Result<_>>()? }))
    }
    fn takes_gaps(&self, _: &str) -> &'static [&'static str] {
        &[]
    }
    fn takes_views(&self, _: &str) -> &'static [&'static str] {
        &[]
    }
    fn record(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Recording>> {
        *self.recording.lock().unwrap() = Some(Vec::new());
        work()?;
        let launches = self.recording.lock().unwrap().take().unwrap();
        Ok(Box::new(Tape { launches, replays: Arc::clone(&self.replays) }))
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn complaints(&self) -> Result<Box<dyn Complaints>> {
        Ok(Box::new(NoComplaints))
    }
    fn check_finite(&self, _: Address, _: DType, _: usize, _: u32, _: Address) -> Result<()> {
        Ok(())
    }
}

/// A perceptron with dropout-free layers, Adam behind it, and a learning rate that decays.
fn model() -> (Graph, String) {
    let graph = Graph::new();
    let x = layers::data(&graph, "x", [6], DType::F32);
    let label = layers::data(&graph, "label", [1], DType::I64);
    let hidden = layers::fc(&x, 8, Act::Relu).unwrap();
    let hidden = layers::fc(&hidden, 5, Act::Tanh).unwrap();
    let logits = layers::fc(&hidden, 3, Act::None).unwrap();
    let (cost, _) =
        layers::softmax_with_cross_entropy(&logits, &label, layers::Label::Hard).unwrap();
    let loss = layers::mean(&cost).unwrap();
    Adam::new(0.02).minimize(&loss).unwrap();
    (graph, loss.name().to_owned())
}

fn batch(rows: usize) -> [Tensor; 2] {
    let x: Vec<f32> = (0..rows * 6).map(|i| ((i * 37 % 19) as f32 - 9.0) / 7.0).collect();
    let label: Vec<i64> = (0..rows as i64).map(|i| i * 5 % 3).collect();
    [Tensor::from_slice([rows, 6], &x).unwrap(), Tensor::from_slice([rows, 1], &label).unwrap()]
}

/// Losses of some steps, the last of them with fewer rows, and the parameters behind them.
fn train(executor: &mut Executor) -> (Vec<f64>, Vec<(String, Tensor)>) {
    let (graph, loss) = model();
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let mut losses = Vec::new();
    for rows in [8, 8, 8, 8, 5, 5, 5, 8] {
        let [x, label] = batch(rows);
        let fetched =
            executor.run(&graph.main(), &[("x", &x), ("label", &label)], &[loss.as_str()]);
        losses.push(fetched.unwrap()[0].to_f64_vec()[0]);
    }
    let scope = executor.scope();
    let values = scope.names().into_iter().map(|name| (name.clone(), scope.get(&name).unwrap()));
    (losses, values.collect())
}

#[test]
fn a_card_computes_what_the_host_does() {
    let expected = train(&mut Executor::new(Place::Cpu).unwrap());
    // Everything on the card, some in the middle on the host, only one op on the card.
    let lacks: [&[&'static str]; 4] = [
        &[],
        &["tanh", "tanh_grad", "fused_fc", "adam"],
        &["fused_fc_grad", "fused_softmax_loss", "mean"],
        &["fused_fc", "fused_fc_grad", "adam", "fused_softmax_loss"],
    ];
    for lacks in lacks {
        let card = HostCard::new(lacks);
        let got = train(&mut Executor::on(card.clone()));
        assert_eq!(got.0, expected.0, "losses without {lacks:?}");
        for (mine, theirs) in got.1.iter().zip(&expected.1) {
            assert_eq!(mine, theirs, "without {lacks:?}");
        }
        assert!(card.replays.load(Ordering::Relaxed) > 3);
    }
}

#[test]
fn variables_move_between_card_and_host() {
    let (graph, loss) = model();
    let card = HostCard::new(&[]);
    let mut on_card = Executor::on(card);
    on_card.run(&graph.startup(), &[], &[]).unwrap();
    let scope = on_card.scope().clone();
    let mut on_host = Executor::new(Place::Cpu).unwrap().with_scope(scope.clone());
    let (mut alone, main) = (Executor::new(Place::Cpu).unwrap(), graph.main());
    alone.run(&graph.startup(), &[], &[]).unwrap();
    let [x, label] = batch(8);
    let feeds = [("x", &x), ("label", &label)];
    let fetch = [loss.as_str()];
    for step in 0..9 {
        let mixed = if step % 3 == 1 { &mut on_host } else { &mut on_card };
        if step == 5 {
            // As a scheduler sets a rate, and as a user overwrites a weight.
            for scope in [&scope, alone.scope()] {
                let w = scope.get("fc_1.w_0").unwrap();
                let half: Vec<f32> = w.as_slice::<f32>().unwrap().iter().map(|w| w / 2.0).collect();
                scope.set("fc_1.w_0", &Tensor::from_slice(w.dims(), &half).unwrap());
            }
        }
        let got = mixed.run(&main, &feeds, &fetch).unwrap();
        let expected = alone.run(&main, &feeds, &fetch).unwrap();
        assert_eq!(got, expected, "step {step}");
    }
}

#[test]
fn a_card_without_memory_says_so_and_leaves_the_variables() {
    let (graph, loss) = model();
    let card = HostCard::new(&[]);
    let mut executor = Executor::on(card.clone());
    // Enough for some of the parameters, and not for all that a step needs.
    card.left.store(300, Ordering::Relaxed);
    executor.run(&graph.startup(), &[], &[]).unwrap_err();
    assert!(executor.scope().names().iter().all(|name| !name.starts_with("fc_")));
    card.left.store(usize::MAX, Ordering::Relaxed);
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let before = executor.scope().get("fc_0.w_0").unwrap();
    card.left.store(10, Ordering::Relaxed);
    let [x, label] = batch(8);
    let feeds = [("x", &x), ("label", &label)];
    let error = executor.run(&graph.main(), &feeds, &[loss.as_str()]).unwrap_err();
    assert!(error.to_string().contains("do not fit"), "{error}");
    assert_eq!(executor.scope().get("fc_0.w_0").unwrap(), before);
}

#[test]
fn a_feed_may_be_on_the_card() {
    let (graph, loss) = model();
    for lacks in [&[][..], &["fused_fc", "fused_softmax_loss"]] {
        let card: Arc<dyn Device> = HostCard::new(lacks);
        let mut executor = Executor::on(Arc::clone(&card));
        executor.run(&graph.startup(), &[], &[]).unwrap();
        let mut host = Executor::new(Place::Cpu).unwrap();
        host.run(&graph.startup(), &[], &[]).unwrap();
        let (names, fetches) = (["x", "label"], [loss.as_str()]);
        let mut step = executor.prepare(&graph.main(), &names, &fetches).unwrap();
        let mut expected = host.prepare(&graph.main(), &names, &fetches).unwrap();
        let [x, label] = batch(8);
        let [more, _] = batch(16);
        let more = Tensor::from_slice([8, 6], &more.as_slice::<f32>().unwrap()[48..]).unwrap();
        let upload = |tensor: &Tensor| DeviceTensor::upload(card.as_ref(), tensor).unwrap();
        let (first, second) = (upload(&x), upload(&more));
        for round in 0..8 {
            // Two buffers in turn, and now and then one of the host.
            let (fed, same) = match round % 4 {
                0 | 2 => (Feed::Card(&first), &x),
                1 => (Feed::Card(&second), &more),
                _ => (Feed::Host(&more), &more),
            };
            step.run_fed(&[fed, Feed::Host(&label)]).unwrap();
            expected.run(&[same, &label]).unwrap();
            assert_eq!(step.fetched(0), expected.fetched(0), "round {round} without {lacks:?}");
        }
    }
}

#[test]
fn feeds_lie_in_ordinary_memory_where_none_can_be_page_locked() {
    let card = HostCard::new(&[]);
    card.left.store(0, Ordering::Relaxed);
    let device: Arc<dyn Device> = card;
    let memory = FeedMemory::new(&device);
    assert_eq!(memory.problem(), None, "nobody has asked for memory yet");
    let (mut block, mut tensors) = (FeedBlock::default(), [batch(1), batch(2)].concat());
    for rows in [4, 4, 2] {
        let dims = [Dims::new(&[rows, 6]), Dims::new(&[rows, 1])];
        let shapes = [(DType::F32, dims[0]), (DType::I64, dims[1])];
        block.lay_out(&memory, &mut tensors[..2], &shapes);
        assert!(!block.is_page_locked());
        assert_eq!((tensors[0].dims(), tensors[1].dims()), (dims[0], dims[1]));
    }
    let problem = memory.problem().unwrap();
    assert!(problem.contains("from ordinary memory") && problem.contains("no page-locked memory"));
    assert_eq!(memory.problem(), None, "it is said once");
}
