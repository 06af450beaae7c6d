//! Requests of a few bytes that ask for more than there is: refused before anything is made of them.

use super::cluster::*;
use crate::Mode;
use crate::message::{Array, Request};
use crate::server::Stat;

fn stat(cluster: &Cluster) -> Stat {
    cluster.server.stat().unwrap()
}

#[test]
fn a_meeting_has_no_more_members_than_the_job() {
    let cluster = Cluster::start(Mode::Async, 2);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    for (group, members) in [("trainer", u32::MAX), ("server", u32::MAX), ("server", 4)] {
        let meet = Request::Meet { group, name: "x", member: 0, members, data: &[] };
        let error = trainer.fails(&meet);
        assert!(error.contains("the job has 3 processes"), "{error}");
    }
    cluster.trainer(1).complete();
    trainer.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn meetings_that_wait_are_bounded_in_number_and_bytes() {
    let settings = bireme_comm::Settings { max_frame: 64 << 10, max_pending: 4096, ..settings() };
    let cluster = Cluster::with(Mode::Async, 2, &program(Mode::Async, 2, ""), settings);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    let meet = |name, data| Request::Meet { group: "trainer", name, member: 0, members: 2, data };
    let (half, more) = (vec![0; 30 << 10], vec![0; 40 << 10]);
    let first = trainer.begin(&meet("first", &half));
    while cluster.server.service.roster().meetings.is_empty() {
        std::thread::yield_now();
    }
    let error = trainer.fails(&meet("second", &more));
    assert!(error.contains("bring less at a time"), "{error}");
    let names: Vec<String> = (0..1100).map(|number| format!("m{number}")).collect();
    let waiting: Vec<_> = names.iter().map(|name| trainer.begin(&meet(name, &[]))).collect();
    let refused = |mut pending: bireme_comm::Pending| {
        let answer = pending.wait_for(std::time::Duration::ZERO);
        answer.err().filter(|error| error.to_string().contains("1024 meetings wait"))
    };
    // Those that were refused are answered, the others wait.
    while waiting.iter().filter(|pending| pending.is_ready()).count() < 77 {
        std::thread::yield_now();
    }
    assert_eq!(waiting.into_iter().filter_map(refused).count(), 77);
    drop(first);
    cluster.trainer(1).complete();
    trainer.ask(&Request::Complete { trainer: 0 }).unwrap();
    trainer.client.goodbye();
    run.join().unwrap().unwrap();
}

#[test]
fn rows_that_fit_no_answer_are_not_made() {
    let settings = bireme_comm::Settings { max_frame: 64 << 10, ..settings() };
    let cluster = Cluster::with(Mode::Async, 1, &program(Mode::Async, 1, ""), settings);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    let keys: Vec<u64> = (0..7900).collect();
    let error = trainer.fails(&Request::PullRows { table: "emb", keys: &keys });
    assert!(error.contains("7900 rows of 2 numbers of table `emb`"), "{error}");
    assert_eq!(stat(&cluster).tables[0].rows, 0);
    let error = trainer.fails(&Request::PullRows { table: "w", keys: &[0; 7900] });
    assert!(error.contains("pull fewer at a time"), "{error}");
    assert_eq!(trainer.pull("emb", &keys[..7000]).len(), 14_000);
    trainer.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn names_asked_for_again_and_again_fill_an_answer_too() {
    let settings = bireme_comm::Settings { max_frame: 64 << 10, ..settings() };
    let cluster = Cluster::with(Mode::Async, 1, &program(Mode::Async, 1, ""), settings);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    let (names, versions) = (vec!["rate"; 5000], Vec::new());
    let get = Request::Get { trainer: 0, names, start: 0, versions, ahead: false };
    let body = trainer.ask(&get).unwrap();
    let crate::message::Answer::Values { values, .. } =
        crate::message::Answer::decode(&body).unwrap()
    else {
        panic!("no values")
    };
    assert!((100..2000).contains(&values.len()), "{}", values.len());
    trainer.complete();
    run.join().unwrap().unwrap();
}

/// What is claimed in a head is held against what is there, whatever the request.
#[test]
fn claims_without_bytes_are_refused() {
    let cluster = Cluster::start(Mode::Async, 1);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    let mut body = vec![0; 64];
    body[0] = 64;
    for fill in [0xff, 0x7f] {
        body[4..].fill(fill);
        for (number, name, _) in Request::TABLE {
            if ["Complete", "Quit"].contains(name) {
                continue;
            }
            let lane = bireme_comm::Lane::Send;
            drop(trainer.client.call(lane, *number, "a claim", &[&body], true).err());
        }
    }
    // A tensor of the largest size, of which one element comes.
    let huge = bireme_engine::tensor::Tensor::from_slice([1], &[1.0f32]).unwrap();
    let dims = bireme_engine::tensor::Dims::new(&[1 << 40, 2]);
    let array =
        Array::Dense { dtype: bireme_ir::DType::F32, dims, start: 0, bytes: huge.as_bytes() };
    for request in [
        Request::Push { trainer: 0, values: vec![("w@GRAD", array)] },
        Request::Push { trainer: 0, values: vec![("rate", array)] },
        Request::Set { values: vec![("rate", array)] },
        Request::Set { values: vec![("w", array)] },
    ] {
        trainer.fails(&request);
    }
    assert_eq!(trainer.get("w"), [0.0; 6]);
    trainer.complete();
    run.join().unwrap().unwrap();
}
