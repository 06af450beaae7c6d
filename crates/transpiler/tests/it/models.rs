//! The models that tests split, and a cluster to split them for.

use bireme_engine::graph::Graph;
use bireme_engine::layers::*;
use bireme_engine::optimizer::Optimizer;
use bireme_ir::{DType, Program};
use bireme_transpiler::{Config, Transpiled, Transpiler};

/// A main program and its startup program.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) main: Program,
    pub(crate) startup: Program,
}

impl Model {
    pub(crate) fn new(graph: &Graph) -> Model {
        let without_sites = |mut program: Program| {
            for op in program.blocks.iter_mut().flat_map(|block| &mut block.ops) {
                op.site = None;
            }
            program
        };
        Model { main: without_sites(graph.main()), startup: without_sites(graph.startup()) }
    }
}

/// `n` servers.
pub(crate) fn servers(n: usize) -> Vec<String> {
    (0..n).map(|server| format!("127.0.0.1:{}", 6174 + server)).collect()
}

/// Splits `model` for trainer 0.
pub(crate) fn split(
    model: &Model,
    config: Config,
    pservers: usize,
    trainers: usize,
    sync_mode: bool,
) -> Transpiled {
    let transpiler = Transpiler::new(config).unwrap();
    let (main, startup) = (&model.main, &model.startup);
    transpiler.transpile(0, main, startup, &servers(pservers), trainers, sync_mode).unwrap()
}

/// Settings of async mode.
pub(crate) fn async_config() -> Config {
    let mut config = Config::new();
    config.set_sync_mode(Some(false)).unwrap();
    config.set_runtime_split_send_recv(Some(true)).unwrap();
    config
}

pub(crate) fn kinds(program: &Program, block: usize) -> Vec<&str> {
    program.blocks[block].ops.iter().map(|op| op.kind.as_str()).collect()
}

/// The model of Paddle's own test of its transpiler: one layer from 1000 to 1000.
pub(crate) fn fc(optimizer: &dyn Optimizer) -> Model {
    let graph = Graph::new();
    graph.set_random_seed(7);
    let x = data(&graph, "x", [1000], DType::F32);
    let (weight, bias) = (ParamAttr::named("fc_w"), ParamAttr::named("fc_b"));
    let predict = Fc::new(1000).param_attr(weight).bias_attr(bias).apply(&x).unwrap();
    let y = data(&graph, "y", [1], DType::F32);
    let cost = square_error_cost(&predict, &y).unwrap();
    optimizer.minimize(&mean(&cost).unwrap()).unwrap();
    Model::new(&graph)
}

/// A digit classifier with an accuracy.
pub(crate) fn mlp(optimizer: &dyn Optimizer) -> Model {
    let graph = Graph::new();
    let image = data(&graph, "image", [784], DType::F32);
    let hidden = fc_layer(&image, 128, Act::Relu);
    let digit = fc_layer(&hidden, 10, Act::Softmax);
    let label = data(&graph, "label", [1], DType::I64);
    let cost = cross_entropy(&digit, &label, Label::Hard).unwrap();
    accuracy(&digit, &label, 1).unwrap();
    optimizer.minimize(&mean(&cost).unwrap()).unwrap();
    Model::new(&graph)
}

fn fc_layer(
    x: &bireme_engine::graph::Variable,
    size: i64,
    act: Act,
) -> bireme_engine::graph::Variable {
    bireme_engine::layers::fc(x, size, act).unwrap()
}

/// How the table of [`ctr`] is declared.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum TableKind {
    Dense,
    Rows,
    Keyed,
}

/// Click prediction: two slots that share a table, one dense input, an AUC.
pub(crate) fn ctr(kind: TableKind, optimizer: &dyn Optimizer) -> Model {
    ctr_with(kind, ParamAttr::named("table"), optimizer)
}

pub(crate) fn ctr_with(kind: TableKind, attr: ParamAttr, optimizer: &dyn Optimizer) -> Model {
    let graph = Graph::new();
    graph.set_random_seed(7);
    let dense = data(&graph, "dense", [13], DType::F32);
    let embed = Embedding::new([10_001, 9])
        .sparse(kind != TableKind::Dense)
        .distributed(kind == TableKind::Keyed)
        .padding_idx(0)
        .param_attr(attr);
    let rows: Vec<_> = ["C1", "C2"]
        .map(|name| embed.apply(&input(&graph, name, [-1], DType::I64)).unwrap())
        .into();
    let joined = concat(&[&rows[0], &rows[1], &dense], 1).unwrap();
    let hidden = fc_layer(&joined, 32, Act::Relu);
    let predict = fc_layer(&hidden, 2, Act::Softmax);
    let label = data(&graph, "label", [1], DType::I64);
    let cost = cross_entropy(&predict, &label, Label::Hard).unwrap();
    auc(&predict, &label, &Auc::default()).unwrap();
    optimizer.minimize(&mean(&cost).unwrap()).unwrap();
    Model::new(&graph)
}

/// [`ctr`] with everything after the lookups, or the last two layers, on other devices.
pub(crate) fn staged_ctr(kind: TableKind, stages: usize, optimizer: &dyn Optimizer) -> Model {
    let graph = Graph::new();
    graph.set_random_seed(7);
    let dense = data(&graph, "dense", [13], DType::F32);
    let label = data(&graph, "label", [1], DType::I64);
    let embed = Embedding::new([10_001, 9])
        .sparse(kind != TableKind::Dense)
        .distributed(kind == TableKind::Keyed)
        .param_attr(ParamAttr::named("table"));
    let ids = ["C1", "C2"].map(|name| input(&graph, name, [-1], DType::I64));
    let joined = graph.with_device("cpu", || {
        let rows = [embed.apply(&ids[0])?, embed.apply(&ids[1])?];
        concat(&[&rows[0], &rows[1], &dense], 1)
    });
    let joined = joined.unwrap();
    let hidden = graph.with_device("gpu:0", || bireme_engine::layers::fc(&joined, 32, Act::Relu));
    let last = if stages == 3 { "xpu" } else { "gpu" };
    let loss = graph.with_device(last, || {
        let predict = bireme_engine::layers::fc(&hidden?, 2, Act::Softmax)?;
        mean(&cross_entropy(&predict, &label, Label::Hard)?)
    });
    optimizer.minimize(&loss.unwrap()).unwrap();
    Model::new(&graph)
}
