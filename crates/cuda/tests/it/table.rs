//! Hash tables on the card, against maps of the host.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bireme_cuda::driver::Stream;
use bireme_cuda::table::{Error, Init, NO_ROW, Plan, RowShape, Rule, Step, Table};
use bireme_engine::random::Philox;
use bireme_engine::random::RowInit;
use proptest::prelude::*;

use crate::card::{Held, alone, get, is_real, open, put, shared};

const SHAPE: RowShape = RowShape { width: 8, states: 1 };

/// The first card with a stream, and what keeps others from changing the machine.
fn stream() -> Option<(Option<Held>, Arc<Stream>)> {
    let machine = if is_real() { None } else { Some(shared()?) };
    Some((machine, open(0).1))
}

fn uniform() -> Init {
    let weights = RowInit::Uniform { min: -0.5, max: 0.25 };
    Init { weights, seed: 7, name: "emb".to_owned(), states: vec![0.1] }
}

/// What the host draws for the row of a key.
fn drawn(key: u64, shape: RowShape) -> Vec<f32> {
    let draw = Philox::new(7, "emb");
    let first = key.wrapping_mul(shape.width as u64);
    let weight = |i: u64| -0.5 + 0.75 * draw.uniform(first.wrapping_add(i));
    let mut row: Vec<f32> = (0..shape.width as u64).map(weight).collect();
    row.resize(shape.columns(), 0.0);
    if shape.states > 0 {
        row[shape.width..2 * shape.width].fill(0.1);
    }
    row
}

/// The group that a key belongs to, as the kernels find it.
fn group_of(key: u64, groups: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    ((u128::from(z) * u128::from(groups)) >> 64) as u64
}

/// Keys that all belong to the last group of a small index, so that they run on from its end to its start.
fn crowded() -> Vec<u64> {
    let groups = 52;
    (0..).filter(|key| group_of(*key, groups) == groups - 1).take(40).collect()
}

