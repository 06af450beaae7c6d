//! Distributed equals local: programs of all roles, run step by step in one thread, leave the
//! parameters that the original leaves.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use bireme_engine::clip::GradClip;
use bireme_engine::lr::Schedule;
use bireme_engine::op::run_once;
use bireme_engine::optimizer::{Adam, Optimizer, Sgd};
use bireme_engine::regularizer::Regularizer;
use bireme_engine::remote::{GeoParam, Piece, Remote, RowSpread, Sending, TableRef};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Error, Executor, Place, Result, Value};
use bireme_ir::{Attr, Program};
use bireme_transpiler::{Config, Transpiler};

use crate::models::{Model, TableKind, ctr, mlp, servers};
use crate::optimizers::optimizers;

const STEPS: usize = 4;
/// Rows in the batch of all trainers.
const BATCH: usize = 6;

type Values = HashMap<String, Value>;

/// All servers' variables, by endpoint.
#[derive(Default)]
struct Servers(Mutex<BTreeMap<String, Values>>);

impl Servers {
    fn with<T>(&self, piece: &Piece, look: impl FnOnce(&mut Values, &str) -> T) -> T {
        let mut servers = self.0.lock().unwrap();
        look(servers.get_mut(&piece.endpoint).unwrap(), &piece.name)
    }
}

impl Remote for Servers {
    fn send(&self, how: &Sending, values: &[&Value]) -> Result<()> {
        for (piece, value) in how.pieces.iter().zip(values) {
            self.with(piece, |vars, name| vars.insert(name.to_owned(), (*value).clone()));
        }
        Ok(())
    }

    fn send_barrier(&self, _: &[String]) -> Result<()> {
        Ok(())
    }

    fn recv(&self, pieces: &[Piece], outs: &mut [&mut Tensor], _: &mut [u64]) -> Result<()> {
        for (piece, out) in pieces.iter().zip(outs) {
            self.with(piece, |vars, name| out.copy_from(vars[name].tensor().unwrap()));
        }
        Ok(())
    }

    fn fetch_barrier(&self, _: &[String]) -> Result<()> {
        Ok(())
    }

    fn pull_rows(&self, table: &TableRef, ids: &[&[i64]], outs: &mut [&mut [f32]]) -> Result<()> {
        let RowSpread::Sections(sections) = &table.spread else { panic!("{table:?}") };
        for (ids, out) in ids.iter().zip(outs) {
            for (id, out) in ids.iter().zip(out.chunks_exact_mut(table.width)) {
                let (mut row, mut server) = (*id as u64, 0);
                while row >= sections[server] {
                    row -= sections[server];
                    server += 1;
                }
                let (name, endpoint) = (&table.names[server], &table.endpoints[server]);
                let piece = Piece { name: name.clone(), endpoint: endpoint.clone() };
                self.with(&piece, |vars, name| {
                    let rows = vars[name].tensor().unwrap().as_slice::<f32>().unwrap();
                    let first = row as usize * table.width;
                    out.copy_from_slice(&rows[first..first + table.width]);
                });
                if table.padding == Some(*id) {
                    out.fill(0.0);
                }
            }
        }
        Ok(())
    }

    fn push_rows(
        &self,
        table: &TableRef,
        _: &[&[i64]],
        _: &[&[f32]],
        _: Option<&[[f32; 2]]>,
    ) -> Result<()> {
        Err(Error::kernel(format!("no keyed tables here: `{}`", table.name)))
    }

    fn exchange(&self, _: &mut [GeoParam<'_>]) -> Result<()> {
        Err(Error::kernel("no geo mode here"))
    }

    fn whoami(&self) -> String {
        "a test".to_owned()
    }
}

/// Numbers below 1, the same in every run.
fn noise(seed: usize, count: usize) -> Vec<f32> {
    let mut state = seed as u32 * 2 + 1;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1u32 << 24) as f32
    };
    (0..count).map(next).collect()
}

