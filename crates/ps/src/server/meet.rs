//! Meetings: everybody of a group brings some bytes and gets everybody's. Barriers among trainers,
//! and the gathers and reductions of `fleet.util`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bireme_comm::Reply;

use super::roster::{Roster, Standing};
use crate::message::Answer;

/// The group whose members are trainers.
pub(super) const TRAINERS: &str = "trainer";

/// Meetings that may wait for their members at one time.
pub(super) const MAX_MEETINGS: usize = 1024;

/// Those who have come to a meeting.
pub(super) struct Meeting {
    members: u32,
    present: BTreeMap<u32, (Reply, Vec<u8>)>,
    since: Instant,
}

impl Meeting {
    pub(super) fn new(members: u32) -> Meeting {
        Meeting { members, present: BTreeMap::new(), since: Instant::now() }
    }

    /// Takes a member in; returns whom to say no to, and why: one that expects another number of
    /// members, or that is here already.
    pub(super) fn enter(
        &mut self,
        member: u32,
        members: u32,
        data: &[u8],
        reply: Reply,
    ) -> Option<(Reply, String)> {
        if members != self.members || member >= members {
            let (known, given) = (self.members, members);
            let problem = format!(
                "member {member} of {given} came to a meeting of {known}: do all processes know \
                 the same number of them?"
            );
            return Some((reply, problem));
        }
        let (stale, _) = self.present.insert(member, (reply, data.to_vec()))?;
        Some((stale, "the same member came again".to_owned()))
    }

    /// Those who wait for its end.
    pub(super) fn into_replies(self) -> impl Iterator<Item = Reply> {
        self.present.into_values().map(|(reply, _)| reply)
    }

    /// Bytes that its members brought.
    fn bytes(&self) -> usize {
        self.present.values().map(|(_, data)| data.len()).sum()
    }

    /// Gives everybody everything. Who is not here brought nothing.
    fn finish(self) {
        let mut all = vec![Vec::new(); self.members as usize];
        let mut replies = Vec::new();
        for (member, (reply, data)) in self.present {
            all[member as usize] = data;
            replies.push(reply);
        }
        let answer = Answer::Gathered { parts: all.iter().map(Vec::as_slice).collect() };
        // One copy for all: each client may have to be answered again.
        let bytes = Arc::new(answer.encode().parts().concat());
        replies.into_iter().for_each(|reply| reply.send_shared(&bytes));
    }

    fn is_barrier(&self) -> bool {
        self.present.values().all(|(_, data)| data.is_empty())
    }
}

/// What to do with a meeting.
enum Fate {
    Wait,
    Finish,
    Fail(String),
}

/// A meeting that has ended; delivered when no lock is held, as there may be much to send.
#[must_use = "those who came wait for an answer"]
pub(super) struct Ended {
    meeting: Meeting,
    problem: Option<String>,
}

impl Ended {
    /// Answers everybody who came.
    pub(super) fn deliver(self) {
        match self.problem {
            None => self.meeting.finish(),
            Some(problem) => self.meeting.into_replies().for_each(|reply| reply.fail(&problem)),
        }
    }
}

/// Why a request to meet is refused before anything is kept of it. A meeting has at most `most`
/// members, and what all of them bring must fit into an answer of `limit` bytes.
pub(super) fn check(
    roster: &Roster,
    key: &(String, String),
    members: u32,
    most: u32,
    data: usize,
    limit: usize,
) -> Result<(), String> {
    let (group, name) = key;
    if members > most {
        return Err(format!(
            "{members} members of `{group}` were to meet for `{name}`, but the job has {most} \
             processes"
        ));
    }
    if !roster.meetings.contains_key(key) && roster.meetings.len() >= MAX_MEETINGS {
        return Err(format!("{MAX_MEETINGS} meetings wait for their members already"));
    }
    let waiting: usize = roster.meetings.values().map(Meeting::bytes).sum();
    // Each part of the answer has its length beside it.
    let heads = 16 * members as usize;
    if waiting.saturating_add(data).saturating_add(heads) > limit {
        return Err(format!(
            "the {data} bytes that a member brings to `{name}`, {waiting} that wait here and those \
             of the others must fit into a message of {limit}: bring less at a time"
        ));
    }
    Ok(())
}

/// Takes out the meetings that are complete, cannot become complete, or have waited for `deadline`.
/// `goes_on`: whether training goes on without those that were lost.
pub(super) fn settle(
    roster: &mut Roster,
    goes_on: bool,
    deadline: Duration,
    now: Instant,
) -> Vec<Ended> {
    let mut ended = Vec::new();
    let keys: Vec<(String, String)> = roster.meetings.keys().cloned().collect();
    for key in keys {
        let Some(meeting) = roster.meetings.get(&key) else { continue };
        let problem = match fate(roster, &key, meeting, goes_on, deadline, now) {
            Fate::Wait => continue,
            Fate::Finish => None,
            Fate::Fail(problem) => Some(problem),
        };
        ended.extend(roster.meetings.remove(&key).map(|meeting| Ended { meeting, problem }));
    }
    ended
}

fn fate(
    roster: &Roster,
    (group, name): &(String, String),
    meeting: &Meeting,
    goes_on: bool,
    deadline: Duration,
    now: Instant,
) -> Fate {
    let missing: Vec<u32> =
        (0..meeting.members).filter(|member| !meeting.present.contains_key(member)).collect();
    if missing.is_empty() {
        return Fate::Finish;
    }
    let waited = now.saturating_duration_since(meeting.since);
    let about = format!("`{name}`, {:.1} s", waited.as_secs_f64());
    let standing = |member: &u32| match group == TRAINERS {
        true => roster.trainers.get(*member as usize),
        false => None,
    };
    if group == TRAINERS {
        // A barrier of the living goes on; a gather that lacks somebody's data cannot.
        let gone = |at: &u32| matches!(standing(at), Some(Standing::Lost { .. }));
        if goes_on && meeting.is_barrier() && missing.iter().all(gone) {
            return Fate::Finish;
        }
        for member in &missing {
            let problem = match standing(member) {
                Some(Standing::Lost { why, .. }) if !(goes_on && meeting.is_barrier()) => {
                    format!("trainer {member} is lost ({why})")
                }
                Some(Standing::Done) => format!("trainer {member} has finished"),
                _ => continue,
            };
            return Fate::Fail(format!("{problem}, but the others wait for it in {about}"));
        }
    }
    if roster.waited(meeting.since, now) < deadline {
        return Fate::Wait;
    }
    let names = missing.iter().map(|member| match group == TRAINERS {
        true => roster.name(*member),
        false => format!("{group} {member}"),
    });
    let names: Vec<String> = names.collect();
    Fate::Fail(format!(
        "{} did not come to {about} (the limit is `FLAGS_rpc_deadline`)",
        names.join(", ")
    ))
}
