//! Who runs where: the processes of all machines in the order of their ranks, with endpoints.

use anyhow::Result;

use crate::arguments::{Endpoint, Options, Usage, join};
use crate::job::{Mode, Role};
use crate::ports::Ports;
use crate::rendezvous::{Card, Seat};

use super::devices::Devices;
use super::{Facts, Note};

/// The address of a job on one machine.
const LOOPBACK: &str = "127.0.0.1";
/// Where the ports of jobs on several machines begin, as in Paddle.
const COLLECTIVE_PORT: u16 = 6070;
const SERVERS_PORT: u16 = 6170;

/// All processes of a job.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The machines' addresses, in the order of their first appearance.
    pub(super) nodes: Vec<String>,
    /// Which of them is this one.
    pub(super) own: usize,
    /// Servers, workers, heter workers, each in the order of ranks.
    pub(super) places: Vec<Place>,
    /// Where Gloo would meet in a job with servers.
    pub(super) gloo: Option<String>,
    /// An endpoint of the first machine that is a script's own.
    pub(super) master: Option<String>,
    /// Lines for the user.
    pub(super) notes: Vec<Note>,
}

/// One process.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) role: Role,
    pub(super) rank: usize,
    pub(super) local_rank: usize,
    pub(super) node: usize,
    pub(super) host: String,
    pub(super) port: u16,
    /// 1 for workers, 2 and on for heter workers.
    pub(super) stage: usize,
    /// Its GPUs in a collective job.
    pub(super) devices: Vec<String>,
}

impl Place {
    pub(super) fn endpoint(&self) -> String {
        join(&self.host, self.port)
    }
}

impl Layout {
    /// Those of a role, in the order of ranks.
    pub(super) fn of(&self, role: Role) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(move |place| place.role == role)
    }

    pub(super) fn count(&self, role: Role) -> usize {
        self.of(role).count()
    }

    fn push(&mut self, role: Role, stage: usize, host: &str, port: u16, devices: Vec<String>) {
        let node = match self.nodes.iter().position(|node| node == host) {
            Some(node) => node,
            None => {
                self.nodes.push(host.to_owned());
                self.nodes.len() - 1
            }
        };
        let rank = self.count(role);
        let local_rank = self.of(role).filter(|place| place.node == node).count();
        let host = host.to_owned();
        self.places.push(Place { role, rank, local_rank, node, host, port, stage, devices });
    }

    /// Reserves fixed ports of this machine's processes.
    fn claim(&self, ports: &mut dyn Ports) -> Result<()> {
        for place in self.places.iter().filter(|place| place.node == self.own) {
            ports.this(&place.host, place.port)?;
        }
        Ok(())
    }
}

/// Equal workers on one machine, or on those of `--ips`.
pub(super) fn collective(
    options: &Options,
    facts: &Facts,
    devices: &Devices,
    ports: &mut dyn Ports,
) -> Result<Layout> {
    let hosts = match options.ips.as_slice() {
        [] => vec![LOOPBACK.to_owned()],
        ips => ips.to_vec(),
    };
    agree_on_count(options, hosts.len())?;
    let shares = devices.shares(options.nproc_per_node)?;
    let mut layout = Layout { nodes: hosts.clone(), ..Layout::default() };
    layout.own = find(options, facts, &hosts, "--ips")?;
    let fixed = match (options.start_port, hosts.len()) {
        (Some(port), _) => Some(port),
        (None, 1) => None,
        (None, _) if options.cloud => Some(cloud_port(facts)),
        (None, _) => Some(COLLECTIVE_PORT),
    };
    for host in &hosts {
        for (index, share) in shares.iter().enumerate() {
            let port = match fixed {
                Some(first) => offset(first, index, "--start_port")?,
                None => ports.any(host)?,
            };
            layout.push(Role::Worker, 1, host, port, share.clone());
        }
    }
    if fixed.is_some() {
        layout.claim(ports)?;
    } else {
        let free: Vec<_> = layout.places.iter().map(|place| place.port.to_string()).collect();
        layout.notes.push(Note::Info(format!("find free ports:[{}]", free.join(", "))));
        layout.master = Some(join(&hosts[0], ports.any(&hosts[0])?));
    }
    Ok(layout)
}

/// The first port of PaddleCloud's machines.
fn cloud_port(facts: &Facts) -> u16 {
    let port = bireme_fleet::environment::variables::PORT.name;
    facts.variables.get(port).and_then(|port| port.trim().parse().ok()).unwrap_or(SERVERS_PORT)
}

