//! What a worker must know before it connects: who it is, who the servers are, how it keeps time,
//! and the communicator's knobs. A trainer program says most of it itself; nothing here reads the
//! environment.

use bireme_comm::Identity;
use bireme_ir::{Attr, Op, Program};

use super::Knobs;
use crate::{Error, Mode, Result};

/// Steps between two exchanges of a geo trainer where nobody says otherwise; Paddle's default.
pub const GEO_STEPS: u32 = 100;

/// Who a worker is, and how it works with the servers.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerConfig {
    /// This trainer, from 0.
    pub trainer: u32,
    /// Trainers in all, heter workers among them.
    pub trainers: u32,
    /// How many of them, the last ones, are heter workers.
    pub heter_workers: u32,
    /// The servers, as `ip:port`, in order.
    pub endpoints: Vec<String>,
    /// How trainers keep time.
    pub mode: Mode,
    /// How gradients are queued and merged.
    pub communicator: Knobs,
    /// Async and hybrid: how many of its own steps a trainer's values may lack before it waits for
    /// them. 0 stands for as many as the queues hold, see [`WorkerConfig::lag`].
    pub staleness: u32,
    /// Geo: steps between two exchanges.
    pub geo_steps: u32,
    /// The fingerprint of the program that was split, which servers compare with theirs; empty
    /// where it is not known.
    pub program: Vec<String>,
}

impl WorkerConfig {
    /// A worker of `trainers` with default knobs.
    pub fn new(trainer: u32, trainers: u32, endpoints: Vec<String>, mode: Mode) -> WorkerConfig {
        let communicator = Knobs::default();
        let geo_steps = GEO_STEPS;
        WorkerConfig {
            trainer,
            trainers,
            heter_workers: 0,
            endpoints,
            mode,
            communicator,
            staleness: 0,
            geo_steps,
            program: Vec::new(),
        }
    }

    /// What a trainer program says of itself in the attributes of the ops that talk to servers;
    /// `None` for a program without such ops.
    ///
    /// The servers are those of the first op with `endpoints`, in its order, and then those that
    /// only stand in an `epmap`.
    ///
    /// # Errors
    /// When two ops contradict each other, or an attribute makes no sense.
    pub fn from_program(program: &Program) -> Result<Option<WorkerConfig>> {
        let mut found = Found::default();
        for op in program.blocks.iter().flat_map(|block| &block.ops) {
            if OPS.contains(&op.kind.as_str()) {
                found.read(op)?;
            }
        }
        found.finish()
    }

    /// Those of the trainers that read data: the ranks below this number.
    pub fn readers(&self) -> u32 {
        self.trainers - self.heter_workers
    }

    /// Who this process is to others.
    pub fn identity(&self) -> Identity {
        match self.trainer.checked_sub(self.readers()) {
            None => Identity::trainer(self.trainer),
            Some(index) => Identity::heter_worker(index),
        }
    }

    /// The staleness bound that holds: the one given, or what the queues and their merging amount
    /// to when they are full.
    pub fn lag(&self) -> u64 {
        let knobs = &self.communicator;
        match self.staleness {
            // Old values cost accuracy at once, in the first steps of a model above all: a trainer
            // waits for its own gradients unless longer queues were asked for.
            0 => {
                let longer = knobs.max_merge_var_num + knobs.recv_after();
                (knobs.send_queue_size + longer).saturating_sub(3) as u64
            }
            given => u64::from(given),
        }
    }

    /// Checks what [`super::Worker::connect`] relies on.
    pub(crate) fn check(&self) -> Result<()> {
        let problem = if self.endpoints.is_empty() {
            "a worker needs at least one server: `endpoints` is empty".to_owned()
        } else if self.trainer >= self.trainers {
            let (rank, all) = (self.trainer, self.trainers);
            format!("trainer {rank} cannot be one of {all}: ranks go from 0 to trainers - 1")
        } else if self.heter_workers >= self.trainers {
            let (heter, all) = (self.heter_workers, self.trainers);
            format!("{heter} of {all} trainers are heter workers, and nobody reads data")
        } else if self.geo_steps == 0 {
            "geo mode exchanges every `k_steps` steps, which must be at least 1".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Config(problem))
    }
}

/// The ops that talk to servers.
const OPS: [&str; 11] = [
    "send",
    "send_barrier",
    "recv",
    "fetch_barrier",
    "distributed_lookup_table",
    "distributed_push_sparse",
    "geo_exchange",
    "pass_dense",
    "pass_table",
    "send_and_recv",
    "heter_listen_and_serv",
];

/// What has been read from a program so far.
#[derive(Default)]
struct Found {
    any: bool,
    trainer: Option<i64>,
    trainers: Option<i64>,
    heter_workers: Option<i64>,
    mode: Option<i64>,
    geo_steps: Option<i64>,
    staleness: Option<i64>,
    /// From `endpoints`, which is in order.
    endpoints: Vec<String>,
    /// From `epmap` and from tables, in order of appearance.
    mapped: Vec<String>,
    /// From `fingerprint`, which one of the ops has.
    program: Vec<String>,
}

