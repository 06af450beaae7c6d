//! Every call against what one process would compute.

use bireme_collective::{Element, Group, Reduce};
use proptest::prelude::*;

use crate::ranks::{Way, each_rank};

const OPS: [Reduce; 4] = [Reduce::Sum, Reduce::Prod, Reduce::Min, Reduce::Max];
/// Around the borders of all algorithms and pieces, in elements.
const SIZES: [usize; 9] = [0, 1, 2, 7, 1000, 4097, 40_001, 150_001, 400_003];

/// Small whole numbers, so that sums and products are exact in any order.
fn value(rank: usize, at: usize) -> i64 {
    ((rank * 7 + at * 3) % 3) as i64 + 1
}

fn naive(op: Reduce, ranks: usize, at: usize) -> i64 {
    let values = (0..ranks).map(|rank| value(rank, at));
    match op {
        Reduce::Sum => values.sum(),
        Reduce::Prod => values.product(),
        Reduce::Min => values.min().unwrap(),
        Reduce::Max => values.max().unwrap(),
    }
}

fn data<T: Element>(rank: usize, length: usize, make: fn(i64) -> T) -> Vec<T> {
    (0..length).map(|at| make(value(rank, at))).collect()
}

fn reduced<T: Element>(op: Reduce, ranks: usize, length: usize, make: fn(i64) -> T) -> Vec<T> {
    (0..length).map(|at| make(naive(op, ranks, at))).collect()
}

fn check_reduce<T: Element>(group: &Group, length: usize, op: Reduce, make: fn(i64) -> T) {
    let (rank, size) = (group.rank(), group.size());
    let expected = reduced(op, size, length, make);
    let mut all = data(rank, length, make);
    group.all_reduce(&mut all, op).unwrap();
    assert!(all == expected, "all_reduce {op:?} of {length} by {size}");
    let root = length % size;
    let mut one = data(rank, length, make);
    group.reduce(&mut one, op, root).unwrap();
    let other = data(rank, length, make);
    assert!(one == if rank == root { &*expected } else { &*other }, "reduce {op:?} of {length}");
    let whole = length / size * size;
    let mut part = vec![T::zeroed(); length / size];
    group.reduce_scatter(&all_of(rank, whole, make), &mut part, op).unwrap();
    let start = rank * part.len();
    assert!(part == reduced(op, size, whole, make)[start..start + part.len()], "reduce_scatter");
}

fn all_of<T: Element>(rank: usize, length: usize, make: fn(i64) -> T) -> Vec<T> {
    data(rank, length, make)
}

#[test]
fn every_reduction_of_every_type() {
    for way in Way::ALL {
        for ranks in [1, 2, 3, 4, 5, 7] {
            each_rank(way, ranks, |group| {
                for op in OPS {
                    check_reduce::<f64>(&group, 1001, op, |value| value as f64);
                    check_reduce::<i32>(&group, 777, op, |value| value as i32);
                    check_reduce::<i64>(&group, 50, op, |value| value);
                    check_reduce::<u8>(&group, 333, op, |value| value as u8);
                }
                for length in SIZES {
                    check_reduce::<f32>(&group, length, OPS[length % 4], |value| value as f32);
                }
            });
        }
    }
}

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + seed * 17) as u8).collect()
}

fn check_moves(group: &Group, length: usize) {
    let (rank, size) = (group.rank(), group.size());
    let root = length % size;
    let mut data = bytes(rank, length);
    group.broadcast(&mut data, root).unwrap();
    assert!(data == bytes(root, length), "broadcast of {length}");

    let mut out = vec![0; size * length];
    group.all_gather(&bytes(rank, length), &mut out).unwrap();
    let expected: Vec<u8> = (0..size).flat_map(|rank| bytes(rank, length)).collect();
    assert!(out == expected, "all_gather of {length}");

    let parts = group.all_gather_varied(&bytes(rank, length + rank)).unwrap();
    let expected: Vec<_> = (0..size).map(|rank| bytes(rank, length + rank)).collect();
    assert!(parts == expected, "all_gather_varied of {length}");

    let parts: Vec<u8> = (0..size).flat_map(|rank| bytes(rank + 100, length)).collect();
    let mut out = vec![0; length];
    group.scatter((rank == root).then_some(&parts), &mut out, root).unwrap();
    assert!(out == bytes(rank + 100, length), "scatter of {length}");

    let parts: Vec<u8> = (0..size).flat_map(|to| bytes(rank * 10 + to, length)).collect();
    let mut out = vec![0; size * length];
    group.all_to_all(&parts, &mut out).unwrap();
    let expected: Vec<u8> = (0..size).flat_map(|from| bytes(from * 10 + rank, length)).collect();
    assert!(out == expected, "all_to_all of {length}");

    let parts: Vec<_> = (0..size).map(|to| bytes(rank * 10 + to, length * (to + 1))).collect();
    let parts: Vec<_> = parts.iter().map(Vec::as_slice).collect();
    let out = group.all_to_all_varied(&parts).unwrap();
    let expected = (0..size).map(|from| bytes(from * 10 + rank, length * (rank + 1)));
    assert!(out == expected.collect::<Vec<_>>(), "all_to_all_varied of {length}");

    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    if size > 1 {
        let mut data = vec![0; length];
        if rank % 2 == 0 {
            group.send(next, &bytes(rank, length)).unwrap();
            group.receive(before, &mut data).unwrap();
        } else {
            group.receive(before, &mut data).unwrap();
            group.send(next, &bytes(rank, length)).unwrap();
        }
        assert!(data == bytes(before, length), "send and receive of {length}");
    }
    group.barrier().unwrap();
}

