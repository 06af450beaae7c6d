//! Workers against a small server of their own, over the in-memory transport.

mod fake;
mod finite;
mod lives;
mod real;

use std::sync::Arc;

use bireme_engine::Value;
use bireme_engine::remote::{GeoParam, Piece, Remote, RowSpread, Sending, TableRef};
use bireme_engine::tensor::{SelectedRows, Tensor};

use super::{Knobs, Reduce, Worker};
use crate::Mode;
use crate::message::Format;
use fake::Cluster;

fn tensor(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len()], values).unwrap()
}

fn piece(cluster: &Cluster, server: usize, name: &str) -> Piece {
    Piece { name: name.into(), endpoint: cluster.endpoints[server].clone() }
}

/// Sends a dense gradient.
fn send(worker: &Worker, cluster: &Cluster, server: usize, name: &str, grad: &[f32]) {
    let how = Sending { pieces: vec![piece(cluster, server, name)], merge_add: false };
    worker.send(&how, &[&Value::Tensor(tensor(grad))]).unwrap();
}

fn recv(worker: &Worker, cluster: &Cluster, server: usize, name: &str) -> Vec<f32> {
    let mut out = tensor(&[]);
    worker.recv(&[piece(cluster, server, name)], &mut [&mut out], &mut [0]).unwrap();
    out.as_slice::<f32>().unwrap().to_vec()
}

fn keyed(cluster: &Cluster) -> TableRef {
    TableRef {
        name: "t".into(),
        width: 2,
        padding: Some(0),
        spread: RowSpread::Keys { shards: 10 },
        endpoints: cluster.endpoints.clone(),
        names: cluster.endpoints.iter().map(|_| "t".to_owned()).collect(),
    }
}

fn pull(worker: &Worker, table: &TableRef, ids: &[i64]) -> Vec<f32> {
    let mut out = vec![9.0; ids.len() * 2];
    worker.pull_rows(table, &[ids], &mut [&mut out]).unwrap();
    out
}

#[test]
fn sync_trainers_average_and_fetch_everything_at_once() {
    let cluster = Cluster::new(2);
    cluster.param(0, "a", &[1.0, 1.0]);
    cluster.param(0, "b", &[5.0]);
    cluster.param(1, "c", &[0.0]);
    let names = [(0, "a"), (0, "b"), (1, "c")];
    let trainer = |rank: u32| {
        let worker = cluster.worker(cluster.config(rank, 2, Mode::Sync));
        for (server, name) in names {
            recv(&worker, &cluster, server, name);
        }
        worker.fetch_barrier(&cluster.endpoints).unwrap();
        worker.barrier().unwrap();
        let before = cluster.fakes[0].asked("Get");
        worker.barrier().unwrap();
        let grad = (rank + 1) as f32;
        send(&worker, &cluster, 0, "a@GRAD", &[grad, 0.0]);
        send(&worker, &cluster, 0, "b@GRAD", &[-grad]);
        send(&worker, &cluster, 1, "c@GRAD", &[grad]);
        worker.send_barrier(&cluster.endpoints).unwrap();
        let got = names.map(|(server, name)| recv(&worker, &cluster, server, name));
        assert_eq!(got, [vec![-0.5, 1.0], vec![6.5], vec![-1.5]]);
        worker.barrier().unwrap();
        // The fake answers with one value at a time: two requests for two values, of each trainer.
        assert_eq!(cluster.fakes[0].asked("Get") - before, 4);
        // Before the other one asks for more.
        worker.barrier().unwrap();
        worker.fetch_barrier(&cluster.endpoints).unwrap();
        assert_eq!(recv(&worker, &cluster, 1, "c"), [-1.5]);
        worker.complete().unwrap();
        assert_eq!(worker.stats().steps, 1);
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| trainer(1));
        trainer(0);
        other.join().unwrap();
    });
    assert_eq!(cluster.fakes[0].asked("Push"), 2, "small values travel together");
    assert_eq!(cluster.fakes[1].lock().completed, 2);
}

