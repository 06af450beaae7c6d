//! Which GPUs a job uses on a machine, as far as environment variables go.

use anyhow::Result;
use bireme_fleet::environment::variables as v;

use crate::arguments::{Options, Usage, Variables};

use super::Facts;

/// Emulated cards of a machine that nobody gave another number.
const EMULATED_CARDS: usize = 2;

/// Whether cards are emulated, because the environment asks for it.
pub fn is_emulated(variables: &Variables) -> bool {
    variables.get(v::DEVICE.name).is_some_and(|device| device.trim() == "emulated")
}

/// How many emulated cards there are.
pub fn emulated_cards(variables: &Variables) -> usize {
    let said = variables.get(v::EMULATED_CARDS.name);
    said.and_then(|text| text.trim().parse().ok()).unwrap_or(EMULATED_CARDS)
}

/// GPUs that were chosen, each under two names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// As the machine numbers them: what `CUDA_VISIBLE_DEVICES` of a process is made of.
    pub absolute: Vec<String>,
    /// As a process numbers them that sees what the launcher sees: its `FLAGS_selected_gpus`.
    pub relative: Vec<String>,
}

impl Devices {
    /// How many.
    pub fn len(&self) -> usize {
        self.relative.len()
    }

    /// Whether there are none: the job trains on CPUs.
    pub fn is_empty(&self) -> bool {
        self.relative.is_empty()
    }

    /// What `--gpus`, `CUDA_VISIBLE_DEVICES` and the machine say together.
    pub(super) fn choose(options: &Options, facts: &Facts) -> Result<Devices> {
        let variable = facts.variables.get(v::CUDA_VISIBLE_DEVICES.name);
        let visible = variable.map(|text| text.trim()).filter(|text| !text.is_empty());
        let listed: Option<Vec<String>> =
            visible.map(|text| text.split(',').map(|id| id.trim().to_owned()).collect());
        match (&options.gpus, listed) {
            (Some(wanted), None) => {
                Ok(Devices { absolute: wanted.clone(), relative: wanted.clone() })
            }
            (Some(wanted), Some(listed)) => within(wanted, &listed),
            (None, Some(listed)) => {
                // As CUDA reads it: what follows a number below zero is not there.
                let end = listed.iter().position(|id| id.starts_with('-') || id == "NoDevFiles");
                let absolute = listed[..end.unwrap_or(listed.len())].to_vec();
                let relative = (0..absolute.len()).map(|index| index.to_string()).collect();
                Ok(Devices { absolute, relative })
            }
            // Set to nothing, it says that there are none.
            (None, None) if variable.is_some() || on_cpus(facts) => Ok(Devices::default()),
            (None, None) => {
                let all: Vec<_> = (0..facts.gpus).map(|index| index.to_string()).collect();
                Ok(Devices { absolute: all.clone(), relative: all })
            }
        }
    }

    /// As many emulated cards as there must be for all of these to exist.
    pub(super) fn emulated(&self) -> usize {
        let numbers = self.absolute.iter().filter_map(|id| id.parse::<usize>().ok());
        numbers.max().map_or(0, |last| last + 1)
    }

    /// The devices of each of `count` processes: one each, or the same number; none on CPUs. Where there are several
    /// processes for each device, they share it.
    pub(super) fn shares(&self, count: Option<usize>) -> Result<Vec<Vec<String>>> {
        let gpus = self.len();
        let count = count.unwrap_or(gpus.max(1));
        if gpus == 0 {
            return Ok(vec![Vec::new(); count]);
        }
        if count > gpus && count.is_multiple_of(gpus) {
            return Ok((0..count).map(|at| vec![self.relative[at % gpus].clone()]).collect());
        }
        if !gpus.is_multiple_of(count) {
            let problem = format!(
                "`--nproc_per_node={count}` does not divide the {gpus} GPUs ({}): every process \
                 needs the same number of them; choose GPUs with `--gpus`, or set \
                 CUDA_VISIBLE_DEVICES to nothing to train on CPUs",
                self.absolute.join(",")
            );
            return Err(Usage(problem).into());
        }
        Ok(self.relative.chunks(gpus / count).map(<[String]>::to_vec).collect())
    }

    /// What a worker with servers sees: one GPU, shared where there are more workers than GPUs.
    pub(super) fn of_worker(&self, local_rank: usize) -> &str {
        match self.absolute.len() {
            0 => "0",
            count => &self.absolute[local_rank % count],
        }
    }
}

/// GPUs of the machine that are among those visible.
fn within(wanted: &[String], visible: &[String]) -> Result<Devices> {
    let relative = wanted.iter().map(|id| {
        visible.iter().position(|other| other == id).map(|index| index.to_string()).ok_or_else(
            || {
                Usage(format!(
                    "Can't find your gpus {id} in CUDA_VISIBLE_DEVICES[{}]: choose among these \
                     with `--gpus`, or unset CUDA_VISIBLE_DEVICES",
                    visible.join(",")
                ))
            },
        )
    });
    let relative = relative.collect::<Result<Vec<_>, _>>()?;
    Ok(Devices { absolute: wanted.to_vec(), relative })
}

fn on_cpus(facts: &Facts) -> bool {
    facts.variables.get(v::DEVICE.name).is_some_and(|device| device.trim() == "cpu")
}
