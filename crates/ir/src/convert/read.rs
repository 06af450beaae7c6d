//! Messages to program. Checks what the rest of the crate relies on: blocks are numbered in
//! order, parents come first, names are unique.

use super::{MAX_BLOCKS, MAX_PARTS, attr, bad, callstack, decode};
use crate::proto::{
    BlockDesc, LodTensorDesc, OpDesc, OpDescAttr, OpDescVar, OpVersionMap, ProgramDesc, TensorDesc,
    VarDesc,
};
use crate::{Attr, Block, DType, Op, Param, Program, Result, Slots, Var, VarKind};

pub(super) fn program(bytes: &[u8]) -> Result<Program> {
    let desc: ProgramDesc = decode(bytes, &|| "program".to_owned())?;
    if desc.blocks.is_empty() {
        return bad("program", "it has no blocks");
    }
    if desc.blocks.len() > MAX_BLOCKS {
        let count = desc.blocks.len();
        return bad("program", format!("{count} blocks are more than {MAX_BLOCKS}"));
    }
    let (mut blocks, mut parts) = (Vec::new(), 0);
    for (idx, bytes) in desc.blocks.iter().enumerate() {
        let block = block(idx, bytes)?;
        parts += block.vars.len() + block.ops.len();
        if parts > MAX_PARTS {
            return bad("program", format!("it has more than {MAX_PARTS} variables and ops"));
        }
        blocks.push(block);
    }
    let versions = desc.op_version_map.unwrap_or_default();
    let versions: OpVersionMap = decode(&versions, &|| "versions of ops".to_owned())?;
    Ok(Program {
        blocks: blocks.into(),
        version: desc.version.and_then(|version| version.version).unwrap_or(0),
        op_versions: versions
            .pair
            .into_iter()
            .map(|pair| (pair.op_name, pair.op_version.version))
            .collect(),
        random_seed: 0,
    })
}

fn block(idx: usize, bytes: &[u8]) -> Result<Block> {
    let place = || format!("block {idx}");
    let desc: BlockDesc = decode(bytes, &place)?;
    if usize::try_from(desc.idx) != Ok(idx) {
        return bad(place(), format!("it calls itself block {}", desc.idx));
    }
    let mut block = Block::new(idx, earlier(desc.parent_idx, idx)?);
    block.forward = earlier(desc.forward_block_idx(), idx)?;
    for (at, bytes) in desc.vars.iter().enumerate() {
        let var = var(bytes, &|| format!("variable {at} of block {idx}"))?;
        if block.vars.contains_key(&var.name) {
            return bad(place(), format!("variable `{}` is declared twice", var.name));
        }
        block.add_var(var);
    }
    for (at, bytes) in desc.ops.iter().enumerate() {
        block.ops.push(op(bytes, &|| format!("op {at} of block {idx}"))?);
    }
    Ok(block)
}

/// The number of a block that must come before block `idx`; negative for none.
fn earlier(number: i32, idx: usize) -> Result<Option<usize>> {
    match usize::try_from(number) {
        Err(_) => Ok(None),
        Ok(number) if number < idx => Ok(Some(number)),
        Ok(number) => bad(
            format!("block {idx}"),
            format!("its parent or forward block {number} does not come before it"),
        ),
    }
}

fn var(bytes: &[u8], place: &dyn Fn() -> String) -> Result<Var> {
    let desc: VarDesc = decode(bytes, place)?;
    if desc.name.is_empty() {
        return bad(place(), "it has no name");
    }
    let problem = |problem: String| bad(format!("variable `{}`", desc.name), problem);
    let code = desc.r#type.r#type;
    let Some(kind) = VarKind::from_code(code) else {
        return problem(format!("variables of type number {code} are not supported"));
    };
    let (tensor, lod_level) = tensor_of(&desc, kind);
    let dtype = match tensor {
        // Paddle too takes single precision where a description is missing.
        None => DType::F32,
        Some(tensor) => match DType::from_code(tensor.data_type) {
            Some(dtype) => dtype,
            None => {
                let code = tensor.data_type;
                return problem(format!("elements of type number {code} are not supported"));
            }
        },
    };
    let Ok(lod_level) = u32::try_from(lod_level) else {
        return problem(format!("it has {lod_level} levels of raggedness"));
    };
    let stop_gradient = desc.stop_gradient();
    let param = Param { trainable: !stop_gradient, ..Param::default() };
    Ok(Var {
        kind,
        dtype,
        shape: tensor.map_or_else(Vec::new, |tensor| tensor.dims.clone()),
        lod_level,
        persistable: desc.persistable(),
        stop_gradient,
        need_check_feed: desc.need_check_feed(),
        param: desc.is_parameter().then_some(param),
        name: desc.name,
    })
}

/// The description of the tensor in a variable, and its LoD level.
fn tensor_of(desc: &VarDesc, kind: VarKind) -> (Option<&TensorDesc>, i32) {
    let of = |desc: &'_ Option<LodTensorDesc>| desc.as_ref().map_or(0, LodTensorDesc::lod_level);
    let r#type = &desc.r#type;
    match kind {
        VarKind::SelectedRows => (r#type.selected_rows.as_ref(), 0),
        VarKind::LodTensorArray => {
            let level = of(&r#type.tensor_array);
            (r#type.tensor_array.as_ref().map(|array| &array.tensor), level)
        }
        VarKind::LodTensor => {
            let level = of(&r#type.lod_tensor);
            (r#type.lod_tensor.as_ref().map(|tensor| &tensor.tensor), level)
        }
        _ => (None, 0),
    }
}

fn op(bytes: &[u8], place: &dyn Fn() -> String) -> Result<Op> {
    let desc: OpDesc = decode(bytes, place)?;
    if desc.r#type.is_empty() {
        return bad(place(), "it has no type");
    }
    let place = || format!("{} (`{}`)", place(), desc.r#type);
    let is_target = desc.is_target();
    let mut op = Op { is_target, ..Op::new(desc.r#type.as_str()) };
    op.inputs = slots(&desc.inputs, &place)?;
    op.outputs = slots(&desc.outputs, &place)?;
    for bytes in &desc.attrs {
        let mut desc: OpDescAttr = decode(bytes, &place)?;
        let name = std::mem::take(&mut desc.name);
        let value = attr::read(desc, &|| format!("attribute `{name}` of {}", place()))?;
        match value {
            Attr::Strings(lines) if name == callstack::ATTR => op.site = callstack::read(&lines),
            value => {
                if op.attrs.insert(name.clone(), value).is_some() {
                    return bad(place(), format!("attribute `{name}` is given twice"));
                }
            }
        }
    }
    Ok(op)
}

fn slots(descs: &[Vec<u8>], place: &dyn Fn() -> String) -> Result<Slots> {
    let mut slots = Slots::new();
    for bytes in descs {
        let desc: OpDescVar = decode(bytes, place)?;
        if slots.contains_key(&desc.parameter) {
            return bad(place(), format!("slot `{}` is given twice", desc.parameter));
        }
        slots.insert(desc.parameter, desc.arguments);
    }
    Ok(slots)
}
