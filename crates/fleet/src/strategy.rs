//! How a job is trained: the mode, its knobs, how parameters are cut, settings of tables.

use std::collections::BTreeMap;

use bireme_ir::{Attr, Program};
use bireme_ps::Mode;
use bireme_transpiler::{CollectiveStrategy, Config, GradientMerge, LocalSgd, SplitMethod};

use crate::environment::CommunicatorFlags;
use crate::{Error, Result};

/// How a job is trained. Starts from a mode; the rest has defaults.
///
/// ```
/// use bireme_fleet::Strategy;
/// let strategy = Strategy::geo(200).min_block_size(16_384);
/// assert_eq!(strategy.geo_steps, 200);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Strategy {
    /// How trainers keep time with each other.
    pub mode: Mode,
    /// Geo: steps between two exchanges. 100.
    pub geo_steps: u32,
    /// Async and hybrid: how many of its own steps a trainer's values may lack before it waits. 0
    /// stands for what the queues hold, in hybrid mode for 4.
    pub staleness: u32,
    /// DC-ASGD with this λ; async and half-async only. Off.
    pub dc_asgd: Option<f32>,
    /// Queues of a trainer; what the environment sets comes first.
    pub communicator: CommunicatorFlags,
    /// How parameters are cut and placed. What it says about modes does not count.
    pub transpiler: Config,
    /// With heter workers: micro-batches that a trainer cuts a batch into. 1.
    pub micro_batches: u32,
    /// How ranks of a collective job train.
    pub collective: CollectiveStrategy,
    /// Settings of tables by their names, as JSON of an accessor.
    pub tables: BTreeMap<String, String>,
    /// Whether one trainer holds the rows of a pass and trains them itself ([`crate::gpubox`]). Off.
    pub gpubox: bool,
}

impl Strategy {
    /// Training in this mode.
    pub fn new(mode: Mode) -> Strategy {
        let transpiler = Config::default();
        Strategy {
            mode,
            geo_steps: bireme_ps::worker::GEO_STEPS,
            staleness: 0,
            dc_asgd: None,
            communicator: CommunicatorFlags::default(),
            transpiler,
            micro_batches: 1,
            collective: CollectiveStrategy::default(),
            tables: BTreeMap::new(),
            gpubox: false,
        }
    }

    /// One update a step, from the gradients of all trainers.
    pub fn sync() -> Strategy {
        Strategy::new(Mode::Sync)
    }

    /// Gradients are applied as they come.
    pub fn asynchronous() -> Strategy {
        Strategy::new(Mode::Async)
    }

    /// As async, but a trainer waits for its own gradients.
    pub fn half_async() -> Strategy {
        Strategy::new(Mode::HalfAsync)
    }

    /// Trainers update copies of their own and exchange differences every so many steps.
    pub fn geo(steps: u32) -> Strategy {
        Strategy { geo_steps: steps, ..Strategy::new(Mode::Geo) }
    }

    /// Dense parameters in sync, tables async with at most this staleness.
    pub fn hybrid(staleness: u32) -> Strategy {
        Strategy { staleness, ..Strategy::new(Mode::Hybrid) }
    }

    /// One trainer holds the rows of a pass, on its card where it has one, and trains them itself:
    /// Paddle's GPUBox.
    pub fn gpubox() -> Strategy {
        Strategy { gpubox: true, ..Strategy::sync() }
    }

    /// What Paddle's `a_sync` and `a_sync_configs["k_steps"]` mean together.
    ///
    /// With `k_steps` left at -1 Paddle guesses between async and geo from the free memory; here
    /// it is async, so that the result does not depend on the machine.
    ///
    /// # Errors
    /// When steps are given to a job that is in sync.
    pub fn from_a_sync(a_sync: bool, k_steps: i64) -> Result<Strategy> {
        match (a_sync, k_steps) {
            (false, ..=0) => Ok(Strategy::sync()),
            (true, ..=0) => Ok(Strategy::asynchronous()),
            (true, steps) => u32::try_from(steps)
                .map(Strategy::geo)
                .map_err(|_| Error::Config(format!("`k_steps` is {steps}, which is too large"))),
            (false, steps) => Err(Error::Config(format!(
                "`k_steps` is {steps}, which is about geo training: set `a_sync` to True first, or \
                 `k_steps` to 0"
            ))),
        }
    }

    /// What a bare `DistributeTranspilerConfig` means, as Paddle's fleet reads one.
    pub fn from_transpiler(config: Config) -> Strategy {
        let mode = config.asked_mode(config.sync_mode);
        Strategy {
            geo_steps: u32::try_from(config.geo_sgd_need_push_nums).unwrap_or(0),
            staleness: match mode {
                Mode::Hybrid => u32::try_from(config.staleness).unwrap_or(0),
                _ => 0,
            },
            dc_asgd: config.enable_dc_asgd.then_some(config.dc_asgd_lambda),
            transpiler: config,
            ..Strategy::new(mode)
        }
    }

    /// Corrects gradients that come late, with this λ.
    pub fn dc_asgd(mut self, lambda: f32) -> Strategy {
        self.dc_asgd = Some(lambda);
        self
    }

    /// Ranks that reduce gradients among themselves, in buckets.
    pub fn collective(collective: CollectiveStrategy) -> Strategy {
        Strategy { collective, ..Strategy::sync() }
    }

