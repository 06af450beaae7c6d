//! How the cards of ranks exchange: from card to card (NCCL), or through the host's memory. All ranks decide it
//! together, once.
//!
//! Cards that wait for one another know nothing of processes that died. So a thread watches: when the group has lost a
//! rank, or the cards wait longer than ranks may, it ends their waiting, and the reason names the rank.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bireme_collective::Group;
use bireme_engine::device::{Device, Exchange};
use bireme_engine::{Error, Result};

use crate::eager::tensors::remote;
use crate::environment::variables as v;

/// How often the watch looks.
const LOOK: Duration = Duration::from_millis(50);
/// How long exchanges may take to end when a rank has left: it may have made its last one.
const FAREWELL: Duration = Duration::from_secs(5);

/// How cards shall exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Road {
    /// From card to card where that can be, otherwise through the host's memory.
    #[default]
    Auto,
    /// From card to card, or not at all.
    Nccl,
    /// Through the host's memory.
    Host,
}

impl FromStr for Road {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::Result<Road> {
        match text.trim() {
            "" => Ok(Road::Auto),
            "nccl" => Ok(Road::Nccl),
            "host" => Ok(Road::Host),
            other => Err(crate::Error::Config(format!(
                "`{}` is `{other}`, but must be `nccl` or `host`",
                v::COLLECTIVE.name
            ))),
        }
    }
}

impl fmt::Display for Road {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Road::Auto => "auto",
            Road::Nccl => "nccl",
            Road::Host => "host",
        })
    }
}

/// What one rank says of itself.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    road: Road,
    /// The number of its card, if it has one.
    card: Option<String>,
    /// Why its card cannot be joined with others.
    problem: Option<String>,
    /// What cards that are joined must have in common.
    reach: Option<String>,
}

