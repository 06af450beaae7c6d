//! The environment of each process: every variable that Paddle's launchers set, of both generations.

use bireme_fleet::environment::variables::{self as v, Variable};

use crate::arguments::Options;
use crate::job::{Mode, Role};

use super::devices::Devices;
use super::layout::{Layout, Place};
use super::{Facts, Note};

/// A list longer than this does not fit beside the others into the environment of a process.
const LONGEST_LIST: usize = 120 * 1024;

/// What the variables of all processes are made of.
pub(super) struct Setting<'a> {
    options: &'a Options,
    facts: &'a Facts,
    mode: Mode,
    devices: &'a Devices,
    layout: &'a Layout,
    servers: String,
    workers: String,
    /// Endpoints of each stage, the workers first.
    stages: Vec<Vec<String>>,
    log_dir: String,
    secret: Option<String>,
    threads: Option<usize>,
    /// Whether what scripts send to a GPU is to run on the CPU.
    on_cpus: bool,
}

/// Variables in the order in which they are shown.
type List = Vec<(String, String)>;

impl<'a> Setting<'a> {
    pub(super) fn new(
        options: &'a Options,
        facts: &'a Facts,
        mode: Mode,
        devices: &'a Devices,
        layout: &'a Layout,
    ) -> Setting<'a> {
        let list = |role| {
            let endpoints: Vec<_> = layout.of(role).map(Place::endpoint).collect();
            endpoints.join(",")
        };
        let last = layout.places.iter().map(|place| place.stage).max().unwrap_or(0);
        let stage = |stage| {
            let members = layout.places.iter().filter(|place| place.stage == stage);
            members.map(Place::endpoint).collect()
        };
        let several = layout.nodes.len() > 1;
        Setting {
            servers: list(Role::Server),
            workers: list(Role::Worker),
            stages: (1..=last).map(stage).collect(),
            log_dir: facts.folder.join(&options.log_dir).to_string_lossy().into_owned(),
            // That of several machines comes from the first one, when they have met.
            secret: super::fresh_secret(facts).filter(|_| !several),
            threads: threads(facts, layout),
            // Who says how many processes there are, where there are no GPUs, wants them on CPUs.
            on_cpus: mode == Mode::Collective
                && devices.is_empty()
                && options.nproc_per_node.is_some()
                && unset(facts, &v::DEVICE),
            options,
            facts,
            mode,
            devices,
            layout,
        }
    }

    /// What the user should know about them.
    pub(super) fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if let Some(threads) = self.threads {
            let cores = self.facts.cores;
            notes.push(Note::Info(format!(
                "{}={threads} for every process, as they share {cores} cores; set it to choose \
                 another number",
                v::OMP_NUM_THREADS.name
            )));
        }
        if self.on_cpus {
            notes.push(Note::Info(format!(
                "{}=cpu for every process, as there are no GPUs to choose from: what a script \
                 sends to a GPU runs on the CPU",
                v::DEVICE.name
            )));
        }
        notes.extend(self.device_note());
        notes
    }

    /// What the user should know about the cards of this machine.
    fn device_note(&self) -> Option<Note> {
        let gpus = self.devices.absolute.join(",");
        if self.devices.is_empty() {
            return None;
        }
        if super::is_emulated(&self.facts.variables) {
            return Some(Note::Info(format!(
                "{}=emulated: GPU {gpus} emulated by the processor, which is slow: for trying a configuration",
                v::DEVICE.name
            )));
        }
        if !unset(self.facts, &v::DEVICE) {
            return None;
        }
        let is_here = |gpu: &&String| gpu.parse::<usize>().is_ok_and(|gpu| gpu < self.facts.gpus);
        let missing = self.devices.absolute.iter().filter(|gpu| {
            // Other names than numbers are the driver's to judge.
            gpu.parse::<usize>().is_ok() && !is_here(gpu)
        });
        let missing: Vec<&str> = missing.map(String::as_str).collect();
        let device = v::DEVICE.name;
        match (self.facts.gpus, missing.as_slice()) {
            (0, _) => Some(Note::Warning(format!(
                "GPU {gpus} cannot be used, as this machine has no NVIDIA GPU: a process that asks for one ends; set \
                 {device}=cpu to train on CPUs"
            ))),
            (_, []) => None,
            (count, missing) => Some(Note::Warning(format!(
                "GPU {} cannot be used, as this machine has {count}, numbered from 0: a process that asks for one \
                 ends; name those that are there, which processes can share (`--nproc_per_node`, `--worker_num`), or \
                 set {device}=cpu to train on CPUs",
                missing.join(",")
            ))),
        }
    }

    /// The variables of one process.
    pub(super) fn of(&self, place: &Place) -> List {
        let mut list = match place.role {
            Role::Server => self.server(place),
            Role::Worker if self.mode == Mode::Collective => self.collective(place),
            Role::Worker => self.worker(place),
            Role::HeterWorker => self.heter(place),
        };
        self.newer(place, &mut list);
        if let Some(secret) = &self.secret {
            set(&mut list, &v::JOB_SECRET, secret);
        }
        if let Some(threads) = self.threads {
            set(&mut list, &v::OMP_NUM_THREADS, threads);
        }
        if self.on_cpus {
            set(&mut list, &v::DEVICE, "cpu");
        }
        let is_emulated = super::is_emulated(&self.facts.variables);
        if is_emulated && unset(self.facts, &v::EMULATED_CARDS) && !self.devices.is_empty() {
            set(&mut list, &v::EMULATED_CARDS, self.devices.emulated());
        }
        list
    }

    fn server(&self, place: &Place) -> List {
        let mut list = List::new();
        set(&mut list, &v::SERVERS, &self.servers);
        set(&mut list, &v::TRAINER_ENDPOINTS, &self.workers);
        set(&mut list, &v::COORDINATORS, "");
        if self.mode == Mode::Heter {
            set(&mut list, &v::HETER_TRAINERS, self.all_heter());
        }
        set(&mut list, &v::PORT, place.port);
        set(&mut list, &v::TRAINING_ROLE, "PSERVER");
        set(&mut list, &v::TRAINERS_NUM, self.layout.count(Role::Worker));
        set(&mut list, &v::POD_IP, &place.host);
        self.gloo(&mut list);
        self.gloo_endpoint(&mut list);
        list
    }

    fn worker(&self, place: &Place) -> List {
        let mut list = List::new();
        set(&mut list, &v::SERVERS, &self.servers);
        set(&mut list, &v::TRAINER_ENDPOINTS, &self.workers);
        set(&mut list, &v::TRAINERS_NUM, self.layout.count(Role::Worker));
        if self.mode == Mode::Heter {
            self.stage(place, &mut list);
        }
        set(&mut list, &v::TRAINING_ROLE, "TRAINER");
        set(&mut list, &v::COORDINATORS, "");
        set(&mut list, &v::POD_IP, &place.host);
        set(&mut list, &v::PORT, place.port);
        set(&mut list, &v::TRAINER_ID, place.rank);
        self.gloo(&mut list);
        self.device(place, &mut list);
        self.gloo_endpoint(&mut list);
        list
    }

    fn heter(&self, place: &Place) -> List {
        let mut list = List::new();
        set(&mut list, &v::SERVERS, &self.servers);
        set(&mut list, &v::TRAINER_ENDPOINTS, &self.workers);
        self.stage(place, &mut list);
        set(&mut list, &v::PORT, place.port);
        set(&mut list, &v::TRAINING_ROLE, "HETER_TRAINER");
        set(&mut list, &v::TRAINERS_NUM, self.layout.count(Role::Worker));
        set(&mut list, &v::POD_IP, &place.host);
        self.gloo(&mut list);
        self.device(place, &mut list);
        self.gloo_endpoint(&mut list);
        list
    }

    fn collective(&self, place: &Place) -> List {
        let mut list = List::new();
        let layout = self.layout;
        let size = layout.count(Role::Worker);
        let world: Vec<_> = layout.of(Role::Worker).map(|other| other.devices.join(":")).collect();
        set(&mut list, &v::TRAINER_ID, place.rank);
        set(&mut list, &v::CURRENT_ENDPOINT, place.endpoint());
        set(&mut list, &v::TRAINERS_NUM, size);
        if self.workers.len() < LONGEST_LIST {
            set(&mut list, &v::TRAINER_ENDPOINTS, &self.workers);
        }
        set(&mut list, &v::RANK_IN_NODE, place.local_rank);
        set(&mut list, &v::LOCAL_DEVICES, place.devices.join(","));
        set(&mut list, &v::WORLD_DEVICES, world.join(","));
        if !place.devices.is_empty() {
            set(&mut list, &v::SELECTED_GPUS, place.devices.join(","));
            set(&mut list, &v::SELECTED_ACCELERATORS, place.devices.join(","));
        }
        self.gloo(&mut list);
        set(&mut list, &v::BACKEND, "gloo");
        set(&mut list, &v::GLOBAL_SIZE, size);
        set(&mut list, &v::GLOBAL_RANK, place.rank);
        let local = layout.of(Role::Worker).filter(|other| other.node == place.node).count();
        set(&mut list, &v::LOCAL_SIZE, local);
        set(&mut list, &v::LOCAL_RANK, place.local_rank);
        if let Some(master) = &layout.master {
            set(&mut list, &v::MASTER, master);
        }
        set(&mut list, &v::TRAINING_ROLE, "TRAINER");
        list
    }

    /// Where a process stands in the pipeline of a job with heter workers.
    fn stage(&self, place: &Place, list: &mut List) {
        let stage = |number: usize| match number {
            0 => String::new(),
            number => self.stages.get(number - 1).map(|stage| stage.join(",")).unwrap_or_default(),
        };
        let device = match place.stage {
            0 | 1 => "cpu",
            number => match self.options.heter_devices.get(number - 2) {
                Some(device) => device,
                None if self.devices.is_empty() => "cpu",
                None => "gpu",
            },
        };
        set(list, &v::NEXT_STAGE, stage(place.stage + 1));
        set(list, &v::PREVIOUS_STAGE, stage(place.stage - 1));
        set(list, &v::HETER_TRAINERS, self.all_heter());
        set(list, &v::HETER_DEVICE_TYPE, device);
        set(list, &v::STAGE_ID, place.stage);
        set(list, &v::STAGE_NUM, self.stages.len());
        set(list, &v::STAGE_TRAINERS_NUM, self.stage_counts());
    }

    /// Processes of each stage: `[2, 1]`.
    fn stage_counts(&self) -> String {
        let counts: Vec<_> = self.stages.iter().map(|stage| stage.len().to_string()).collect();
        format!("[{}]", counts.join(", "))
    }

    fn all_heter(&self) -> String {
        self.stages.get(1..).unwrap_or_default().concat().join(",")
    }

    fn device(&self, place: &Place, list: &mut List) {
        let device = self.devices.of_worker(place.local_rank);
        set(list, &v::SELECTED_GPUS, "0");
        set(list, &v::SELECTED_XPUS, "0");
        set(list, &v::CUDA_VISIBLE_DEVICES, device);
        set(list, &v::XPU_VISIBLE_DEVICES, device);
    }

    fn gloo(&self, list: &mut List) {
        set(list, &v::WITH_GLOO, &self.options.with_gloo);
        set(list, &v::GLOO_RENDEZVOUS, "3");
        set(list, &v::GLOO_FS_PATH, format!("{}/gloo", self.log_dir));
    }

    fn gloo_endpoint(&self, list: &mut List) {
        if let Some(endpoint) = &self.layout.gloo {
            set(list, &v::GLOO_HTTP, endpoint);
        }
    }

    /// What launchers since Paddle 2.3 set besides.
    fn newer(&self, place: &Place, list: &mut List) {
        let role = list.iter().find(|(name, _)| name == v::TRAINING_ROLE.name);
        if let Some((_, role)) = role.cloned() {
            set(list, &v::ROLE, role);
        }
        if self.mode == Mode::Heter && place.role == Role::Server {
            // Which Paddle does not tell servers: whose gradients they wait for.
            set(list, &v::STAGE_TRAINERS_NUM, self.stage_counts());
        }
        set(list, &v::NNODES, self.layout.nodes.len());
        set(list, &v::LOG_DIR, &self.log_dir);
        let job = self.options.job_id.as_deref();
        if unset(self.facts, &v::POD_NAME) {
            set(list, &v::POD_NAME, format!("{}-{}", job.unwrap_or("default"), place.node));
        }
        if let Some(job) = job {
            set(list, &v::JOB_ID, job);
        }
    }
}

