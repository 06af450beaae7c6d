//! Every flag of `fleetrun` in one table: the parser, the help and the reference are made from it.
//!
//! Paddle had three launchers with overlapping flags; the names of all of them are here, and one
//! that asks for something this version does not have is refused with what to do instead.

use bireme_fleet::environment::variables::{self as v, Variable};

/// What a flag is about, in the order of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Servers,
    Collective,
    Machines,
    Ports,
    Failures,
    Output,
    Other,
    Refused,
}

impl Group {
    /// In the order of the help.
    pub(crate) const ALL: [Group; 8] = [
        Group::Servers,
        Group::Collective,
        Group::Machines,
        Group::Ports,
        Group::Failures,
        Group::Output,
        Group::Other,
        Group::Refused,
    ];

    /// Its heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Group::Servers => "Parameter servers",
            Group::Collective => "Collective training",
            Group::Machines => "Several machines",
            Group::Ports => "Ports",
            Group::Failures => "Failures",
            Group::Output => "Output",
            Group::Other => "Other",
            Group::Refused => "Of Paddle, refused with advice",
        }
    }
}

/// One flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    /// Without the dashes, words joined by `_`.
    pub(crate) name: &'static str,
    /// Other names for the same.
    pub(crate) others: &'static [&'static str],
    /// What its value is called in the help; empty for a switch.
    pub(crate) value: &'static str,
    /// Where it stands in the help.
    pub(crate) group: Group,
    /// The variable that is read in its stead, and comes first as in Paddle.
    pub(crate) variable: Option<Variable>,
    /// What it means; for a refused one what to do instead.
    pub(crate) help: &'static str,
}

impl Flag {
    const fn new(
        group: Group,
        name: &'static str,
        value: &'static str,
        help: &'static str,
    ) -> Flag {
        Flag { name, others: &[], value, group, variable: None, help }
    }

    const fn also(self, others: &'static [&'static str]) -> Flag {
        Flag { others, ..self }
    }

    const fn or(self, variable: Variable) -> Flag {
        Flag { variable: Some(variable), ..self }
    }

    /// All its names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.others.iter().copied())
    }
}

/// The flag of this name, with `_` between words.
pub(crate) fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.names().any(|other| other == name))
}

