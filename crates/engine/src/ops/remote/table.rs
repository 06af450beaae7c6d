//! What the ops of a remote table have in common: its attributes, and ids as the servers count them.

use super::{ENDPOINTS, HETER, MODE, TRAINER_ID, TRAINERS};
use crate::ops::prelude::*;
use crate::remote::{RowSpread, TableRef};

pub(super) const ATTRS: &[AttrSpec] = &[
    attr::strings("table_names", &[]),
    ENDPOINTS,
    attr::longs("height_sections", &[]),
    attr::long("shard_num", 1000),
    attr::long("padding_idx", NO_PADDING),
    attr::str("lookup_table_version", "lookup_table_v2"),
    attr::int("dtype", DType::F32.code()),
    attr::bool("is_test", false),
    attr::bool("is_distributed", false),
    attr::strings("slots", &[]),
    TRAINER_ID,
    TRAINERS,
    HETER,
    MODE,
];

/// The `padding_idx` of a table without padding.
const NO_PADDING: i64 = -1;

/// The table that an op's attributes describe; `width` is known when the op first runs.
pub(super) fn reference(op: &OpView<'_>) -> Result<TableRef> {
    let (endpoints, names) = (op.strings("endpoints")?, op.strings("table_names")?);
    let sections = op.longs("height_sections")?;
    let name = op.op.inputs_of("W").first().cloned().unwrap_or_default();
    if names.len() != endpoints.len() {
        return Err(Error::kernel(format!(
            "table `{name}`: {} names in `table_names` for {} servers",
            names.len(),
            endpoints.len()
        )));
    }
    let spread = if sections.is_empty() {
        RowSpread::Keys { shards: positive("shard_num", op.i64("shard_num")?)? }
    } else if sections.len() == endpoints.len() {
        let rows = |rows: &i64| positive("height_sections", *rows);
        RowSpread::Sections(sections.iter().map(rows).collect::<Result<_>>()?)
    } else {
        return Err(Error::kernel(format!(
            "table `{name}`: {} sections for {} servers",
            sections.len(),
            endpoints.len()
        )));
    };
    let padding = Some(op.i64("padding_idx")?).filter(|id| *id != NO_PADDING);
    Ok(TableRef { name, width: 0, padding, spread, endpoints, names })
}

fn positive(name: &str, value: i64) -> Result<u64> {
    let given = u64::try_from(value).ok().filter(|value| *value > 0);
    given.ok_or_else(|| Error::kernel(format!("`{name}` must be positive, not {value}")))
}

/// Ids of several lookups as 64-bit numbers, converted where they are not.
#[derive(Default)]
pub(super) struct Ids {
    converted: Vec<Vec<i64>>,
}

impl Ids {
    /// The ids that `inputs` hold.
    pub(super) fn read<'a>(&'a mut self, run: &Run<'a>, inputs: &[In]) -> Result<Vec<&'a [i64]>> {
        self.converted.resize_with(inputs.len(), Vec::new);
        let mut all = Vec::with_capacity(inputs.len());
        for (input, converted) in inputs.iter().zip(&mut self.converted) {
            let ids = run.tensor(*input)?;
            match ids.dtype() {
                DType::I64 => all.push(ids.as_slice::<i64>()?),
                DType::I32 => {
                    converted.clear();
                    converted.extend(ids.as_slice::<i32>()?.iter().map(|id| i64::from(*id)));
                    all.push(converted.as_slice());
                }
                other => {
                    return Err(Error::kernel(format!("ids are int64 or int32, not {other}")));
                }
            }
        }
        Ok(all)
    }
}
