//! Strangers at the servers' ports during training: the result is that of a run without them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use bireme_comm::frame::{Header, Kind};
use bireme_comm::{Client, Error, Identity, Network, Path, Secret, Settings};
use bireme_engine::optimizer::Adam;
use bireme_engine::random::Philox;
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Table, ctr_batches, ctr_dnn};

const STEPS: usize = 10;
const BATCH: usize = 12;
/// Strangers that say nothing, for each server, step and trainer.
const IDLE: usize = 20;
const BOUND: Duration = Duration::from_secs(60);

/// A job with a secret, over TCP.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(2, 2).over_tcp();
    cluster.settings.secret = Secret::new(b"ours");
    cluster.settings.max_handshakes = 32;
    cluster
}

/// Sends bytes, and waits until the server has had enough of them.
fn say(endpoint: &str, bytes: &[u8]) -> Result<()> {
    let mut stream = TcpStream::connect(endpoint)?;
    stream.set_read_timeout(Some(BOUND))?;
    // The server may hang up at any moment.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
    Ok(())
}

fn pester(endpoint: &str, number: usize, idle: &Mutex<Vec<TcpStream>>) -> Result<()> {
    say(endpoint, &Header { version: 9, ..Header::new(Kind::Hello) }.encode())?;
    say(endpoint, &Header { length: 4 << 30, ..Header::new(Kind::Hello) }.encode())?;
    say(endpoint, &Header { length: 4 << 30, ..Header::new(Kind::RequestOnce) }.encode())?;
    let draw = Philox::new(3, "bytes").stream(number as u64);
    let bytes: Vec<u8> = (0..200).flat_map(|at| draw.u64(at).to_le_bytes()).collect();
    say(endpoint, &bytes)?;
    // It knows who to ask for and where, and calls itself a trainer of the job, but not the word.
    let settings =
        Settings { secret: Secret::new(b"theirs"), deadline: BOUND, ..Settings::default() };
    let network = Arc::new(Network::new(Path::Tcp));
    for server in 0..2 {
        let (me, peer) = (Identity::trainer(1), Identity::server(server));
        let refused = Client::connect(network.clone(), endpoint, me, peer, settings.clone());
        assert!(matches!(refused, Err(Error::Refused { .. })), "{:?}", refused.err());
    }
    for _ in 0..IDLE {
        // The machine may have no descriptors left; that is no server's fault.
        if let Ok(stream) = TcpStream::connect(endpoint) {
            idle.lock().unwrap().push(stream);
        }
    }
    Ok(())
}

#[test]
fn strangers_change_nothing() {
    let batches = ctr_batches(STEPS, BATCH);
    for table in [Table::Sliced, Table::Keyed] {
        let model = ctr_dnn(table, &Adam::new(0.003).lazy_mode(true)).unwrap();
        let expected = cluster().train(&model, &batches).unwrap();
        let idle = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&idle);
        let pestered = cluster().after_step(move |done| {
            let endpoints = done.worker.config().endpoints.iter();
            endpoints.clone().try_for_each(|endpoint| pester(endpoint, done.steps, &kept))
        });
        let outcome = pestered.train(&model, &batches).unwrap();
        assert!(outcome.params == expected.params, "{table:?}");
        assert_eq!(outcome.losses, expected.losses, "{table:?}");
        assert!(idle.lock().unwrap().len() > IDLE, "{table:?}");
    }
}
