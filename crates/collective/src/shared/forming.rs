//! How the ranks of a host come to share memory: they compare what tells hosts apart, the first of
//! them makes a segment, the others map it, and all use it if all could.

use std::sync::atomic::AtomicU32;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Local;
use super::control::Patience;
use super::copy::Writer;
use super::segment::Segment;
use crate::group::Turn;
use crate::{Reduce, Result};

/// Which memory the ranks of a group share.
pub(crate) enum Sharing {
    /// None: they use sockets.
    Nothing,
    /// All of them share one segment.
    All(Local),
    /// Those on each host share one; the first of each speak for them.
    Hosts(Hosts),
}

/// The ranks of a group by host.
pub(crate) struct Hosts {
    /// The memory of this host; none where this rank is alone on it.
    pub(crate) local: Option<Local>,
    /// Mesh ranks of this host's ranks.
    pub(crate) here: Vec<usize>,
    /// Number of this rank among them.
    pub(crate) place: usize,
    /// Mesh ranks of the first rank of each host.
    pub(crate) leaders: Vec<usize>,
    /// Number of this host.
    pub(crate) host: usize,
    /// The number of each rank's host, and of the rank on it.
    pub(crate) places: Vec<(usize, usize)>,
}

impl Sharing {
    /// Finds out what the ranks share; all make the call. `host` is the same for ranks that can
    /// share memory.
    pub(crate) fn form(turn: &Turn<'_>, host: Option<&str>) -> Result<Sharing> {
        let names = turn.wire_all_gather_varied(host.unwrap_or_default().as_bytes())?;
        let mut hosts: Vec<Vec<usize>> = Vec::new();
        let mut places = Vec::new();
        for (rank, name) in names.iter().enumerate() {
            let known = hosts.iter().position(|host| names[host[0]] == *name);
            // Without a name, everyone is on a host of its own.
            let at = known.filter(|_| !name.is_empty()).unwrap_or(hosts.len());
            if at == hosts.len() {
                hosts.push(Vec::new());
            }
            places.push((at, hosts[at].len()));
            hosts[at].push(rank);
        }
        if hosts.len() == turn.size() {
            return Ok(Sharing::Nothing);
        }
        let (host, place) = places[turn.rank()];
        let here: Vec<_> = hosts[host].iter().map(|rank| turn.ranks()[*rank]).collect();
        let local = match here.len() {
            1 => None,
            _ => Local::form(&turn.among(&here, place))?,
        };
        let mut all_do = [u8::from(local.is_some() || here.len() == 1)];
        turn.wire_all_reduce(&mut all_do, Reduce::Min)?;
        let leaders = hosts.iter().map(|host| turn.ranks()[host[0]]).collect();
        Ok(match local {
            _ if all_do == [0] => Sharing::Nothing,
            Some(local) if hosts.len() == 1 => Sharing::All(local),
            local => Sharing::Hosts(Hosts { local, here, place, leaders, host, places }),
        })
    }
}

impl Local {
    /// The memory that all these ranks share; none where they cannot. All make the call.
    fn form(turn: &Turn<'_>) -> Result<Option<Local>> {
        let length = Local::bytes(turn.size());
        let mark = mark();
        // Kept until all have it.
        let mut made = None;
        let mut told = vec![0; 64];
        if turn.rank() == 0
            && let Ok(new) = Segment::make(length, mark)
        {
            let text = format!("{mark:016x}{}", new.place());
            told[..text.len()].copy_from_slice(text.as_bytes());
            made = Some(new);
        }
        turn.wire_broadcast(&mut told, 0)?;
        let opened = if turn.rank() == 0 { None } else { open(&told, length) };
        let mut all_have_it = [u8::from(made.is_some() || opened.is_some())];
        turn.wire_all_reduce(&mut all_have_it, Reduce::Min)?;
        let segment = made.map(|made| made.segment).or(opened);
        let Some(segment) = segment.filter(|_| all_have_it == [1]) else {
            tracing::debug!("the ranks cannot share memory and use sockets");
            return Ok(None);
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Some(Local {
            segment,
            rank: turn.rank(),
            size: turn.size(),
            patience: Patience::new(turn.size(), processors),
            writer: Writer::default(),
            phase: AtomicU32::new(0),
        }))
    }
}

fn open(told: &[u8], length: usize) -> Option<Segment> {
    let text = std::str::from_utf8(told).ok()?.trim_end_matches('\0');
    let mark = u64::from_str_radix(text.get(..16)?, 16).ok()?;
    Segment::open(text.get(16..)?, length, mark).ok()
}

/// What is the same for two processes that can share memory: one running kernel, one numbering of
/// processes, and one network, since who is given a network of its own is meant to be a host.
pub(crate) fn host() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let network = std::fs::read_link("/proc/self/ns/net").ok()?;
    Some(format!("{} {} {}", boot.trim(), processes.display(), network.display()))
}

/// A number that no other segment has; not a secret, as only processes that may look into ours
/// can map its memory at all.
fn mark() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    (time as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id()) << 32 | 1
}