impl Found {
    fn read(&mut self, op: &Op) -> Result<()> {
        self.any = true;
        once(op, "trainer_id", &mut self.trainer)?;
        once(op, "trainers", &mut self.trainers)?;
        once(op, "heter_workers", &mut self.heter_workers)?;
        once(op, "distributed_mode", &mut self.mode)?;
        once(op, "geo_steps", &mut self.geo_steps)?;
        once(op, "staleness", &mut self.staleness)?;
        // A table's ops name the servers of its pieces, which need not be all, nor in order.
        let of_table = op.kind.starts_with("distributed_");
        let known = if of_table { &mut self.mapped } else { &mut self.endpoints };
        add(known, strings(op, "endpoints"));
        add(&mut self.mapped, strings(op, "epmap"));
        if self.program.is_empty() {
            self.program = strings(op, "fingerprint").to_vec();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Option<WorkerConfig>> {
        if !self.any {
            return Ok(None);
        }
        add(&mut self.endpoints, &self.mapped);
        let mode = self.mode.unwrap_or(0);
        let mode = i32::try_from(mode).ok().and_then(Mode::from_code).ok_or_else(|| {
            Error::Config(format!(
                "`distributed_mode` is {mode}, but must be 0 (sync), 1 (async), 2 (half-async), \
                 3 (geo) or 4 (hybrid)"
            ))
        })?;
        let trainer = number("trainer_id", self.trainer.unwrap_or(0))?;
        let trainers = number("trainers", self.trainers.unwrap_or(i64::from(trainer) + 1))?;
        let mut config = WorkerConfig::new(trainer, trainers, self.endpoints, mode);
        if let Some(steps) = self.geo_steps {
            config.geo_steps = number("geo_steps", steps)?;
        }
        config.heter_workers = number("heter_workers", self.heter_workers.unwrap_or(0))?;
        config.staleness = number("staleness", self.staleness.unwrap_or(0))?;
        config.program = self.program;
        config.check()?;
        Ok(Some(config))
    }
}

/// Takes an attribute over that all ops must agree on.
fn once(op: &Op, name: &str, known: &mut Option<i64>) -> Result<()> {
    let given = match op.attrs.get(name) {
        None => return Ok(()),
        Some(Attr::Int(value)) => i64::from(*value),
        Some(Attr::Long(value)) => *value,
        Some(other) => {
            let (kind, given) = (&op.kind, other.kind().name());
            return Err(Error::Config(format!(
                "op `{kind}`: attribute `{name}` must be an int, not {given}"
            )));
        }
    };
    match known.replace(given) {
        Some(before) if before != given => Err(Error::Config(format!(
            "op `{}` says `{name}` is {given}, an earlier one says {before}: a program belongs to \
             one trainer",
            op.kind
        ))),
        _ => Ok(()),
    }
}

fn strings<'a>(op: &'a Op, name: &str) -> &'a [String] {
    match op.attrs.get(name) {
        Some(Attr::Strings(values)) => values,
        _ => &[],
    }
}

fn add(known: &mut Vec<String>, more: &[String]) {
    for endpoint in more {
        if !known.contains(endpoint) {
            known.push(endpoint.clone());
        }
    }
}

fn number(name: &str, value: i64) -> Result<u32> {
    u32::try_from(value)
        .map_err(|_| Error::Config(format!("`{name}` is {value}, which is no count or rank")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        let mut program = Program::new();
        let attrs = |op: Op| op.attr("trainer_id", 1i32).attr("trainers", 3i32);
        let send = attrs(Op::new("send"))
            .attr("epmap", Attr::Strings(vec!["b:2".into(), "a:1".into()]))
            .attr("distributed_mode", 1i32);
        let barrier = attrs(Op::new("send_barrier"))
            .attr("endpoints", Attr::Strings(vec!["a:1".into(), "b:2".into()]));
        program.global_mut().ops.extend([send, barrier]);
        program
    }

    #[test]
    fn a_trainer_program_describes_its_worker() {
        let config = WorkerConfig::from_program(&program()).unwrap().unwrap();
        assert_eq!((config.trainer, config.trainers, config.mode), (1, 3, Mode::Async));
        assert_eq!(config.endpoints, ["a:1", "b:2"], "the order of `endpoints`, not of `epmap`");
        assert_eq!(WorkerConfig::from_program(&Program::new()).unwrap(), None);
    }

    #[test]
    fn contradictions_and_nonsense_are_refused() {
        let mut twice = program();
        twice.global_mut().ops.push(Op::new("recv").attr("trainer_id", 2i32));
        let error = WorkerConfig::from_program(&twice).unwrap_err().to_string();
        assert!(error.contains("`trainer_id` is 2, an earlier one says 1"), "{error}");

        let mut mode = program();
        mode.global_mut().ops[0].attrs.insert("distributed_mode".into(), Attr::Int(9));
        let error = WorkerConfig::from_program(&mode).unwrap_err().to_string();
        assert!(error.contains("`distributed_mode` is 9"), "{error}");
    }
}