#[test]
fn rows_are_pulled_once_and_pushed_as_sums() {
    let cluster = Cluster::new(3);
    let worker = cluster.worker(cluster.config(0, 1, Mode::HalfAsync));
    let table = keyed(&cluster);
    let ids = [3, 0, 7, 3, 9];
    assert_eq!(pull(&worker, &table, &ids), [3., 3., 0., 0., 7., 7., 3., 3., 9., 9.]);
    let grads = [1., 1., 50., 50., 2., 2., 1., 0., 0., 9.];
    worker.push_rows(&table, &[&ids], &[&grads], None).unwrap();
    worker.send_barrier(&cluster.endpoints).unwrap();
    assert_eq!(pull(&worker, &table, &[9, 7, 3]), [9., 0., 5., 5., 1., 2.]);
    // 10 shards on 3 servers: 0-3, 4-7, 8-9. The padding id never travels.
    assert_eq!(cluster.fakes[0].lock().keys, [3, 3, 3]);
    assert_eq!(cluster.fakes[1].lock().keys, [7, 7, 7]);
    assert_eq!(cluster.fakes[2].lock().keys, [9, 9, 9]);
    let error = worker.push_rows(&table, &[&ids], &[&grads[1..]], None).unwrap_err().to_string();
    assert!(error.contains("slot 0 of table `t` has not one row"), "{error}");
    worker.complete().unwrap();
}

#[test]
fn async_steps_travel_as_one_request_and_come_back() {
    let cluster = Cluster::new(1);
    cluster.param(0, "a", &[0.0]);
    cluster.param(0, "b", &[0.0]);
    let worker = cluster.worker(cluster.config(0, 1, Mode::Async));
    assert_eq!(recv(&worker, &cluster, 0, "a"), [0.0], "a startup program gets current values");
    assert_eq!(recv(&worker, &cluster, 0, "b"), [0.0]);
    let rows = SelectedRows {
        rows: vec![4, 4],
        height: 10,
        value: Tensor::from_slice([2, 2], &[1f32, 2., 10., 20.]).unwrap(),
    };
    for step in 1..=10 {
        send(&worker, &cluster, 0, "a@GRAD", &[1.0]);
        send(&worker, &cluster, 0, "b@GRAD", &[-1.0]);
        let how = Sending { pieces: vec![piece(&cluster, 0, "e@GRAD")], merge_add: false };
        worker.send(&how, &[&Value::Rows(rows.clone())]).unwrap();
        let a = recv(&worker, &cluster, 0, "a")[0];
        recv(&worker, &cluster, 0, "b");
        let stats = worker.stats();
        assert!(stats.queued == step && step - stats.received <= worker.config().lag());
        assert!(a <= -(step as f32 - worker.config().lag() as f32), "{a} in step {step}");
    }
    assert_eq!(recv(&worker, &cluster, 0, "a"), [-10.0], "all of its own steps are in");
    assert_eq!(cluster.value(0, "b"), [10.0]);
    assert_eq!(cluster.fakes[0].asked("Push"), 10);
    assert_eq!(cluster.fakes[0].lock().tables["e"][&4], [4. - 110., 4. - 220.]);
    worker.complete().unwrap();
    let error = worker.send_barrier(&[]).unwrap_err().to_string();
    assert!(error.contains("trainer 0 of 1 has completed"), "{error}");
    worker.complete().unwrap();
}

#[test]
fn async_threads_lose_nothing_of_each_other() {
    let cluster = Cluster::new(1);
    cluster.param(0, "a", &[0.0]);
    let worker = cluster.worker(cluster.config(0, 1, Mode::Async));
    let train = |grad: f32| {
        let mut last = 0.0;
        for _ in 0..200 {
            // Small enough to wait for the end of the step, under the same name in both threads.
            send(&worker, &cluster, 0, "a@GRAD", &[grad]);
            let now = recv(&worker, &cluster, 0, "a")[0];
            assert!(now <= last - grad, "the thread's own update is in: {now} after {last}");
            last = now;
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| train(1.0));
        train(100.0);
    });
    assert_eq!(cluster.value(0, "a"), [-200.0 * 101.0]);
    // Pushes without anything received between them.
    send(&worker, &cluster, 0, "a@GRAD", &[1.0]);
    send(&worker, &cluster, 0, "a@GRAD", &[1.0]);
    worker.flush().unwrap();
    assert_eq!(cluster.value(0, "a"), [-20_202.0]);
    worker.complete().unwrap();
}

