//! What a user can say about distribution: `DistributeTranspilerConfig` with Paddle's attributes and
//! defaults, and what Paddle lacks (a λ for DC-ASGD, the hybrid mode).
//!
//! The rules between settings are checked when they are set and again by [`Config::check`], so that
//! no program is built from a contradiction.

use bireme_ir::Mode;

use crate::{Error, Result};

/// The least that `min_block_size` may be, as in Paddle.
pub const MIN_BLOCK_SIZE: i64 = 8192;

const SYNC_FIRST: &str = "if you want to set sync_mode to be true, make ensure \
                          config.runtime_split_send_recv is false at first";

/// How slices find their servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SplitMethod {
    /// One after the other, wrapping around; the default.
    #[default]
    RoundRobin,
    /// By [`crate::hash_name`] of the slice's name, the same in every process.
    HashName,
}

/// What distributes the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Parameter servers; the default.
    #[default]
    Pserver,
    /// Trainers that reduce gradients among themselves when the program runs.
    Nccl2,
    /// Trainers that reduce gradients, or parameters, by ops in the program.
    Collective,
}

/// What collective trainers reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveMode {
    /// Gradients, every step.
    GradAllReduce,
    /// Parameters, after local steps.
    LocalSgd,
    /// Gradients, among the devices of one process.
    SingleProcessMultiThread,
}

/// The settings of a [`crate::Transpiler`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Whether large parameters are cut into slices; yes by default.
    pub slice_var_up: bool,
    /// How slices find their servers.
    pub split_method: SplitMethod,
    /// The least number of elements in a slice; 8192 by default and at least.
    pub min_block_size: i64,
    /// Whether servers make up for the delay of gradients (async only); no by default.
    pub enable_dc_asgd: bool,
    /// The λ of that correction; 1 by default, which is what Paddle does.
    pub dc_asgd_lambda: f32,
    /// What distributes the work.
    pub mode: Distribution,
    /// Whether [`crate::Transpiled::log`] has anything to say; no by default.
    pub print_log: bool,
    /// Whether trainers wait for the servers' ports; yes by default. Kept for front ends.
    pub wait_port: bool,
    /// Whether gradients are cut when they are sent, which makes training async; no by default. Not
    /// together with `sync_mode`.
    pub runtime_split_send_recv: bool,
    /// Whether trainers wait for one another; yes by default.
    pub sync_mode: bool,
    /// Whether a trainer without sync mode waits for its own gradients; no by default.
    pub half_async: bool,
    /// Whether to be in sync even where `sync_mode` is off; no by default.
    pub completely_not_async: bool,
    /// Whether trainers optimise by themselves; no by default.
    pub geo_sgd_mode: bool,
    /// After how many steps geo trainers exchange differences; 100 by default.
    pub geo_sgd_need_push_nums: i32,
    /// Whether dense parameters are in sync while tables are not; no by default.
    pub hybrid: bool,
    /// How many steps old what a trainer has of a table may be in hybrid mode; 0, the default,
    /// stands for as many as its queues hold.
    pub staleness: i32,
    /// Whether the value that trainer 0 has of a learning rate that no op computes (one that a
    /// scheduler of Paddle 2.x sets before each step) is sent to the servers; no by default.
    pub learning_rate_from_trainer: bool,
    /// Communicators of NCCL; 1 by default.
    pub nccl_comm_num: i32,
    /// Whether to reduce within machines first; no by default.
    pub use_hierarchical_allreduce: bool,
    /// Ranks within a machine, for that; 0, the default, stands for its number of devices.
    pub hierarchical_allreduce_inter_nranks: i32,
    /// What collective trainers reduce; gradients when not given.
    pub collective_mode: Option<CollectiveMode>,
    /// Rings of collective trainers; 2 by default.
    pub nrings: i32,
    /// Shards of tables with any 64-bit key, over all servers; 1000 by default.
    pub shard_num: i64,
    /// Threads a server receives with; 12 by default.
    pub rpc_send_thread_num: i32,
    /// Threads a server answers with; 12 by default.
    pub rpc_get_thread_num: i32,
    /// Threads a server answers lookups with; 12 by default.
    pub rpc_prefetch_thread_num: i32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            slice_var_up: true,
            split_method: SplitMethod::RoundRobin,
            min_block_size: MIN_BLOCK_SIZE,
            enable_dc_asgd: false,
            dc_asgd_lambda: 1.0,
            mode: Distribution::Pserver,
            print_log: false,
            wait_port: true,
            runtime_split_send_recv: false,
            sync_mode: true,
            half_async: false,
            completely_not_async: false,
            geo_sgd_mode: false,
            geo_sgd_need_push_nums: 100,
            hybrid: false,
            staleness: 0,
            learning_rate_from_trainer: false,
            nccl_comm_num: 1,
            use_hierarchical_allreduce: false,
            hierarchical_allreduce_inter_nranks: 0,
            collective_mode: None,
            nrings: 2,
            shard_num: 1000,
            rpc_send_thread_num: 12,
            rpc_get_thread_num: 12,
            rpc_prefetch_thread_num: 12,
        }
    }
}

