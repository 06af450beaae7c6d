//! What a call costs in processor time, for the sizes of a pull of 13,312 rows of 9 numbers.

use std::sync::{Arc, Mutex};

use bireme_comm::*;

const REQUEST: usize = 13_312 * 8;
const REPLY: usize = 13_312 * 9 * 4;

/// Copies as much as a table would, and nothing else.
struct Copy {
    rows: Vec<u8>,
    reply: Mutex<Vec<u8>>,
}

impl Handler for Copy {
    fn handle(&self, _: &Peer, method: u16, body: &Body, reply: Reply) {
        if method == 1 {
            return reply.send(&[&body[..8]]);
        }
        let mut bytes = self.reply.lock().unwrap();
        bytes.copy_from_slice(&self.rows);
        reply.send(&[&bytes]);
    }
}

/// Processor time of this process in microseconds, user and system.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat");
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let nanoseconds: f64 = threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok())
        .filter_map(|line| line.split(' ').next()?.parse::<f64>().ok())
        .sum();
    assert!(stat.is_ok());
    nanoseconds / 1e3
}

#[test]
#[ignore = "prints figures: run it alone, in release"]
fn microseconds_per_call() {
    let (request, push) = (vec![1; REQUEST], vec![1; REQUEST + REPLY]);
    let handler = || Copy { rows: vec![2; REPLY], reply: Mutex::new(vec![0; REPLY]) };
    let in_process = handler();
    let start = cpu();
    for _ in 0..1000 {
        in_process.reply.lock().unwrap().copy_from_slice(&in_process.rows);
    }
    println!("a copy in this process: {:.1} µs", (cpu() - start) / 1e3);
    for (name, path) in [("unix", Path::Unix), ("tcp", Path::Tcp)] {
        let (server, client) =
            crate::calls::pair(Arc::new(Network::new(path)), Arc::new(handler()));
        let cases = [
            ("pull (106 KB, 479 KB back)", 0, &request[..]),
            ("push (585 KB, 8 bytes back, once)", 1, &push[..]),
            ("8 bytes, 8 bytes back", 1, &request[..8]),
        ];
        for (kind, method, request) in cases {
            let once = kind.contains("once");
            let call = || client.call(Lane::Prefetch, method, kind, &[request], once).unwrap();
            (0..50).for_each(|_| drop(call()));
            let (start, wall) = (cpu(), std::time::Instant::now());
            (0..1000).for_each(|_| drop(call()));
            let wall = wall.elapsed().as_secs_f64() * 1e3;
            println!("{name} {kind}: {:.1} µs of processor, {wall:.1} µs", (cpu() - start) / 1e3);
        }
        drop((client, server));
    }
}