/// The flag whose name is nearest to a wrong one, if any is near.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let known = FLAGS.iter().filter(|flag| flag.group != Group::Refused);
    let scored =
        known.flat_map(Flag::names).map(|known| (strsim::jaro_winkler(name, known), known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}

use Group::{Collective, Failures, Machines, Other, Output, Ports, Refused, Servers};

const NO_SUCH_DEVICE: &str =
    "only GPUs can be chosen, with `--gpus`; leave it out to train on CPUs";
const NO_AUTO_PARALLEL: &str =
    "models are not split automatically here; leave it out: every process has the whole model";
const NO_COORDINATOR: &str = "federated training is not in this version; leave it out";
const NO_ETCD: &str = "machines meet at `--master`, without etcd, and their number is fixed; use \
                       `--master`, `--nnodes` and `--max_restart`";

/// All flags.
pub(crate) const FLAGS: &[Flag] = &[
    Flag::new(Servers, "server_num", "N", "parameter servers on this machine").or(v::SERVER_NUM),
    Flag::new(Servers, "worker_num", "N", "trainers on this machine")
        .also(&["trainer_num"])
        .or(v::TRAINER_NUM),
    Flag::new(
        Servers,
        "heter_worker_num",
        "N[;N…]",
        "heterogeneous workers on this machine, a number for each stage after the trainers",
    ),
    Flag::new(Servers, "servers", "IP:PORT,…", "the servers of all machines")
        .also(&["endpoints"])
        .or(v::SERVERS_ENDPOINTS),
    Flag::new(
        Servers,
        "workers",
        "IP[:PORT],…",
        "the trainers of all machines; without ports they are chosen",
    )
    .also(&["trainers"])
    .or(v::TRAINERS_ENDPOINTS),
    Flag::new(
        Servers,
        "heter_workers",
        "IP:PORT,…[;…]",
        "the heterogeneous workers of all machines, stages separated by `;`",
    ),
    Flag::new(
        Servers,
        "heter_devices",
        "DEVICE[;…]",
        "`cpu` or `gpu` for each stage after the trainers (default: `gpu` where there are GPUs)",
    ),
    Flag::new(Collective, "nproc_per_node", "N", "processes on each machine (default: one a GPU, else 1)")
        .or(v::NPROC_PER_NODE),
    Flag::new(
        Collective,
        "gpus",
        "ID,…",
        "GPUs to use, of those in CUDA_VISIBLE_DEVICES if that is set (default: all of them)",
    )
    .also(&["devices", "selected_gpus", "selected_devices"])
    .or(v::DEVICES),
    Flag::new(Collective, "backend", "NAME", "`gloo` (CPUs), or `auto`, which is the same so far (default auto)")
        .or(v::BACKEND),
    Flag::new(Machines, "ips", "IP,…", "the machines of a collective job; run the same command on each")
        .also(&["cluster_node_ips"])
        .or(v::IPS),
    Flag::new(Machines, "master", "IP:PORT", "where the machines meet, an address of the first one").or(v::MASTER),
    Flag::new(Machines, "nnodes", "N[:MOST]", "number of machines that meet, or the least and the most (default 1)")
        .also(&["np"])
        .or(v::NNODES),
    Flag::new(Machines, "rank", "N", "number of this machine among them (default: the order in which they come)")
        .or(v::NODE_RANK),
    Flag::new(Machines, "host", "IP", "address of this machine (default: found by itself)")
        .also(&["node_ip"])
        .or(v::POD_IP),
    Flag::new(Machines, "sort_ip", "BOOL", "number the machines that meet by their addresses (default false)")
        .or(v::SORT_IP),
    Flag::new(
        Machines,
        "use_paddlecloud",
        "",
        "take the machines from PADDLE_TRAINERS, POD_IP, PADDLE_TRAINER_ID and TRAINER_PORTS_NUM, as is done anyway where all four are set",
    ),
    Flag::new(
        Machines,
        "elastic_timeout",
        "SECONDS",
        "with the least number of machines there, how long the job waits for more (default 30)",
    )
    .or(v::ELASTIC_TIMEOUT),
    Flag::new(
        Ports,
        "start_port",
        "PORT",
        "first of the ports given to processes without one (default: free ports on one machine, else 6070 for collective jobs and 6170 with servers)",
    )
    .also(&["started_port"])
    .or(v::START_PORT),
    Flag::new(Ports, "http_port", "PORT", "port where machines with `--servers` or `--ips` meet, on that of the first server or on the first one, and Gloo's in PADDLE_GLOO_HTTP_ENDPOINT"),
    Flag::new(Ports, "gloo_port", "PORT", "Gloo's port in PADDLE_GLOO_HTTP_ENDPOINT").or(v::GLOO_PORT),
    Flag::new(Ports, "with_gloo", "0|1|2", "value of PADDLE_WITH_GLOO for the processes (default: inherited, else 0)")
        .or(v::WITH_GLOO),
    Flag::new(
        Failures,
        "max_restart",
        "N",
        "how often failed processes are started again (default 0: the first failure ends the job)",
    )
    .or(v::MAX_RESTART),
    Flag::new(
        Failures,
        "elastic_level",
        "-1|1",
        "-1: no restarts; 1: failed processes are started again, 3 times unless `--max_restart` says otherwise",
    )
    .or(v::ELASTIC_LEVEL),
    Flag::new(Output, "log_dir", "FOLDER", "where serverlog.N, workerlog.N and heterlog.N go (default log)").or(v::LOG_DIR),
    Flag::new(Output, "log_level", "LEVEL", "least important lines of the launcher: DEBUG, INFO, WARNING or ERROR (default INFO)")
        .or(v::LOG_LEVEL),
    Flag::new(Output, "log_overwrite", "BOOL", "empty the logs of an earlier collective job, which are continued otherwise (default false)")
        .or(v::LOG_OVERWRITE),
    Flag::new(Output, "print_config", "BOOL", "print the arguments at the start (default true)"),
    Flag::new(Other, "run_mode", "MODE", "`collective`, `ps` or `ps-heter` (default: what the other flags say)").or(v::RUN_MODE),
    Flag::new(Other, "job_id", "NAME", "name of the job (default `default`)").or(v::LAUNCH_JOB_ID),
    Flag::new(Other, "legacy", "BOOL", "Paddle's choice between its two launchers; this one is both, so any value will do"),
    Flag::new(Refused, "xpus", "IDS", NO_SUCH_DEVICE).also(&["selected_xpus"]),
    Flag::new(Refused, "npus", "IDS", NO_SUCH_DEVICE).also(&["selected_npus"]),
    Flag::new(Refused, "mlus", "IDS", NO_SUCH_DEVICE).also(&["selected_mlus"]),
    Flag::new(Refused, "cluster_topo_path", "FILE", NO_AUTO_PARALLEL),
    Flag::new(Refused, "rank_mapping_path", "FILE", NO_AUTO_PARALLEL),
    Flag::new(Refused, "enable_auto_mapping", "BOOL", NO_AUTO_PARALLEL),
    Flag::new(Refused, "auto_parallel_config", "FILE", NO_AUTO_PARALLEL),
    Flag::new(Refused, "auto_tuner_json", "FILE", "there is no tuner that tries settings out; leave it out"),
    Flag::new(Refused, "coordinators", "IP:PORT,…", NO_COORDINATOR),
    Flag::new(Refused, "coordinator_num", "N", NO_COORDINATOR),
    Flag::new(Refused, "elastic_server", "IP:PORT", NO_ETCD),
    Flag::new(Refused, "elastic_pre_hook", "COMMAND", NO_ETCD),
    Flag::new(Refused, "scale", "N", NO_ETCD),
    Flag::new(Refused, "force", "BOOL", NO_ETCD),
    Flag::new(Refused, "enable_gpu_log", "BOOL", "GPUs are not logged; leave it out, and use `nvidia-smi` beside the job"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_there_twice() {
        let mut names: Vec<_> = FLAGS.iter().flat_map(Flag::names).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_slip_is_corrected_and_nonsense_is_not() {
        assert_eq!(nearest("worker_nums"), Some("worker_num"));
        assert_eq!(nearest("nproc"), Some("nproc_per_node"));
        assert_eq!(nearest("zzz"), None);
    }
}
