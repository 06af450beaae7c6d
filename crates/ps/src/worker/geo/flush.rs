//! The last exchange of a geo trainer: what it learned since the last one, read from its scope.

use bireme_engine::Scope;
use bireme_engine::remote::{GeoParam, Piece};
use bireme_engine::tensor::Tensor;
use bireme_ir::{Attr, Op, Program};

use super::Geo;
use crate::{Error, Result};

/// A parameter as its `geo_exchange` op describes it.
struct Described {
    name: String,
    value: Tensor,
    pieces: Vec<(Piece, u64)>,
    is_table: bool,
}

impl Geo {
    /// Exchanges what the variables of `scope` hold now, for the `geo_exchange` ops of `program`.
    pub(crate) fn flush_scope(&self, program: &Program, scope: &Scope, step: u64) -> Result<()> {
        let ops = program.blocks.iter().flat_map(|block| &block.ops);
        for op in ops.filter(|op| op.kind == "geo_exchange") {
            let mut params = describe(op, scope)?;
            let none: &[&[i64]] = &[];
            let mut exchanged: Vec<GeoParam<'_>> = params
                .iter_mut()
                .map(|param| GeoParam {
                    pieces: &param.pieces,
                    value: &mut param.value,
                    touched: param.is_table.then_some(none),
                })
                .collect();
            self.flush(&mut exchanged, step)?;
            for param in &params {
                scope.try_set(&param.name, &param.value)?;
            }
        }
        Ok(())
    }
}

fn describe(op: &Op, scope: &Scope) -> Result<Vec<Described>> {
    let wrong = |name: &str| {
        let name = name.to_owned();
        move || Error::Config(format!("op `geo_exchange`: attribute `{name}` does not fit"))
    };
    let strings = |name: &str| match op.attrs.get(name) {
        Some(Attr::Strings(values)) => values.as_slice(),
        _ => &[],
    };
    let numbers = |name: &str| match op.attrs.get(name) {
        Some(Attr::Ints(values)) => values.iter().map(|value| i64::from(*value)).collect(),
        Some(Attr::Longs(values)) => values.clone(),
        _ => Vec::new(),
    };
    let (counts, ids) = (numbers("pieces_per_param"), numbers("ids_per_param"));
    let pieces = strings("piece_names").iter().zip(strings("epmap")).zip(numbers("sections"));
    let mut pieces = pieces.map(|((name, endpoint), count)| {
        let piece = Piece { name: name.clone(), endpoint: endpoint.clone() };
        (piece, u64::try_from(count).unwrap_or(0))
    });
    let mut params = Vec::new();
    for (at, name) in op.inputs_of("Param").iter().enumerate() {
        let count = counts.get(at).and_then(|count| usize::try_from(*count).ok());
        let count = count.ok_or_else(wrong("pieces_per_param"))?;
        let own: Vec<_> = pieces.by_ref().take(count).collect();
        if own.len() != count {
            return Err(wrong("piece_names")());
        }
        let is_table = *ids.get(at).ok_or_else(wrong("ids_per_param"))? >= 0;
        let value = scope.get(name)?;
        params.push(Described { name: name.clone(), value, pieces: own, is_table });
    }
    Ok(params)
}
