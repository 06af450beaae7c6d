//! Ranks on emulated cards that reduce among themselves equal one card on the joint batch, by either road: through the
//! host's memory, and from card to card.

use std::sync::Arc;
use std::time::Duration;

use bireme_cuda::Keeping;
use bireme_cuda::driver::libraries;
use bireme_engine::Executor;
use bireme_engine::collective::Reduction;
use bireme_engine::device::{Device, DeviceTensor, Elements};
use bireme_engine::graph::Graph;
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Fc, ParamAttr};
use bireme_engine::optimizer::{Adam, Optimizer, Sgd};
use bireme_engine::tensor::Tensor;
use bireme_fleet::Strategy;
use bireme_fleet::collective::Road;
use bireme_fleet::transpiler::{
    CollectiveMode, CollectiveStrategy, Config, Distribution, Transpiler,
};
use bireme_ir::DType;
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn, mnist_batches, mnist_mlp};
use bireme_testkit::ranks::{Ranks, Trained};
use bireme_testkit::{Params, difference, local};

const STEPS: usize = 5;
const BATCH: usize = 8;
const TOLERANCE: f32 = 2e-6;

/// So many cards; none where there is no compiler for them.
fn cards(count: u32) -> Option<Vec<Arc<dyn Device>>> {
    libraries::load_from(bireme_emulator::DIR?);
    bireme_emulator::Control::open().unwrap().unwrap().set_cards(4);
    // Not shared with other tests: exchanges of two groups in one order of work could wait for each other for ever.
    let open = |number| bireme_cuda::open_alone(number, Keeping::Driver).unwrap();
    Some((0..count).map(open).collect())
}

/// What one card has after training on whole batches.
fn alone(card: &Arc<dyn Device>, model: &Model, batches: &[Batch]) -> Params {
    let mut executor = Executor::on(Arc::clone(card));
    executor.run(&model.startup, &[], &[]).unwrap();
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let mut step = executor.prepare(&model.main, &feeds, &[&model.loss]).unwrap();
    for batch in batches {
        step.run(&batch.iter().collect::<Vec<&Tensor>>()).unwrap();
    }
    let value = |name: &String| {
        (name.clone(), executor.scope().get(name).unwrap().as_slice::<f32>().unwrap().to_vec())
    };
    model.params.iter().map(value).collect()
}

fn equals(what: &str, expected: &Params, trained: &[Trained], tolerance: f32) {
    for (rank, other) in trained.iter().enumerate() {
        assert!(other.params == trained[0].params, "{what}: rank {rank} differs from rank 0");
    }
    let difference = difference(expected, &trained[0].params);
    assert!(difference <= tolerance, "{what}: {difference:e}");
}

const ROADS: [Road; 2] = [Road::Host, Road::Nccl];

/// Dense and sparse gradients, in one bucket and in many.
#[test]
fn several_cards_equal_one_on_the_joint_batch() {
    let Some(cards) = cards(4) else { return };
    let clicks = ctr_dnn(Table::Sliced, &Adam::new(0.003).epsilon(1e-2)).unwrap();
    let digits = mnist_mlp(&Sgd::new(0.1)).unwrap();
    let models = [(clicks, ctr_batches(STEPS, BATCH)), (digits, mnist_batches(STEPS, BATCH))];
    for (model, batches) in &models {
        let expected = alone(&cards[0], model, batches);
        let (on_host, _) = local::train(model, batches).unwrap();
        assert!(difference(&on_host, &expected) <= 1e-5);
        for road in ROADS {
            for (size, bucket_mb) in [(2, 32.0), (4, 0.01)] {
                let how = CollectiveStrategy { bucket_mb, ..CollectiveStrategy::default() };
                let ranks = Ranks::on_cards(cards[..size].to_vec(), road);
                let trained = ranks.train(model, batches, &Strategy::collective(how)).unwrap();
                equals(&format!("{road:?}, {size} cards"), &expected, &trained, TOLERANCE);
            }
        }
    }
}

/// A net whose every number is a small fraction of a power of two: no sum is rounded, so the order of sums cannot show.
fn exact() -> (Model, Vec<Batch>) {
    let graph = Graph::new();
    let x = layers::data(&graph, "x", [4], DType::F32);
    let y = layers::data(&graph, "y", [1], DType::F32);
    let start = |name: &str| ParamAttr::named(name).init(Initializer::Constant(0.5));
    let out = Fc::new(1).param_attr(start("w")).bias_attr(start("b")).apply(&x).unwrap();
    let loss = layers::mean(&layers::square_error_cost(&out, &y).unwrap()).unwrap();
    Sgd::new(0.125).minimize(&loss).unwrap();
    let model = Model {
        main: graph.main(),
        startup: graph.startup(),
        feeds: vec!["x".to_owned(), "y".to_owned()],
        loss: loss.name().to_owned(),
        params: vec!["w".to_owned(), "b".to_owned()],
        tables: Vec::new(),
    };
    let batch = |step: usize| {
        let x: Vec<f32> = (0..8 * 4).map(|at| ((at * 7 + step * 3) % 5) as f32 - 2.0).collect();
        let y: Vec<f32> = (0..8).map(|at| ((at + step) % 3) as f32).collect();
        vec![Tensor::from_slice([8, 4], &x).unwrap(), Tensor::from_slice([8, 1], &y).unwrap()]
    };
    (model, (0..3).map(batch).collect())
}

