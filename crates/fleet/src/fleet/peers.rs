//! What trainers do with each other's data: the global shuffle, and files that they share.
//!
//! Bulk goes from trainer to trainer, over a group of their own; where their addresses are not
//! known, in slices through server 0.

use std::sync::Arc;

use bireme_collective::{Config, Group};
use bireme_comm::{
    Body, Client, Handler, Identity, Lane, Peer, Reply, Server, Settings, Transport,
};
use bireme_data::{Counters, Exchange, FileShare};
use bireme_ps::worker::Worker;

use super::Fleet;
use crate::settings::{check_guarded, network, settings};
use crate::{Environment, Error, Result};

/// Bytes that all trainers together bring to a meeting at a server.
const SLICE_BYTES: usize = 16 << 20;

/// All trainers of a job, for [`bireme_data::MemoryDataset::global_shuffle`].
pub struct Peers {
    rank: usize,
    size: usize,
    way: Way,
}

/// How trainers reach each other.
enum Way {
    Alone,
    Group(Group),
    Relay(Arc<Worker>),
}

impl Fleet {
    /// The trainers of this job, which all make this call together.
    ///
    /// # Errors
    /// Before [`Fleet::init_worker`], for a server, or when a trainer is lost.
    pub fn peers(&self) -> Result<Peers> {
        let (rank, size) = (self.worker_index() as usize, self.worker_num() as usize);
        let way = match self.group("global_shuffle")? {
            Some(group) => Way::Group(group),
            None => match self.connected("global_shuffle")? {
                Some(worker) if size > 1 => self.way_to_trainers(worker, rank)?,
                _ => Way::Alone,
            },
        };
        let size = if matches!(way, Way::Alone) { 1 } else { size };
        Ok(Peers { rank, size, way })
    }

    /// A group of their own, if all trainers can be reached.
    fn way_to_trainers(&self, worker: &Arc<Worker>, rank: usize) -> Result<Way> {
        // Held from now on, so that nobody else takes the port before the group has formed.
        let listen = |host: String| self.transport.listen(&format!("{host}:0")).ok();
        let bound = self.host().and_then(listen);
        let endpoint = bound.as_ref().map_or("", |bound| bound.endpoint.as_str());
        let endpoints = worker.meet("addresses", endpoint.as_bytes())?;
        let endpoints: Vec<String> =
            endpoints.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
        if endpoints.iter().any(String::is_empty) {
            bound.iter().flat_map(|bound| &bound.listeners).for_each(|listener| listener.close());
            return Ok(Way::Relay(Arc::clone(worker)));
        }
        let config = Config {
            settings: self.settings.clone(),
            name: "global_shuffle".to_owned(),
            ..Config::new(rank, endpoints)
        };
        Ok(Way::Group(Group::connect_at(bound, &config, &self.transport)?))
    }

    /// The host by which other trainers know this one; none where nobody said it.
    fn host(&self) -> Option<String> {
        let own = self.worker_endpoints().get(self.worker_index() as usize);
        let of = |endpoint: &String| endpoint.rsplit_once(':').map(|(host, _)| host.to_owned());
        let local = || {
            let hosts = self.server_endpoints().iter().map(of);
            let loopback = |host: &str| host == "127.0.0.1" || host == "localhost";
            hosts.clone().flatten().all(|host| loopback(&host)).then(|| "127.0.0.1".to_owned())
        };
        let host = own.and_then(of).or_else(|| self.environment.pod_ip.clone()).or_else(local)?;
        let is_open = |host: &String| {
            let endpoint = format!("{host}:0");
            check_guarded(&endpoint, &self.settings, &self.environment).is_err()
        };
        Some(host).filter(|host| !(self.is_on_network && is_open(host)))
    }

    /// Files that all trainers of this job draw one after the other
    /// ([`bireme_data::QueueSettings::share`]). All trainers make this call together. Trainer 0
    /// counts; its share must live until all have drawn what they want, so meet at a barrier before
    /// it is dropped.
    ///
    /// # Errors
    /// As [`Fleet::peers`], and when trainer 0 does not know its own address.
    pub fn file_share(&self) -> Result<Arc<dyn FileShare>> {
        let alone = self.worker_num() < 2
            || self.group("file_share")?.is_none() && self.connected("file_share")?.is_none();
        if alone {
            return Ok(Arc::new(Counters::new()));
        }
        let own = Own { rank: self.worker_index(), host: self.host() };
        let gather = |own: &[u8]| self.util().all_gather(own);
        share_over(own, &self.transport, &self.settings, &gather)
    }
}

/// Brings the bytes of each trainer to all of them, who call it together.
pub type Gather<'a> = dyn Fn(&[u8]) -> Result<Vec<Vec<u8>>> + 'a;

/// As [`Fleet::file_share`], for trainer `rank`, which others reach at `host`.
///
/// # Errors
/// When trainer 0 has no host, or is lost.
pub fn share_files(
    rank: u32,
    host: Option<String>,
    environment: &Environment,
    gather: &Gather<'_>,
) -> Result<Arc<dyn FileShare>> {
    let transport: Arc<dyn Transport> = Arc::new(network(environment));
    share_over(Own { rank, host }, &transport, &settings(environment)?, gather)
}

/// One of those who share.
struct Own {
    rank: u32,
    host: Option<String>,
}

