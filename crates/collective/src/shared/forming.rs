//! How the ranks of a host come to share memory: they compare what tells hosts apart, the first of
//! them makes a segment, the others map it, and all use it if all could.

use std::sync::atomic::AtomicU32;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Local;
use super::control::Patience;
use super::segment::Segment;
use crate::group::Turn;
use crate::{Reduce, Result};

impl Local {
    /// The memory that all ranks of the group share; none where they cannot. All make the call.
    pub(crate) fn form(turn: &Turn<'_>, wanted: bool) -> Result<Option<Local>> {
        let here = if wanted { host() } else { None };
        let hosts = turn.wire_all_gather_varied(here.clone().unwrap_or_default().as_bytes())?;
        let alike = hosts.iter().all(|host| *host == hosts[0]) && !hosts[0].is_empty();
        if !alike || here.is_none() {
            return Ok(None);
        }
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
            phase: AtomicU32::new(0),
        }))
    }
}

fn open(told: &[u8], length: usize) -> Option<Segment> {
    let text = std::str::from_utf8(told).ok()?.trim_end_matches('\0');
    let mark = u64::from_str_radix(text.get(..16)?, 16).ok()?;
    Segment::open(text.get(16..)?, length, mark).ok()
}

/// What is the same for two processes exactly if they can share memory: one running kernel, and
/// one numbering of processes.
fn host() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), processes.display()))
}

/// A number that no other segment has; not a secret, as only processes that may look into ours
/// can map its memory at all.
fn mark() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    (time as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id()) << 32 | 1
}
