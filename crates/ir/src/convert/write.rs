//! Program to messages.

use prost::Message;

use super::{attr, callstack};
use crate::proto::{
    BlockDesc, LodTensorDesc, OpDesc, OpDescVar, OpVersion, OpVersionMap, OpVersionPair,
    ProgramDesc, TensorDesc, VarDesc, VarType, Version,
};
use crate::{Block, Op, Program, Slots, Var, VarKind};

pub(super) fn program(program: &Program) -> Vec<u8> {
    let pairs = program.op_versions.iter().map(|(op, version)| OpVersionPair {
        op_name: op.clone(),
        op_version: OpVersion { version: *version },
    });
    let versions = OpVersionMap { pair: pairs.collect() };
    ProgramDesc {
        blocks: program.blocks.iter().map(|b| block(b).encode_to_vec()).collect(),
        version: Some(Version { version: Some(program.version) }),
        op_version_map: (!versions.pair.is_empty()).then(|| versions.encode_to_vec()),
    }
    .encode_to_vec()
}

fn block(block: &Block) -> BlockDesc {
    BlockDesc {
        idx: index(Some(block.idx)),
        parent_idx: index(block.parent),
        vars: block.vars.values().map(|v| var(v).encode_to_vec()).collect(),
        ops: block.ops.iter().map(|o| op(o).encode_to_vec()).collect(),
        forward_block_idx: block.forward.map(|forward| index(Some(forward))),
    }
}

/// The number of a block; -1 for none.
fn index(idx: Option<usize>) -> i32 {
    idx.map_or(-1, |idx| i32::try_from(idx).expect("a program has fewer than 2**31 blocks"))
}

fn var(var: &Var) -> VarDesc {
    let tensor = || TensorDesc { data_type: var.dtype.code(), dims: var.shape.clone() };
    let lod_tensor = || LodTensorDesc {
        tensor: tensor(),
        lod_level: Some(i32::try_from(var.lod_level).unwrap_or(i32::MAX)),
    };
    VarDesc {
        name: var.name.clone(),
        r#type: VarType {
            r#type: var.kind.code(),
            selected_rows: (var.kind == VarKind::SelectedRows).then(tensor),
            lod_tensor: (var.kind == VarKind::LodTensor).then(lod_tensor),
            tensor_array: (var.kind == VarKind::LodTensorArray).then(lod_tensor),
        },
        persistable: Some(var.persistable),
        need_check_feed: Some(var.need_check_feed),
        is_parameter: Some(var.is_parameter()),
        stop_gradient: Some(var.stop_gradient),
    }
}

fn op(op: &Op) -> OpDesc {
    let mut attrs: Vec<Vec<u8>> =
        op.attrs.iter().map(|(name, value)| attr::write(name, value).encode_to_vec()).collect();
    if let (Some(site), false) = (&op.site, op.attrs.contains_key(callstack::ATTR)) {
        attrs.push(callstack::write(site).encode_to_vec());
    }
    OpDesc {
        inputs: slots(&op.inputs),
        outputs: slots(&op.outputs),
        r#type: op.kind.clone(),
        attrs,
        is_target: op.is_target.then_some(true),
    }
}

/// Messages of type [`OpDescVar`].
fn slots(slots: &Slots) -> Vec<Vec<u8>> {
    let slot = |(slot, vars): (&String, &Vec<String>)| OpDescVar {
        parameter: slot.clone(),
        arguments: vars.clone(),
    };
    slots.iter().map(|entry| slot(entry).encode_to_vec()).collect()
}
