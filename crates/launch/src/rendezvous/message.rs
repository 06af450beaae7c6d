//! What nodes say to the one that hosts their meeting, and what it answers: JSON in `comm`'s frames.
//! Only these types cross the wire.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::job::Role;

/// A node as it presents itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Under which the other nodes reach it.
    pub address: String,
    /// The rank it asks for (`--rank`).
    pub rank: Option<usize>,
    /// What it was started with, as far as it must be the same on all nodes: flag and value.
    pub must_match: Vec<(String, String)>,
    /// What is usually the same; a difference is only told.
    pub should_match: Vec<(String, String)>,
    /// The processes it will run, with the ports it holds for them.
    pub seats: Vec<Seat>,
    /// A secret that it made for the job; empty where its environment has one. That of the first
    /// node holds.
    pub secret: JobSecret,
}

/// A secret that was made for one job; `Debug` does not show it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSecret(pub String);

impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret(..)")
    }
}

/// One process of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// What it does.
    pub role: Role,
    /// Its port, held by its node.
    pub port: u16,
    /// The devices it uses, as a list of numbers; empty for none.
    pub devices: String,
}

/// The first failure of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The address of the node on which it happened.
    pub node: String,
    /// The process that failed; none where it is the node itself, such as a launcher that was
    /// interrupted.
    pub process: Option<(Role, usize)>,
    /// Whether it says of itself that it failed because another process did.
    pub hearsay: bool,
    /// How it ended: `exited with code 3`, `was killed by SIGKILL`.
    pub how: String,
    /// The exit code for launchers.
    pub code: i32,
    /// The file of its log on its node.
    pub log: String,
    /// The last lines of that log.
    pub tail: Vec<String>,
}

impl Failure {
    /// A failure of a node and not of a process.
    pub fn of_node(node: &str, how: &str) -> Failure {
        Failure {
            node: node.to_owned(),
            process: None,
            hearsay: false,
            how: how.to_owned(),
            code: 1,
            log: String::new(),
            tail: Vec::new(),
        }
    }
}

impl fmt::Display for Failure {
    /// One line: `worker 1 on node 10.0.0.2 exited with code 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some((role, rank)) => write!(f, "{role} {rank} on node {} {}", self.node, self.how),
            None => write!(f, "node {} {}", self.node, self.how),
        }
    }
}

/// What a node asks of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// Take part.
    Join(Card),
    /// Answer as soon as the log is longer than this.
    Watch(usize),
    /// A process failed.
    Failed(Failure),
    /// All workers of this node are done.
    WorkersDone,
    /// No process of this node runs.
    Stopped {
        round: u32,
        /// The last checkpoint that they saved, if they did.
        checkpoint: Option<String>,
    },
    /// This node's patience is at its end: the job cannot start.
    GiveUp(String),
    /// This node knows all it needs, or leaves before the start.
    Leave,
}

impl Request {
    /// How it is called in errors.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Request::Join(_) => "joining the job",
            Request::Watch(_) => "news of the job",
            Request::Failed(_) => "the report of a failure",
            Request::WorkersDone => "the report that workers are done",
            Request::Stopped { .. } => "the report that processes have ended",
            Request::GiveUp(_) => "the report that waiting is over",
            Request::Leave => "taking leave",
        }
    }
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Entry {
    /// A node came.
    Joined(String),
    /// A node went before the job started.
    Left(String),
    /// Something to be told to users.
    Note(String),
    /// All are here, in the order of their ranks, with the numbers of their sessions.
    Started(Vec<(u64, Card)>),
    /// The job cannot start.
    Refused(String),
    /// The first failure.
    Failed(Failure),
    /// A node is gone.
    Lost { node: String, why: String },
    /// The job begins again.
    Restart { round: u32, failure: Failure },
    /// All processes of the round before have ended.
    Begin { round: u32, checkpoint: Option<String> },
    /// All workers of all nodes are done.
    WorkersDone,
}

impl Entry {
    /// Whether nothing follows that a node needs to know.
    pub(super) fn is_last(&self) -> bool {
        matches!(
            self,
            Entry::Refused(_) | Entry::Failed(_) | Entry::Lost { .. } | Entry::WorkersDone
        )
    }
}

/// As bytes.
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("these types have no keys that are not text")
}

/// From bytes; the error says what is wrong with them.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| {
        format!("a message of the rendezvous that is not understood ({error}): is the same version of Bireme installed on all nodes?")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        let failure = Failure {
            process: Some((Role::HeterWorker, 2)),
            tail: vec!["Traceback".into(), "ValueError: \u{fffd}".into()],
            ..Failure::of_node("10.0.0.1", "exited with code 3")
        };
        assert_eq!(failure.to_string(), "heter worker 2 on node 10.0.0.1 exited with code 3");
        let entry = Entry::Restart { round: 2, failure };
        assert_eq!(decode::<Entry>(&encode(&entry)).unwrap(), entry);
        let request = Request::Watch(7);
        assert_eq!(decode::<Request>(&encode(&request)).unwrap(), request);
        assert!(decode::<Request>(b"{}").unwrap_err().contains("same version"));
    }
}
