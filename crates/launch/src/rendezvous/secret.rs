//! How launchers talk to each other: the settings of the job's own connections, a secret, and a
//! shorter patience.

use std::time::Duration;

use anyhow::Result;
use bireme_comm::{Secret, Settings};
use bireme_fleet::Environment;

/// Launchers take each other for lost after this part of the time after which processes do, so that
/// users read "node 10.0.0.3 is lost" and not the complaint of a worker that misses a server there.
const PART_OF_TIMEOUT: f64 = 0.6;

/// Between two signs of life: launchers are few, and one that is silent for longer is suspected when
/// something fails.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Longest wait for one attempt to connect: a machine that is switched off answers nothing.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// The settings of connections between launchers. Without `BIREME_JOB_SECRET` theirs follows from
/// the job's name, which keeps jobs apart, but no attacker out while machines meet: whoever reaches
/// the rendezvous then can take a place. The processes have a random one all the same, which the
/// first node hands to those that have joined.
///
/// # Errors
/// When the environment contradicts itself.
pub fn settings(environment: &Environment, job: &str) -> Result<Settings> {
    let settings = bireme_fleet::settings(environment)?;
    let secret = match &environment.rpc.secret {
        Some(secret) => Secret::from_env_text(&format!("launcher {secret}")),
        None => Secret::new(format!("bireme job {job}").as_bytes()),
    };
    let timeout = settings.heartbeat_timeout.mul_f64(PART_OF_TIMEOUT);
    Ok(Settings {
        secret,
        heartbeat: settings.heartbeat.min(timeout / 6).min(HEARTBEAT),
        heartbeat_timeout: timeout,
        handshake: HANDSHAKE,
        // Watching the log takes as long as the job; heartbeats bound the wait for a dead host.
        deadline: Duration::from_secs(365 * 24 * 3600),
        max_frame: 64 << 20,
        ..settings
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_less_patient_than_processes() {
        let environment = Environment::of([("BIREME_HEARTBEAT_TIMEOUT", "2")]).unwrap();
        let settings = settings(&environment, "default").unwrap();
        assert_eq!(settings.heartbeat_timeout, Duration::from_millis(1200));
        assert_eq!(settings.heartbeat, Duration::from_millis(200));
    }
}