#[test]
fn where_no_sum_is_rounded_every_bit_is_that_of_one_card() {
    let Some(cards) = cards(4) else { return };
    let (model, batches) = exact();
    let expected = alone(&cards[0], &model, &batches);
    assert_ne!(expected["w"], [0.5; 4], "nothing was learned");
    for road in ROADS {
        for size in [1, 2, 4] {
            let ranks = Ranks::on_cards(cards[..size].to_vec(), road);
            let trained = ranks.train(&model, &batches, &Strategy::default()).unwrap();
            equals(&format!("{road:?}, {size} cards"), &expected, &trained, 0.0);
        }
    }
}

/// Whatever order the cards do their work in, two trainings have the same bits.
#[test]
fn two_trainings_have_the_same_bits() {
    let Some(cards) = cards(2) else { return };
    let model = ctr_dnn(Table::Sliced, &Adam::new(0.003).epsilon(1e-2)).unwrap();
    let batches = ctr_batches(STEPS, BATCH);
    for road in ROADS {
        let ranks = Ranks::on_cards(cards.clone(), road);
        let train = || ranks.train(&model, &batches, &Strategy::default()).unwrap();
        assert!(train() == train(), "{road:?}");
    }
}

/// Programs of `DistributeTranspiler`, op by op, local SGD among them; merged gradients.
#[test]
fn all_forms_of_collective_programs_train_on_cards() {
    let Some(cards) = cards(2) else { return };
    let batches = mnist_batches(4, BATCH);
    let model = mnist_mlp(&Sgd::new(0.1)).unwrap();
    let expected = alone(&cards[0], &model, &batches);
    for road in ROADS {
        let ranks = Ranks::on_cards(cards.clone(), road);
        for mode in [CollectiveMode::GradAllReduce, CollectiveMode::LocalSgd] {
            let mode = Some(mode);
            let config =
                Config { mode: Distribution::Collective, collective_mode: mode, ..Config::new() };
            let transpiler = Transpiler::new(config).unwrap();
            let programs = |rank: usize, endpoints: &[String]| {
                let (main, startup) = (&model.main, &model.startup);
                let own = &endpoints[rank];
                Ok(transpiler.transpile_collective(rank, main, startup, endpoints, own)?)
            };
            let trained = ranks.train_programs(&model, &batches, programs).unwrap();
            equals(&format!("{road:?}, {mode:?}"), &expected, &trained, TOLERANCE);
        }
        let strategy = Strategy::default().local_sgd(1, 1);
        let trained = ranks.train(&model, &batches, &strategy).unwrap();
        equals(&format!("{road:?}, local SGD"), &expected, &trained, TOLERANCE);
        let halves =
            |batch: &Batch| [0, 1].map(|part| bireme_testkit::models::share(batch, part, 2));
        let small: Vec<Batch> = batches.iter().flat_map(halves).collect();
        let trained = ranks.train(&model, &small, &Strategy::default().gradient_merge(2)).unwrap();
        equals(&format!("{road:?}, merged"), &expected, &trained, TOLERANCE);
    }
}

/// The last batch of an epoch may be small, and not as small on every rank.
#[test]
fn batches_of_other_sizes_train_too() {
    let Some(cards) = cards(2) else { return };
    let model = ctr_dnn(Table::Sliced, &Sgd::new(0.1)).unwrap();
    let mut batches = ctr_batches(3, BATCH);
    batches.extend(ctr_batches(1, 6));
    batches.extend(ctr_batches(1, BATCH));
    // All ranks have more: those whose cards exchange agree anew.
    batches.extend(ctr_batches(2, 2 * BATCH));
    let (expected, _) = local::train(&model, &batches).unwrap();
    for road in ROADS {
        let ranks = Ranks::on_cards(cards.clone(), road);
        let trained = ranks.train(&model, &batches, &Strategy::default()).unwrap();
        equals(&format!("{road:?}"), &expected, &trained, 1e-5);
    }
}

