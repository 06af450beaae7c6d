//! The live lines: one for each role, with its state, steps a second and memory; and one for each process on a card,
//! with that and what its time goes to.

use std::time::Instant;

use super::status::{CardUse, Shares};
use super::system;
use super::watch::Member;
use crate::job::Role;

/// Processes on cards that have a line of their own.
const MOST_CARDS: usize = 8;

/// The lines of now.
pub(super) fn lines(members: &[Member<'_>], restarts: u32) -> Vec<String> {
    let roles = [Role::Server, Role::Worker, Role::HeterWorker];
    let mut lines: Vec<String> = roles.iter().filter_map(|role| line(members, *role)).collect();
    let on_cards: Vec<String> = members.iter().filter_map(card_line).collect();
    let hidden = on_cards.len().saturating_sub(MOST_CARDS);
    lines.extend(on_cards.into_iter().take(MOST_CARDS));
    if hidden > 0 {
        lines.push(format!("  and {hidden} more on GPUs"));
    }
    if let (Some(last), 1..) = (lines.last_mut(), restarts) {
        *last += &format!("  restarts {restarts}");
    }
    lines
}

/// What a process with a card has of it, and what its time goes to.
fn card_line(member: &Member<'_>) -> Option<String> {
    let card = member.running.as_ref()?.status.card?;
    let name = format!("{} {}", member.process.role, member.process.rank);
    Some(format!("  {name:<11} {}", of_card(card)))
}

fn of_card(card: CardUse) -> String {
    let mut line = format!("gpu {}  {:<10}", card.number, bytes(card.bytes));
    if let Some(Shares { pull, compute, push, waiting }) = card.shares {
        line +=
            &format!("  pull {pull} %  compute {compute} %  push {push} %  waiting {waiting} %");
    }
    line
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_a_line() {
        let shares = Some(Shares { pull: 20, compute: 65, push: 10, waiting: 5 });
        let line = of_card(CardUse { number: 1, bytes: 3 << 29, shares });
        assert_eq!(line, "gpu 1  1.5 GiB     pull 20 %  compute 65 %  push 10 %  waiting 5 %");
        let line = of_card(CardUse { number: 0, bytes: 512, shares: None });
        assert_eq!(line.trim_end(), "gpu 0  512 B");
    }
}
