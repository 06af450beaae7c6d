//! Training, saving, loading and meeting, with every mode.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bireme_comm::{Memory, Settings};
use bireme_engine::graph::Graph;
use bireme_engine::layers::{self, Act};
use bireme_engine::optimizer::Momentum;
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Executor, Place, Scope, io};
use bireme_fleet::{
    Environment, Fleet, Mode, Reduce, Result, Role, RoleMaker, SaveMode, Strategy, UserDefined,
    choose_checkpoint, last_checkpoint, remember_checkpoint,
};

const SERVERS: usize = 2;
const TRAINERS: usize = 2;
const STEPS: usize = 6;
/// Rows of a batch of all trainers.
const BATCH: usize = 8;

/// What a job starts from, and leaves behind.
#[derive(Clone, Copy, Default)]
struct Files<'a> {
    /// A checkpoint that servers begin with.
    from: Option<&'a Path>,
    /// Where trainer 0 has a checkpoint saved.
    checkpoint: Option<&'a Path>,
    /// Where it saves the model.
    model: Option<&'a Path>,
}

fn fleet(network: &Arc<Memory>, role: Role, index: usize) -> Fleet {
    let role = RoleMaker::user_defined(UserDefined {
        current_id: index as i64,
        role,
        worker_num: Some(TRAINERS as i64),
        server_endpoints: (0..SERVERS).map(|server| format!("server{server}:1")).collect(),
        worker_endpoints: Vec::new(),
        heter_stages: Vec::new(),
    });
    let settings = Settings { deadline: Duration::from_secs(60), ..Settings::default() };
    Fleet::with_transport(role.unwrap(), network.clone(), settings)
}

/// A line to fit, with enough inputs for two slices; returns the name of the loss.
fn minimize(fleet: &mut Fleet, strategy: &Strategy) -> Result<String> {
    minimize_with(fleet, strategy, (16, Act::Relu, 0.01))
}

/// The same, with another width, activation and learning rate.
fn minimize_with(
    fleet: &mut Fleet,
    strategy: &Strategy,
    (width, act, rate): (i64, Act, f32),
) -> Result<String> {
    let graph = Graph::new();
    graph.set_random_seed(3);
    let x = layers::data(&graph, "x", [2048], DType::F32);
    let y = layers::data(&graph, "y", [1], DType::F32);
    let hidden = layers::fc(&x, width, act)?;
    let guess = layers::fc(&hidden, 1, Act::None)?;
    let loss = layers::mean(&layers::square_error_cost(&guess, &y)?)?;
    fleet.minimize(&loss, &Momentum::new(rate, 0.9), strategy)?;
    Ok(loss.name().to_owned())
}

/// Rows `rows` of batch `step`, as feeds.
fn batch(step: usize, rows: std::ops::Range<usize>) -> [Tensor; 2] {
    let value = |row: usize, column: usize| {
        (((step * BATCH + row) * 31 + column * 7) % 17) as f32 / 170.0 - 0.05
    };
    let x: Vec<f32> =
        rows.clone().flat_map(|row| (0..2048).map(move |column| value(row, column))).collect();
    let y: Vec<f32> = rows.clone().map(|row| value(row, 3) + 1.0).collect();
    [
        Tensor::from_slice([rows.len(), 2048], &x).unwrap(),
        Tensor::from_slice([rows.len(), 1], &y).unwrap(),
    ]
}

fn train(mut fleet: Fleet, strategy: &Strategy, files: Files<'_>) -> Result<Vec<f64>> {
    let loss = minimize(&mut fleet, strategy)?;
    let (rank, trainers) = (fleet.worker_index() as usize, fleet.worker_num() as usize);
    let share = BATCH / trainers;
    let executor = fleet.init_worker(Executor::new(Place::Cpu)?)?;
    let mut step = executor.prepare(fleet.main_program()?, &["x", "y"], &[&loss])?;
    let mut losses = Vec::new();
    for number in 0..STEPS {
        let feeds = batch(number, rank * share..(rank + 1) * share);
        step.run(&[&feeds[0], &feeds[1]])?;
        losses.push(step.fetched(0).to_f64_vec()[0]);
    }
    let sums = fleet.util().all_reduce(&losses, Reduce::Sum)?;
    if let Some(folder) = files.checkpoint {
        fleet.save_persistables(folder, executor.scope(), SaveMode::Full)?;
    }
    if let Some(prefix) = files.model {
        let guess = fleet.original_program()?.global().ops.iter().find_map(|op| {
            (op.kind == "square_error_cost" || op.kind == "elementwise_sub")
                .then(|| op.input_vars().next().cloned())
                .flatten()
        });
        fleet.save_inference_model(prefix, &["x"], &[&guess.unwrap()], executor.scope())?;
    }
    fleet.stop_worker()?;
    Ok(sums.iter().map(|sum| sum / trainers as f64).collect())
}

