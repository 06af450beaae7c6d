//! Small models in eager mode, for the host and for any card: they must learn the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use bireme_engine::eager::{EagerCard, EagerOptimizer, EagerTensor, Form, Held, OpCache, Session};
use bireme_engine::optimizer::{Adagrad, Adam, Optimizer};
use bireme_engine::tensor::{Dims, Tensor};
use bireme_ir::{Attr, Param};

/// A session, where its tensors are put, and the ops that it has used.
pub(crate) struct Eager {
    pub(crate) session: Session,
    pub(crate) card: Option<Arc<EagerCard>>,
    caches: RefCell<HashMap<String, OpCache>>,
}

impl Eager {
    /// Tensors of the host.
    pub(crate) fn on_host() -> Eager {
        Eager { session: Session::default(), card: None, caches: RefCell::default() }
    }

    /// Tensors of a card.
    pub(crate) fn on(device: &Arc<dyn bireme_engine::device::Device>) -> Eager {
        let eager = Eager::on_host();
        let card = eager.session.card(device).unwrap();
        eager.session.set_current(Some(Arc::clone(&card)));
        Eager { card: Some(card), ..eager }
    }

    /// A tensor where the model is.
    pub(crate) fn tensor(&self, tensor: Tensor) -> EagerTensor {
        EagerTensor::from_held(Held::new(tensor).moved(self.card.as_ref()).unwrap())
    }

    pub(crate) fn floats(&self, dims: &[usize], values: &[f32]) -> EagerTensor {
        self.tensor(Tensor::from_slice(Dims::new(dims), values).unwrap())
    }

    /// A parameter whose elements look random.
    pub(crate) fn parameter(&self, name: &str, dims: &[usize]) -> EagerTensor {
        let count: usize = dims.iter().product();
        let values: Vec<f32> =
            (0..count).map(|i| ((i * 7919 + name.len() * 31) % 97) as f32 / 97.0 - 0.5).collect();
        let parameter = self.floats(dims, &values);
        parameter.set_name(name);
        parameter.set_param(Param::default());
        parameter
    }