    /// With heter workers: cuts a batch into so many micro-batches, so that stages work at the same
    /// time.
    pub fn micro_batches(mut self, count: u32) -> Strategy {
        self.micro_batches = count;
        self
    }

    /// Collective: one update for the mean gradient of so many steps.
    pub fn gradient_merge(mut self, k_steps: i32) -> Strategy {
        self.collective.gradient_merge = Some(GradientMerge { k_steps, average: true });
        self
    }

    /// Collective: ranks update on their own, and average parameters every so many steps.
    pub fn local_sgd(mut self, k_steps: i32, begin_step: i32) -> Strategy {
        self.collective.local_sgd = Some(LocalSgd { k_steps, begin_step });
        self
    }

    /// Whether large parameters are cut into slices.
    pub fn slice_var_up(mut self, slice: bool) -> Strategy {
        self.transpiler.slice_var_up = slice;
        self
    }

    /// How slices find their servers.
    pub fn split_method(mut self, method: SplitMethod) -> Strategy {
        self.transpiler.split_method = method;
        self
    }

    /// The least number of elements in a slice.
    pub fn min_block_size(mut self, elements: i64) -> Strategy {
        self.transpiler.min_block_size = elements;
        self
    }

    /// Queues of a trainer.
    pub fn communicator(mut self, flags: CommunicatorFlags) -> Strategy {
        self.communicator = flags;
        self
    }

    /// Settings of a table, as JSON of an accessor.
    pub fn table(mut self, name: &str, accessor: &str) -> Strategy {
        self.tables.insert(name.to_owned(), accessor.to_owned());
        self
    }

    /// The transpiler's settings for this mode.
    ///
    /// # Errors
    /// When the settings do not go together.
    pub fn config(&self) -> Result<Config> {
        let number = |name: &str, value: u32| {
            i32::try_from(value)
                .map_err(|_| Error::Config(format!("`{name}` is {value}, which is too large")))
        };
        let mut config = self.transpiler.clone();
        config.set_mode(self.mode);
        config.geo_sgd_need_push_nums = number("geo_steps", self.geo_steps)?;
        if self.mode == Mode::Hybrid && self.staleness > 0 {
            config.staleness = number("staleness", self.staleness)?;
        }
        config.enable_dc_asgd = self.dc_asgd.is_some();
        config.dc_asgd_lambda = self.dc_asgd.unwrap_or(config.dc_asgd_lambda);
        config.check()?;
        Ok(config)
    }

    /// The staleness bound of a trainer; 0 stands for what its queues hold.
    pub(crate) fn bound(&self) -> u32 {
        match (self.mode, self.staleness) {
            (Mode::Hybrid, 0) => u32::try_from(self.transpiler.staleness).unwrap_or(0),
            (_, given) => given,
        }
    }

    /// Writes the settings of tables into the ops that look them up, where the transpiler finds
    /// them.
    ///
    /// # Errors
    /// When a table is never looked up, or its settings are no JSON.
    pub(crate) fn describe_tables(&self, program: &mut Program) -> Result<()> {
        for (table, accessor) in &self.tables {
            let parsed = serde_json::from_str::<serde_json::Value>(accessor);
            if let Err(error) = parsed {
                return Err(Error::Config(format!(
                    "the settings of table `{table}` are no JSON: {error}"
                )));
            }
            let mut found = false;
            for op in program.blocks.iter_mut().flat_map(|block| &mut block.ops) {
                let lookup = op.kind.starts_with("lookup_table");
                if lookup && op.input_vars().any(|var| var == table) {
                    op.attrs.insert("entry_config".into(), Attr::String(accessor.clone()));
                    found = true;
                }
            }
            if !found {
                return Err(Error::Config(format!(
                    "there are settings for table `{table}`, but nothing looks it up"
                )));
            }
        }
        Ok(())
    }
}

impl Default for Strategy {
    /// Sync, as Paddle's fleet without a strategy.
    fn default() -> Strategy {
        Strategy::sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_and_k_steps_choose_the_mode() {
        let mode = |a_sync, k_steps| Strategy::from_a_sync(a_sync, k_steps).map(|s| s.mode);
        assert_eq!(mode(false, 0).unwrap(), Mode::Sync);
        assert_eq!(mode(true, 0).unwrap(), Mode::Async);
        assert_eq!(mode(true, -1).unwrap(), Mode::Async);
        assert_eq!(mode(true, 400).unwrap(), Mode::Geo);
        assert_eq!(Strategy::from_a_sync(true, 400).unwrap().geo_steps, 400);
        assert!(mode(false, 400).unwrap_err().to_string().contains("`k_steps` is 400"));
    }

    #[test]
    fn every_mode_reaches_the_transpiler() {
        for (strategy, mode) in [
            (Strategy::sync(), Mode::Sync),
            (Strategy::asynchronous(), Mode::Async),
            (Strategy::half_async(), Mode::HalfAsync),
            (Strategy::geo(7), Mode::Geo),
            (Strategy::hybrid(3), Mode::Hybrid),
        ] {
            let config = strategy.config().unwrap();
            assert_eq!(config.distributed_mode(config.sync_mode).unwrap(), mode);
            let back = Strategy::from_transpiler(config);
            assert_eq!(back.mode, strategy.mode);
        }
        assert_eq!(Strategy::geo(7).config().unwrap().geo_sgd_need_push_nums, 7);
        assert!(Strategy::sync().min_block_size(1).config().is_err());
    }
}