/// Rows `from..to` of the feeds of step `step`.
fn feeds(main: &Program, step: usize, from: usize, to: usize) -> Vec<(String, Tensor)> {
    let inputs = main.global().vars.values().filter(|var| var.need_check_feed);
    inputs
        .map(|var| {
            let width = var.shape[1..].iter().product::<i64>() as usize;
            let values = &noise(step * 7 + var.name.len(), BATCH * width)[from * width..to * width];
            let mut dims: Vec<usize> = var.shape.iter().map(|dim| *dim as usize).collect();
            dims[0] = to - from;
            let tensor = match var.name.as_str() {
                "label" => ints(dims, values, 2.0),
                name if name.starts_with('C') => ints(dims, values, 5000.0),
                // Small, or a rate that suits all optimizers would be hard to find.
                _ => {
                    let values: Vec<f32> = values.iter().map(|v| 0.02 * (v - 0.5)).collect();
                    Tensor::from_slice(dims, &values).unwrap()
                }
            };
            (var.name.clone(), tensor)
        })
        .collect()
}

fn ints(dims: Vec<usize>, values: &[f32], scale: f32) -> Tensor {
    let values: Vec<i64> = values.iter().map(|value| (value * scale) as i64).collect();
    Tensor::from_slice(dims, &values).unwrap()
}

fn run(executor: &mut Executor, program: &Program, feeds: &[(String, Tensor)]) {
    let used = |name: &str| {
        program.global().ops.iter().any(|op| op.input_vars().any(|input| input == name))
    };
    let feeds: Vec<(&str, &Tensor)> =
        feeds.iter().filter(|(name, _)| used(name)).map(|(n, t)| (n.as_str(), t)).collect();
    executor.run(program, &feeds, &[]).unwrap();
}

fn executor() -> Executor {
    Executor::new(Place::Cpu).unwrap()
}

type Params = BTreeMap<String, Vec<f32>>;

fn params(main: &Program, read: impl Fn(&str) -> Vec<f32>) -> Params {
    main.parameters().map(|param| (param.name.clone(), read(&param.name))).collect()
}

/// Trains in one process.
fn local(model: &Model) -> Params {
    let mut executor = executor();
    executor.run(&model.startup, &[], &[]).unwrap();
    for step in 0..STEPS {
        run(&mut executor, &model.main, &feeds(&model.main, step, 0, BATCH));
    }
    let read = |name: &str| executor.scope().get(name).unwrap().as_slice::<f32>().unwrap().to_vec();
    let params = params(&model.main, read);
    // Nothing equals what is not a number.
    assert!(params.values().flatten().all(|value| value.is_finite()));
    params
}

/// The program up to its barrier, and from there on.
fn halves(program: &Program) -> (Program, Program) {
    let (mut first, mut second) = (program.clone(), program.clone());
    let ops = &program.global().ops;
    let barrier = ops.iter().position(|op| op.kind == "send_barrier").unwrap();
    first.global_mut().ops.truncate(barrier);
    second.global_mut().ops.drain(..barrier);
    second.global_mut().ops[0].inputs.clear();
    (first, second)
}

/// What a server does when all trainers have met.
fn update(program: &Program, values: &mut Values) {
    let serve = &program.global().ops[0];
    let mut blocks = Vec::new();
    if let Attr::Int(block @ 1..) = serve.attrs["lr_decay_block_id"] {
        blocks.push(block);
    }
    let Attr::Blocks(optimize) = &serve.attrs["optimize_blocks"] else { panic!() };
    blocks.extend(optimize);
    for op in blocks.into_iter().flat_map(|block| &program.blocks[block as usize].ops) {
        run_once(op, values).unwrap();
    }
}