    /// All outputs that an op must have, by the names of its slots.
    pub(crate) fn run(
        &self,
        kind: &str,
        attrs: &[(&'static str, Attr)],
        inputs: &[(&str, &EagerTensor)],
    ) -> bireme_engine::Result<HashMap<&'static str, EagerTensor>> {
        let mut caches = self.caches.borrow_mut();
        let cache = caches.entry(kind.to_owned()).or_insert_with(|| OpCache::new(kind).unwrap());
        let signature = cache.def().signature;
        let mut flat = Vec::new();
        let mut counts = Vec::new();
        for slot in signature.inputs {
            let given = inputs.iter().filter(|(name, _)| *name == slot.name);
            let before = flat.len();
            flat.extend(given.map(|(_, tensor)| (*tensor).clone()));
            counts.push(flat.len() - before);
        }
        let outputs: Vec<usize> = signature
            .outputs
            .iter()
            .map(|slot| usize::from(slot.required || cache.gradient_reads(slot.name)))
            .collect();
        let form = Form { attrs, inputs: &counts, outputs: &outputs };
        let made = self.session.apply(cache, form, &flat)?;
        let slots = signature.outputs.iter().zip(&outputs).filter(|(_, count)| **count > 0);
        Ok(slots.map(|(slot, _)| slot.name).zip(made).collect())
    }

    /// The output in slot `out`.
    pub(crate) fn op(
        &self,
        kind: &str,
        attrs: &[(&'static str, Attr)],
        inputs: &[(&str, &EagerTensor)],
        out: &str,
    ) -> EagerTensor {
        self.run(kind, attrs, inputs).unwrap().remove(out).unwrap()
    }

    pub(crate) fn binary(&self, kind: &str, x: &EagerTensor, y: &EagerTensor) -> EagerTensor {
        self.op(kind, &[], &[("X", x), ("Y", y)], "Out")
    }

    pub(crate) fn unary(&self, kind: &str, x: &EagerTensor) -> EagerTensor {
        self.op(kind, &[], &[("X", x)], "Out")
    }

    fn linear(&self, x: &EagerTensor, weight: &EagerTensor, bias: &EagerTensor) -> EagerTensor {
        self.binary("elementwise_add", &self.binary("matmul_v2", x, weight), bias)
    }
}

pub(crate) fn numbers(tensor: &EagerTensor) -> Vec<f64> {
    tensor.to_tensor().unwrap().to_f64_vec()
}

/// Losses, parameters and accumulators.
pub(crate) type Learned = (Vec<f64>, Vec<Vec<f64>>);

/// A perceptron of three layers with Adam.
pub(crate) fn perceptron(eager: &Eager, steps: usize) -> Learned {
    let sizes = [6usize, 9, 5, 3];
    let layers: Vec<[EagerTensor; 2]> = sizes
        .windows(2)
        .enumerate()
        .map(|(at, pair)| {
            let weight = eager.parameter(&format!("w{at}"), pair);
            [weight, eager.parameter(&format!("b{at}"), &pair[1..])]
        })
        .collect();
    let parameters: Vec<EagerTensor> = layers.iter().flatten().cloned().collect();
    let mut optimizer = EagerOptimizer::new(Box::new(Adam::new(0.02)) as Box<dyn Optimizer + Send>);
    let mut losses = Vec::new();
    for step in 0..steps {
        let rows = if step % 4 == 3 { 5 } else { 8 };
        let x: Vec<f32> =
            (0..rows * 6).map(|i| (((i + step) * 37 % 19) as f32 - 9.0) / 7.0).collect();
        let label: Vec<i64> = (0..rows as i64).map(|i| (i + step as i64) * 5 % 3).collect();
        let mut x = eager.floats(&[rows, 6], &x);
        let label = eager.tensor(Tensor::from_slice([rows, 1], &label).unwrap());
        for (at, [weight, bias]) in layers.iter().enumerate() {
            x = eager.linear(&x, weight, bias);
            if at + 1 < layers.len() {
                x = eager.unary(if at == 0 { "relu" } else { "tanh" }, &x);
            }
        }
        let inputs = [("Logits", &x), ("Label", &label)];
        let cost = eager.op("softmax_with_cross_entropy", &[], &inputs, "Loss");
        let loss = eager.unary("mean", &cost);
        eager.session.backward(&[(loss.clone(), None)], false).unwrap();
        optimizer.step(&parameters, 0.02).unwrap();
        parameters.iter().for_each(|parameter| parameter.set_grad(None));
        losses.extend(numbers(&loss));
    }
    let state = optimizer
        .accumulators()
        .map(|(_, held)| numbers(&EagerTensor::from_held(Arc::clone(held))));
    let values = parameters.iter().map(numbers).chain(state).collect();
    (losses, values)
}

/// A table of embeddings with a sparse gradient, a sum of rows, and Adagrad.
pub(crate) fn embeddings(eager: &Eager, steps: usize) -> Learned {
    let table = eager.parameter("table", &[11, 4]);
    let weight = eager.parameter("weight", &[12, 1]);
    let parameters = [table.clone(), weight.clone()];
    let mut optimizer = EagerOptimizer::new(Box::new(Adagrad::new(0.1)));
    let mut losses = Vec::new();
    for step in 0..steps as i64 {
        let ids: Vec<i64> = (0..18).map(|i| (i * i + step) % 7).collect();
        let ids = eager.tensor(Tensor::from_slice([6, 3], &ids).unwrap());
        let sparse = [("is_sparse", Attr::Bool(true))];
        let rows = eager.op("lookup_table_v2", &sparse, &[("W", &table), ("Ids", &ids)], "Out");
        let shape = [("shape", Attr::Ints(vec![6, 12]))];
        let flat = eager.op("reshape2", &shape, &[("X", &rows)], "Out");
        let out = eager.unary("sigmoid", &eager.binary("matmul_v2", &flat, &weight));
        let loss = eager.unary("mean", &eager.binary("elementwise_mul", &out, &out));
        eager.session.backward(&[(loss.clone(), None)], false).unwrap();
        assert!(table.grad().unwrap().is_rows());
        optimizer.step(&parameters, 0.1).unwrap();
        parameters.iter().for_each(|parameter| parameter.set_grad(None));
        losses.extend(numbers(&loss));
    }
    (losses, parameters.iter().map(numbers).collect())
}

/// Whether two trainings came to the same, up to the order of sums.
pub(crate) fn assert_close(got: &Learned, expected: &Learned, tolerance: f64) {
    let close = |a: &[f64], b: &[f64]| {
        a.len() == b.len()
            && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= tolerance * (1.0 + b.abs()))
    };
    assert!(close(&got.0, &expected.0), "losses {:?} and {:?}", got.0, expected.0);
    assert_eq!(got.1.len(), expected.1.len());
    for (at, (got, expected)) in got.1.iter().zip(&expected.1).enumerate() {
        assert!(close(got, expected), "value {at}: {got:?} and {expected:?}");
    }
}
