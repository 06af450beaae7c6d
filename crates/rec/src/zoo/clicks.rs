//! What the models of Criteo's data share: a label, slots of one id each, dense features, and one
//! embedding table for all slots.

use bireme_data::Slot;
use bireme_data::parse::SlotValueOptions;
use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Embedding, ParamAttr, Pool};

use super::{Format, Hyper, Metric, Model};
use crate::Result;

const LABEL: &str = "label";
const DENSE: &str = "dense_input";
const WEIGHT: &str = "sample_weight";

/// The inputs of a click model.
#[derive(Debug)]
pub(super) struct Clicks {
    /// What the model is built in.
    pub(super) graph: Graph,
    /// 1 for a click, `[batch, 1]`.
    pub(super) label: Variable,
    /// The id of each slot, `[batch, 1]` each, or the ids of a slot that has any number of them.
    ids: Vec<Variable>,
    /// How many numbers an id of such a slot becomes: the sum or the mean of its rows.
    pooling: Pool,
    /// The dense features, `[batch, dense]`, if there are any.
    pub(super) dense: Option<Variable>,
    /// The weight of a sample in the loss, `[batch, 1]`, if it has one.
    weight: Option<Variable>,
    /// Rows of the embedding table.
    rows: usize,
    /// Numbers in an embedding.
    pub(super) width: usize,
    distributed: bool,
    /// Whether id 0 stands for no id: its embedding is zeros and stays so.
    padded: bool,
}

/// Names of the hyper parameters that size the table, and their defaults; models differ in them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) rows: (&'static str, usize),
    pub(super) width: (&'static str, usize),
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { rows: ("sparse_feature_number", 1_000_001), width: ("sparse_feature_dim", 9) }
    }
}

impl Clicks {
    /// Declares the inputs as the hyper parameters say; slots are called `C1`, `C2` and so on.
    pub(super) fn read(hyper: &mut Hyper, sizes: Sizes) -> Result<Clicks> {
        Clicks::named(hyper, sizes, "C")
    }

    /// The same, with another prefix for the names of slots.
    pub(super) fn named(hyper: &mut Hyper, sizes: Sizes, prefix: &str) -> Result<Clicks> {
        // PaddleRec counts the label among the slots.
        let slots = hyper.get_size("sparse_inputs_slots", 27)?;
        if slots < 2 {
            return Err(hyper.refuse("sparse_inputs_slots", "counts the label too: at least 2"));
        }
        let rows = hyper.get_size(sizes.rows.0, sizes.rows.1)?;
        let width = match sizes.width {
            ("", width) => width,
            (key, default) => hyper.get_size(key, default)?,
        };
        let dense = hyper.get_usize("dense_input_dim", 13)?;
        let distributed = hyper.get_usize("distributed_embedding", 0)? == 1;
        let lists = lists(hyper, slots)?;
        let pooling = match hyper.get_text("pooling", "sum")?.as_str() {
            "sum" => Pool::Sum,
            "mean" => Pool::Average,
            other => return Err(hyper.refuse("pooling", format!("is `{other}`: use sum or mean"))),
        };
        let has_weight = hyper.get_bool("sample_weight", false)?;
        let graph = Graph::new();
        let label = layers::data(&graph, LABEL, [1], DType::I64);
        let slot = |slot: usize| {
            let name = format!("{prefix}{slot}");
            match lists.contains(&slot) {
                true => layers::sequence_input(&graph, &name, [-1, 1], DType::I64, 1),
                false => layers::data(&graph, &name, [1], DType::I64),
            }
        };
        let ids = (1..slots).map(slot).collect();
        let numbers = |name, width: usize| layers::data(&graph, name, [width as i64], DType::F32);
        let dense = (dense > 0).then(|| numbers(DENSE, dense));
        let weight = has_weight.then(|| numbers(WEIGHT, 1));
        let padded = false;
        Ok(Clicks { graph, label, ids, pooling, dense, weight, rows, width, distributed, padded })
    }

    /// Takes id 0 for no id.
    pub(super) fn padded(mut self) -> Clicks {
        self.padded = true;
        self
    }

    /// Slots of ids and dense features together: the fields that models relate with each other.
    pub(super) fn fields(&self) -> usize {
        self.slots() + self.dense_width()
    }