fn share_over(
    own: Own,
    transport: &Arc<dyn Transport>,
    settings: &Settings,
    gather: &Gather<'_>,
) -> Result<Arc<dyn FileShare>> {
    let counters = Arc::new(Counters::new());
    let server = match own.host.filter(|_| own.rank == 0) {
        None => None,
        Some(host) => Some(Server::start(
            Arc::clone(transport),
            &format!("{host}:0"),
            Identity::trainer(0),
            settings.clone(),
            Arc::new(Teller(Arc::clone(&counters))),
        )?),
    };
    let told = server.as_ref().map_or("", |server| server.endpoint());
    let endpoints = gather(told.as_bytes())?;
    let endpoint = endpoints.first().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let endpoint = endpoint.filter(|endpoint| !endpoint.is_empty()).ok_or_else(|| {
        Error::Config(
            "trainers cannot share files, since trainer 0 does not know its address: set \
             `PADDLE_TRAINER_ENDPOINTS` or `POD_IP`"
                .to_owned(),
        )
    })?;
    if let Some(server) = server {
        return Ok(Arc::new(First { counters, _server: server }));
    }
    let client = Client::connect(
        Arc::clone(transport),
        &endpoint,
        Identity::trainer(own.rank),
        Identity::trainer(0),
        settings.clone(),
    )?;
    Ok(Arc::new(Other(client)))
}

impl Exchange for Peers {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn exchange(&self, parts: Vec<Vec<u8>>) -> bireme_data::Result<Vec<Vec<u8>>> {
        match &self.way {
            Way::Alone => Ok(parts),
            Way::Group(group) => over_group(group, &parts).map_err(told),
            Way::Relay(worker) => relay(worker, self.rank, &parts).map_err(told),
        }
    }
}

fn told(error: Error) -> bireme_data::Error {
    match error {
        Error::Ps(bireme_ps::Error::Interrupted)
        | Error::Group(bireme_collective::Error::Interrupted { .. }) => {
            bireme_data::Error::Interrupted
        }
        other => bireme_data::Error::Peers(other.to_string()),
    }
}

fn over_group(group: &Group, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let came = group.all_to_all_varied(&parts)?;
    // Nobody leaves before all have what they need.
    group.barrier()?;
    Ok(came)
}

/// Everybody brings all parts, a slice at a time, and keeps those for itself.
fn relay(worker: &Worker, rank: usize, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let lengths: Vec<u8> =
        parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes()).collect();
    let lengths = worker.meet("exchange_sizes", &lengths)?;
    let lengths: Vec<Vec<usize>> = lengths
        .iter()
        .map(|bytes| bytes.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n) as usize).collect())
        .collect();
    let strange = || Error::Config("the trainers do not shuffle together".to_owned());
    if lengths.iter().any(|of_one| of_one.len() != parts.len()) {
        return Err(strange());
    }
    let all = parts.concat();
    let most = lengths.iter().map(|of_one| of_one.iter().sum::<usize>()).max().unwrap_or(0);
    let slice = (SLICE_BYTES / parts.len()).max(1);
    let mut came: Vec<Vec<u8>> = vec![Vec::new(); parts.len()];
    for start in (0..most).step_by(slice) {
        let mine = &all[start.min(all.len())..(start + slice).min(all.len())];
        let slices = worker.meet("exchange", mine)?;
        for ((bytes, of_one), came) in slices.iter().zip(&lengths).zip(&mut came) {
            let first = of_one[..rank].iter().sum::<usize>();
            let wanted = first.max(start)..(first + of_one[rank]).min(start + slice);
            if !wanted.is_empty() {
                let wanted = wanted.start - start..wanted.end - start;
                came.extend(bytes.get(wanted).ok_or_else(strange)?);
            }
        }
    }
    Ok(came)
}

/// The only request: which file is next.
const DRAW: u16 = 1;
/// The answer when there is none.
const NONE: u64 = u64::MAX;

/// Counts for all trainers.
struct First {
    counters: Arc<Counters>,
    _server: Server,
}

impl FileShare for First {
    fn draw(&self, epoch: u64, files: usize) -> bireme_data::Result<Option<usize>> {
        self.counters.draw(epoch, files)
    }
}

/// Answers the other trainers.
struct Teller(Arc<Counters>);

impl Handler for Teller {
    fn handle(&self, _: &Peer, method: u16, body: &Body, reply: Reply) {
        let (numbers, rest) = body.as_chunks::<8>();
        match (method, numbers, rest) {
            (DRAW, [epoch, files], []) => {
                let files = u64::from_le_bytes(*files) as usize;
                let next = self.0.next(u64::from_le_bytes(*epoch), files);
                reply.send(&[&next.map_or(NONE, |file| file as u64).to_le_bytes()]);
            }
            _ => reply.fail("this process only tells which file is next"),
        }
    }
}

/// Asks trainer 0.
struct Other(Client);

impl FileShare for Other {
    fn draw(&self, epoch: u64, files: usize) -> bireme_data::Result<Option<usize>> {
        let numbers = [epoch.to_le_bytes(), (files as u64).to_le_bytes()].concat();
        let answer = self.0.call(Lane::Get, DRAW, "the next file", &[&numbers], true);
        let answer = answer.map_err(|error| told(error.into()))?;
        let answer: std::result::Result<[u8; 8], _> = answer[..].try_into();
        let strange = |_| told(Error::Config("trainer 0 does not share files".to_owned()));
        let file = u64::from_le_bytes(answer.map_err(strange)?);
        Ok((file != NONE).then_some(file as usize))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.0.goodbye();
    }
}
