//! Which life of the job's state a server belongs to.
//!
//! A job's state lives in the memory of all its servers. One that is restarted alone has lost its
//! part, and would be trained on from first values (or from an older checkpoint) beside servers
//! that have the rest: nothing would fail, and the model would be wrong. So the first trainer draws
//! a number, which servers keep while they run. Server 0 decides which number holds, and knows
//! whether a trainer has joined all servers; a server without a number is a new one after that.

use crate::message::Life;

/// The life of the job's state, on one server.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// 0 until a trainer joins.
    number: u64,
    /// On server 0: a trainer has joined all servers.
    began: bool,
    /// What this server started with.
    origin: u64,
    start: String,
    /// The last complete checkpoint that it knows of.
    checkpoint: String,
}

impl Lineage {
    /// The server starts with the checkpoint in `directory`, whose contents have the number
    /// `origin`.
    pub(super) fn start_from(&mut self, directory: &str, origin: u64) {
        self.origin = origin;
        self.start = directory.to_owned();
        self.checkpoint = directory.to_owned();
    }

    /// The checkpoint in `directory` is complete.
    pub(super) fn saved(&mut self, directory: &str) {
        self.checkpoint = directory.to_owned();
    }

    /// A trainer has joined all servers.
    pub(super) fn begin(&mut self) {
        self.began = true;
    }

    /// What a trainer that joins is told, to tell the other servers.
    pub(super) fn life(&self, step: u64) -> Life<'_> {
        Life {
            number: self.number,
            began: self.began,
            step,
            origin: self.origin,
            start: &self.start,
            checkpoint: &self.checkpoint,
        }
    }

    /// Takes a trainer's word for the life of the job, on server number `server` called `name`.
    /// What is wrong when this server, or server 0, is not of the same life.
    pub(super) fn agree(
        &mut self,
        (server, name): (u32, &str),
        step: u64,
        told: &Life<'_>,
    ) -> Result<(), String> {
        if server == 0 {
            if self.number == 0 {
                self.number = told.number.max(1);
            }
            return Ok(());
        }
        if self.number == told.number && self.number != 0 {
            return Ok(());
        }
        if self.number != 0 {
            let checkpoint = pick(&self.checkpoint, told.checkpoint);
            return Err(match told.began {
                false => format!(
                    "server 0 was started anew and has nothing of what this job has learned, but \
                     {name} is at step {step}: {}",
                    restart(checkpoint)
                ),
                true => format!(
                    "{name} belongs to another start of the job than server 0: {}",
                    restart(checkpoint)
                ),
            });
        }
        if told.began {
            return Err(format!(
                "{name} was started anew ({}) and has nothing of what this job has learned since, \
                 but server 0 is at step {}: {}",
                with(&self.start),
                told.step,
                restart(told.checkpoint)
            ));
        }
        if self.origin != told.origin {
            return Err(format!(
                "{name} was started {}, but server 0 {}: start all servers with the same \
                 checkpoint",
                with(&self.start),
                with(told.start)
            ));
        }
        self.number = told.number;
        Ok(())
    }
}

fn pick<'a>(first: &'a str, second: &'a str) -> &'a str {
    if first.is_empty() { second } else { first }
}

fn with(checkpoint: &str) -> String {
    match checkpoint {
        "" => "with first values".to_owned(),
        folder => format!("with the checkpoint `{folder}`"),
    }
}

fn restart(checkpoint: &str) -> String {
    match checkpoint {
        "" => "restart all servers and trainers of the job (it has saved no checkpoint)".to_owned(),
        folder => format!(
            "restart all servers and trainers of the job, the servers with its last checkpoint \
             `{folder}`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: Life<'_> =
        Life { number: 9, began: false, step: 0, origin: 0, start: "", checkpoint: "" };

    fn joined(lineage: &mut Lineage, server: u32, told: &Life<'_>) -> Result<(), String> {
        lineage.agree((server, &format!("server {server}")), 5, told)
    }

    #[test]
    fn server_0_decides_and_the_others_follow() {
        let (mut first, mut second) = (Lineage::default(), Lineage::default());
        joined(&mut first, 0, &TOLD).unwrap();
        // A second trainer's proposal comes too late.
        joined(&mut first, 0, &Life { number: 10, ..TOLD }).unwrap();
        assert_eq!(first.life(0).number, 9);
        joined(&mut second, 1, &first.life(0)).unwrap();
        first.begin();
        joined(&mut second, 1, &first.life(0)).unwrap();
    }

    #[test]
    fn whichever_server_is_new_is_named_with_the_checkpoint() {
        let (mut first, mut second) = (Lineage::default(), Lineage::default());
        joined(&mut first, 0, &TOLD).unwrap();
        joined(&mut second, 1, &first.life(0)).unwrap();
        first.begin();
        first.saved("out/3");
        second.saved("out/3");
        let error = joined(&mut Lineage::default(), 1, &first.life(512)).unwrap_err();
        assert!(error.starts_with("server 1 was started anew (with first values)"), "{error}");
        assert!(error.contains("server 0 is at step 512"), "{error}");
        assert!(error.ends_with("with its last checkpoint `out/3`"), "{error}");

        let mut anew = Lineage::default();
        joined(&mut anew, 0, &Life { number: 10, ..TOLD }).unwrap();
        let error = joined(&mut second, 1, &anew.life(0)).unwrap_err();
        assert!(error.starts_with("server 0 was started anew"), "{error}");
        assert!(error.contains("server 1 is at step 5") && error.contains("`out/3`"), "{error}");
    }

    #[test]
    fn servers_that_start_with_the_same_agree() {
        let from = |folder: &str, origin| {
            let mut lineage = Lineage::default();
            lineage.start_from(folder, origin);
            lineage
        };
        let mut first = from("out/3", 77);
        joined(&mut first, 0, &TOLD).unwrap();
        joined(&mut from("copy/of/3", 77), 1, &first.life(0)).unwrap();
        let error = joined(&mut Lineage::default(), 1, &first.life(0)).unwrap_err();
        assert!(error.contains("server 1 was started with first values"), "{error}");
        assert!(error.contains("server 0 with the checkpoint `out/3`"), "{error}");
        joined(&mut from("out/2", 76), 1, &first.life(0)).unwrap_err();
    }
}
