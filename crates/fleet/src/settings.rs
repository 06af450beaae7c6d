//! From the environment and a strategy to the settings of the parts.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use bireme_comm::{Network, Secret, Settings, Tls};
use bireme_ps::Mode;
use bireme_ps::server::Folders;
use bireme_ps::worker::Knobs;

use crate::environment::{CommunicatorFlags, Environment, Rpc, variables as v};
use crate::{Error, Result};

/// How this process talks to others: what the environment says, defaults for the rest.
///
/// # Errors
/// When half of what TLS needs is missing, or times contradict each other.
pub fn settings(environment: &Environment) -> Result<Settings> {
    let rpc = &environment.rpc;
    let defaults = Settings::default();
    let count = |given: Option<u32>, default: usize| given.map_or(default, |n| n as usize);
    let settings = Settings {
        secret: match rpc.secret.as_deref() {
            None | Some(NO_SECRET) => Secret::default(),
            Some(text) => Secret::from_env_text(text),
        },
        tls: tls(rpc)?,
        deadline: rpc.deadline.unwrap_or(defaults.deadline),
        retries: rpc.retries.unwrap_or(defaults.retries),
        heartbeat: rpc.heartbeat.unwrap_or(defaults.heartbeat),
        heartbeat_timeout: rpc.heartbeat_timeout.unwrap_or(defaults.heartbeat_timeout),
        send_connections: count(rpc.send_threads, defaults.send_connections),
        get_connections: count(rpc.get_threads, defaults.get_connections),
        prefetch_connections: count(rpc.prefetch_threads, defaults.prefetch_connections),
        ..defaults
    };
    if settings.heartbeat_timeout <= settings.heartbeat {
        return Err(Error::Config(format!(
            "peers count as lost after {:.1} s without a sign of life, but give one only every \
             {:.1} s: raise `{}` or lower `{}`",
            settings.heartbeat_timeout.as_secs_f64(),
            settings.heartbeat.as_secs_f64(),
            v::HEARTBEAT_TIMEOUT.name,
            v::HEARTBEAT.name
        )));
    }
    Ok(settings)
}

/// What `BIREME_JOB_SECRET` is where the user wants a job without one, on a closed network.
pub(crate) const NO_SECRET: &str = "none";

/// Whether peers prove who they are: by a secret that not everybody knows, or by certificates.
pub(crate) fn is_guarded(settings: &Settings) -> bool {
    !settings.secret.is_default() || settings.tls.is_some()
}

/// Refuses to listen where strangers could take part in the job: at an address that other machines
/// reach, without a secret.
///
/// # Errors
/// Says what to set.
pub(crate) fn check_guarded(
    endpoint: &str,
    settings: &Settings,
    environment: &Environment,
) -> Result<()> {
    let opted_out = environment.rpc.secret.as_deref() == Some(NO_SECRET);
    if is_guarded(settings) || opted_out || is_loopback(endpoint) {
        return Ok(());
    }
    let name = v::JOB_SECRET.name;
    Err(Error::Config(format!(
        "this process is to listen at `{endpoint}`, where anybody who reaches it could take part in \
         the job: set `{name}` to the same long random text for all processes of the job, on every \
         machine (`{name}={NO_SECRET}` does without, on a network that nobody else reaches)"
    )))
}