/// Ranks that share a card, or of which some have none, exchange through the host's memory by themselves.
#[test]
fn ranks_that_share_a_card_go_by_the_host() {
    let Some(cards) = cards(1) else { return };
    let model = mnist_mlp(&Sgd::new(0.1)).unwrap();
    let batches = mnist_batches(3, BATCH);
    let expected = alone(&cards[0], &model, &batches);
    let shared = vec![Arc::clone(&cards[0]), Arc::clone(&cards[0])];
    let ranks = Ranks::on_cards(shared.clone(), Road::Auto);
    let trained = ranks.train(&model, &batches, &Strategy::default()).unwrap();
    equals("shared", &expected, &trained, TOLERANCE);
    let mixed = Ranks { cards: cards.clone(), ..Ranks::new(2) };
    let trained = mixed.train(&model, &batches, &Strategy::default()).unwrap();
    assert!(difference(&expected, &trained[0].params) <= TOLERANCE);
    let refused = Ranks::on_cards(shared, Road::Nccl);
    let error = refused.train(&model, &batches, &Strategy::default()).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("ranks 0 and 1 share a card"), "{text}");
    assert!(text.contains("BIREME_COLLECTIVE=nccl"), "{text}");
}

/// Each call from card to card, on three cards, with numbers that say where they come from.
#[test]
fn every_exchange_does_what_it_says() {
    let Some(cards) = cards(3) else { return };
    let name = cards[0].name_group().unwrap();
    let rank = |rank: usize| {
        let card = &cards[rank];
        let exchange = card.join(&name, rank, 3, &|| Ok(())).unwrap();
        let of = |count: usize| Elements { dtype: DType::F32, count };
        let upload = |values: &[f32]| {
            let tensor = Tensor::from_slice([values.len()], values).unwrap();
            DeviceTensor::upload(card.as_ref(), &tensor).unwrap()
        };
        let got =
            |tensor: &DeviceTensor| tensor.download().unwrap().as_slice::<f32>().unwrap().to_vec();
        let number = rank as f32 + 1.0;
        let (own, out) = (upload(&[number, 10.0 * number]), upload(&[0.0; 2]));
        for (how, expected) in [
            (Reduction::Sum, [6.0, 60.0]),
            (Reduction::Prod, [6.0, 6000.0]),
            (Reduction::Min, [1.0, 10.0]),
            (Reduction::Max, [3.0, 30.0]),
        ] {
            exchange.all_reduce(own.address(), out.address(), of(2), how).unwrap();
            assert_eq!(got(&out), expected, "{how:?}");
        }
        exchange.average(own.address(), out.address(), of(2)).unwrap();
        assert_eq!(got(&out), [2.0, 20.0]);
        exchange.broadcast(own.address(), out.address(), of(2), 1).unwrap();
        assert_eq!(got(&out), [2.0, 20.0]);
        exchange.reduce(own.address(), out.address(), of(2), Reduction::Sum, 2).unwrap();
        let expected = if rank == 2 { [6.0, 60.0] } else { [2.0, 20.0] };
        assert_eq!(got(&out), expected);
        let parts: Vec<f32> = (0..6).map(|at| 100.0 * number + at as f32).collect();
        let parts = upload(&parts);
        exchange.scatter(parts.address(), out.address(), of(2), 1).unwrap();
        let first = 200.0 + 2.0 * rank as f32;
        assert_eq!(got(&out), [first, first + 1.0]);
        let all = upload(&[0.0; 6]);
        exchange.all_gather(own.address(), all.address(), of(2)).unwrap();
        assert_eq!(got(&all), [1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
        exchange.reduce_scatter(all.address(), out.address(), of(2), Reduction::Sum).unwrap();
        assert_eq!(got(&out), [3.0 * number, 30.0 * number]);
        let parts: Vec<f32> = (0..6).map(|at| 100.0 * number + at as f32).collect();
        exchange.all_to_all(upload(&parts).address(), all.address(), of(2)).unwrap();
        let from = |rank: usize, at: usize| 100.0 * (rank as f32 + 1.0) + at as f32;
        let mine: Vec<f32> =
            (0..3).flat_map(|other| [from(other, 2 * rank), from(other, 2 * rank + 1)]).collect();
        assert_eq!(got(&all), mine);
        match rank {
            0 => exchange.send(own.address(), of(2), 2).unwrap(),
            2 => {
                exchange.receive(out.address(), of(2), 0).unwrap();
                assert_eq!(got(&out), [1.0, 10.0]);
            }
            _ => {}
        }
        card.synchronize().unwrap();
        assert!(!exchange.is_stuck(Duration::ZERO) && exchange.problem().is_none());
        exchange.abort("enough");
        let after = exchange.broadcast(own.address(), out.address(), of(2), 1).unwrap_err();
        assert!(after.to_string().contains("enough"), "{after}");
        assert_eq!(exchange.problem().as_deref(), Some("enough"));
    };
    let rank = &rank;
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..3).map(|number| scope.spawn(move || rank(number))).collect();
        ranks.into_iter().for_each(|rank| rank.join().unwrap());
    });
}
