//! `geo_exchange`: the last op of a geo trainer's step. The trainer's own copies of the parameters
//! are compared with what the servers have, every few steps, and corrected in place.

use super::table::Ids;
use super::{ENDPOINTS, EPMAP, MODE, TRAINER_ID, TRAINERS, pieces};
use crate::ops::prelude::*;
use crate::remote::{GeoParam, Piece};

pub(super) const DEF: OpDef = OpDef::new("geo_exchange", kernel)
    .inputs(&[Slot::many("Param"), Slot::any("Ids")])
    .outputs(&[Slot::many("ParamOut")])
    .attrs(&[
        attr::strings("piece_names", &[]),
        EPMAP,
        ENDPOINTS,
        attr::longs("sections", &[]),
        attr::ints("pieces_per_param", &[]),
        attr::ints("ids_per_param", &[]),
        attr::int("geo_steps", 100),
        TRAINER_ID,
        TRAINERS,
        MODE,
    ])
    .like(&[("ParamOut", "Param")])
    .inplace(&[("Param", "ParamOut")])
    .shared(&["Param", "ParamOut"])
    .side_effect();

/// Where a parameter's pieces are, and how many variables of `Ids` belong to it.
struct Place {
    pieces: Vec<(Piece, u64)>,
    ids: Option<usize>,
}

/// The places of the parameters.
fn layout(op: &OpView<'_>, params: usize) -> Result<Vec<Place>> {
    let (counts, ids) = (op.longs("pieces_per_param")?, op.longs("ids_per_param")?);
    let sections = op.longs("sections")?;
    let mut pieces = pieces(op, "piece_names", sections.len())?.into_iter().zip(sections);
    if counts.len() != params || ids.len() != params {
        let problem = "`pieces_per_param` and `ids_per_param` need a number for each parameter";
        return Err(Error::kernel(problem));
    }
    let mut layout = Vec::with_capacity(params);
    for (count, ids) in counts.into_iter().zip(ids) {
        let count = usize::try_from(count).unwrap_or(0);
        let own: Vec<_> =
            pieces.by_ref().take(count).map(|(p, n)| (p, u64::try_from(n).unwrap_or(0))).collect();
        if own.len() != count || count == 0 {
            return Err(Error::kernel("`piece_names` is shorter than `pieces_per_param` says"));
        }
        layout.push(Place { pieces: own, ids: usize::try_from(ids).ok() });
    }
    Ok(layout)
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (remote, ids, mut read) = (op.remote()?, op.inputs("Ids"), Ids::default());
    let mut params = op.in_outs("Param", "ParamOut");
    let layout = layout(op, params.len())?;
    let wanted: usize = layout.iter().filter_map(|place| place.ids).sum();
    if wanted != ids.len() {
        let problem =
            format!("`ids_per_param` asks for {wanted} variables, `Ids` has {}", ids.len());
        return Err(Error::kernel(problem));
    }
    Ok(Box::new(move |run| {
        let touched = read.read(run, &ids)?;
        let mut rest = touched.as_slice();
        let mut exchanged = Vec::with_capacity(params.len());
        for (param, Place { pieces, ids }) in params.iter_mut().zip(&layout) {
            let value = run.continued(param)?;
            let touched = ids.map(|count| {
                let (own, others) = rest.split_at(count);
                rest = others;
                own
            });
            exchanged.push(GeoParam { pieces, value, touched });
        }
        remote.exchange(&mut exchanged)
    }))
}
