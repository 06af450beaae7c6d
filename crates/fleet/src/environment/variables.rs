//! Every environment variable of a job, of Bireme and of Paddle, in one table.
//!
//! `docs/environment.md` is written from it (see the test at the end), and no other Rust code
//! spells a name of a job's variable out.

/// An environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// What it is called.
    pub name: &'static str,
    /// What holds when it is not set; empty when nothing does.
    pub default: &'static str,
    /// What it says, and what Bireme does with it.
    pub meaning: &'static str,
}

/// Variables that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What they are about.
    pub title: &'static str,
    /// In the order of the page.
    pub variables: &'static [Variable],
}

/// Declares each variable as a documented constant, and all of them as [`GROUPS`].
macro_rules! variables {
    ($($title:literal { $($constant:ident = $name:literal, $default:literal, $meaning:literal;)* })*) => {
        $($(
            #[doc = $meaning]
            pub const $constant: Variable =
                Variable { name: $name, default: $default, meaning: $meaning };
        )*)*

        /// All variables.
        pub const GROUPS: &[Group] =
            &[$(Group { title: $title, variables: &[$($constant),*] }),*];
    };
}

variables! {
    "Role of a process" {
        TRAINING_ROLE = "TRAINING_ROLE", "",
            "`TRAINER`, `PSERVER` or `HETER_TRAINER`; required in a job with servers.";
        SERVERS = "PADDLE_PSERVERS_IP_PORT_LIST", "",
            "Endpoints of all servers, `ip:port` separated by commas; without it a process is a job of its own.";
        TRAINERS_NUM = "PADDLE_TRAINERS_NUM", "",
            "Number of trainers; required in a job with servers.";
        TRAINER_ID = "PADDLE_TRAINER_ID", "",
            "Number of this trainer, from 0; required for trainers.";
        TRAINER_ENDPOINTS = "PADDLE_TRAINER_ENDPOINTS", "",
            "Endpoints of all trainers; for information in a job with servers.";
        POD_IP = "POD_IP", "",
            "Address of this machine; with `PADDLE_PORT` the endpoint of this server or heterogeneous worker, which must be in the list of them.";
        PORT = "PADDLE_PORT", "",
            "Port of this server; in jobs of Paddle 1.x that set no list of endpoints, of every server.";
        SERVER_ID = "PADDLE_PSERVER_ID", "",
            "Number of this server, from 0, instead of `POD_IP` and `PADDLE_PORT`.";
        CURRENT_ENDPOINT = "PADDLE_CURRENT_ENDPOINT", "",
            "Endpoint of this process in collective training.";
        RANK_IN_NODE = "PADDLE_RANK_IN_NODE", "0",
            "Number of this process on its machine in collective training.";
        LOCAL_DEVICES = "PADDLE_LOCAL_DEVICE_IDS", "",
            "Devices of this process in collective training.";
        WORLD_DEVICES = "PADDLE_WORLD_DEVICE_IDS", "",
            "Devices of all processes in collective training.";
        JOB_ID = "SYS_JOB_ID", "",
            "Name of the job, for messages.";
    }
    "Role, older names" {
        OLD_ROLE = "PADDLE_TRAINING_ROLE", "",
            "As `TRAINING_ROLE`.";
        OLD_SERVER_IPS = "PADDLE_PSERVER_IPS", "",
            "Addresses of the servers, separated by commas; with `PADDLE_PSERVER_PORT` as `PADDLE_PSERVERS_IP_PORT_LIST`.";
        OLD_SERVERS = "PADDLE_PSERVERS", "",
            "As `PADDLE_PSERVER_IPS`; the port is `PADDLE_PORT`.";
        OLD_SERVER_PORT = "PADDLE_PSERVER_PORT", "6174",
            "Port of every server of `PADDLE_PSERVER_IPS`.";
        OLD_TRAINERS = "PADDLE_TRAINERS", "",
            "As `PADDLE_TRAINERS_NUM`, where it is a number; a list of addresses is the launcher's.";
        OLD_NUM_TRAINERS = "PADDLE_NUM_TRAINERS", "",
            "As `PADDLE_TRAINERS_NUM`.";
        OLD_CURRENT_IP = "PADDLE_CURRENT_IP", "",
            "As `POD_IP`.";
    }
    "Connections" {
        JOB_SECRET = "BIREME_JOB_SECRET", "",
            "What the processes of a job prove to each other that they know: the same random text for all. Launchers make one. By hand a job without one works on the loopback only; `none` allows it on a network that nobody else reaches. Never printed.";
        SAVE_ROOTS = "BIREME_SAVE_ROOTS", "",
            "Folders, separated by colons, below which trainers may have servers save and load. Without it: anywhere but in the system's folders; in a job without a secret processes of other users only below the server's working folder and the folder for temporary files.";
        BIND = "BIREME_BIND", "",
            "Address at which a server listens, with a port or without, where others know it by another one: its own of a container, `0.0.0.0` for all.";
        TRANSPORT = "BIREME_TRANSPORT", "auto",
            "`tcp` or `unix` for one of them only; `auto` takes a Unix socket to peers on the same host.";
        TLS_CERT = "BIREME_TLS_CERT", "",
            "File of this process's certificate chain (PEM); with it connections are encrypted.";
        TLS_KEY = "BIREME_TLS_KEY", "",
            "File of the key of `BIREME_TLS_CERT` (PEM).";
        TLS_CA = "BIREME_TLS_CA", "",
            "File of the certificates that sign those of the peers (PEM).";
        TLS_NAME = "BIREME_TLS_NAME", "",
            "The name in the servers' certificates, where it is not the host of their endpoints.";
        RPC_DEADLINE = "FLAGS_rpc_deadline", "180000",
            "Milliseconds until a request without an answer, or a peer that cannot be reached, is an error.";
        RPC_RETRY_TIMES = "FLAGS_rpc_retry_times", "3",
            "How many connections in a row may break without an answer; after that their requests fail once \
             the deadline has passed as well.";
        RPC_SEND_THREADS = "FLAGS_rpc_send_thread_num", "12",
            "Connections from a trainer to each server that carry gradients at the same time, at most.";
        RPC_GET_THREADS = "FLAGS_rpc_get_thread_num", "12",
            "The same for parameters.";
        RPC_PREFETCH_THREADS = "FLAGS_rpc_prefetch_thread_num", "12",
            "The same for rows of tables.";
        HEARTBEAT = "BIREME_HEARTBEAT", "1",
            "Seconds between two signs of life of a peer.";
        HEARTBEAT_TIMEOUT = "BIREME_HEARTBEAT_TIMEOUT", "10",
            "Seconds without one until a peer counts as lost.";
        COLLECTIVE = "BIREME_COLLECTIVE", "",
            "How the cards of ranks exchange gradients: `nccl` from card to card, or not at all; `host` through the host's memory. Without it: NCCL where every rank has a card of its own and finds the library.";
        LOG = "BIREME_LOG", "warn",
            "The least important log lines that go to standard error: error, warn, info or debug.";
    }
    "Launcher and its processes" {
        STATUS_FD = "BIREME_STATUS_FD", "",
            "Set by the launcher: the file descriptor to which a process reports its steps.";
        JOB_DIR = "BIREME_JOB_DIR", "",
            "Set by the launcher: a folder of this run, the same for all of its processes on a machine; it remembers the last checkpoint.";
        RESTART = "BIREME_RESTART", "0",
            "Set by the launcher: how often processes of this job have been started again; above 0, `init_server()` without a folder loads the last checkpoint.";
        KUBERNETES = "KUBERNETES_SERVICE_HOST", "",
            "Set by Kubernetes in every pod. There, as under a launcher, servers give a trainer that was lost the time of `FLAGS_rpc_deadline` to be started again, and wait for the first one ten times as long.";
    }
    "Communicator: queues of a trainer in the modes that are not sync" {
        CPU_NUM = "CPU_NUM", "1",
            "Training threads; the default of the sizes below, and the number of `cpu_places()`.";
        MAX_MERGE_VAR_NUM = "FLAGS_communicator_max_merge_var_num", "CPU_NUM; async: 1",
            "Gradients of one variable that are merged into one push, at most.";
        SEND_QUEUE_SIZE = "FLAGS_communicator_send_queue_size", "CPU_NUM; async: 1",
            "Gradients of one variable that may wait; a full queue makes the trainer wait.";
        INDEPENDENT_RECV = "FLAGS_communicator_independent_recv_thread", "1",
            "1: dense parameters are pulled beside training; 0: after every push.";
        MIN_SEND_BEFORE_RECV = "FLAGS_communicator_min_send_grad_num_before_recv", "CPU_NUM; async: 1",
            "Pushes between two pulls of dense parameters, at least.";
        THREAD_POOL_SIZE = "FLAGS_communicator_thread_pool_size", "5",
            "Threads that push.";
        SEND_WAIT_TIMES = "FLAGS_communicator_send_wait_times", "5",
            "Waits of 10 ms for more gradients before a push that is not full.";
        IS_SGD = "FLAGS_communicator_is_sgd_optimizer", "1",
            "1: merged gradients are summed; 0: averaged.";
        LOOK_AHEAD = "FLAGS_communicator_look_ahead", "1",
            "Async, Bireme's own. 1: a step starts where the optimizer's momentum will have taken the dense parameters by the time its gradients arrive; 0: where they are.";
    }
    "Communicator: all modes" {
        CHECK_FINITE = "FLAGS_communicator_check_finite", "1",
            "Bireme's own. 1: a trainer that is about to push NaN or infinity ends with an error that names variable and step, and the servers stay clean; 0: it pushes.";
    }
    "This process" {
        NUM_THREADS = "BIREME_NUM_THREADS", "OMP_NUM_THREADS",
            "Threads of an executor made from Python.";
        PADDLE_NUM_THREADS = "FLAGS_paddle_num_threads", "",
            "As `BIREME_NUM_THREADS`, which comes first; `set_flags` sets it for executors made later.";
        OMP_NUM_THREADS = "OMP_NUM_THREADS", "one a core, at most 16",
            "As `BIREME_NUM_THREADS`, where neither of the two is set.";
        GPUBOX_MEMORY = "BIREME_GPUBOX_MEMORY", "",
            "Bytes that the rows of a GPUBox pass may take; a pass that needs more is cut in parts, and in a stream rows leave. Without it: 70 % of what is free on the card, and no limit on CPUs.";
        DEVICE = "BIREME_DEVICE", "",
            "`cpu`: what asks for a GPU runs on the CPU, with one warning. `emulated`: GPUs are emulated by the processor, slowly, to try a configuration before paying for GPUs.";
        EMULATED_CARDS = "BIREME_EMULATED_CARDS", "2",
            "With `BIREME_DEVICE=emulated`: how many GPUs there are, up to 16; `fleetrun` sets it to as many as `--gpus` or `CUDA_VISIBLE_DEVICES` name.";
        EMULATED_MEMORY = "BIREME_EMULATED_MEMORY", "1024",
            "The memory of an emulated GPU, in MiB.";
        ALIAS = "BIREME_ALIAS", "",
            "1: `import paddle` means Bireme even where real Paddle is installed; 0: it is left alone.";
        DATA_HOME = "BIREME_DATA_HOME", "~/.cache/bireme/dataset",
            "Folder of the data sets of `paddle.dataset`; without it, Paddle's own is looked into too.";
        CUDA_LIBRARIES = "BIREME_CUDA_LIBRARIES", "",
            "Folder with `libcuda.so.1` and `libcublasLt.so.13`, looked into before all others.";
        CUDA_EARLY_LAUNCH = "BIREME_CUDA_EARLY_LAUNCH", "1",
            "0: no kernel of a step that is recorded on a card starts before the one ahead of it has ended; for measurements.";
        CUDA_LINES = "BIREME_CUDA_LINES", "1",
            "0: tables on a card lie apart from the state of their optimizers, instead of side by side with it, row by row; for measurements.";
        CUDA_RELU_ROWS = "BIREME_CUDA_RELU_ROWS", "4096",
            "Rows of a batch up to which products of 16-bit floats on a card take gradients through the relu of the layer below, and a logit is one with the layer below it; 0: each has a kernel of its own. For measurements.";
        CUDA_PROFILE = "BIREME_CUDA_PROFILE", "",
            "1: prints how long each piece of a step that is recorded on a card takes by itself.";
        ALLOW_TF32 = "FLAGS_allow_tf32", "0",
            "1: products of 32-bit floats on a GPU round their factors to 10 bits of fraction, which is faster.";
        SELECTED_GPUS = "FLAGS_selected_gpus", "0",
            "Numbers of the GPUs that the launcher chose for this process, among those that it sees; `set_device('gpu')` and `bireme train` take the first.";
        CHECK_NAN_INF = "FLAGS_check_nan_inf", "0",
            "1: executors made from Python look at every op's output, and end the step with an error that names the op which first produced NaN or infinity; slower.";
    }
    "Set by `fleetrun` for its processes" {
        ROLE = "PADDLE_ROLE", "", "As `TRAINING_ROLE`, as newer versions of Paddle set it.";
        NNODES = "PADDLE_NNODES", "1",
            "Number of machines of the job; `fleetrun` reads it as `--nnodes`.";
        LOG_DIR = "PADDLE_LOG_DIR", "log",
            "Folder of the logs; `fleetrun` reads it as `--log_dir`.";
        POD_NAME = "POD_NAME", "", "Name of this machine in the job; kept where a scheduler set it.";
        MASTER = "PADDLE_MASTER", "",
            "Endpoint on the first machine that is free for a script's own use in collective training; `fleetrun` reads it as `--master`.";
        GLOBAL_SIZE = "PADDLE_GLOBAL_SIZE", "", "As `PADDLE_TRAINERS_NUM` in collective training.";
        GLOBAL_RANK = "PADDLE_GLOBAL_RANK", "", "As `PADDLE_TRAINER_ID` in collective training.";
        LOCAL_SIZE = "PADDLE_LOCAL_SIZE", "", "Number of processes on this machine in collective training.";
        LOCAL_RANK = "PADDLE_LOCAL_RANK", "", "As `PADDLE_RANK_IN_NODE`.";
        BACKEND = "PADDLE_DISTRI_BACKEND", "gloo",
            "What reduces in collective training: `gloo` stands for CPUs; `fleetrun` reads it as `--backend`.";
        SELECTED_ACCELERATORS = "FLAGS_selected_accelerators", "", "As `FLAGS_selected_gpus`.";
        SELECTED_XPUS = "FLAGS_selected_xpus", "0", "Set to 0 beside `FLAGS_selected_gpus`, as Paddle does; not read.";
        CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES", "",
            "GPUs of the machine that a process sees; `fleetrun` starts a process for each in collective training and hands them out to workers in a job with servers.";
        XPU_VISIBLE_DEVICES = "XPU_VISIBLE_DEVICES", "", "Set beside `CUDA_VISIBLE_DEVICES`, as Paddle does; not read.";
    }
    "Heterogeneous workers, set by `fleetrun`" {
        HETER_TRAINERS = "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST", "",
            "Endpoints of the heterogeneous workers of all stages, in order; where it is not empty they run a part of the program.";
        OLD_HETER_TRAINERS = "PADDLE_HETER_TRAINER_IP_PORT_LIST", "",
            "As the one before, of jobs with two stages that set no `PADDLE_STAGE_TRAINERS_NUM`.";
        STAGE_TRAINERS_NUM = "PADDLE_STAGE_TRAINERS_NUM", "",
            "Processes of each stage, as a Python list: `[2, 1]`; the first stage are the trainers.";
        STAGE_ID = "STAGE_ID", "", "Stage of this process: 1 for trainers, 2 and on for heterogeneous workers.";
        STAGE_NUM = "STAGE_NUM", "", "Number of stages.";
        HETER_DEVICE_TYPE = "HETER_DEVICE_TYPE", "cpu", "Device of this process's stage: `cpu`, `gpu` or `xpu`; on a machine without it the stage runs on the CPU.";
        PREVIOUS_STAGE = "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST", "",
            "Endpoints of the stage before; empty for trainers.";
        NEXT_STAGE = "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST", "",
            "Endpoints of the stage after; empty for the last.";
    }
    "Read by `fleetrun`, each instead of a flag" {
        DEVICES = "PADDLE_DEVICES", "", "As `--gpus`.";
        RUN_MODE = "PADDLE_RUN_MODE", "", "As `--run_mode`.";
        LOG_LEVEL = "PADDLE_LOG_LEVEL", "", "As `--log_level`.";
        LOG_OVERWRITE = "PADDLE_LOG_OVERWRITE", "", "As `--log_overwrite`.";
        SORT_IP = "PADDLE_SORT_IP", "", "As `--sort_ip`.";
        NPROC_PER_NODE = "PADDLE_NPROC_PER_NODE", "", "As `--nproc_per_node`.";
        LAUNCH_JOB_ID = "PADDLE_JOB_ID", "", "As `--job_id`.";
        NODE_RANK = "PADDLE_RANK", "", "As `--rank`; so is `PADDLE_TRAINER_ID`, where it is set for the launcher.";
        MAX_RESTART = "PADDLE_MAX_RESTART", "", "As `--max_restart`.";
        ELASTIC_LEVEL = "PADDLE_ELASTIC_LEVEL", "", "As `--elastic_level`.";
        ELASTIC_TIMEOUT = "PADDLE_ELASTIC_TIMEOUT", "", "As `--elastic_timeout`.";
        SERVER_NUM = "PADDLE_SERVER_NUM", "", "As `--server_num`.";
        TRAINER_NUM = "PADDLE_TRAINER_NUM", "", "As `--worker_num`.";
        SERVERS_ENDPOINTS = "PADDLE_SERVERS_ENDPOINTS", "", "As `--servers`.";
        TRAINERS_ENDPOINTS = "PADDLE_TRAINERS_ENDPOINTS", "", "As `--workers`.";
        GLOO_PORT = "PADDLE_GLOO_PORT", "", "As `--gloo_port`.";
        START_PORT = "PADDLE_START_PORT", "", "As `--start_port`.";
        IPS = "PADDLE_IPS", "", "As `--ips`.";
        FLAGS_START_PORT = "FLAGS_START_PORT", "", "As `--start_port`, which comes first.";
        TRAINER_PORTS_NUM = "TRAINER_PORTS_NUM", "",
            "Set by PaddleCloud; with `PADDLE_TRAINERS` (addresses), `POD_IP` and `PADDLE_TRAINER_ID` it makes `fleetrun` take the machines from these variables.";
        START_TIMEOUT = "BIREME_START_TIMEOUT", "300",
            "Seconds that the machines of a job wait for each other at its start.";
        LOST_TIMEOUT = "BIREME_LOST_TIMEOUT", "60",
            "Seconds that a worker may hang which its servers have lost, in modes in which the others go on without it, before `fleetrun` ends it; ten times as many while it still computes; 0: it is never ended.";
        PYTHON = "PYTHON", "python3",
            "The interpreter for scripts, where `fleetrun` is not the one of the Python package.";
        HTTP_PROXY = "http_proxy", "", "Removed for the processes of a job: they talk to each other, not to a proxy.";
        HTTPS_PROXY = "https_proxy", "", "As the one before.";
    }
    "Of Paddle, refused" {
        COORDINATORS = "PADDLE_COORDINATOR_ENDPOINTS", "",
            "Federated training is not in this version: a list that is not empty is an error.";
    }
    "Of Paddle, not needed" {
        WITH_GLOO = "PADDLE_WITH_GLOO", "",
            "Barriers and reductions go over the servers; there is no Gloo to set up, and any value will do.";
        GLOO_RENDEZVOUS = "PADDLE_GLOO_RENDEZVOUS", "", "As the one before.";
        GLOO_FS_NAME = "PADDLE_GLOO_FS_NAME", "", "As the one before.";
        GLOO_FS_UGI = "PADDLE_GLOO_FS_UGI", "", "As the one before.";
        GLOO_FS_PATH = "PADDLE_GLOO_FS_PATH", "", "As the one before.";
        GLOO_HTTP = "PADDLE_GLOO_HTTP_ENDPOINT", "", "As the one before.";
        BARRIER_ALL = "PADDLE_IS_BARRIER_ALL_ROLE", "", "As the one before.";
        LAUNCH_BARRIER = "FLAGS_LAUNCH_BARRIER", "",
            "Trainers wait for the servers in any case, with a deadline.";
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fmt::Write;
    use std::fs;
    use std::path::{Path, PathBuf};

    use expect_test::expect_file;

    use super::*;

    const HEADER: &str = "\
# Environment variables

Every environment variable that Bireme reads, with Paddle's names where Paddle has one: written from the code, not by hand.
A variable that is set to nothing counts as not set.
A value that is no number where one is needed is an error that names the variable.
";

    #[test]
    fn the_reference_of_variables_is_current() {
        let mut page = HEADER.to_owned();
        for group in GROUPS {
            write!(
                page,
                "\n## {}\n\n| variable | default | meaning |\n|---|---|---|\n",
                group.title
            )
            .unwrap();
            for variable in group.variables {
                let default = match variable.default {
                    "" => String::new(),
                    text => format!("`{text}`"),
                };
                writeln!(page, "| `{}` | {default} | {} |", variable.name, variable.meaning)
                    .unwrap();
            }
        }
        expect_file!["../../../../docs/environment.md"].assert_eq(&page);
    }

    /// Files in which names of variables are no variables of the environment: settings of
    /// `set_flags`, which Paddle spells the same.
    const NO_VARIABLES: [&str; 1] = ["python/bireme/framework/flags.py"];

    /// Collects the source files below a folder.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "py") {
                found.push(path);
            }
        }
    }

    /// The names of variables that are spelled out as whole texts: `"PADDLE_PORT"`.
    fn names_in(text: &str) -> impl Iterator<Item = &str> {
        let whole = ["POD_IP", "TRAINING_ROLE", "SYS_JOB_ID", "CPU_NUM", "STAGE_ID", "STAGE_NUM"];
        text.split('"').filter(move |name| {
            let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let prefixed = ["PADDLE_", "FLAGS_", "BIREME_"].iter().any(|p| name.starts_with(p));
            let named = (prefixed && !name.ends_with('_')) || whole.contains(name);
            named && name.chars().all(inside)
        })
    }

    #[test]
    fn every_name_that_code_spells_out_is_in_the_table() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = Vec::new();
        for entry in fs::read_dir(root.join("crates")).unwrap() {
            sources(&entry.unwrap().path().join("src"), &mut files);
        }
        sources(&root.join("python/bireme"), &mut files);
        let known: HashSet<&str> =
            GROUPS.iter().flat_map(|group| group.variables).map(|variable| variable.name).collect();
        let mut missing = Vec::new();
        for file in files {
            if NO_VARIABLES.iter().any(|skipped| file.ends_with(skipped)) {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            // What tests make up is no variable.
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
            for name in names_in(code).filter(|name| !known.contains(name)) {
                missing.push(format!("{name} in {}", file.display()));
            }
        }
        assert!(missing.is_empty(), "not in the table: {}", missing.join(", "));
    }

    #[test]
    fn no_name_is_there_twice() {
        let mut names: Vec<_> = GROUPS.iter().flat_map(|g| g.variables).map(|v| v.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
