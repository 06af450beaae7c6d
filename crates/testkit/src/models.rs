//! Models small enough to train in a second, with data that has something to learn.

use anyhow::Result;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Act, Embedding, Fc, Label, ParamAttr};
use bireme_engine::optimizer::Optimizer;
use bireme_engine::random::Philox;
use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Program};

/// A model with its optimizer, and batches for it.
#[derive(Clone)]
pub struct Model {
    /// One training step.
    pub main: Program,
    /// First values.
    pub startup: Program,
    /// What a batch feeds.
    pub feeds: Vec<String>,
    /// The mean loss.
    pub loss: String,
    /// Parameters to compare, with their rows and columns; keyed tables are not among them.
    pub params: Vec<String>,
    /// Keyed tables to compare, with the keys that the data uses and their width.
    pub tables: Vec<(String, Vec<u64>, usize)>,
}

/// The tensors of one batch, in the order of a model's feeds.
pub type Batch = Vec<Tensor>;

/// Slots of [`ctr_dnn`].
const SLOTS: usize = 3;
/// Rows of its table.
const ROWS: i64 = 200;

/// Which kind of table [`ctr_dnn`] looks its slots up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// A parameter whose rows are spread over the servers.
    Sliced,
    /// A table that makes rows for keys as they come.
    Keyed,
}

/// A click model: slots through one table, dense features, a perceptron. Its first layer is large
/// enough to be sliced. Activations are smooth: at the kink of a relu, rounding would decide whether
/// a gradient exists.
///
/// # Errors
/// When the optimizer refuses the program.
pub fn ctr_dnn(table: Table, optimizer: &dyn Optimizer) -> Result<Model> {
    staged_ctr_dnn(table, ["", ""], optimizer)
}

/// [`ctr_dnn`] with its first layer on one device and the rest on another; none where the name is
/// empty.
///
/// # Errors
/// When the optimizer refuses the program.
pub fn staged_ctr_dnn(
    table: Table,
    devices: [&str; 2],
    optimizer: &dyn Optimizer,
) -> Result<Model> {
    let graph = Graph::new();
    graph.set_random_seed(11);
    let label = layers::data(&graph, "label", [1], DType::I64);
    let mut feeds = vec!["label".to_owned()];
    let embedding = Embedding::new([ROWS, 4])
        .sparse(true)
        .distributed(table == Table::Keyed)
        .param_attr(ParamAttr::named("emb").init(Initializer::uniform(-0.1, 0.1)));
    let mut inputs = Vec::new();
    for slot in 0..SLOTS {
        let name = format!("slot{slot}");
        let ids = layers::data(&graph, &name, [1], DType::I64);
        inputs.push(layers::reshape(&embedding.apply(&ids)?, &[-1, 4])?);
        feeds.push(name);
    }
    inputs.push(layers::data(&graph, "dense", [20], DType::F32));
    feeds.push("dense".to_owned());
    let inputs: Vec<&Variable> = inputs.iter().collect();
    let joined = layers::concat(&inputs, 1)?;
    let hidden = Fc::new(640).act(Act::Tanh);
    let hidden = graph.with_device(devices[0], || hidden.apply(&joined))?;
    let loss = graph.with_device(devices[1], || {
        let hidden = Fc::new(16).act(Act::Tanh).apply(&hidden)?;
        loss_of(&Fc::new(2).apply(&hidden)?, &label)
    })?;
    finish(&graph, &loss, feeds, optimizer, table == Table::Keyed)
}

/// A perceptron for digits.
///
/// # Errors
/// When the optimizer refuses the program.
pub fn mnist_mlp(optimizer: &dyn Optimizer) -> Result<Model> {
    let graph = Graph::new();
    graph.set_random_seed(7);
    let label = layers::data(&graph, "label", [1], DType::I64);
    let image = layers::data(&graph, "image", [784], DType::F32);
    let hidden = Fc::new(32).act(Act::Tanh).apply(&image)?;
    let logits = Fc::new(10).apply(&hidden)?;
    let loss = loss_of(&logits, &label)?;
    finish(&graph, &loss, vec!["label".into(), "image".into()], optimizer, false)
}

