//! What the models of Criteo's data share: a label, slots of one id each, dense features, and one
//! embedding table for all slots.

use bireme_data::Slot;
use bireme_data::parse::SlotValueOptions;
use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Embedding, ParamAttr};

use super::{Format, Hyper, Metric, Model};
use crate::Result;

const LABEL: &str = "label";
const DENSE: &str = "dense_input";

/// The inputs of a click model.
#[derive(Debug)]
pub(super) struct Clicks {
    /// What the model is built in.
    pub(super) graph: Graph,
    /// 1 for a click, `[batch, 1]`.
    pub(super) label: Variable,
    /// The id of each slot, `[batch, 1]` each.
    pub(super) ids: Vec<Variable>,
    /// The dense features, `[batch, dense]`.
    pub(super) dense: Variable,
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
        let dense = hyper.get_size("dense_input_dim", 13)?;
        let distributed = hyper.get_usize("distributed_embedding", 0)? == 1;
        let graph = Graph::new();
        let label = layers::data(&graph, LABEL, [1], DType::I64);
        let slot = |slot: usize| layers::data(&graph, &format!("{prefix}{slot}"), [1], DType::I64);
        let ids = (1..slots).map(slot).collect();
        let dense = layers::data(&graph, DENSE, [dense as i64], DType::F32);
        Ok(Clicks { graph, label, ids, dense, rows, width, distributed, padded: false })
    }

    /// Takes id 0 for no id.
    pub(super) fn padded(mut self) -> Clicks {
        self.padded = true;
        self
    }

    /// Slots of ids and dense features together: the fields that models relate with each other.
    pub(super) fn fields(&self) -> usize {
        self.ids.len() + self.dense_width()
    }

    /// How many dense features there are.
    pub(super) fn dense_width(&self) -> usize {
        self.dense.shape()[1] as usize
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

    /// The ids of all slots side by side, `[batch, slots]`.
    pub(super) fn all_ids(&self) -> Result<Variable> {
        Ok(layers::concat(&self.ids.iter().collect::<Vec<_>>(), 1)?)
    }

    /// The embedding of each slot, looked up slot by slot in one table.
    pub(super) fn embed_each(&self, attr: ParamAttr) -> Result<Vec<Variable>> {
        let table = self.table(self.width, attr);
        let embed =
            |ids: &Variable| Ok(layers::reshape(&table.apply(ids)?, &[-1, self.width as i32])?);
        self.ids.iter().map(embed).collect()
    }

    /// The embeddings of all slots, `[batch, slots, width]`.
    pub(super) fn embed(&self, width: usize, attr: ParamAttr) -> Result<Variable> {
        Ok(self.table(width, attr).apply(&self.all_ids()?)?)
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
        let shape = [1, self.dense_width() as i64, width as i64];
        let vectors = self.parameter("dense_w", shape.to_vec(), dense)?;
        let dense = layers::elementwise_mul(&layers::unsqueeze(&self.dense, &[2])?, &vectors)?;
        Ok(layers::concat(&[&ids, &dense], 1)?)
    }

    /// The linear part of a model, `[batch, 1]`: a weight for each id and one for each dense
    /// feature.
    pub(super) fn linear(&self, ids: ParamAttr, dense: &Initializer) -> Result<Variable> {
        let ids = layers::reduce_sum(&self.embed(1, ids)?, &[1], false)?;
        Ok(layers::elementwise_add(&ids, &self.dense_linear(dense)?)?)
    }

    /// The linear part of the dense features alone, `[batch, 1]`.
    pub(super) fn dense_linear(&self, initial: &Initializer) -> Result<Variable> {
        let shape = vec![self.dense_width() as i64, 1];
        let weights = self.parameter("dense_w_one", shape, initial)?;
        Ok(layers::matmul(&self.dense, &weights)?)
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
        let ids = names.iter().map(Slot::id);
        let dense = Slot::floats(DENSE, self.dense_width());
        let slots = [Slot::id(LABEL)].into_iter().chain(ids).chain([dense]).collect();
        let numbers = (1..=names.len()).map(|slot| slot.to_string());
        let tokens = ["click".to_owned()].into_iter().chain(numbers);
        let tokens = tokens.chain(["dense_feature".to_owned()]).collect();
        let inference_feeds = names.into_iter().chain([DENSE.to_owned()]).collect();
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
        let loss = layers::mean(&head.losses)?;
        Ok(self.finish(loss, head.prediction, head.auc))
    }
}

/// How PaddleRec's factorisation models start: a truncated normal of `0.1 / sqrt(width)`.
pub(super) fn factor_initial(width: usize) -> Initializer {
    Initializer::truncated_normal(0.0, 0.1 / (width as f32).sqrt())
}