#[test]
fn async_merges_what_waits_and_loses_nothing() {
    let cluster = Cluster::new(1);
    cluster.param(0, "a", &[0.0]);
    // 1, then 1 + 2 + 3 or their average.
    for (is_sgd, expected) in [(true, -7.0), (false, -3.0)] {
        cluster.param(0, "a", &[0.0]);
        cluster.fakes[0].lock().counted.clear();
        let mut config = cluster.config(0, 1, Mode::Async);
        config.communicator = Knobs {
            max_merge_var_num: 3,
            send_queue_size: 9,
            thread_pool_size: 1,
            send_wait_times: 0,
            is_sgd_optimizer: is_sgd,
            ..Knobs::default()
        };
        let worker = cluster.worker(config);
        let before = cluster.fakes[0].asked("Push");
        cluster.fakes[0].lock().hold = true;
        let step = |grad: f32| {
            send(&worker, &cluster, 0, "a@GRAD", &[grad]);
            let how = Sending { pieces: vec![piece(&cluster, 0, "@STEP")], merge_add: true };
            worker.send(&how, &[&Value::Tensor(tensor(&[1.0]))]).unwrap();
        };
        step(1.0);
        step(1.0); // The first one is sent now, alone.
        cluster.fakes[0].until("the first push", |state| {
            state.asked.get("Push").copied().unwrap_or(0) > before
        });
        step(2.0);
        step(3.0);
        // Steps 2 to 4 go together: the last closes with the next call.
        worker.pull_rows(&keyed(&cluster), &[&[]], &mut [&mut []]).unwrap();
        cluster.fakes[0].release();
        worker.flush().unwrap();
        assert_eq!(cluster.value(0, "a"), [expected]);
        assert_eq!(cluster.fakes[0].lock().counted, [1.0, 3.0], "counters are added up");
        worker.complete().unwrap();
    }
}

#[test]
fn half_async_steps_end_with_their_own_updates() {
    let cluster = Cluster::new(1);
    cluster.param(0, "a", &[0.0]);
    let worker = cluster.worker(cluster.config(0, 2, Mode::HalfAsync));
    for step in 1..=3 {
        send(&worker, &cluster, 0, "a@GRAD", &[1.0]);
        worker.send_barrier(&cluster.endpoints).unwrap();
        assert_eq!(recv(&worker, &cluster, 0, "a"), [-step as f32]);
    }
    assert_eq!(cluster.fakes[0].asked("Barrier"), 0, "nobody waits for the other trainer");
    worker.complete().unwrap();
}

#[test]
fn hybrid_bounds_the_rows_that_are_on_their_way() {
    let cluster = Cluster::new(1);
    cluster.param(0, "a", &[0.0]);
    let mut config = cluster.config(0, 1, Mode::Hybrid);
    config.staleness = 2;
    config.communicator.send_queue_size = 10;
    config.communicator.thread_pool_size = 1;
    let worker = cluster.worker(config);
    let table = keyed(&cluster);
    cluster.fakes[0].lock().hold = true;
    let step = |worker: &Worker| {
        pull(worker, &table, &[5]);
        worker.push_rows(&table, &[&[5]], &[&[1.0, 1.0]], None).unwrap();
    };
    for _ in 0..2 {
        step(&worker);
        worker.do_send_barrier(&[]).unwrap();
    }
    cluster.fakes[0].until("the first push of rows", |state| {
        state.asked.get("PushRows").copied().unwrap_or(0) > 0
    });
    assert_eq!(pull(&worker, &table, &[5]), [4.0, 4.0], "two answers may be missing");
    worker.push_rows(&table, &[&[5]], &[&[1.0, 1.0]], None).unwrap();
    let waiting = Arc::clone(&worker);
    let third = std::thread::spawn(move || pull(&waiting, &table, &[5]));
    cluster.fakes[0].release();
    let rows = third.join().unwrap();
    assert!(rows[0] < 5.0, "{rows:?}");
    worker.flush().unwrap();
    assert_eq!(cluster.fakes[0].lock().tables["t"][&5], [2.0, 2.0]);
    worker.complete().unwrap();
}