fn set(list: &mut List, variable: &Variable, value: impl ToString) {
    list.push((variable.name.to_owned(), value.to_string()));
}

pub(super) fn unset(facts: &Facts, variable: &Variable) -> bool {
    facts.variables.get(variable.name).is_none_or(|value| value.trim().is_empty())
}

/// The threads of each process on this machine, where nobody chose and they share the cores.
fn threads(facts: &Facts, layout: &Layout) -> Option<usize> {
    let training = layout.places.iter().filter(|place| place.role != Role::Server);
    let local = training.filter(|place| place.node == layout.own).count();
    let free = unset(facts, &v::OMP_NUM_THREADS) && unset(facts, &v::NUM_THREADS);
    (free && local > 1).then(|| (facts.cores / local).max(1))
}

/// Variables of a role: one that a process is not given must not reach it from the outside, such as
/// from a shell in which another job was tried by hand.
const ROLES: [Variable; 27] = [
    v::TRAINING_ROLE,
    v::SERVERS,
    v::TRAINERS_NUM,
    v::TRAINER_ID,
    v::TRAINER_ENDPOINTS,
    v::PORT,
    v::SERVER_ID,
    v::CURRENT_ENDPOINT,
    v::RANK_IN_NODE,
    v::LOCAL_DEVICES,
    v::WORLD_DEVICES,
    v::OLD_ROLE,
    v::OLD_SERVER_IPS,
    v::OLD_SERVERS,
    v::OLD_TRAINERS,
    v::OLD_NUM_TRAINERS,
    v::OLD_CURRENT_IP,
    v::HETER_TRAINERS,
    v::OLD_HETER_TRAINERS,
    v::COORDINATORS,
    v::STAGE_ID,
    v::STAGE_NUM,
    v::STAGE_TRAINERS_NUM,
    v::PREVIOUS_STAGE,
    v::NEXT_STAGE,
    v::HETER_DEVICE_TYPE,
    v::MASTER,
];

/// What a process must not inherit.
pub(super) fn removed(given: &[(String, String)]) -> Vec<String> {
    let proxies = [v::HTTP_PROXY.name, v::HTTPS_PROXY.name].into_iter();
    let set = |name: &str| given.iter().any(|(other, _)| other == name);
    let others = ROLES.iter().map(|variable| variable.name).filter(|name| !set(name));
    proxies.chain(others).map(str::to_owned).collect()
}
