//! A step in steady state asks the system for no memory beyond what the matrix library takes for
//! each product, where products are the library's: a test binary of its own, for it counts every
//! allocation of the process.

#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use bireme_engine::gemm::{Order, gemm};
use bireme_engine::graph::Graph;
use bireme_engine::layers::{self, Act};
use bireme_engine::optimizer::{Adam, Optimizer};
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Executor, Place};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
/// Of [`ALLOCATIONS`], those made inside products.
static COUNTED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_step_in_steady_state_allocates_nothing() {
    for threads in [1, 2] {
        let graph = Graph::new();
        let label = layers::data(&graph, "label", [1], DType::I64);
        let ids = layers::data(&graph, "ids", [4], DType::I64);
        let dense = layers::data(&graph, "dense", [3], DType::F32);
        let rows = layers::Embedding::new([100, 8]).sparse(true).apply(&ids).unwrap();
        let rows = layers::reshape(&rows, &[-1, 32]).unwrap();
        let joined = layers::concat(&[&rows, &dense], 1).unwrap();
        let hidden = layers::fc(&joined, 16, Act::Relu).unwrap();
        let logits = layers::fc(&hidden, 2, Act::None).unwrap();
        let probability = layers::softmax(&logits).unwrap();
        layers::auc(&probability, &label, &layers::Auc::default()).unwrap();
        let (cost, _) =
            layers::softmax_with_cross_entropy(&logits, &label, layers::Label::Hard).unwrap();
        let loss = layers::mean(&cost).unwrap();
        Adam::new(0.01).lazy_mode(true).minimize(&loss).unwrap();
        let mut executor = Executor::new(Place::Cpu).unwrap().threads(threads);
        executor.run(&graph.startup(), &[], &[]).unwrap();
        let feeds = ["label", "ids", "dense"];
        let mut step = executor.prepare(&graph.main(), &feeds, &[loss.name()]).unwrap();
        let label = Tensor::from_slice([8, 1], &[0i64, 1, 1, 0, 1, 0, 0, 1]).unwrap();
        let ids = Tensor::from_slice([8, 4], &(0..32).collect::<Vec<i64>>()).unwrap();
        let dense = Tensor::from_slice([8, 3], &[0.5f32; 24]).unwrap();
        let mut run = || step.run(&[&label, &ids, &dense]).unwrap();
        let mut made_in_twenty = || {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            (0..20).for_each(|_| run());
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        // A thread that takes part for the first time, or falls asleep, takes what it keeps from then on.
        let made = (0..50).map(|_| made_in_twenty()).min().unwrap();
        let library = 20 * threads * in_products(8 / threads);
        assert_eq!(made, library, "{threads} threads: allocations in 20 steps, and the library's");
    }
}

/// Allocations of the matrix library in one worker's products of one step.
fn in_products(rows: usize) -> usize {
    let run = || {
        for (k, n) in [(35, 16), (16, 2)] {
            let (x, w, y) = (vec![0.5f32; rows * k], vec![0.5f32; k * n], vec![0.5f32; rows * n]);
            let (mut out, mut dw, mut dx) = (y.clone(), w.clone(), x.clone());
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            gemm(rows, n, k, &mut out, &x, Order::Plain, &w, Order::Plain);
            gemm(k, n, rows, &mut dw, &x, Order::Transposed, &y, Order::Plain);
            gemm(rows, k, n, &mut dx, &y, Order::Plain, &w, Order::Transposed);
            COUNTED.fetch_add(ALLOCATIONS.load(Ordering::Relaxed) - before, Ordering::Relaxed);
        }
    };
    // Once for the memory that the library keeps.
    run();
    COUNTED.store(0, Ordering::Relaxed);
    run();
    COUNTED.load(Ordering::Relaxed)
}