#[test]
fn geo_trainers_share_what_they_learn() {
    let cluster = Cluster::new(2);
    cluster.param(0, "w.block0", &[1.0, 1.0]);
    cluster.param(1, "w.block1", &[1.0]);
    let pieces: Vec<(Piece, u64)> =
        vec![(piece(&cluster, 0, "w.block0"), 2), (piece(&cluster, 1, "w.block1"), 1)];
    let rows: Vec<(Piece, u64)> =
        vec![(piece(&cluster, 0, "e.block0"), 2), (piece(&cluster, 1, "e.block1"), 2)];
    let trainer = |rank: u32| {
        let mut config = cluster.config(rank, 2, Mode::Geo);
        config.geo_steps = 2;
        let worker = cluster.worker(config);
        let mut w = tensor(&[0.0; 3]);
        let parts = [(0, "w.block0"), (1, "w.block1")].map(|(s, n)| recv(&worker, &cluster, s, n));
        w.as_mut_slice::<f32>().unwrap().copy_from_slice(&parts.concat());
        // Row `i` of the fake's pieces starts as `i`.
        let mut e = Tensor::from_slice([4, 2], &[0f32, 0., 1., 1., 0., 0., 1., 1.]).unwrap();
        worker.barrier().unwrap();
        for step in 0..5 {
            let ids = [i64::from(rank), 3];
            w.as_mut_slice::<f32>().unwrap()[rank as usize] += 1.0;
            e.as_mut_slice::<f32>().unwrap()[3 * 2] += 2.0;
            let touched: [&[i64]; 1] = [&ids];
            let mut params = [
                GeoParam { pieces: &pieces, value: &mut w, touched: None },
                GeoParam { pieces: &rows, value: &mut e, touched: Some(&touched) },
            ];
            // The table was not received: what it holds after the first step is taken as agreed.
            worker.exchange(&mut params).unwrap();
            if step == 4 {
                worker.barrier().unwrap();
                worker.geo.flush(&mut params, 5).unwrap();
                worker.barrier().unwrap();
                // Another exchange, with nothing new of its own, brings what the other flushed.
                worker.geo.flush(&mut params, 5).unwrap();
            }
        }
        worker.barrier().unwrap();
        worker.complete().unwrap();
        (w.as_slice::<f32>().unwrap().to_vec(), e.as_slice::<f32>().unwrap().to_vec())
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| trainer(1));
        (trainer(0), other.join().unwrap())
    });
    // A trainer sends half of what it has moved and not sent yet, and its element moves by 1 a
    // step: 2 -> 1 sent, 1 + 2 -> 1.5 sent, 1.5 + 1 -> 1.25 sent, then 0.625; 0.625 stays its own.
    let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    let server = [cluster.value(0, "w.block0"), cluster.value(1, "w.block1")].concat();
    assert!(close(&server, &[5.375, 5.375, 1.0]), "{server:?}");
    let row = cluster.fakes[1].lock().tables["e.block1"][&1].clone();
    // The same with steps of 2, but for the first: 2 -> 1, 5 -> 2.5, 4.5 -> 2.25, 2.25 -> 1.125.
    assert!(close(&row, &[1.0 + 2.0 * 6.875, 1.0]), "{row:?}");
    assert!(close(&first.0[..1], &[6.0]) && close(&second.0[1..], &[6.0, 1.0]), "{first:?}");
    assert!(close(&first.1[..2], &second.1[..2]), "an untouched row is the same");
}