/// A number of machines beside a list of them has to be its length.
fn agree_on_count(options: &Options, listed: usize) -> Result<()> {
    match options.nnodes {
        Some((least, most)) if listed < least || listed > most => {
            let problem = format!(
                "`{}` and a list of {listed} machines do not match: correct one of them",
                options.given.written("nnodes")
            );
            Err(Usage(problem).into())
        }
        _ => Ok(()),
    }
}

/// Which machine of a list this one is.
fn find(options: &Options, facts: &Facts, hosts: &[String], flags: &str) -> Result<usize> {
    if let Some(rank) = options.rank.filter(|_| hosts.len() > 1 && options.host.is_none()) {
        if rank >= hosts.len() {
            let written = options.given.written("rank");
            let count = hosts.len();
            let problem =
                format!("`{written}`: {flags} names {count} machines, 0 to {}", count - 1);
            return Err(Usage(problem).into());
        }
        return Ok(rank);
    }
    // One machine is this one, whatever `POD_IP` calls it.
    if hosts.len() == 1 && hosts[0] == LOOPBACK {
        return Ok(0);
    }
    facts.machine.find(hosts, flags)
}

/// Servers, workers and heter workers, from numbers on this machine or lists of many.
pub(super) fn servers(
    options: &Options,
    facts: &Facts,
    mode: Mode,
    devices: &Devices,
    ports: &mut dyn Ports,
) -> Result<Layout> {
    let wanted = wanted(options, mode);
    let mut hosts: Vec<String> = Vec::new();
    for (_, _, endpoint) in &wanted {
        if !hosts.contains(&endpoint.host) {
            hosts.push(endpoint.host.clone());
        }
    }
    let single = hosts.len() == 1;
    if !single {
        agree_on_count(options, hosts.len())?;
    }
    let mut layout = Layout { nodes: hosts.clone(), ..Layout::default() };
    layout.own = find(options, facts, &hosts, "--servers and --workers")?;
    let first = options.start_port.or((!single).then_some(SERVERS_PORT));
    for (index, (role, stage, endpoint)) in wanted.iter().enumerate() {
        let host = &endpoint.host;
        let port = match (endpoint.port, first) {
            (Some(port), _) => port,
            (None, _) if !single && *role != Role::Worker => {
                let problem = format!(
                    "{role} {endpoint} has no port, and the other machines have to know it: write \
                     {endpoint}:PORT"
                );
                return Err(Usage(problem).into());
            }
            (None, Some(first)) => offset(first, index, "--start_port")?,
            (None, None) => ports.any(host)?,
        };
        distinct(&layout, host, port)?;
        layout.push(*role, *stage, host, port, Vec::new());
        // Free ports are held already.
        let chosen = endpoint.port.or(first);
        if chosen.is_some() && layout.places.last().is_some_and(|place| place.node == layout.own) {
            ports.this(host, port)?;
        }
    }
    let port = match (options.http_port.or(options.gloo_port), first) {
        (Some(port), _) => port,
        (None, Some(first)) => offset(first, wanted.len(), "--start_port")?,
        (None, None) => ports.any(&hosts[0])?,
    };
    layout.gloo = Some(join(&wanted[0].2.host, port));
    if devices.is_empty() {
        layout.notes.push(Note::Info("launch start with CPUONLY mode".to_owned()));
    }
    Ok(layout)
}

/// All processes of a job with servers, with the ports that the user wrote.
fn wanted(options: &Options, mode: Mode) -> Vec<(Role, usize, Endpoint)> {
    // Numbers beside a list of servers mean its machine.
    let host = options.servers.first().map_or(LOOPBACK, |first| first.host.as_str()).to_owned();
    let listed = |list: &[Endpoint], count: Option<usize>| match list {
        [] => vec![Endpoint { host: host.clone(), port: None }; count.unwrap_or(1)],
        list => list.to_vec(),
    };
    let mut wanted = Vec::new();
    let mut add = |role, stage, list: Vec<Endpoint>| {
        wanted.extend(list.into_iter().map(|endpoint| (role, stage, endpoint)));
    };
    add(Role::Server, 0, listed(&options.servers, options.server_num));
    add(Role::Worker, 1, listed(&options.workers, options.worker_num));
    if mode == Mode::Heter {
        let stages = options.heter_workers.len().max(options.heter_worker_num.len());
        for stage in 0..stages {
            let list = options.heter_workers.get(stage).map_or(&[][..], Vec::as_slice);
            let count = options.heter_worker_num.get(stage).copied();
            add(Role::HeterWorker, stage + 2, listed(list, count));
        }
    }
    wanted
}

