//! The settings of a table, and what a push brings along.

use bireme_engine::accessor::Entry;
use bireme_engine::random::RowInit;
use serde::{Deserialize, Serialize};

use super::accessor::AccessorConfig;
use super::rule::OptimizerRule;
use crate::{Error, Result};

/// The most floats in a record: a megabyte.
const MAX_WIDTH: usize = 1 << 18;

/// The settings of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableConfig {
    /// Its name.
    pub name: String,
    /// Columns that a pull gives.
    pub width: usize,
    /// How the weights of a new row are drawn; accessors for click-through rates have their own
    /// way.
    pub initializer: RowInit,
    /// The name under which initial values are drawn: the table's, unless it is a part of another.
    pub init_name: String,
    /// The seed of the initial values, and of who is admitted by chance.
    pub seed: u64,
    /// What a record holds.
    pub accessor: AccessorConfig,
    /// Who may have a row.
    pub entry: Entry,
    /// Paddle's number of shards: which server has a key depends on the key modulo this.
    pub shards: u64,
    /// A factor on the learning rate of every push: the parameter's own.
    pub rate_factor: f32,
    /// Whether a pull makes rows. Otherwise a missing row reads as it would be made (or as zeros,
    /// with the accessors for click-through rates), and the first push makes it.
    pub create_on_pull: bool,
}

impl TableConfig {
    /// A table of this name and width, of zeros that SGD trains; for changing.
    pub fn new(name: &str, width: usize) -> TableConfig {
        TableConfig {
            name: name.to_owned(),
            width,
            initializer: RowInit::Constant(0.0),
            init_name: name.to_owned(),
            seed: 0,
            accessor: AccessorConfig::Plain(OptimizerRule::Sgd),
            entry: Entry::Every,
            shards: 1000,
            rate_factor: 1.0,
            create_on_pull: true,
        }
    }

    /// Checks what can be checked without the accessor.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |problem: &str| Err(Error::Config(format!("table `{}`: {problem}", self.name)));
        if self.width == 0 || self.width > MAX_WIDTH {
            return wrong(&format!("width {} is not from 1 to {MAX_WIDTH}", self.width));
        }
        if self.shards == 0 {
            return wrong("`shard_num` must be at least 1");
        }
        if let Entry::Probability(share) = self.entry
            && !(share > 0.0 && share < 1.0)
        {
            return wrong(&format!("probability {share} of its entry is not between 0 and 1"));
        }
        Ok(())
    }
}

/// What the rows of a push have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PushStep {
    /// The learning rate, for rules that take it from the program.
    pub rate: f32,
    /// The number of this step of the table, from 1: Adam and its kin correct their moments by it.
    pub count: u64,
}