fn serve(mut fleet: Fleet, strategy: &Strategy, files: Files<'_>) -> Result<()> {
    minimize(&mut fleet, strategy)?;
    fleet.init_server(files.from)?;
    fleet.run_server(&|| false, |endpoint| assert!(endpoint.starts_with("server")))
}

/// Runs a job to its end; the losses of its steps.
fn run(strategy: &Strategy, files: Files<'_>) -> Vec<f64> {
    let network = Arc::new(Memory::new(7));
    std::thread::scope(|scope| {
        let servers: Vec<_> = (0..SERVERS)
            .map(|rank| {
                let fleet = fleet(&network, Role::Server, rank);
                scope.spawn(move || serve(fleet, strategy, files))
            })
            .collect();
        let trainers: Vec<_> = (0..TRAINERS)
            .map(|rank| {
                let fleet = fleet(&network, Role::Worker, rank);
                scope.spawn(move || train(fleet, strategy, files))
            })
            .collect();
        let losses: Vec<Vec<f64>> =
            trainers.into_iter().map(|trainer| trainer.join().unwrap().unwrap()).collect();
        servers.into_iter().for_each(|server| server.join().unwrap().unwrap());
        assert!(losses.windows(2).all(|pair| pair[0] == pair[1]), "all see the same sums");
        losses[0].clone()
    })
}

fn alone(files: Files<'_>) -> Vec<f64> {
    let settings = Settings::default();
    let fleet = Fleet::with_transport(RoleMaker::alone(), Arc::new(Memory::new(7)), settings);
    train(fleet, &Strategy::sync(), files).unwrap()
}

fn parameters(prefix: &Path) -> Vec<(String, Vec<f64>)> {
    let scope = Scope::new();
    io::load_inference_model(prefix, &scope).unwrap();
    let mut names = scope.names();
    names.sort();
    names.into_iter().map(|name| (name.clone(), scope.get(&name).unwrap().to_f64_vec())).collect()
}

#[test]
fn in_sync_a_job_trains_as_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let [one, all] = ["one/model", "all/model"].map(|name| folder.path().join(name));
    let expected = alone(Files { model: Some(&one), ..Files::default() });
    assert!(expected[STEPS - 1] < expected[0], "{expected:?}");
    let losses = run(&Strategy::sync(), Files { model: Some(&all), ..Files::default() });
    for (loss, expected) in losses.iter().zip(&expected) {
        assert!((loss - expected).abs() < 1e-5, "{losses:?}, {expected}");
    }
    let (one, all) = (parameters(&one), parameters(&all));
    assert_eq!(one.len(), 4);
    for ((name, one), (_, all)) in one.iter().zip(&all) {
        let far = one.iter().zip(all).fold(0.0f64, |far, (a, b)| far.max((a - b).abs()));
        assert!(far < 1e-6, "{name}: {far}");
    }
}

#[test]
fn every_mode_trains_and_saves() {
    for mode in [Mode::Async, Mode::HalfAsync, Mode::Geo, Mode::Hybrid] {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        let strategy = Strategy { geo_steps: 2, ..Strategy::new(mode) };
        let losses = run(&strategy, Files { model: Some(&model), ..Files::default() });
        assert!(losses[STEPS - 1] < losses[0], "{mode:?}: {losses:?}");
        let moved = parameters(&model).iter().any(|(_, values)| values.iter().any(|v| *v != 0.0));
        assert!(moved, "{mode:?}");
    }
}

#[test]
fn a_job_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("checkpoint");
    let first = run(&Strategy::sync(), Files { checkpoint: Some(&checkpoint), ..Files::default() });
    let second = run(&Strategy::sync(), Files { from: Some(&checkpoint), ..Files::default() });
    assert!(second[0] < first[0], "{first:?}, {second:?}");
}