    /// How many slots of ids there are.
    pub(super) fn slots(&self) -> usize {
        self.ids.len()
    }

    /// How many dense features there are.
    pub(super) fn dense_width(&self) -> usize {
        self.dense.as_ref().map_or(0, |dense| dense.shape()[1] as usize)
    }

    /// These values and the dense features behind them, `[batch, both widths]`.
    pub(super) fn with_dense(&self, mut parts: Vec<Variable>) -> Result<Variable> {
        parts.extend(self.dense.clone());
        match &parts[..] {
            [one] => Ok(one.clone()),
            parts => Ok(layers::concat(&parts.iter().collect::<Vec<_>>(), 1)?),
        }
    }

    /// The mean of the losses of samples, `[batch, 1]`, each times the weight of its sample.
    pub(super) fn mean(&self, losses: &Variable) -> Result<Variable> {
        Ok(layers::mean(&self.weighted(losses)?)?)
    }

    /// The losses of samples, each times the weight of its sample.
    pub(super) fn weighted(&self, losses: &Variable) -> Result<Variable> {
        match &self.weight {
            Some(weight) => Ok(layers::elementwise_mul(losses, weight)?),
            None => Ok(losses.clone()),
        }
    }

    /// Refuses a `num_field` that is not the number of fields, for models whose configurations
    /// give it.
    pub(super) fn check_fields(&self, hyper: &mut Hyper, fields: usize) -> Result<()> {
        if hyper.get_size("num_field", fields)? == fields {
            return Ok(());
        }
        let parts = "`sparse_inputs_slots` (which counts the label) and `dense_input_dim`";
        Err(hyper.refuse("num_field", format!("must be {fields}, as {parts} say")))
    }

    /// A table with a row for each id; `width` numbers in a row.
    pub(super) fn table(&self, width: usize, attr: ParamAttr) -> Embedding {
        let table = Embedding::new([self.rows as i64, width as i64])
            .sparse(true)
            .distributed(self.distributed)
            .param_attr(attr);
        if self.padded { table.padding_idx(0) } else { table }
    }

    /// The embedding of each slot, looked up slot by slot in one table.
    pub(super) fn embed_each(&self, attr: ParamAttr) -> Result<Vec<Variable>> {
        let table = self.table(self.width, attr);
        self.ids.iter().map(|ids| self.embed_one(&table, ids, self.width)).collect()
    }

    /// The embedding of one slot, `[batch, width]`.
    fn embed_one(&self, table: &Embedding, ids: &Variable, width: usize) -> Result<Variable> {
        let rows = layers::reshape(&table.apply(ids)?, &[-1, width as i32])?;
        match is_list(ids) {
            true => Ok(layers::sequence_pool(&rows, self.pooling)?),
            false => Ok(rows),
        }
    }

    /// The embeddings of all slots, `[batch, slots, width]`: those with one id, then the others.
    pub(super) fn embed(&self, width: usize, attr: ParamAttr) -> Result<Variable> {
        let table = self.table(width, attr);
        let (lists, single): (Vec<_>, Vec<_>) = self.ids.iter().partition(|ids| is_list(ids));
        let mut parts = Vec::with_capacity(1 + lists.len());
        if !single.is_empty() {
            // All of them at once.
            parts.push(table.apply(&layers::concat(&single, 1)?)?);
        }
        for ids in lists {
            parts.push(layers::unsqueeze(&self.embed_one(&table, ids, width)?, &[1])?);
        }
        match &parts[..] {
            [one] => Ok(one.clone()),
            parts => Ok(layers::concat(&parts.iter().collect::<Vec<_>>(), 1)?),
        }
    }

    /// An embedding for each field, `[batch, fields, width]`: a row of the table for each slot, and
    /// for each dense feature a vector of its own, times the feature.
    pub(super) fn embed_fields(
        &self,
        width: usize,
        slots: ParamAttr,
        dense: &Initializer,
    ) -> Result<Variable> {
        let ids = self.embed(width, slots)?;
        let Some(numbers) = &self.dense else { return Ok(ids) };
        let shape = [1, self.dense_width() as i64, width as i64];
        let vectors = self.parameter("dense_w", shape.to_vec(), dense)?;
        let dense = layers::elementwise_mul(&layers::unsqueeze(numbers, &[2])?, &vectors)?;
        Ok(layers::concat(&[&ids, &dense], 1)?)
    }

