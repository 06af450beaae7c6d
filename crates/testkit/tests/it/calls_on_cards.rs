//! Every collective op of a program gives on emulated cards what it gives on ranks without a card, by either road, for
//! the whole job and for a part of it.

use std::sync::Arc;
use std::thread;

use bireme_comm::{Memory, Transport};
use bireme_cuda::Keeping;
use bireme_cuda::driver::libraries;
use bireme_engine::device::Device;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place};
use bireme_fleet::collective::{Rings, Road};
use bireme_fleet::group::{Config, Group};
use bireme_ir::{DType, Op, Program, Var};

/// Times that a program runs: the second time it is recorded, then replayed.
const RUNS: usize = 3;
/// A ring that is a part of the job.
const PART: i32 = 7;

fn cards(count: u32) -> Option<Vec<Arc<dyn Device>>> {
    libraries::load_from(bireme_emulator::DIR?);
    bireme_emulator::Control::open().unwrap().unwrap().set_cards(4);
    let open = |number| bireme_cuda::open_alone(number, Keeping::Driver).unwrap();
    Some((0..count).map(open).collect())
}

/// The ops that ranks make together, for rings of `size` ranks.
fn calls(ring: i32, size: usize) -> Vec<Op> {
    let op = |kind: &str| Op::new(kind).attr("ring_id", ring);
    let root = size as i32 - 1;
    let reduce = |kind: &str| op(kind).attr("root_id", root);
    let ranks = |kind: &str| op(kind).attr("nranks", size as i32);
    vec![
        op("c_allreduce_sum"),
        op("c_allreduce_prod"),
        op("c_allreduce_min"),
        op("c_allreduce_max"),
        reduce("c_reduce_sum"),
        reduce("c_reduce_prod"),
        reduce("c_reduce_min"),
        reduce("c_reduce_max"),
        op("c_broadcast").attr("root", root),
        ranks("c_scatter").attr("root", root),
        ranks("c_allgather"),
        ranks("c_reducescatter"),
        op("alltoall"),
        op("barrier"),
    ]
}

/// `z = 2 * call(2 * x)`: the card has something to do before and after.
fn program(call: &Op) -> Program {
    let mut program = Program::new();
    let global = program.global_mut();
    for name in ["x", "h", "y", "z"] {
        global.add_var(Var::tensor(name, DType::F32, [-1, 2]));
    }
    let double = |from: &str, to: &str| {
        Op::new("scale").input("X", [from]).output("Out", [to]).attr("scale", 2.0f32)
    };
    let call = call.clone().input("X", ["h"]).output("Out", ["y"]);
    global.ops = vec![double("x", "h"), call, double("y", "z")];
    program
}

/// What rank `rank` has after each call; `None` for a rank that is not in the ring.
fn rank(
    rank: usize,
    size: usize,
    members: &[usize],
    transport: &Arc<dyn Transport>,
    card: Option<&Arc<dyn Device>>,
    road: Road,
) -> Option<Vec<Tensor>> {
    let endpoints = (0..size).map(|rank| format!("rank{rank}:1")).collect();
    let group = Group::connect(&Config::new(rank, endpoints), transport).unwrap();
    let rings = Arc::new(Rings::new(group.clone()));
    let is_part = members.len() < size;
    rings.agree(card, road).unwrap();
    let ring = match is_part {
        true => {
            if let Some(part) = group.subgroup(members).unwrap() {
                rings.set(PART, part).unwrap();
            }
            PART
        }
        false => 0,
    };
    let made = members.contains(&rank).then(|| {
        let executor = match card {
            Some(card) => Executor::on(Arc::clone(card)),
            None => Executor::new(Place::Cpu).unwrap(),
        };
        let mut executor = executor.collective(Arc::clone(&rings) as _);
        let own: Vec<f32> = (0..8).map(|at| ((at * 3 + rank * 5) % 7) as f32 - 2.0).collect();
        let x = Tensor::from_slice([4, 2], &own).unwrap();
        let calls = calls(ring, members.len());
        let run = |call: &Op| {
            let runs = (0..RUNS).map(|_| executor.run(&program(call), &[("x", &x)], &["z"]));
            let last = runs.map(|run| run.unwrap_or_else(|error| panic!("{}: {error}", call.kind)));
            last.last().unwrap().remove(0)
        };
        calls.iter().map(run).collect()
    });
    group.barrier().unwrap();
    made
}

fn all(
    size: usize,
    members: &[usize],
    cards: Option<&[Arc<dyn Device>]>,
    road: Road,
) -> Vec<Option<Vec<Tensor>>> {
    let transport: Arc<dyn Transport> = Arc::new(Memory::new(1));
    thread::scope(|scope| {
        let start = |number: usize| {
            let (transport, card) = (&transport, cards.map(|cards| &cards[number]));
            scope.spawn(move || rank(number, size, members, transport, card, road))
        };
        let threads: Vec<_> = (0..size).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn every_call_equals_that_of_ranks_without_a_card() {
    let Some(cards) = cards(4) else { return };
    for (size, members) in [(2, vec![0, 1]), (4, vec![0, 1, 2, 3]), (4, vec![1, 3])] {
        let expected = all(size, &members, None, Road::Auto);
        for road in [Road::Host, Road::Nccl] {
            let got = all(size, &members, Some(&cards[..size]), road);
            for (rank, (mine, theirs)) in got.iter().zip(&expected).enumerate() {
                let (Some(mine), Some(theirs)) = (mine, theirs) else {
                    assert!(mine.is_none() && theirs.is_none());
                    continue;
                };
                for ((call, mine), theirs) in calls(0, members.len()).iter().zip(mine).zip(theirs) {
                    let what = format!("{}, {road:?}, rank {rank} of {members:?}", call.kind);
                    assert_eq!(mine, theirs, "{what}");
                }
            }
        }
    }
}