/// Trains on `pservers` servers and `trainers` trainers in sync mode.
fn distributed(model: &Model, config: Config, pservers: usize, trainers: usize) -> Params {
    let transpiler = Transpiler::new(config).unwrap();
    let endpoints = servers(pservers);
    let (main, startup) = (&model.main, &model.startup);
    let splits: Vec<_> = (0..trainers)
        .map(|id| transpiler.transpile(id, main, startup, &endpoints, trainers, true).unwrap())
        .collect();
    let cluster = Arc::new(Servers::default());
    for endpoint in &endpoints {
        let mut executor = executor();
        executor.run(&splits[0].startup_program(endpoint).unwrap(), &[], &[]).unwrap();
        let value = |name: String| {
            let tensor = executor.scope().get(&name).unwrap();
            (name, Value::from(tensor))
        };
        let values = executor.scope().names().into_iter().map(value).collect();
        cluster.0.lock().unwrap().insert(endpoint.clone(), values);
    }
    let programs: Vec<(String, Program)> =
        endpoints.iter().map(|ep| (ep.clone(), splits[0].pserver_program(ep).unwrap())).collect();
    let mut workers: Vec<_> = splits
        .iter()
        .map(|split| {
            let mut worker = executor().remote(Arc::clone(&cluster) as Arc<dyn Remote>);
            worker.run(split.trainer_startup(), &[], &[]).unwrap();
            (worker, halves(split.trainer_program()))
        })
        .collect();
    let share = BATCH / trainers;
    for step in 0..STEPS {
        for (id, (worker, (first, _))) in workers.iter_mut().enumerate() {
            run(worker, first, &feeds(main, step, id * share, (id + 1) * share));
        }
        for (endpoint, program) in &programs {
            update(program, cluster.0.lock().unwrap().get_mut(endpoint).unwrap());
        }
        for (worker, (_, second)) in &mut workers {
            run(worker, second, &[]);
        }
    }
    let located: Vec<_> = splits[0].located().collect();
    params(main, |name| {
        let param = located.iter().find(|param| param.param == name).unwrap();
        let mut whole = Vec::new();
        for piece in param.pieces {
            let (name, endpoint) = (piece.name.clone(), endpoints[piece.server].clone());
            cluster.with(&Piece { name, endpoint }, |values, name| {
                whole.extend(values[name].tensor().unwrap().as_slice::<f32>().unwrap());
            });
        }
        whole
    })
}

fn assert_near(found: &Params, expected: &Params, tolerance: f32) {
    for (name, expected) in expected {
        let found = &found[name];
        assert_eq!(found.len(), expected.len(), "{name}");
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            let near = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
            assert!(near, "element {index} of `{name}`: {found}, not {expected}");
        }
    }
}

#[test]
fn one_trainer_is_bit_equal_with_every_optimizer() {
    for (kind, optimizer) in optimizers() {
        for model in [mlp(&*optimizer), ctr(TableKind::Rows, &*optimizer)] {
            let expected = local(&model);
            for slice_var_up in [true, false] {
                let config = Config { slice_var_up, ..Config::new() };
                assert_eq!(distributed(&model, config, 3, 1), expected, "{kind}");
            }
        }
    }
}

#[test]
fn the_number_of_servers_changes_nothing() {
    for (kind, optimizer) in optimizers() {
        let model = ctr(TableKind::Rows, &*optimizer);
        let one = distributed(&model, Config::new(), 1, 2);
        assert_eq!(distributed(&model, Config::new(), 5, 2), one, "{kind}");
    }
}

#[test]
fn trainers_share_the_batch() {
    let sgd = Sgd::new(0.1).regularization(Regularizer::L2(0.01));
    for model in [mlp(&sgd), ctr(TableKind::Rows, &sgd), ctr(TableKind::Dense, &sgd)] {
        let expected = local(&model);
        for trainers in [2, 3] {
            assert_near(&distributed(&model, Config::new(), 2, trainers), &expected, 1e-6);
        }
    }
}

#[test]
fn clips_and_schedules_are_those_of_one_process() {
    let decay =
        Schedule::Exponential { rate: 0.1, decay_steps: 1.0, decay_rate: 0.5, staircase: false };
    let cases: Vec<Box<dyn Optimizer>> = vec![
        Box::new(Sgd::new(decay.clone()).grad_clip(GradClip::GlobalNorm(0.01))),
        Box::new(Adam::new(decay).grad_clip(GradClip::Norm(0.01))),
        Box::new(Sgd::new(0.1).grad_clip(GradClip::value(0.001))),
    ];
    for optimizer in cases {
        let model = mlp(&*optimizer);
        assert_eq!(distributed(&model, Config::new(), 2, 1), local(&model));
    }
}
