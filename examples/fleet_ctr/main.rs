//! A click-through-rate model trained by several processes, each of which is told its role by
//! environment variables: one script for servers and trainers, as with any launcher.
//!
//! ```text
//! export PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6174 PADDLE_TRAINERS_NUM=2
//! TRAINING_ROLE=PSERVER POD_IP=127.0.0.1 PADDLE_PORT=6174 cargo run --release --example fleet_ctr &
//! TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=0 cargo run --release --example fleet_ctr &
//! TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=1 cargo run --release --example fleet_ctr
//! ```
//!
//! Without the variables it trains alone.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use anyhow::{Context, Result, ensure};
use bireme::data::Batch;
use bireme::fleet::Reduce;
use bireme::prelude::*;
use bireme::rec::zoo::criteo::Source;
use bireme::rec::zoo::{self, Hyper, Value};

/// How much there is to learn from, and with.
#[derive(Clone, Copy)]
struct Size {
    rows: usize,
    batch: usize,
    steps: usize,
}

fn main() -> Result<()> {
    ensure!(std::env::args().len() == 1, "usage: fleet_ctr (the environment says the rest)");
    let size = Size { rows: 1_000_001, batch: 256, steps: 400 };
    if let Some(auc) = run(Fleet::from_environment()?, size)? {
        println!("mean AUC of the trainers {auc:.4}");
    }
    Ok(())
}

/// Does this process's part; a trainer returns the mean AUC of all trainers.
fn run(mut fleet: Fleet, size: Size) -> Result<Option<f64>> {
    let dnn = zoo::find("dnn").context("the zoo has the model `dnn`")?;
    let rows = ("sparse_feature_number", Value::Int(size.rows as i64));
    let model = (dnn.build)(&mut Hyper::of([rows]))?;
    model.graph.set_random_seed(1);
    let optimizer = Adam::new(1e-3).lazy_mode(true);
    fleet.minimize(&model.loss, &optimizer, &Strategy::asynchronous())?;
    if fleet.is_server() {
        fleet.init_server(None)?;
        fleet.run_server(&|| false, |endpoint| println!("Server listening on {endpoint}"))?;
        return Ok(None);
    }

    // Each trainer takes samples of its own.
    let samples = (size.batch * size.steps) as u64;
    let first = u64::from(fleet.worker_index()) * samples;
    let samples = Source::new(1, size.rows)?.samples(first..first + samples);
    let feeds: Vec<&str> = model.slots.iter().map(|slot| slot.name.as_str()).collect();
    let fetches = [model.loss.name(), model.metrics[0].variable.name()];
    let executor = fleet.init_worker(Executor::new(Place::Cpu)?)?;
    let mut step = executor.prepare(fleet.main_program()?, &feeds, &fetches)?;
    let mut batch = Batch::of(&model.slots);
    let mut auc = 0.0;
    for number in 0..size.steps {
        batch.fill(&samples, number * size.batch..(number + 1) * size.batch);
        step.run(&batch.tensors())?;
        auc = step.fetched(1).to_f64_vec()[0];
        if fleet.is_first_worker() && (number + 1) % 50 == 0 {
            println!(
                "step {}  loss {:.4}  AUC {auc:.4}",
                number + 1,
                step.fetched(0).to_f64_vec()[0]
            );
        }
    }
    let sum = fleet.util().all_reduce(&[auc], Reduce::Sum)?[0];
    fleet.stop_worker()?;
    Ok(Some(sum / f64::from(fleet.worker_num())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bireme::fleet::comm::{Memory, Settings};
    use bireme::fleet::{Environment, RoleMaker};

    use super::*;

    const SIZE: Size = Size { rows: 1_000, batch: 128, steps: 40 };

    #[test]
    fn a_process_without_a_launcher_trains_alone() {
        let fleet = Fleet::init(RoleMaker::alone(), &Environment::default()).unwrap();
        assert!(run(fleet, SIZE).unwrap().unwrap() > 0.5);
    }

    #[test]
    fn a_server_and_two_trainers_train_together() {
        let network = Arc::new(Memory::new(1));
        let process = |role: &[(&str, &str)]| {
            let servers = ("PADDLE_PSERVERS_IP_PORT_LIST", "server:1");
            let job = [servers, ("PADDLE_TRAINERS_NUM", "2")];
            let pairs = job.iter().chain(role).copied();
            let role = RoleMaker::from_environment(&Environment::of(pairs).unwrap()).unwrap();
            let fleet = Fleet::with_transport(role, network.clone(), Settings::default());
            std::thread::spawn(move || run(fleet, SIZE).unwrap())
        };
        let server = process(&[("TRAINING_ROLE", "PSERVER"), ("PADDLE_PSERVER_ID", "0")]);
        let trainers = ["0", "1"]
            .map(|rank| process(&[("TRAINING_ROLE", "TRAINER"), ("PADDLE_TRAINER_ID", rank)]));
        let [one, two] = trainers.map(|trainer| trainer.join().unwrap().unwrap());
        assert!(one > 0.5 && one == two, "{one}, {two}");
        assert_eq!(server.join().unwrap(), None);
    }
}