#[test]
fn every_call_that_moves_bytes() {
    for way in Way::ALL {
        for ranks in [1, 2, 3, 4, 5, 7] {
            each_rank(way, ranks, |group| {
                // The largest take several messages.
                let lengths = if ranks < 4 { &[0, 1, 5_003, 700_001][..] } else { &[0, 1, 5_003] };
                lengths.iter().for_each(|length| check_moves(&group, *length));
            });
        }
    }
}

/// Values whose sum depends on the order.
fn rough(rank: usize, at: usize) -> f32 {
    ((rank * 7919 + at * 104_729) % 100_003) as f32 * 0.37 - 11_000.0
}

#[test]
fn all_ranks_and_all_runs_have_the_same_bits() {
    for ranks in [2, 3, 4, 7] {
        for length in [5, 1000, 5000, 100_003, 300_001] {
            let run = |way| {
                each_rank(way, ranks, |group| {
                    let mut data: Vec<_> = (0..length).map(|at| rough(group.rank(), at)).collect();
                    // A NaN of every rank: even its payload must be the same.
                    data[0] = f32::from_bits(0x7fc0_0000 + group.rank() as u32);
                    group.all_reduce(&mut data, Reduce::Sum).unwrap();
                    data.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
                })
            };
            for way in [Way::Memory, Way::Unix, Way::Shared, Way::Hosts] {
                let first = run(way);
                assert!(first.iter().all(|bits| *bits == first[0]), "{length} by {ranks}");
                assert!(run(way) == first, "{length} by {ranks}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn all_reduce_is_the_naive_reduction(
        ranks in 1..7usize,
        length in prop_oneof![0..100usize, 4_000..5_000usize, 100_000..200_000usize],
        op in prop::sample::select(OPS.to_vec()),
        seed in any::<i64>(),
        way in prop::sample::select(vec![Way::Memory, Way::Shared]),
    ) {
        let value = |rank: usize, at: usize| {
            seed.wrapping_mul(at as i64 + 1).rotate_left(rank as u32 * 11) ^ rank as i64
        };
        let results = each_rank(way, ranks, |group| {
            let mut data: Vec<_> = (0..length).map(|at| value(group.rank(), at)).collect();
            group.all_reduce(&mut data, op).unwrap();
            data
        });
        let expected = (0..length).map(|at| {
            let values = (0..ranks).map(|rank| value(rank, at));
            values.reduce(|left, right| match op {
                Reduce::Sum => left.wrapping_add(right),
                Reduce::Prod => left.wrapping_mul(right),
                Reduce::Min => left.min(right),
                Reduce::Max => left.max(right),
            }).unwrap()
        });
        let expected: Vec<_> = expected.collect();
        for result in results {
            prop_assert!(result == expected);
        }
    }
}

#[test]
fn subgroups_talk_at_the_same_time() {
    for way in Way::ALL {
        each_rank(way, 5, |group| {
            let even = group.subgroup(&[4, 0, 2]).unwrap();
            let odd = group.subgroup(&[1, 3]).unwrap();
            assert_eq!(even.is_some(), group.rank() % 2 == 0);
            let own = even.or(odd).unwrap();
            let mut sum = [group.rank() as i64 + 1];
            own.all_reduce(&mut sum, Reduce::Sum).unwrap();
            assert_eq!(sum, [if group.rank() % 2 == 0 { 9 } else { 6 }]);
            let ranks = own.all_gather_varied(&[group.rank() as u8]).unwrap().concat();
            assert_eq!(ranks, if group.rank() % 2 == 0 { vec![4, 0, 2] } else { vec![1, 3] });
            // Both at once, from two threads.
            std::thread::scope(|scope| {
                let (small, large) = (&own, &group);
                scope.spawn(move || {
                    for round in 0..20 {
                        let mut data = vec![round; 1000 * round as usize];
                        small.all_reduce(&mut data, Reduce::Max).unwrap();
                    }
                });
                for _ in 0..20 {
                    large.barrier().unwrap();
                }
            });
            let inner = own.subgroup(&[0, 1]).unwrap();
            if let Some(inner) = inner {
                inner.barrier().unwrap();
            }
        });
    }
}

#[test]
fn work_in_the_background_keeps_its_order() {
    each_rank(Way::Shared, 3, |group| {
        let pending: Vec<_> = (0..20)
            .map(|at| {
                group.start(move |group| {
                    let mut data = vec![at as f32; 10 + at];
                    group.all_reduce(&mut data, Reduce::Sum)?;
                    Ok(data)
                })
            })
            .collect();
        // Comes after all of them, on every rank.
        let mut data = [1u8];
        group.all_reduce(&mut data, Reduce::Sum).unwrap();
        assert_eq!(data, [3]);
        for (at, pending) in pending.into_iter().enumerate() {
            assert_eq!(pending.wait().unwrap(), vec![3.0 * at as f32; 10 + at]);
        }
    });
}

#[test]
fn one_rank_needs_nobody() {
    let group = Group::alone();
    check_moves(&group, 10);
    check_reduce::<f32>(&group, 10, Reduce::Sum, |value| value as f32);
    assert_eq!((group.rank(), group.size(), group.bytes_sent()), (0, 1, 0));
    assert_eq!(group.start(|group| group.barrier().map(|()| 5)).wait().unwrap(), 5);
}

#[test]
fn a_ring_sends_little_more_than_it_must() {
    let (ranks, length) = (4, 1_000_000);
    let sent = each_rank(Way::Tcp, ranks, |group| {
        let mut data = vec![1.0f32; length];
        group.all_reduce(&mut data, Reduce::Sum).unwrap();
        group.bytes_sent()
    });
    let minimum = (2 * (ranks - 1) * length * 4) as f64;
    let ratio = sent.iter().sum::<u64>() as f64 / minimum;
    assert!((1.0..1.01).contains(&ratio), "{ratio}");
}
