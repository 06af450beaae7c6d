//! The live lines: one for each role, with its state, steps a second and memory.

use std::time::Instant;

use super::system;
use super::watch::Member;
use crate::job::Role;

/// The lines of now.
pub(super) fn lines(members: &[Member<'_>], restarts: u32) -> Vec<String> {
    let roles = [Role::Server, Role::Worker, Role::HeterWorker];
    let mut lines: Vec<String> = roles.iter().filter_map(|role| line(members, *role)).collect();
    if let (Some(last), 1..) = (lines.last_mut(), restarts) {
        *last += &format!("  restarts {restarts}");
    }
    lines
}

fn line(members: &[Member<'_>], role: Role) -> Option<String> {
    let own: Vec<&Member<'_>> =
        members.iter().filter(|member| member.process.role == role).collect();
    if own.is_empty() {
        return None;
    }
    let running: Vec<_> = own.iter().filter_map(|member| member.running.as_ref()).collect();
    let memory: u64 = running.iter().filter_map(|running| system::memory(running.pid)).sum();
    let training = running.iter().filter(|running| running.status.step.is_some()).count();
    let state = match (running.len(), own.len() - running.len()) {
        (0, _) => "done".to_owned(),
        (on, 0) if role == Role::Server => format!("{on} running"),
        (on, 0) if training == 0 => format!("{on} starting"),
        (on, 0) if training < on => format!("{training} of {on} training"),
        (on, 0) => format!("{on} training"),
        (on, off) => format!("{on} running, {off} done"),
    };
    let mut line = format!("{:<13} {state:<22}", format!("{role}s"));
    let steps: Vec<u64> = running.iter().filter_map(|running| running.status.step).collect();
    if let (Some(least), Some(most)) = (steps.iter().min(), steps.iter().max()) {
        line += &match least == most {
            true => format!("  step {most}"),
            false => format!("  steps {least}–{most}"),
        };
    }
    let now = Instant::now();
    let rates: Vec<f64> = running.iter().filter_map(|running| running.status.rate(now)).collect();
    if !rates.is_empty() {
        line += &format!("  {:.1} steps/s", rates.iter().sum::<f64>());
    }
    if memory > 0 {
        line += &format!("  {}", bytes(memory));
    }
    Some(line)
}

fn bytes(count: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| count >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", count as f64 / (1u64 << shift) as f64),
        None => format!("{count} B"),
    }
}
