//! Collective jobs in one process: every rank on a thread, over a network in memory.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bireme_comm::{Memory, Settings, Transport};
use bireme_engine::device::Device;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place};
use bireme_fleet::collective::{Rings, Road};
use bireme_fleet::group::{Config, Group};
use bireme_fleet::{Environment, Fleet, RoleMaker, Strategy};
use bireme_ir::Program;

use crate::Params;
use crate::models::{Batch, Model, share};

/// The shape of a collective job.
#[derive(Clone)]
pub struct Ranks {
    /// How many there are.
    pub size: usize,
    /// Worker threads of each executor.
    pub threads: usize,
    /// What carries the bytes.
    pub transport: Arc<dyn Transport>,
    /// Deadlines and heartbeats.
    pub settings: Settings,
    /// The card of each rank; none for ranks on the host.
    pub cards: Vec<Arc<dyn Device>>,
    /// How cards exchange.
    pub road: Road,
    /// Called before each step, with rank and number of it: to make one fail, or late.
    pub before: Option<Before>,
}

/// See [`Ranks::before`].
pub type Before = Arc<dyn Fn(usize, usize) -> Result<()> + Send + Sync>;

/// What a rank has at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// Its parameters.
    pub params: Params,
    /// Its losses, on its own shares.
    pub losses: Vec<f64>,
}

impl Ranks {
    /// Ranks with one thread each.
    pub fn new(size: usize) -> Ranks {
        let settings = Settings {
            deadline: Duration::from_secs(60),
            heartbeat: Duration::from_millis(200),
            ..Settings::default()
        };
        let transport = Arc::new(Memory::new(0));
        let (cards, road) = (Vec::new(), Road::Auto);
        Ranks { size, threads: 1, transport, settings, cards, road, before: None }
    }

    /// As many ranks as there are cards, each on its own, which exchange as `road` says.
    pub fn on_cards(cards: Vec<Arc<dyn Device>>, road: Road) -> Ranks {
        Ranks { cards, road, ..Ranks::new(0) }.resized()
    }

    fn resized(self) -> Ranks {
        Ranks { size: self.cards.len(), ..self }
    }

    /// What rank `rank` runs its programs with.
    fn executor(&self, rank: usize) -> Result<Executor> {
        match self.cards.get(rank) {
            Some(card) => Ok(Executor::on(Arc::clone(card))),
            None => Ok(Executor::new(Place::Cpu)?.threads(self.threads)),
        }
    }

    /// Where the ranks listen.
    pub fn endpoints(&self) -> Vec<String> {
        (1..=self.size).map(|rank| format!("10.0.0.{rank}:6170")).collect()
    }

    /// Trains through [`Fleet`], every batch divided among the ranks.
    ///
    /// # Errors
    /// The first error of any rank.
    pub fn train(
        &self,
        model: &Model,
        batches: &[Batch],
        strategy: &Strategy,
    ) -> Result<Vec<Trained>> {
        self.train_each(model, batches, strategy).into_iter().collect()
    }

    /// As [`Ranks::train`], with what came of each rank.
    pub fn train_each(
        &self,
        model: &Model,
        batches: &[Batch],
        strategy: &Strategy,
    ) -> Vec<Result<Trained>> {
        self.each(|rank| {
            let (endpoints, id) = (self.endpoints().join(","), rank.to_string());
            let names = [("PADDLE_TRAINER_ENDPOINTS", endpoints.as_str())];
            let environment =
                Environment::of(names.into_iter().chain([("PADDLE_TRAINER_ID", id.as_str())]))?;
            let role = RoleMaker::collective(&environment)?;
            let (transport, settings) = (Arc::clone(&self.transport), self.settings.clone());
            let mut fleet = Fleet::with_transport(role, transport, settings).road(self.road);
            fleet.distribute(&model.main, &model.startup, strategy)?;
            let executor = fleet.init_worker(self.executor(rank)?)?;
            let trained = self.steps(model, fleet.main_program()?, &executor, rank, batches)?;
            fleet.stop_worker()?;
            Ok(trained)
        })
    }

    /// Trains with the programs that `programs` makes for each rank.
    ///
    /// # Errors
    /// The first error of any rank.
    pub fn train_programs(
        &self,
        model: &Model,
        batches: &[Batch],
        programs: impl Fn(usize, &[String]) -> Result<(Program, Program)> + Sync,
    ) -> Result<Vec<Trained>> {
        let trained = self.each(|rank| {
            let (main, startup) = programs(rank, &self.endpoints())?;
            let settings = self.settings.clone();
            let config = Config { settings, ..Config::new(rank, self.endpoints()) };
            let group = Group::connect(&config, &self.transport)?;
            let rings = Arc::new(Rings::new(group.clone()));
            let executor = self.executor(rank)?;
            rings.agree(executor.device(), self.road)?;
            let mut executor = executor.collective(rings);
            executor.run(&startup, &[], &[]).context("startup")?;
            let trained = self.steps(model, &main, &executor, rank, batches)?;
            group.barrier()?;
            Ok(trained)
        });
        trained.into_iter().collect()
    }

    fn steps(
        &self,
        model: &Model,
        program: &Program,
        executor: &Executor,
        rank: usize,
        batches: &[Batch],
    ) -> Result<Trained> {
        let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
        let mut step = executor.prepare(program, &feeds, &[&model.loss])?;
        let mut losses = Vec::new();
        for (number, batch) in batches.iter().enumerate() {
            if let Some(before) = &self.before {
                before(rank, number)?;
            }
            let own = share(batch, rank, self.size);
            step.run(&own.iter().collect::<Vec<&Tensor>>())?;
            losses.push(step.fetched(0).to_f64_vec()[0]);
        }
        let mut params = Params::new();
        for name in &model.params {
            params.insert(name.clone(), executor.scope().get(name)?.as_slice::<f32>()?.to_vec());
        }
        Ok(Trained { params, losses })
    }

    /// Runs every rank on a thread of its own.
    fn each<T: Send>(&self, run: impl Fn(usize) -> Result<T> + Sync) -> Vec<Result<T>> {
        let run = &run;
        thread::scope(|scope| {
            let ranks: Vec<_> = (0..self.size)
                .map(|rank| scope.spawn(move || run(rank).with_context(|| format!("rank {rank}"))))
                .collect();
            let joined = ranks
                .into_iter()
                .map(|rank| rank.join().unwrap_or_else(|_| Err(anyhow!("a rank panicked"))));
            joined.collect()
        })
    }
}
