//! What is no number never leaves a trainer.

use super::*;
use crate::worker::WorkerConfig;

/// Every mode, async with queues and without.
fn configs(cluster: &Cluster) -> Vec<WorkerConfig> {
    let mut queued = cluster.config(0, 1, Mode::Async);
    queued.communicator = Knobs { send_queue_size: 4, ..Knobs::default() };
    let modes = [Mode::Sync, Mode::HalfAsync, Mode::Async, Mode::Hybrid];
    modes.map(|mode| cluster.config(0, 1, mode)).into_iter().chain([queued]).collect()
}

fn try_send(worker: &Worker, cluster: &Cluster, name: &str, value: Value) -> Option<String> {
    let how = Sending { pieces: vec![piece(cluster, 0, name)], merge_add: false };
    worker.send(&how, &[&value]).err().map(|error| error.to_string())
}

/// One whole step, then the pushes of a second one, of which `bad` is refused; what it says, and
/// what servers have then.
fn second_step(
    config: WorkerConfig,
    cluster: &Cluster,
    bad: impl FnOnce(&Worker) -> Option<String>,
) -> String {
    cluster.param(0, "a", &[0.0, 0.0]);
    let worker = cluster.worker(config);
    recv(&worker, cluster, 0, "a");
    send(&worker, cluster, 0, "a@GRAD", &[-1.0, -1.0]);
    worker.push_rows(&keyed(cluster), &[&[3]], &[&[1.0, 1.0]], None).unwrap();
    worker.send_barrier(&cluster.endpoints).unwrap();
    worker.flush().unwrap();
    assert_eq!(pull(&worker, &keyed(cluster), &[3]), [2.0, 2.0]);
    let before = (cluster.value(0, "a"), cluster.fakes[0].lock().tables["t"].clone());
    assert_eq!(before.0, [1.0, 1.0]);
    send(&worker, cluster, 0, "a@GRAD", &[7.0, 7.0]);
    let error = bad(&worker).expect("it must be refused");
    // Neither the rest of the step nor a later one is sent.
    assert!(worker.send_barrier(&cluster.endpoints).is_err());
    assert!(worker.complete().is_err());
    drop(worker);
    let after = (cluster.value(0, "a"), cluster.fakes[0].lock().tables["t"].clone());
    assert_eq!(after, before, "the step left nothing");
    assert_eq!(cluster.fakes[0].lock().completed, 0);
    error
}

#[test]
fn gradients_that_are_no_numbers_stay_here() {
    for at in 0..configs(&Cluster::new(1)).len() {
        let on = |bad: &dyn Fn(&Worker, &Cluster) -> Option<String>| {
            let cluster = Cluster::new(1);
            let config = configs(&cluster).swap_remove(at);
            second_step(config, &cluster, |worker| bad(worker, &cluster))
        };
        let dense = on(&|worker, cluster| {
            try_send(worker, cluster, "b@GRAD", Value::Tensor(tensor(&[0.0, f32::NAN])))
        });
        assert!(dense.contains("trainer 0 of 1: step 2: `b@GRAD` has NaN (element 1)"), "{dense}");
        assert!(dense.contains("check what is fed"), "{dense}");
        let rows = on(&|worker, cluster| {
            let value = Tensor::from_slice([2, 1], &[1.0, f32::INFINITY]).unwrap();
            let rows = SelectedRows { rows: vec![4, 9], height: 10, value };
            try_send(worker, cluster, "e@GRAD", Value::Rows(rows))
        });
        assert!(rows.contains("`e@GRAD` has infinity (row 9)"), "{rows}");
        let push = |grads: [f32; 4], counts: [f32; 2]| {
            on(&|worker, cluster| {
                let counts = [[1.0, 0.0], counts];
                let pushed =
                    worker.push_rows(&keyed(cluster), &[&[3, 8]], &[&grads], Some(&counts));
                pushed.err().map(|error| error.to_string())
            })
        };
        let keyed = push([0.0, 0.0, f32::NAN, 0.0], [1.0, 0.0]);
        assert!(keyed.contains("step 2: `t@GRAD` has NaN (the row of id 8)"), "{keyed}");
        let counts = push([0.0; 4], [1.0, f32::NAN]);
        assert!(counts.contains("show and click of `t`"), "{counts}");
    }
}

#[test]
fn differences_that_are_no_numbers_stay_here() {
    for is_table in [false, true] {
        let cluster = Cluster::new(1);
        cluster.param(0, "w", &[0.0; 4]);
        let worker =
            cluster.worker(WorkerConfig { geo_steps: 2, ..cluster.config(0, 1, Mode::Geo) });
        let rows = if is_table { 2 } else { 4 };
        let pieces = [(piece(&cluster, 0, "w"), rows)];
        let mut w = Tensor::from_slice([2, 2], &[0f32; 4]).unwrap();
        let touched: [&[i64]; 1] = [&[1]];
        let mut exchange = |value: f32| {
            w.as_mut_slice::<f32>().unwrap()[3] = value;
            let touched = is_table.then_some(touched.as_slice());
            worker.exchange(&mut [GeoParam { pieces: &pieces, value: &mut w, touched }])
        };
        exchange(1.0).unwrap();
        let error = exchange(f32::NAN).unwrap_err().to_string();
        let place = if is_table { "row 1" } else { "element 3" };
        assert!(error.contains(&format!("step 2: `w` has NaN ({place})")), "{error}");
        assert!(worker.complete().is_err());
        assert_eq!(cluster.fakes[0].lock().dense["w"], [0.0; 4]);
    }
}

#[test]
fn the_check_can_be_turned_off() {
    let cluster = Cluster::new(1);
    cluster.param(0, "a", &[0.0]);
    let mut config = cluster.config(0, 1, Mode::Sync);
    config.communicator.check_finite = false;
    let worker = cluster.worker(config);
    send(&worker, &cluster, 0, "a@GRAD", &[f32::NAN]);
    worker.send_barrier(&cluster.endpoints).unwrap();
    assert!(recv(&worker, &cluster, 0, "a")[0].is_nan());
    worker.complete().unwrap();
}
