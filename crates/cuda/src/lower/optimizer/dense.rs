//! Steps of whole tensors.

use bireme_ir::DType;
use bytemuck::Zeroable;

use super::super::lowering::suffix;
use super::super::{Lowering, Outcome};
use super::target::{Extent, Rule, Target};
use crate::work::Many;

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
        let launch = launch.value(targets.len() as u32);
        if !alone || targets[0].dtype != DType::F32 {
            launch.launch();
            continue;
        }
        launch
            .many(Many {
                name: format!("update_many_{}_f32", rule.name),
                targets: 1,
                room: 1,
                most: MANY,
                block_word: Some(Extent::BLOCK_WORD),
            })
            .launch();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bireme_engine::op::OpView;
    use bireme_ir::Op;

    use super::*;
    use crate::work::{Arg, Base, Ref, Work};

    #[test]
    fn many_tensors_share_launches() {
        let op = Op::new("sgd");
        let view = OpView::new(&op).unwrap();
        let mut cx = Lowering::new(&view, &[], &mut []);
        let rule = Rule {
            name: "sgd",
            state: &[],
            powers: &[],
            before: [Ref::NULL; 2],
            attributes: [0.0; 6],
            keeps_rows: true,
        };
        let place = Ref::of(Base::Scratch);
        let target = Target {
            dtype: DType::F32,
            count: 2000,
            width: 10,
            param: [place; 2],
            grad: place,
            index: Ref::NULL,
            state: Vec::new(),
            pitches: vec![10],
            numbers: [place, Ref::NULL, Ref::NULL],
            doubles: 0,
        };
        assert!(update_many(&mut cx, &rule, &vec![target; MANY + 6]).is_ok());
        let work = cx.finish().work;
        for (work, blocks) in work.iter().zip([2 * MANY as u32, 2 * 6]) {
            let Work::Kernel { name, blocks: launched, args, .. } = work else {
                panic!("{work:?}")
            };
            assert_eq!((name.as_str(), launched[0]), ("update_many_sgd_f32", blocks));
            let [Arg::Refs(places), Arg::Value(extents), Arg::Value(_)] = args.as_slice() else {
                panic!("{args:?}")
            };
            assert_eq!((places.len(), extents.len()), (9 * MANY, 80 * MANY));
        }
        assert_eq!(work.len(), 2);
    }
}