#[test]
fn errors_of_background_threads_come_out_of_the_next_call() {
    let cluster = Cluster::new(1);
    cluster.param(0, "a", &[0.0]);
    cluster.fakes[0].lock().refuse = Some("no room for `a@GRAD`".into());
    let worker = cluster.worker(cluster.config(1, 2, Mode::Async));
    send(&worker, &cluster, 0, "a@GRAD", &[1.0]);
    let error = worker.flush().unwrap_err().to_string();
    assert!(error.contains("server 0") && error.contains("no room for `a@GRAD`"), "{error}");
    let how = Sending { pieces: vec![piece(&cluster, 0, "a@GRAD")], merge_add: false };
    let again = worker.send(&how, &[&Value::Tensor(tensor(&[1.0]))]).unwrap_err().to_string();
    assert!(again.starts_with("trainer 1 of 2: server 0"), "{again}");
    assert!(worker.complete().is_err());
}

#[test]
fn a_lost_server_ends_every_wait() {
    let cluster = Cluster::new(1);
    cluster.param(0, "a", &[0.0]);
    for mode in [Mode::Sync, Mode::Async, Mode::HalfAsync, Mode::Hybrid] {
        let cluster = Cluster::new(1);
        cluster.param(0, "a", &[0.0]);
        let worker = cluster.worker(cluster.config(0, 2, mode));
        let _ = recv(&worker, &cluster, 0, "a");
        cluster.servers[0].shutdown();
        let how = Sending { pieces: vec![piece(&cluster, 0, "a@GRAD")], merge_add: false };
        let mut out = tensor(&[]);
        let error = (0..50)
            .find_map(|_| {
                worker
                    .send(&how, &[&Value::Tensor(tensor(&[1.0]))])
                    .and_then(|()| worker.send_barrier(&cluster.endpoints))
                    .and_then(|()| {
                        worker.recv(&[piece(&cluster, 0, "a")], &mut [&mut out], &mut [0])
                    })
                    .err()
            })
            .expect("a step without a server fails")
            .to_string();
        assert!(error.starts_with("trainer 0 of 2: server 0 (server0:1)"), "{mode:?}: {error}");
        drop(worker);
    }
}

#[test]
fn trainers_meet() {
    let cluster = Cluster::new(2);
    let trainer = |rank: u32| {
        let worker = cluster.worker(cluster.config(rank, 2, Mode::Sync));
        let sum = worker.all_reduce(&[f64::from(rank), 2.0], Reduce::Sum).unwrap();
        assert_eq!(sum, [1.0, 4.0]);
        assert_eq!(worker.all_reduce(&[f64::from(rank)], Reduce::Max).unwrap(), [1.0]);
        assert_eq!(worker.all_reduce(&[f64::from(rank)], Reduce::Min).unwrap(), [0.0]);
        assert_eq!(worker.all_gather(&[rank as u8; 2]).unwrap(), [[0, 0], [1, 1]]);
        worker.complete().unwrap();
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| trainer(1));
        trainer(0);
        other.join().unwrap();
    });
}

#[test]
fn one_worker_acts_for_all() {
    let cluster = Cluster::new(2);
    let worker = cluster.worker(cluster.config(0, 2, Mode::Async));
    let error = worker.save("model", None, 0, Format::Native).unwrap_err().to_string();
    assert!(error.contains("answer is damaged"), "{error}");
    let error = worker.shrink(None).unwrap_err().to_string();
    assert!(error.contains("the fake does not know Shrink"), "{error}");
    let pieces = [piece(&cluster, 0, "w"), piece(&cluster, 1, "v")];
    worker.set(&pieces, &[&tensor(&[1.0]), &tensor(&[2.0, 3.0])]).unwrap();
    assert_eq!(recv(&worker, &cluster, 1, "v"), [2.0, 3.0]);
    drop(worker);
}