impl Config {
    /// Paddle's defaults.
    pub fn new() -> Config {
        Config::default()
    }

    /// Sets [`Config::runtime_split_send_recv`].
    ///
    /// # Errors
    /// When it is nothing, or `sync_mode` is on.
    pub fn set_runtime_split_send_recv(&mut self, value: Option<bool>) -> Result<()> {
        let value = value.ok_or_else(|| config("runtime_split_send_recv can't be None"))?;
        if value && self.sync_mode {
            return Err(config(
                "if you want to set runtime_split_send_recv to be true, make ensure \
                 config.sync_mode is false at first",
            ));
        }
        self.runtime_split_send_recv = value;
        Ok(())
    }

    /// Sets [`Config::sync_mode`].
    ///
    /// # Errors
    /// When it is nothing, or `runtime_split_send_recv` is on.
    pub fn set_sync_mode(&mut self, value: Option<bool>) -> Result<()> {
        let value = value.ok_or_else(|| config("sync_mode can't be None"))?;
        if value && self.runtime_split_send_recv {
            return Err(config(SYNC_FIRST));
        }
        self.sync_mode = value;
        Ok(())
    }

    /// That the settings go together.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<()> {
        if self.min_block_size < MIN_BLOCK_SIZE {
            return Err(config(format!(
                "`min_block_size` is {}, but must be at least {MIN_BLOCK_SIZE}",
                self.min_block_size
            )));
        }
        if self.sync_mode && self.runtime_split_send_recv {
            return Err(config(SYNC_FIRST));
        }
        let counts = [
            ("geo_sgd_need_push_nums", self.geo_sgd_need_push_nums),
            ("nccl_comm_num", self.nccl_comm_num),
            ("nrings", self.nrings),
            ("rpc_send_thread_num", self.rpc_send_thread_num),
            ("rpc_get_thread_num", self.rpc_get_thread_num),
            ("rpc_prefetch_thread_num", self.rpc_prefetch_thread_num),
        ];
        if let Some((name, value)) = counts.into_iter().find(|(_, value)| *value < 1) {
            return Err(config(format!("`{name}` is {value}, but must be at least 1")));
        }
        if self.shard_num < 1 {
            return Err(config(format!(
                "`shard_num` is {}, but must be at least 1",
                self.shard_num
            )));
        }
        if self.staleness < 0 {
            return Err(config(format!(
                "`staleness` is {}, but cannot be below 0",
                self.staleness
            )));
        }
        if !self.dc_asgd_lambda.is_finite() {
            return Err(config(format!("`dc_asgd_lambda` is {}, no number", self.dc_asgd_lambda)));
        }
        if self.geo_sgd_mode && self.hybrid {
            return Err(config("`geo_sgd_mode` and `hybrid` are two modes: choose one"));
        }
        Ok(())
    }

    /// The mode that these settings ask for, with the `sync_mode` of a call to `transpile`.
    pub fn asked_mode(&self, sync_mode: bool) -> Mode {
        if self.geo_sgd_mode {
            Mode::Geo
        } else if self.hybrid {
            Mode::Hybrid
        } else if sync_mode || self.completely_not_async {
            Mode::Sync
        } else if self.runtime_split_send_recv && !self.half_async {
            Mode::Async
        } else {
            Mode::HalfAsync
        }
    }

    /// Asks for this mode.
    pub fn set_mode(&mut self, mode: Mode) {
        self.sync_mode = mode == Mode::Sync;
        self.runtime_split_send_recv = mode == Mode::Async;
        self.completely_not_async = false;
        self.half_async = mode == Mode::HalfAsync;
        self.geo_sgd_mode = mode == Mode::Geo;
        self.hybrid = mode == Mode::Hybrid;
    }

    /// As [`Config::asked_mode`], where all settings fit it.
    ///
    /// # Errors
    /// When DC-ASGD is asked for in a mode without delays to make up for.
    pub fn distributed_mode(&self, sync_mode: bool) -> Result<Mode> {
        let mode = self.asked_mode(sync_mode);
        if self.enable_dc_asgd && !mode.applies_at_once() {
            return Err(config(format!(
                "`enable_dc_asgd` corrects gradients that come late, but in {mode:?} mode none do: \
                 call transpile with `sync_mode` off"
            )));
        }
        Ok(mode)
    }
}