impl Said {
    fn of(device: Option<&Arc<dyn Device>>, road: Road) -> Said {
        let hex = |id: [u8; 16]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let card = device.map(|card| card.identity().map_or_else(|| card.describe(), hex));
        let (reach, problem) = match device.map(|card| card.can_join()) {
            Some(Ok(reach)) => (Some(reach), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        Said { road, card, problem, reach }
    }

    fn encode(&self) -> String {
        let line = |text: &Option<String>| text.as_deref().unwrap_or("").replace('\n', " ");
        let [card, problem, reach] = [&self.card, &self.problem, &self.reach].map(line);
        format!("{}\n{card}\n{problem}\n{reach}", self.road)
    }

    fn decode(bytes: &[u8]) -> Option<Said> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split('\n');
        let road = match lines.next()? {
            "auto" => Road::Auto,
            text => text.parse().ok()?,
        };
        let mut text = || lines.next().map(|line| Some(line.to_owned()).filter(|l| !l.is_empty()));
        Some(Said { road, card: text()?, problem: text()?, reach: text()? })
    }
}

/// Why ranks exchange through the host's memory; `None` when they need not.
fn why_host(all: &[Said]) -> Option<String> {
    if let Some(rank) = all.iter().position(|said| said.road == Road::Host) {
        return Some(format!("rank {rank} asks for the host (`{}=host`)", v::COLLECTIVE.name));
    }
    let mut owners: HashMap<&str, usize> = HashMap::new();
    for (rank, said) in all.iter().enumerate() {
        let Some(card) = &said.card else { return Some(format!("rank {rank} has no card")) };
        if let Some(problem) = &said.problem {
            return Some(format!("rank {rank}: {problem}"));
        }
        if let Some(other) = owners.insert(card, rank) {
            return Some(format!("ranks {other} and {rank} share a card"));
        }
        if said.reach != all[0].reach {
            let [first, here] = [&all[0], said].map(|s| s.reach.as_deref().unwrap_or("nothing"));
            return Some(format!(
                "the cards of ranks 0 and {rank} cannot be joined ({first}; {here})"
            ));
        }
    }
    None
}

/// The cards of a group that exchange among themselves, watched until this is dropped.
pub(crate) struct Cards {
    pub(crate) exchange: Arc<dyn Exchange>,
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Watch {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a little; whether the watch is over.
    fn pause(&self) -> bool {
        let over = self.lock();
        if *over {
            return true;
        }
        let waited = self.changed.wait_timeout(over, LOOK);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Cards {
    fn drop(&mut self) {
        *self.watch.lock() = true;
        self.watch.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What ranks have agreed on.
pub(crate) struct Agreed {
    /// The cards, where they exchange among themselves.
    pub(crate) cards: Option<Cards>,
    /// What a user should know.
    pub(crate) line: Option<String>,
    /// Whether every rank has a card.
    pub(crate) everywhere: bool,
}

/// Decides how the cards of a group exchange, `device` being this rank's; joins them if they do. Every rank of the
/// group makes this call at the same place.
///
/// # Errors
/// When a rank is lost, or a rank wants what cannot be; on every rank.
pub(crate) fn agree(group: &Group, device: Option<&Arc<dyn Device>>, road: Road) -> Result<Agreed> {
    let own = Said::of(device, road);
    let all = group.all_gather_varied(own.encode().as_bytes()).map_err(remote)?;
    let all: Option<Vec<Said>> = all.iter().map(|said| Said::decode(said)).collect();
    let all = all.ok_or_else(|| Error::remote("another rank speaks another version of Bireme"))?;
    if let Some(why) = why_host(&all) {
        if let Some(rank) = all.iter().position(|said| said.road == Road::Nccl) {
            return Err(Error::remote(format!(
                "rank {rank} asks for NCCL (`{}=nccl`), which cannot be used: {why}",
                v::COLLECTIVE.name
            )));
        }
        // Ranks on the host, and one that is alone, miss nothing.
        let is_told = all.len() > 1 && all.iter().any(|said| said.card.is_some());
        let line = format!("NCCL is not used: {why}; gradients go through host memory");
        let everywhere = all.iter().all(|said| said.card.is_some());
        return Ok(Agreed { cards: None, line: is_told.then_some(line), everywhere });
    }
    let cards = device.map(|device| meet(group, device)).transpose()?;
    Ok(Agreed { cards, line: None, everywhere: true })
}

/// Joins the cards of all ranks.
fn meet(group: &Group, device: &Arc<dyn Device>) -> Result<Cards> {
    // Apart from the ranks' own calls, which may be under way when the watch has a question.
    let ranks: Vec<usize> = (0..group.size()).collect();
    let beside = match group.size() {
        1 => None,
        _ => group.subgroup(&ranks).map_err(remote)?,
    };
    let mut name = match group.rank() {
        0 => device.name_group(),
        _ => Ok(Vec::new()),
    };
    if let Err(error) = &name {
        group.abort(&error.to_string());
    }
    let named = name.as_mut().map(std::mem::take).unwrap_or_default();
    let told = group.all_gather_varied(&named).map_err(remote)?;
    name?;
    let goes_on = || group.failure().map_or(Ok(()), |failure| Err(remote(failure)));
    let joined = device.join(&told[0], group.rank(), group.size(), &goes_on);
    if let Err(error) = &joined {
        group.abort(&error.to_string());
    }
    let exchange = joined?;
    // Nobody goes on before all have joined: one that failed is known then.
    group.barrier().map_err(remote)?;
    let watch = Arc::new(Watch::default());
    let thread = match beside {
        None => None,
        Some(beside) => {
            let (group, exchange, watch) =
                (group.clone(), Arc::clone(&exchange), Arc::clone(&watch));
            let run = move || look(&group, &beside, exchange.as_ref(), &watch);
            let named = thread::Builder::new().name("cards".to_owned());
            Some(named.spawn(run).map_err(|error| Error::remote(error.to_string()))?)
        }
    };
    Ok(Cards { exchange, watch, thread })
}

/// Watches until somebody is lost, or the watch is over.
fn look(group: &Group, beside: &Group, exchange: &dyn Exchange, watch: &Watch) {
    while !watch.pause() {
        if let Some(failure) = group.failure() {
            return exchange.abort(&failure.to_string());
        }
        if let Some(problem) = exchange.problem() {
            group.abort(&problem);
            return exchange.abort(&problem);
        }
        if let Some(gone) = group.departed() {
            // The others may be done as well; who still waits for it waits in vain.
            if exchange.is_stuck(FAREWELL) {
                let problem = format!("{gone} is lost: it left the group while cards wait for it");
                group.abort(&problem);
                return exchange.abort(&problem);
            }
        } else if exchange.is_stuck(group.deadline())
            // Who waits as long meets here; the error names who does not come.
            && let Err(late) = beside.barrier()
        {
            group.abort(&late.to_string());
            return exchange.abort(&late.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(road: Road, card: Option<&str>, problem: Option<&str>) -> Said {
        let reach = card.map(|_| "NCCL 2".to_owned());
        Said { road, card: card.map(str::to_owned), problem: problem.map(str::to_owned), reach }
    }

    #[test]
    fn what_ranks_say_comes_over_whole() {
        for road in [Road::Auto, Road::Nccl, Road::Host] {
            for (card, problem) in [(None, None), (Some("ab"), None), (Some("ab"), Some("no such"))]
            {
                let own = said(road, card, problem);
                assert_eq!(Said::decode(own.encode().as_bytes()), Some(own));
            }
        }
        assert_eq!(Said::decode(b"sideways\n\n"), None);
        assert_eq!(Said::decode(b"host"), None);
    }

    #[test]
    fn the_reason_names_the_ranks() {
        let fine = |card| said(Road::Auto, Some(card), None);
        let reason = |all: Vec<Said>| why_host(&all);
        assert_eq!(reason(vec![fine("a"), fine("b")]), None);
        let shared = reason(vec![fine("a"), fine("b"), fine("a")]).unwrap();
        assert_eq!(shared, "ranks 0 and 2 share a card");
        let none = reason(vec![fine("a"), said(Road::Nccl, None, None)]).unwrap();
        assert_eq!(none, "rank 1 has no card");
        let asked = reason(vec![fine("a"), said(Road::Host, Some("b"), None)]).unwrap();
        assert!(asked.starts_with("rank 1 asks for the host"), "{asked}");
        let missing = reason(vec![said(Road::Auto, Some("a"), Some("no `libnccl`"))]).unwrap();
        assert_eq!(missing, "rank 0: no `libnccl`");
    }

    #[test]
    fn a_road_is_one_of_two() {
        assert_eq!("nccl".parse::<Road>().unwrap(), Road::Nccl);
        assert_eq!(" host".parse::<Road>().unwrap(), Road::Host);
        let error = "gloo".parse::<Road>().unwrap_err().to_string();
        assert!(error.contains("`BIREME_COLLECTIVE` is `gloo`"), "{error}");
    }
}