fn distinct(layout: &Layout, host: &str, port: u16) -> Result<()> {
    match layout.places.iter().find(|place| place.host == host && place.port == port) {
        Some(place) => {
            let endpoint = place.endpoint();
            let problem = format!(
                "the endpoint {endpoint} is given to two processes, the first of which is {} {}: \
                 write another port",
                place.role, place.rank
            );
            Err(Usage(problem).into())
        }
        None => Ok(()),
    }
}

fn offset(first: u16, index: usize, flag: &str) -> Result<u16> {
    let port = u16::try_from(index).ok().and_then(|index| first.checked_add(index));
    port.ok_or_else(|| {
        Usage(format!("`{flag}={first}` leaves no port for process {index}: write a lower one"))
            .into()
    })
}

/// What this machine brings to a job whose machines have to meet: its processes, with ports.
pub(super) fn seats(
    options: &Options,
    mode: Mode,
    devices: &Devices,
    address: &str,
    ports: &mut dyn Ports,
) -> Result<Vec<Seat>> {
    let mut wanted: Vec<(Role, String)> = Vec::new();
    match mode {
        Mode::Collective => {
            let shares = devices.shares(options.nproc_per_node)?;
            wanted.extend(shares.iter().map(|share| (Role::Worker, share.join(","))));
        }
        _ => {
            let counts = [
                (Role::Server, options.server_num.unwrap_or(1)),
                (Role::Worker, options.worker_num.unwrap_or(1)),
                (Role::HeterWorker, options.heter_worker_num.iter().sum()),
            ];
            for (role, count) in counts {
                wanted.extend((0..count).map(|_| (role, String::new())));
            }
        }
    }
    let mut seats = Vec::new();
    for (index, (role, devices)) in wanted.into_iter().enumerate() {
        let port = match options.start_port {
            None => ports.any(address)?,
            Some(first) => {
                let port = offset(first, index, "--start_port")?;
                ports.this(address, port)?;
                port
            }
        };
        seats.push(Seat { role, port, devices });
    }
    Ok(seats)
}

/// The layout of machines that have met: machine by machine, and stage by stage.
pub(super) fn of_cards(
    options: &Options,
    mode: Mode,
    cards: &[Card],
    own: usize,
) -> Result<Layout> {
    let nodes = cards.iter().map(|card| card.address.clone()).collect();
    let mut layout = Layout { nodes, own, ..Layout::default() };
    let stages = match mode {
        Mode::Heter => options.heter_worker_num.len(),
        _ => 0,
    };
    let groups = [(Role::Server, 0), (Role::Worker, 1)];
    let heter = (0..stages).map(|stage| (Role::HeterWorker, stage + 2));
    for (role, stage) in groups.into_iter().chain(heter) {
        for (node, card) in cards.iter().enumerate() {
            let seats: Vec<_> = card.seats.iter().filter(|seat| seat.role == role).collect();
            // Machines that meet have the same numbers for their stages: they were compared.
            let (from, count) = match role {
                Role::HeterWorker => (
                    options.heter_worker_num[..stage - 2].iter().sum(),
                    options.heter_worker_num[stage - 2],
                ),
                _ => (0, seats.len()),
            };
            for seat in seats.into_iter().skip(from).take(count) {
                let devices = match seat.devices.as_str() {
                    "" => Vec::new(),
                    text => text.split(',').map(str::to_owned).collect(),
                };
                let rank = layout.count(role);
                let on_node = layout.of(role).filter(|place| place.node == node).count();
                let (host, port) = (card.address.clone(), seat.port);
                let local_rank = on_node;
                layout.places.push(Place {
                    role,
                    rank,
                    local_rank,
                    node,
                    host,
                    port,
                    stage,
                    devices,
                });
            }
        }
    }
    let port = options.http_port.or(options.gloo_port).unwrap_or(crate::rendezvous::DEFAULT_PORT);
    let first = layout.places.iter().find(|place| place.role == Role::Server);
    layout.gloo = first.map(|first| join(&first.host, port));
    Ok(layout)
}
