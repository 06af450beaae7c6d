//! Steps of whole tensors.

use bireme_ir::DType;
use bytemuck::Zeroable;

use super::super::lowering::suffix;
use super::super::{Lowering, Outcome};
use super::target::{Extent, Rule, Target};

/// Tensors of one launch, and threads of its blocks, as in `kernels/update.cu`.
const MANY: usize = 64;
const THREADS: usize = 256;
/// Bytes of each tensor that a thread takes.
const PIECE: usize = 16;

/// Updates several parameters by one rule, and all attributes of it: up to 64 of them in one launch.
pub(crate) fn update_many(cx: &mut Lowering<'_>, rule: &Rule, targets: &[Target]) -> Outcome {
    let alone = targets.len() == 1 || targets.iter().any(|target| target.dtype != DType::F32);
    for targets in targets.chunks(if alone { 1 } else { MANY }) {
        let mut extents = [Extent::zeroed(); MANY];
        let mut blocks = 0;
        for (extent, target) in extents.iter_mut().zip(targets) {
            *extent = target.extent(rule, blocks);
            let piece = THREADS * PIECE / target.dtype.size();
            blocks += target.count.div_ceil(piece) as u32;
        }
        let many = if alone { "" } else { "many_" };
        let kernel = format!("update_{many}{}_{}", rule.name, suffix(targets[0].dtype)?);
        let places: Vec<_> = targets.iter().flat_map(Target::places).collect();
        let room = places.len() / targets.len() * if alone { 1 } else { MANY };
        let launch = cx.kernel(kernel, [blocks, 1, 1], THREADS as u32).refs(places, room);
        let launch = if alone { launch.value(extents[0]) } else { launch.value(extents) };
        launch.value(targets.len() as u32).launch();
    }
    Ok(())
}