#[test]
fn a_restart_passes_a_damaged_checkpoint_over() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["1", "2"].map(|name| folder.path().join(name));
    let job_dir = folder.path().to_str().unwrap();
    let environment = Environment::of([("BIREME_JOB_DIR", job_dir)]).unwrap();
    for checkpoint in [&first, &second] {
        run(&Strategy::sync(), Files { checkpoint: Some(checkpoint), ..Files::default() });
        remember_checkpoint(&environment, checkpoint);
    }
    let whole = choose_checkpoint(folder.path(), true);
    assert_eq!((whole.chosen.as_ref(), whole.passed_over.len()), (Some(&second), 0));
    let is_part = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "safetensors");
    let damage = |checkpoint: &Path| {
        let mut files = std::fs::read_dir(checkpoint).unwrap().map(|entry| entry.unwrap().path());
        let part = files.find(is_part).unwrap();
        let mut bytes = std::fs::read(&part).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&part, bytes).unwrap();
    };
    damage(&second);
    let choice = choose_checkpoint(folder.path(), true);
    assert_eq!((choice.chosen.as_ref(), choice.passed_over.len()), (Some(&first), 1));
    assert_eq!(last_checkpoint(&environment).as_ref(), Some(&first), "all servers load it");
    // Nobody begins anew because of damage.
    damage(&first);
    assert_eq!(choose_checkpoint(folder.path(), true).chosen, None);
    assert_eq!(last_checkpoint(&environment).as_ref(), Some(&first));
}

#[test]
fn a_trainer_of_another_model_is_refused_with_what_differs() {
    let others = [
        ((32, Act::Relu, 0.01), "`fc_0.w_0` is [2048, 32] float32"),
        ((16, Act::Tanh, 0.01), "the number of `tanh` ops is 1 op on trainer 1"),
        ((16, Act::Relu, 0.05), "learning rate 0.05 on trainer 1"),
    ];
    for mode in [Mode::Sync, Mode::Async, Mode::Geo] {
        for (other, text) in others {
            let (network, strategy) = (Arc::new(Memory::new(7)), Strategy::new(mode));
            let (network, strategy) = (&network, &strategy);
            std::thread::scope(|scope| {
                let serve_one = |rank| {
                    let fleet = fleet(network, Role::Server, rank);
                    scope.spawn(move || serve(fleet, strategy, Files::default()))
                };
                let servers: Vec<_> = (0..SERVERS).map(serve_one).collect();
                let mut trainer = fleet(network, Role::Worker, 1);
                minimize_with(&mut trainer, strategy, other).unwrap();
                let joined = trainer.init_worker(Executor::new(Place::Cpu).unwrap());
                let error = joined.err().expect("it trains something else").to_string();
                assert!(error.contains("trains another program than server 0"), "{error}");
                assert!(error.contains(text), "{mode:?}, `{text}` in: {error}");
                // The others need not wait for it.
                let first = train(fleet(network, Role::Worker, 0), strategy, Files::default());
                let error = first.unwrap_err().to_string();
                assert!(error.contains("trains another program"), "{error}");
                for server in servers {
                    let _ = server.join().unwrap();
                }
            });
        }
    }
}

#[test]
fn calls_of_the_wrong_role_or_time_are_refused() {
    let network = Arc::new(Memory::new(1));
    let mut server = fleet(&network, Role::Server, 0);
    let refused = |result: Result<()>, text: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "`{text}` in: {error}");
    };
    refused(server.main_program().map(drop), "call `minimize` before");
    refused(server.stop_worker(), "`stop_worker` is for a trainer, but this process is server 0");
    minimize(&mut server, &Strategy::sync()).unwrap();
    refused(server.run_server(&|| false, |_| {}), "call `init_server` before");
    let nowhere = Some(Path::new("no/such/folder"));
    refused(server.init_server(nowhere), "There is no directory named 'no/such/folder'");
    let mut trainer = fleet(&network, Role::Worker, 1);
    minimize(&mut trainer, &Strategy::sync()).unwrap();
    refused(trainer.barrier_worker(), "call `init_worker` before");
    refused(trainer.init_server(None), "`init_server` is for a server");
    assert_eq!(trainer.split_files(&["a", "b", "c"]).unwrap(), ["c"]);
    trainer.stop_worker().unwrap();
}
