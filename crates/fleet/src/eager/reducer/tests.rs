//! Ranks as threads, each with a session and a model of its own.

use std::thread;

use bireme_collective::Config;
use bireme_comm::{Memory, Transport};
use bireme_engine::eager::{Form, OpCache};

use super::*;

fn tensor(values: &[f32]) -> EagerTensor {
    EagerTensor::new(Tensor::from_slice([values.len()], values).unwrap())
}

fn parameter(name: &str, values: &[f32]) -> EagerTensor {
    let parameter = tensor(values);
    parameter.set_name(name);
    parameter.set_stop_gradient(false);
    parameter
}

fn product(session: &Session, x: &EagerTensor, y: &EagerTensor) -> EagerTensor {
    let cache = OpCache::new("elementwise_mul").unwrap();
    let form = Form { attrs: &[], inputs: &[1, 1], outputs: &[1] };
    session.apply(&cache, form, &[x.clone(), y.clone()]).unwrap().remove(0)
}

fn gradient(of: &EagerTensor) -> Option<Vec<f32>> {
    let grad = of.grad()?;
    Some(grad.to_tensor().unwrap().as_slice::<f32>().unwrap().to_vec())
}

/// Runs `work` in a thread for each of two ranks.
fn ranks<T: Send>(work: impl Fn(Group) -> T + Sync) -> Vec<T> {
    let transport: Arc<dyn Transport> = Arc::new(Memory::new(0));
    let endpoints = vec!["10.0.0.1:1".to_owned(), "10.0.0.2:1".to_owned()];
    let one = |rank| {
        let config = Config::new(rank, endpoints.clone());
        work(Group::connect(&config, &transport).unwrap())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|rank| scope.spawn(move || one(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Two small parameters, which share a bucket, and one that has its own.
fn model() -> Vec<EagerTensor> {
    let large = vec![2.0; 1 << 15];
    vec![parameter("large", &large), parameter("a", &[3.0]), parameter("b", &[5.0])]
}

fn reducer(session: &Session, group: Group, model: &[EagerTensor], unused: bool) -> Arc<Reducer> {
    let each = |tensor: &EagerTensor| Parameter { tensor: tensor.clone(), is_sparse: false };
    let parameters = model.iter().map(each).collect();
    let reducer = Reducer::new(session, group, parameters, Limits::default(), unused, None);
    assert_eq!(reducer.bucket_count(), 2);
    reducer
}

#[test]
fn gradients_are_averages_on_every_rank() {
    let found = ranks(|group| {
        let (session, model, weight) = (Session::default(), model(), group.rank() as f32);
        reducer(&session, group, &model, false).arm(true);
        let ab = product(&session, &model[1], &model[2]);
        let loss = product(&session, &product(&session, &model[0], &ab), &tensor(&[weight]));
        session.backward(&[(loss, None)], false).unwrap();
        model.iter().map(|tensor| gradient(tensor).unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(found[0], found[1]);
    // The mean of the ranks' weights is one half.
    assert_eq!(found[0][0], vec![7.5; 1 << 15]);
    assert_eq!(found[0][1], [(1 << 15) as f32 * 5.0]);
    assert_eq!(found[0][2], [(1 << 15) as f32 * 3.0]);
}

#[test]
fn without_being_armed_gradients_are_each_ranks_own() {
    let found = ranks(|group| {
        let (session, model, weight) = (Session::default(), model(), group.rank() as f32);
        let reducer = reducer(&session, group, &model, false);
        let pass = || {
            let ab = product(&session, &model[1], &model[2]);
            let loss = product(&session, &product(&session, &model[0], &ab), &tensor(&[weight]));
            session.backward(&[(loss, None)], false).unwrap();
            gradient(&model[0]).unwrap()[0]
        };
        let alone = pass();
        reducer.arm(true);
        (alone, pass())
    });
    // What was added up before is averaged with the rest.
    assert_eq!(found, [(0.0, 15.0), (15.0, 15.0)]);
}

#[test]
fn what_one_rank_does_not_use_is_averaged_and_what_none_uses_has_no_gradient() {
    let found = ranks(|group| {
        let (session, model, rank) = (Session::default(), model(), group.rank());
        reducer(&session, group, &model, true).arm(true);
        let loss = product(&session, &model[rank], &tensor(&[4.0]));
        session.backward(&[(loss, None)], false).unwrap();
        let first = |tensor| gradient(tensor).map(|grad| grad[0]);
        model.iter().map(first).collect::<Vec<_>>()
    });
    assert_eq!(found[0], [Some(2.0), Some(2.0), None]);
    assert_eq!(found[1], found[0]);
}

#[test]
fn a_parameter_without_a_part_in_the_loss_is_named() {
    let (session, model) = (Session::default(), model());
    reducer(&session, Group::alone(), &model, false).arm(true);
    let loss = product(&session, &model[0], &model[1]);
    let error = session.backward(&[(loss, None)], false).unwrap_err().to_string();
    assert!(error.contains("does not depend on parameter `b`"), "{error}");
    assert!(error.contains("find_unused_parameters=True"), "{error}");
}

#[test]
fn rows_of_a_table_come_from_all_ranks() {
    let found = ranks(|group| {
        let rank = group.rank() as i64;
        let value = Tensor::from_slice([1, 2], &[rank as f32, 1.0]).unwrap();
        let mine = SelectedRows { rows: vec![rank + 3], value, height: 9 };
        let all = rows::average(&group, &mine).unwrap();
        (all.rows, all.value.to_f64_vec())
    });
    assert_eq!(found[0], (vec![3, 4], vec![0.0, 0.5, 0.5, 0.5]));
    assert_eq!(found[1], found[0]);
}