/// Whether only processes of this machine reach an endpoint.
pub(crate) fn is_loopback(endpoint: &str) -> bool {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Where trainers may have a server save and load.
pub(crate) fn folders(
    settings: &Settings,
    environment: &Environment,
    checkpoint: Option<&Path>,
) -> Folders {
    let name = v::SAVE_ROOTS.name;
    match environment.rpc.save_roots.as_slice() {
        [] if is_guarded(settings) => Folders::default(),
        [] => {
            // Any user of this machine may be the one who asks. A refusal comes late, when all has
            // been trained: so it is for those alone whom the system does not vouch for.
            let own = std::env::current_dir().into_iter();
            let checkpoint = checkpoint.and_then(|path| std::path::absolute(path).ok());
            let beside = checkpoint.as_deref().and_then(Path::parent).map(Path::to_owned);
            let roots = own.chain([std::env::temp_dir()]).chain(beside);
            // A process that was started in `/`, or loads `/model`, does not open everything.
            let roots = roots.filter(|root| root.parent().is_some()).collect();
            let secret = v::JOB_SECRET.name;
            let advice = format!("set `{name}`, or give the job a secret (`{secret}`)");
            Folders::below_for_others(roots, &advice)
        }
        roots => Folders::below(roots.to_vec(), &format!("change `{name}`")),
    }
}

/// The network, by the ways that the environment allows.
pub(crate) fn network(environment: &Environment) -> Network {
    Network::new(environment.rpc.transport)
}

fn tls(rpc: &Rpc) -> Result<Option<Tls>> {
    let given =
        [(&v::TLS_CERT, &rpc.tls_cert), (&v::TLS_KEY, &rpc.tls_key), (&v::TLS_CA, &rpc.tls_ca)];
    let missing: Vec<&str> = given
        .iter()
        .filter(|(_, value)| value.is_none())
        .map(|(variable, _)| variable.name)
        .collect();
    match (&rpc.tls_cert, &rpc.tls_key, &rpc.tls_ca) {
        (Some(certificate), Some(key), Some(authority)) => Ok(Some(Tls {
            certificate: PathBuf::from(certificate),
            key: PathBuf::from(key),
            authority: PathBuf::from(authority),
            name: rpc.tls_name.clone(),
        })),
        (None, None, None) => match &rpc.tls_name {
            Some(_) => Err(Error::Config(format!(
                "`{}` is about TLS, but `{}` is not set",
                v::TLS_NAME.name,
                v::TLS_CERT.name
            ))),
            None => Ok(None),
        },
        _ => Err(Error::Config(format!("TLS needs `{}` too", missing.join("` and `")))),
    }
}

/// The knobs of a trainer's queues: the mode's defaults, then the strategy, then the environment.
///
/// # Errors
/// When a value makes no sense.
pub(crate) fn knobs(
    mode: Mode,
    geo_steps: u32,
    strategy: &CommunicatorFlags,
    environment: &Environment,
) -> Result<Knobs> {
    // Async: steps of several threads that were merged would be one update of an optimizer that
    // scales gradients, so that it learned less from the same data, and from older values.
    let threads = match mode {
        Mode::Async => 1,
        _ => environment.cpu_num.unwrap_or(1) as usize,
    };
    Ok(Knobs::of_mode(mode, threads, geo_steps, &[strategy, &environment.communicator])?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn flags_reach_the_settings() {
        let environment = Environment::of([
            ("FLAGS_rpc_deadline", "2000"),
            ("FLAGS_rpc_retry_times", "7"),
            ("FLAGS_rpc_get_thread_num", "2"),
            ("BIREME_HEARTBEAT_TIMEOUT", "3"),
        ]);
        let settings = settings(&environment.unwrap()).unwrap();
        assert_eq!(settings.deadline, Duration::from_secs(2));
        assert_eq!((settings.retries, settings.get_connections), (7, 2));
        assert_eq!(settings.heartbeat_timeout, Duration::from_secs(3));
        assert!(settings.tls.is_none());
    }

    #[test]
    fn a_job_without_a_secret_stays_on_its_machine() {
        let check = |endpoint: &str, variables: &[(&str, &str)]| {
            let environment = Environment::of(variables.iter().copied()).unwrap();
            check_guarded(endpoint, &settings(&environment).unwrap(), &environment)
        };
        for loopback in ["127.0.0.1:1", "[::1]:1", "localhost:1"] {
            check(loopback, &[]).unwrap();
        }
        for open in ["0.0.0.0:1", "10.0.0.1:6174", "ctr-server-0.ctr:6174"] {
            let error = check(open, &[]).unwrap_err().to_string();
            assert!(error.contains(open) && error.contains("`BIREME_JOB_SECRET`"), "{error}");
            assert!(error.contains("`BIREME_JOB_SECRET=none`"), "{error}");
            check(open, &[("BIREME_JOB_SECRET", "a long random text")]).unwrap();
            check(open, &[("BIREME_JOB_SECRET", "none")]).unwrap();
            check(open, &[("BIREME_JOB_SECRET", " ")]).unwrap_err();
        }
    }

    #[test]
    fn a_server_writes_where_its_job_may() {
        let allowed = |variables: &[(&str, &str)], folder: &str| {
            let environment = Environment::of(variables.iter().copied()).unwrap();
            let settings = settings(&environment).unwrap();
            folders(&settings, &environment, Some(Path::new("/data/models/1"))).check(folder, false)
        };
        let inside = std::env::temp_dir().join("model").to_str().unwrap().to_owned();
        for folder in ["output", "./a/../b", inside.as_str(), "/data/models/2"] {
            allowed(&[], folder).unwrap();
        }
        for folder in ["/srv/else", "../../../../../../../../etc", "/data/other"] {
            let error = allowed(&[], folder).unwrap_err().to_string();
            assert!(error.contains("`BIREME_SAVE_ROOTS`"), "{error}");
        }
        let secret = ("BIREME_JOB_SECRET", "a long random text");
        allowed(&[secret], "/srv/else").unwrap();
        allowed(&[secret], "/etc/cron.d").unwrap_err();
        let roots = ("BIREME_SAVE_ROOTS", "/srv/models:/scratch");
        allowed(&[secret, roots], "/scratch/x").unwrap();
        allowed(&[secret, roots], "/srv/models-of-others").unwrap_err();
        allowed(&[secret, roots], "output").unwrap_err();
    }

    #[test]
    fn a_checkpoint_with_a_short_path_does_not_open_every_folder() {
        let (environment, here) = (Environment::default(), std::env::current_dir().unwrap());
        let settings = settings(&environment).unwrap();
        for checkpoint in ["model", "/model", "./model"] {
            let folders = folders(&settings, &environment, Some(Path::new(checkpoint)));
            folders.check(here.join("output").to_str().unwrap(), false).unwrap();
            for folder in ["/etc/cron.d", "/srv/else"] {
                folders.check(folder, false).expect_err(checkpoint);
            }
        }
    }

    #[test]
    fn half_of_tls_is_refused() {
        let environment = Environment::of([("BIREME_TLS_CERT", "a.pem")]).unwrap();
        let error = settings(&environment).unwrap_err().to_string();
        assert_eq!(error, "TLS needs `BIREME_TLS_KEY` and `BIREME_TLS_CA` too");
        let named = Environment::of([("BIREME_TLS_NAME", "job")]).unwrap();
        assert!(settings(&named).is_err());
    }

    #[test]
    fn signs_of_life_must_come_in_time() {
        let environment =
            Environment::of([("BIREME_HEARTBEAT", "5"), ("BIREME_HEARTBEAT_TIMEOUT", "5")]);
        let error = settings(&environment.unwrap()).unwrap_err().to_string();
        assert!(error.contains("raise `BIREME_HEARTBEAT_TIMEOUT`"), "{error}");
    }

    #[test]
    fn the_environment_comes_before_the_strategy() {
        let strategy = CommunicatorFlags {
            max_merge_var_num: Some(3),
            send_queue_size: Some(4),
            ..CommunicatorFlags::default()
        };
        let environment = Environment::of([("FLAGS_communicator_send_queue_size", "9")]).unwrap();
        let knobs = knobs(Mode::Async, 100, &strategy, &environment).unwrap();
        assert_eq!((knobs.max_merge_var_num, knobs.send_queue_size), (3, 9));
    }

    #[test]
    fn async_steps_of_several_threads_are_not_merged() {
        let environment = Environment::of([("CPU_NUM", "4")]).unwrap();
        let of = |mode| knobs(mode, 100, &CommunicatorFlags::default(), &environment).unwrap();
        assert_eq!(of(Mode::Async).max_merge_var_num, 1);
        assert_eq!(of(Mode::HalfAsync).max_merge_var_num, 4);
    }
}