/// Whole rows by key, as they are exported.
fn rows_of(table: &Table) -> BTreeMap<u64, Vec<f32>> {
    let (mut rows, mut last) = (BTreeMap::new(), None);
    let columns = table.shape().columns();
    table
        .export(7, |keys, records| {
            for (key, record) in keys.iter().zip(records.chunks(columns)) {
                assert!(last < Some(*key), "keys rise");
                last = Some(*key);
                rows.insert(*key, record.to_vec());
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(table.len().unwrap(), rows.len());
    rows
}

fn weights(shape: RowShape, rows: &[Vec<f32>]) -> Vec<f32> {
    rows.iter().flat_map(|row| row[..shape.width].to_vec()).collect()
}

#[derive(Clone, Debug)]
enum Act {
    Insert(Vec<u64>),
    Find(Vec<u64>),
    Set(Vec<u64>),
    Remove(Vec<u64>),
}

fn keys() -> impl Strategy<Value = Vec<u64>> {
    let crowded = crowded();
    let key = prop_oneof![
        4 => any::<u64>(),
        3 => 0u64..60,
        2 => prop::sample::select(crowded),
        1 => prop::sample::select(vec![0, u64::MAX, u64::MAX - 1, 1 << 63]),
    ];
    prop::collection::vec(key, 0..120)
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => keys().prop_map(Act::Insert),
        2 => keys().prop_map(Act::Find),
        1 => keys().prop_map(Act::Set),
        1 => keys().prop_map(Act::Remove),
    ];
    prop::collection::vec(act, 1..12)
}

/// Does the same to a table and to a map.
fn act(table: &mut Table, map: &mut BTreeMap<u64, Vec<f32>>, act: &Act, shape: RowShape) {
    let stream = Arc::clone(table.stream());
    let all = |keys: &[u64], row: &dyn Fn(&u64) -> Vec<f32>| -> Vec<f32> {
        weights(shape, &keys.iter().map(row).collect::<Vec<_>>())
    };
    match act {
        Act::Insert(keys) => {
            let (given, out) = (put(&stream, keys), put(&stream, &all(keys, &|_| vec![9.0; 99])));
            table.find_or_insert(given.whole(), &uniform(), out.whole()).unwrap();
            for key in keys {
                map.entry(*key).or_insert_with(|| drawn(*key, shape));
            }
            assert_eq!(get::<f32>(&stream, &out), all(keys, &|key| map[key].clone()));
        }
        Act::Find(keys) => {
            let (given, out) = (put(&stream, keys), put(&stream, &all(keys, &|_| vec![9.0; 99])));
            table.find(given.whole(), out.whole()).unwrap();
            let zeros = vec![0.0; shape.columns()];
            let expected = all(keys, &|key| map.get(key).unwrap_or(&zeros).clone());
            assert_eq!(get::<f32>(&stream, &out), expected);
            let numbers = put(&stream, &vec![5u32; keys.len()]);
            table.rows(given.whole(), numbers.whole()).unwrap();
            let numbers: Vec<u32> = get(&stream, &numbers);
            for (key, number) in keys.iter().zip(numbers) {
                assert_eq!(map.contains_key(key), number != NO_ROW, "{key}");
            }
        }
        Act::Set(keys) => {
            let distinct: HashSet<u64> = keys.iter().copied().collect();
            let distinct: Vec<u64> = distinct.into_iter().collect();
            let row = |key: &u64| vec![*key as f32; shape.columns()];
            let records: Vec<f32> = distinct.iter().flat_map(row).collect();
            table.import(&distinct, &records).unwrap();
            map.extend(distinct.iter().map(|key| (*key, row(key))));
        }
        Act::Remove(keys) => {
            let before = map.len();
            keys.iter().for_each(|key| drop(map.remove(key)));
            assert_eq!(table.remove(keys).unwrap(), before - map.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is done to a table, it holds what a map would, from small to many times the size it was made for.
    #[test]
    fn a_table_is_a_map(acts in acts(), capacity in 0usize..130) {
        let Some((_machine, stream)) = stream() else { return Ok(()) };
        let mut map = BTreeMap::new();
        let mut table = Table::new(&stream, SHAPE, capacity).unwrap();
        for next in &acts {
            act(&mut table, &mut map, next, SHAPE);
        }
        prop_assert_eq!(rows_of(&table), map);
    }
}

#[test]
fn rows_of_many_widths() {
    let Some((_machine, stream)) = stream() else { return };
    for (width, states) in [(4, 0), (8, 0), (16, 1), (32, 0), (12, 2), (20, 4), (64, 1)] {
        let (shape, mut map) = (RowShape { width, states }, BTreeMap::new());
        let mut table = Table::new(&stream, shape, 10).unwrap();
        let keys: Vec<u64> = (0..700u64).map(|i| i % 500 * i).chain([u64::MAX; 3]).collect();
        let mut init = uniform();
        init.states.truncate(states);
        let out = put(&stream, &vec![9.0f32; keys.len() * width]);
        let given = put(&stream, &keys);
        table.find_or_insert(given.whole(), &init, out.whole()).unwrap();
        map.extend(keys.iter().map(|key| (*key, drawn(*key, shape))));
        assert_eq!(rows_of(&table), map, "{shape:?}");
        act(&mut table, &mut map, &Act::Find(keys.iter().map(|key| key ^ 1).collect()), shape);
    }
}

#[test]
fn normal_rows_are_the_hosts() {
    let Some((_machine, stream)) = stream() else { return };
    let draw = Philox::new(3, "emb");
    let keys = [0, 5, u64::MAX, 1 << 40];
    for is_truncated in [false, true] {
        let (mean, std) = (0.5, 2.0);
        let weights = match is_truncated {
            false => RowInit::Gaussian { mean, std },
            true => RowInit::TruncatedGaussian { mean, std },
        };
        let init = Init { weights, seed: 3, name: "emb".to_owned(), states: Vec::new() };
        let mut table = Table::new(&stream, SHAPE, 4).unwrap();
        let (given, out) = (put(&stream, &keys), put(&stream, &[0.0f32; 32]));
        table.find_or_insert(given.whole(), &init, out.whole()).unwrap();
        let got: Vec<f32> = get(&stream, &out);
        for (at, got) in got.iter().enumerate() {
            let index = keys[at / 8].wrapping_mul(8).wrapping_add(at as u64 % 8);
            let normal = f64::from(draw.normal(index));
            let drawn = if is_truncated { draw.truncated_normal(index) } else { normal };
            assert!((f64::from(*got) - (mean + std * drawn)).abs() < 1e-5, "{at}: {got}");
        }
    }
}

/// Numbers that were asked for once stay right while the table grows, and lead to the rows.
#[test]
fn numbers_outlive_growth() {
    let Some((_machine, stream)) = stream() else { return };
    let mut table = Table::new(&stream, SHAPE, 16).unwrap();
    let keys: Vec<u64> = (0..300).map(|i| i * 17).collect();
    let (given, numbers) = (put(&stream, &keys), put(&stream, &vec![0u32; keys.len()]));
    table.rows_or_insert(given.whole(), &uniform(), numbers.whole()).unwrap();
    let before: Vec<u32> = get(&stream, &numbers);
    assert_eq!(before.iter().collect::<HashSet<_>>().len(), keys.len());
    table.reserve(20_000).unwrap();
    let room = table.capacity();
    assert!(room >= 20_300, "{room}");
    let more: Vec<u64> = (1 << 32..(1 << 32) + 5000).collect();
    let (others, out) = (put(&stream, &more), put(&stream, &vec![0.0f32; more.len() * 8]));
    table.find_or_insert(others.whole(), &uniform(), out.whole()).unwrap();
    table.rows(given.whole(), numbers.whole()).unwrap();
    assert_eq!(get::<u32>(&stream, &numbers), before);
    assert_eq!(table.capacity(), room, "there was room");

    let whole = put(&stream, &vec![0.0f32; keys.len() * 16]);
    table.gather(numbers.whole(), whole.whole()).unwrap();
    let expected: Vec<f32> = keys.iter().flat_map(|key| drawn(*key, SHAPE)).collect();
    assert_eq!(get::<f32>(&stream, &whole), expected);
    let values: Vec<f32> = (0..keys.len() * 4).map(|i| i as f32).collect();
    let part = put(&stream, &values);
    table.scatter(numbers.whole(), part.whole()).unwrap();
    table.gather(numbers.whole(), part.whole()).unwrap();
    assert_eq!(get::<f32>(&stream, &part), values);
}

/// Gradients of a row that occurs several times count together, once.
#[test]
fn updates_are_those_of_the_rules() {
    let Some((_machine, stream)) = stream() else { return };
    let shape = RowShape { width: 8, states: 2 };
    let step = Step { rate: 0.1, count: 3 };
    type Apply = fn(&mut [f32; 3], f32);
    let rules: [(Rule, Apply); 4] = [
        (Rule::Sgd, |row, grad| row[0] -= 0.1 * grad),
        (Rule::Adagrad { epsilon: 1e-6 }, |[weight, square, _], grad| {
            *square += grad * grad;
            *weight -= 0.1 * grad / (square.sqrt() + 1e-6);
        }),
        (Rule::Adam { beta1: 0.9, beta2: 0.99, epsilon: 1e-6 }, |[weight, mean, square], grad| {
            *mean = 0.9 * *mean + 0.1 * grad;
            *square = 0.99 * *square + 0.01 * grad * grad;
            let correction = (1.0 - 0.99f32.powi(3)).sqrt();
            let rate = 0.1 * correction / (1.0 - 0.9f32.powi(3));
            *weight -= rate * *mean / (square.sqrt() + 1e-6 * correction);
        }),
        (Rule::Ftrl { l1: 0.01, l2: 0.1, lr_power: -0.5 }, |[weight, square, linear], grad| {
            let sum = *square + grad * grad;
            *linear += grad - (sum.sqrt() - square.sqrt()) / 0.1 * *weight;
            let moved = (0.01f32.copysign(*linear) - *linear) / (sum.sqrt() / 0.1 + 0.2);
            *weight = if linear.abs() > 0.01 { moved } else { 0.0 };
            *square = sum;
        }),
    ];
    for (rule, apply) in rules {
        let mut table = Table::new(&stream, shape, 50).unwrap();
        let keys: Vec<u64> = (0..40).collect();
        let mut init = uniform();
        init.states = vec![0.1, 0.2];
        let (given, numbers) = (put(&stream, &keys), put(&stream, &[0u32; 40]));
        table.rows_or_insert(given.whole(), &init, numbers.whole()).unwrap();
        let numbers: Vec<u32> = get(&stream, &numbers);
        // Row 3 has most of the gradients, others a few, some none; some positions have no row.
        let of = |i: usize| match i {
            _ if i.is_multiple_of(11) => None,
            _ if i.is_multiple_of(2) => Some(3),
            _ => Some(i * i % 37),
        };
        let named: Vec<u32> =
            (0..400).map(|i| of(i).map_or(NO_ROW, |key: usize| numbers[key])).collect();
        let grads: Vec<f32> =
            (0..400 * 8).map(|i| ((i * 7919) % 101) as f32 / 50.0 - 1.0).collect();
        let (named, on_card) = (put(&stream, &named), put(&stream, &grads));
        table.update(named.whole(), on_card.whole(), rule, step).unwrap();
        let rows = rows_of(&table);
        for key in 0..40usize {
            let touched = (0..400).any(|i| of(i) == Some(key));
            for column in 0..8 {
                let mut row = [drawn(key as u64, shape)[column], 0.1, 0.2];
                let sum: f32 =
                    (0..400).filter(|i| of(*i) == Some(key)).map(|i| grads[i * 8 + column]).sum();
                if touched {
                    apply(&mut row, sum);
                }
                let got = [0, 8, 16].map(|state| rows[&(key as u64)][state + column]);
                for (got, expected) in got.iter().zip(row) {
                    let within = 2e-5 * (1.0 + expected.abs());
                    assert!((got - expected).abs() <= within, "{rule:?} {key}: {got} {expected}");
                }
            }
        }
    }
}

/// The order of blocks and warps does not show.
#[test]
fn bits_do_not_depend_on_the_order_of_blocks() {
    let Some(machine) = alone() else { return };
    let keys: Vec<u64> = (0..3000u64).map(|i| i * i % 1777 * 0x1_0000_0001).collect();
    let run = |seed: u64| {
        machine.control.seed(seed);
        let (_, stream) = open(0);
        let mut table = Table::new(&stream, SHAPE, 100).unwrap();
        let (given, out) = (put(&stream, &keys), put(&stream, &vec![0.0f32; keys.len() * 8]));
        let numbers = put(&stream, &vec![0u32; keys.len()]);
        // Several batches are under way at once.
        for part in [0..1000, 500..2000, 0..3000usize] {
            let given = given.span(part.start * 8..part.end * 8).unwrap();
            let out = out.span(part.start * 32..part.end * 32).unwrap();
            table.find_or_insert(given, &uniform(), out).unwrap();
        }
        table.rows(given.whole(), numbers.whole()).unwrap();
        let rule = Rule::Adagrad { epsilon: 1e-6 };
        let step = Step { rate: 0.1, count: 1 };
        table.update(numbers.whole(), out.whole(), rule, step).unwrap();
        table.remove(&keys[10..20]).unwrap();
        (get::<f32>(&stream, &out), rows_of(&table))
    };
    let first = run(0);
    for seed in [1, 2, 77] {
        assert!(run(seed) == first, "another order of blocks gives other rows");
    }
}

/// An allocation that fails leaves a table as it was, whichever it is.
#[test]
fn failed_growth_leaves_a_table_as_it_was() {
    let Some(machine) = alone().map(crate::card::Alone::quiet) else { return };
    let (_, stream) = open(0);
    let mut table = Table::new(&stream, SHAPE, 10).unwrap();
    let mut map = BTreeMap::new();
    act(&mut table, &mut map, &Act::Insert((0..100).collect()), SHAPE);
    let keys: Vec<u64> = (0..2000).collect();
    let (given, out) = (put(&stream, &keys), put(&stream, &vec![0.0f32; keys.len() * 8]));
    let mut failures = 0;
    for number in 1.. {
        machine.control.fail_allocation(number);
        let inserted = table.find_or_insert(given.whole(), &uniform(), out.whole());
        machine.control.fail_allocation(0);
        if inserted.is_ok() {
            break;
        }
        failures += 1;
        assert_eq!(rows_of(&table), map, "allocation {number} failed");
    }
    assert!(failures > 0);
    act(&mut table, &mut map, &Act::Insert(keys), SHAPE);
    assert_eq!(rows_of(&table), map);
}

#[test]
fn a_card_that_is_full_says_what_would_be_needed() {
    let Some(machine) = alone().map(crate::card::Alone::quiet) else { return };
    machine.control.set_memory(3 << 20);
    let (_, stream) = open(0);
    let mut table = Table::new(&stream, SHAPE, 1000).unwrap();
    let numbers = put(&stream, &[0u32; 1000]);
    let mut made = 0u64;
    let error = loop {
        let keys: Vec<u64> = (made..made + 1000).collect();
        let given = put(&stream, &keys);
        match table.rows_or_insert(given.whole(), &uniform(), numbers.whole()) {
            Ok(()) => made += 1000,
            Err(error) => break error,
        }
    };
    assert!(made >= 10_000, "only {made} rows fit");
    let Error::Full { rows, wanted, plan, .. } = &error else { panic!("{error}") };
    assert_eq!((*rows as u64, *wanted as u64), (made, made + 1000));
    assert_eq!(*plan, Plan::new(SHAPE, made as usize + 1000));
    let text = error.to_string();
    assert!(text.contains("cannot grow to") && text.contains("for the index"), "{text}");
    // Keys that are there still find their rows, although there is no room for as many new ones.
    let keys: Vec<u64> = (0..1000).collect();
    let given = put(&stream, &keys);
    table.rows_or_insert(given.whole(), &uniform(), numbers.whole()).unwrap();
    assert_eq!(table.len().unwrap() as u64, made);
    let error = Table::new(&stream, SHAPE, 1 << 20).unwrap_err();
    assert!(matches!(error, Error::Full { rows: 0, .. }), "{error}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some((_machine, stream)) = stream() else { return };
    let refused = |error: Error, text: &str| {
        let said = error.to_string();
        assert!(said.contains(text), "{said}");
    };
    let odd = RowShape { width: 6, states: 0 };
    refused(Table::new(&stream, odd, 1).unwrap_err(), "multiple of 4");
    refused(Table::new(&stream, SHAPE, 1 << 40).unwrap_err(), "at most");
    let mut table = Table::new(&stream, SHAPE, 10).unwrap();
    let memory = put(&stream, &[0u64; 40]);
    let part = |bytes: usize| memory.span(0..bytes).unwrap();
    refused(table.find(part(12), part(0)).unwrap_err(), "no whole keys");
    refused(table.find(part(16), part(32)).unwrap_err(), "32 bytes for rows that take 64");
    refused(table.rows(part(16), part(4)).unwrap_err(), "that take 8");
    refused(table.gather(part(8), part(24)).unwrap_err(), "of each row there must be");
    refused(table.scatter(part(4), part(128)).unwrap_err(), "or 16 columns");
    let adam = Rule::Adam { beta1: 0.9, beta2: 0.99, epsilon: 1e-8 };
    let step = Step { rate: 0.1, count: 1 };
    refused(table.update(part(4), part(32), adam, step).unwrap_err(), "needs 2 accumulators");
    refused(table.import(&[1, 2, 1], &[0.0; 48]).unwrap_err(), "key 1 occurs twice");
    refused(table.import(&[1, 2], &[0.0; 48]).unwrap_err(), "48 floats");
    let many = Init { states: vec![0.0; 2], ..Init::zeros() };
    refused(table.find_or_insert(part(8), &many, part(32)).unwrap_err(), "accumulators");

    // A number that no row has is heard of once the work is done.
    table.import(&[7], &[1.0; 16]).unwrap();
    let bad = put(&stream, &[0u32, 1, NO_ROW]);
    let out = put(&stream, &[9.0f32; 24]);
    table.gather(bad.whole(), out.whole()).unwrap();
    let got: Vec<f32> = get(&stream, &out);
    assert!(got[..8].iter().all(|x| *x == 1.0) && got[8..].iter().all(|x| *x == 0.0));
    let error = table.len().unwrap_err().to_string();
    assert_eq!(error, "`gather` of a table: row number 1 at position 1, and there are 1 rows");
    assert_eq!(table.len().unwrap(), 1);
}
