//! Servers and the workers of real trainers.

use std::sync::Arc;

use bireme_engine::Value;
use bireme_engine::remote::{Piece, Remote, RowSpread, Sending, TableRef};
use bireme_engine::tensor::Tensor;

use super::cluster::*;
use crate::Mode;
use crate::message::Format;
use crate::worker::{Worker, WorkerConfig};

fn connect(cluster: &Cluster, rank: u32, trainers: u32, mode: Mode) -> Arc<Worker> {
    let endpoints = vec![cluster.server.endpoint().to_owned()];
    let config = WorkerConfig::new(rank, trainers, endpoints, mode);
    let transport = Arc::new(cluster.memory.clone());
    Worker::connect(config, transport, cluster.settings.clone()).unwrap()
}

fn piece(cluster: &Cluster, name: &str) -> Piece {
    Piece { name: name.to_owned(), endpoint: cluster.server.endpoint().to_owned() }
}

fn table(cluster: &Cluster) -> TableRef {
    TableRef {
        name: "emb".to_owned(),
        width: 2,
        padding: None,
        spread: RowSpread::Keys { shards: 1000 },
        endpoints: vec![cluster.server.endpoint().to_owned()],
        names: vec!["emb".to_owned()],
    }
}

/// One step of a trainer whose gradients are all `value`; returns `w` and a row after it.
fn step(cluster: &Cluster, worker: &Worker, name: &str, value: f32) -> (Vec<f32>, Vec<f32>) {
    let endpoints = [cluster.server.endpoint().to_owned()];
    let grad = Value::Tensor(dense(&[value; 6]));
    let how = Sending { pieces: vec![piece(cluster, name)], merge_add: false };
    worker.push_rows(&table(cluster), &[&[3, 3]], &[&[value; 4]], None).unwrap();
    worker.send(&how, &[&grad]).unwrap();
    worker.send_barrier(&endpoints).unwrap();
    let mut w = Tensor::zeros(bireme_engine::DType::F32, [3, 2]);
    worker.recv(&[piece(cluster, "w")], &mut [&mut w], &mut [0]).unwrap();
    worker.fetch_barrier(&endpoints).unwrap();
    let mut row = vec![0.0; 2];
    worker.pull_rows(&table(cluster), &[&[3]], &mut [&mut row]).unwrap();
    (w.as_slice::<f32>().unwrap().to_vec(), row)
}

#[test]
fn two_workers_train_in_sync_and_save() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().to_str().unwrap();
    let cluster = Cluster::start(Mode::Sync, 2);
    let run = cluster.run();
    let train = |rank: u32| {
        let worker = connect(&cluster, rank, 2, Mode::Sync);
        let name = format!("w@GRAD.trainer_{rank}");
        for at in 1..=3u8 {
            let (w, row) = step(&cluster, &worker, &name, (2 * rank) as f32);
            // The mean of 0 and 2 a step; the row's key comes twice.
            assert_eq!(w, [-f32::from(at); 6]);
            assert_eq!(row, [1.0 - 2.0 * f32::from(at); 2]);
        }
        worker.meet("end of training", &[]).unwrap();
        if rank == 0 {
            worker.save(directory, None, 0, Format::Native).unwrap();
        }
        worker.complete().unwrap();
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| train(1));
        train(0);
        other.join().unwrap();
    });
    run.join().unwrap().unwrap();
    let again = Cluster::start(Mode::Sync, 1);
    again.server.load(directory).unwrap();
    let run = again.run();
    let worker = connect(&again, 0, 1, Mode::Sync);
    let (w, row) = step(&again, &worker, "w@GRAD", 1.0);
    assert_eq!((w, row), (vec![-4.0; 6], vec![-7.0; 2]));
    worker.complete().unwrap();
    run.join().unwrap().unwrap();
}