fn config(problem: impl Into<String>) -> Error {
    Error::Config(problem.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_have_paddles_words() {
        let mut config = Config::new();
        let error = config.set_runtime_split_send_recv(Some(true)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "if you want to set runtime_split_send_recv to be true, make ensure config.sync_mode \
             is false at first"
        );
        config.set_sync_mode(Some(false)).unwrap();
        config.set_runtime_split_send_recv(Some(true)).unwrap();
        let error = config.set_sync_mode(Some(true)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "if you want to set sync_mode to be true, make ensure config.runtime_split_send_recv \
             is false at first"
        );
        assert_eq!(config.set_sync_mode(None).unwrap_err().to_string(), "sync_mode can't be None");
        assert_eq!(
            config.set_runtime_split_send_recv(None).unwrap_err().to_string(),
            "runtime_split_send_recv can't be None"
        );
    }

    #[test]
    fn settings_choose_the_mode() {
        let mut config = Config::new();
        assert_eq!(config.distributed_mode(true).unwrap(), Mode::Sync);
        assert_eq!(config.distributed_mode(false).unwrap(), Mode::HalfAsync);
        config.set_sync_mode(Some(false)).unwrap();
        config.set_runtime_split_send_recv(Some(true)).unwrap();
        assert_eq!(config.distributed_mode(false).unwrap(), Mode::Async);
        config.half_async = true;
        assert_eq!(config.distributed_mode(false).unwrap(), Mode::HalfAsync);
        config.completely_not_async = true;
        assert_eq!(config.distributed_mode(false).unwrap(), Mode::Sync);
        config.hybrid = true;
        assert_eq!(config.distributed_mode(false).unwrap(), Mode::Hybrid);
        config.enable_dc_asgd = true;
        assert!(config.distributed_mode(false).is_err());
    }

    #[test]
    fn slices_may_not_be_small() {
        let config = Config { min_block_size: 8191, ..Config::new() };
        let error = config.check().unwrap_err().to_string();
        assert_eq!(error, "`min_block_size` is 8191, but must be at least 8192");
        assert!(Config::new().check().is_ok());
        assert!(Config { geo_sgd_need_push_nums: 0, ..Config::new() }.check().is_err());
    }
}