fn loss_of(logits: &Variable, label: &Variable) -> bireme_engine::Result<Variable> {
    let (losses, _) = layers::softmax_with_cross_entropy(logits, label, Label::Hard)?;
    layers::mean(&losses)
}

fn finish(
    graph: &Graph,
    loss: &Variable,
    feeds: Vec<String>,
    optimizer: &dyn Optimizer,
    keyed: bool,
) -> Result<Model> {
    optimizer.minimize(loss)?;
    let main = graph.main();
    let names = main.parameters().map(|var| var.name.clone());
    let params = names.filter(|name| !(keyed && name == "emb")).collect();
    let tables =
        if keyed { vec![("emb".to_owned(), (0..ROWS as u64).collect(), 4)] } else { vec![] };
    Ok(Model {
        main,
        startup: graph.startup(),
        feeds,
        loss: loss.name().to_owned(),
        params,
        tables,
    })
}

/// Batches of [`ctr_dnn`]: a click is likely when the ids are large.
pub fn ctr_batches(count: usize, rows: usize) -> Vec<Batch> {
    let draw = Philox::new(5, "ctr");
    let batch = |number: usize| {
        let draw = draw.stream(number as u64);
        let mut at = 0;
        let mut next = || {
            at += 1;
            draw.uniform(at)
        };
        let mut ids = vec![Vec::new(); SLOTS];
        let (mut labels, mut dense) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let mut sum = 0.0;
            for slot in &mut ids {
                // Squared, so that some ids are frequent.
                let id = (next().powi(2) * ROWS as f32) as i64;
                sum += id as f32 / ROWS as f32;
                slot.push(id);
            }
            dense.extend((0..20).map(|_| next() - 0.5));
            labels.push(i64::from(sum + next() > 1.5));
        }
        let column = |values: &[i64]| Tensor::from_slice([rows, 1], values).expect("a column fits");
        let mut tensors = vec![column(&labels)];
        tensors.extend(ids.iter().map(|ids| column(ids)));
        tensors.push(Tensor::from_slice([rows, 20], &dense).expect("features fit"));
        tensors
    };
    (0..count).map(batch).collect()
}

/// Batches of [`mnist_mlp`]: the digit says which block of the image is bright.
pub fn mnist_batches(count: usize, rows: usize) -> Vec<Batch> {
    let draw = Philox::new(6, "mnist");
    let batch = |number: usize| {
        let draw = draw.stream(number as u64);
        let digits: Vec<i64> = (0..rows).map(|row| (draw.u64(row as u64) % 10) as i64).collect();
        let pixel = |at: usize| {
            let bright = at % 784 / 78 == digits[at / 784] as usize;
            draw.uniform((rows + at) as u64) * if bright { 1.0 } else { 0.3 }
        };
        let image: Vec<f32> = (0..rows * 784).map(pixel).collect();
        vec![
            Tensor::from_slice([rows, 1], &digits).expect("a column fits"),
            Tensor::from_slice([rows, 784], &image).expect("images fit"),
        ]
    };
    (0..count).map(batch).collect()
}

/// The share of a batch that trainer `index` of `count` has: consecutive rows.
///
/// # Panics
/// When the batch cannot be divided evenly, which would change the mean of the means.
pub fn share(batch: &Batch, index: usize, count: usize) -> Batch {
    let cut = |tensor: &Tensor| {
        let rows = tensor.rows() / count;
        assert_eq!(rows * count, tensor.rows(), "the batch must divide evenly");
        let row = tensor.as_bytes().len() / tensor.rows();
        let mut part = Tensor::zeros(tensor.dtype(), tensor.dims().with_rows(rows));
        part.as_mut_bytes().copy_from_slice(&tensor.as_bytes()[index * rows * row..][..rows * row]);
        part
    };
    batch.iter().map(cut).collect()
}