    /// The linear part of a model, `[batch, 1]`: a weight for each id and one for each dense
    /// feature.
    pub(super) fn linear(&self, ids: ParamAttr, dense: &Initializer) -> Result<Variable> {
        let ids = layers::reduce_sum(&self.embed(1, ids)?, &[1], false)?;
        self.add_dense_linear(&ids, dense)
    }

    /// The sum of what there is, `[batch, 1]`, and of the linear part of the dense features.
    pub(super) fn add_dense_linear(
        &self,
        to: &Variable,
        initial: &Initializer,
    ) -> Result<Variable> {
        let Some(dense) = &self.dense else { return Ok(to.clone()) };
        let shape = vec![self.dense_width() as i64, 1];
        let weights = self.parameter("dense_w_one", shape, initial)?;
        Ok(layers::elementwise_add(to, &layers::matmul(dense, &weights)?)?)
    }

    /// The bias of a model, `[1]`.
    pub(super) fn bias(&self) -> Result<Variable> {
        self.parameter("bias", vec![1], &Initializer::Constant(0.0))
    }

    fn parameter(&self, name: &str, shape: Vec<i64>, initial: &Initializer) -> Result<Variable> {
        let attr = ParamAttr::named(name);
        Ok(layers::create_parameter(&self.graph, &attr, name, shape, DType::F32, initial)?)
    }

    /// The finished model.
    pub(super) fn finish(self, loss: Variable, prediction: Variable, auc: Metric) -> Model {
        let names: Vec<String> = self.ids.iter().map(|ids| ids.name().to_owned()).collect();
        let id = |ids: &Variable| match is_list(ids) {
            true => Slot::ids(ids.name()),
            false => Slot::id(ids.name()),
        };
        let ids = self.ids.iter().map(id);
        let dense = self.dense.as_ref().map(|_| Slot::floats(DENSE, self.dense_width()));
        let weight = self.weight.as_ref().map(|_| Slot::floats(WEIGHT, 1));
        let dense_feed = self.dense.as_ref().map(|_| DENSE.to_owned());
        let numbers = (1..=names.len()).map(|slot| slot.to_string());
        let tokens = ["click".to_owned()].into_iter().chain(numbers);
        let tokens = tokens.chain(dense.as_ref().map(|_| "dense_feature".to_owned()));
        let tokens = tokens.chain(weight.as_ref().map(|_| WEIGHT.to_owned())).collect();
        let slots = [Slot::id(LABEL)].into_iter().chain(ids).chain(dense).chain(weight).collect();
        let inference_feeds = names.into_iter().chain(dense_feed).collect();
        Model {
            graph: self.graph,
            slots,
            format: Format::SlotValue(SlotValueOptions { tokens, ..SlotValueOptions::default() }),
            loss,
            metrics: vec![auc],
            prediction,
            inference_feeds,
        }
    }

    /// The finished model of a logit: its sigmoid is the chance of a click.
    pub(super) fn finish_logit(self, logit: &Variable) -> Result<Model> {
        let head = super::heads::click(logit, &self.label)?;
        let loss = self.mean(&head.losses)?;
        Ok(self.finish(loss, head.prediction, head.auc))
    }
}

/// Whether a slot has any number of ids.
fn is_list(ids: &Variable) -> bool {
    ids.var().lod_level > 0
}

/// The slots that have any number of ids, by their numbers from 1.
fn lists(hyper: &mut Hyper, slots: usize) -> Result<Vec<usize>> {
    let key = "multi_slots";
    let lists = hyper.get_sizes(key, &[])?;
    match lists.iter().find(|&&slot| slot >= slots) {
        Some(slot) => Err(hyper.refuse(
            key,
            format!(
                "names slot {slot}, and there are {} (`sparse_inputs_slots` counts the label)",
                slots - 1
            ),
        )),
        None => Ok(lists),
    }
}

/// How PaddleRec's factorisation models start: a truncated normal of `0.1 / sqrt(width)`.
pub(super) fn factor_initial(width: usize) -> Initializer {
    Initializer::truncated_normal(0.0, 0.1 / (width as f32).sqrt())
}
