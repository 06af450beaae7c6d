//! Checks a role's program: known ops, declared variables, order, shapes, sub-blocks.

use bireme_engine::catalog::Ops;
use bireme_ir::{
    AttrDefault, AttrKind, AttrSpec, Catalog, Op, Program, Signature, Slot, Var, verify,
};

/// The engine's ops, and those that only talk to servers.
struct Remote;

const fn attr(name: &'static str, kind: AttrKind) -> AttrSpec {
    AttrSpec { name, default: AttrDefault::Absent(kind) }
}

const X: Slot = Slot::any("X");
const OUT: Slot = Slot::any("Out");

/// Every attribute of the remote ops; which op has which is the goldens' business.
const ATTRS: &[AttrSpec] = &[
    attr("accessor", AttrKind::String),
    attr("assigned_vars", AttrKind::Strings),
    attr("dc_asgd", AttrKind::Bool),
    attr("dc_asgd_lambda", AttrKind::Float),
    attr("distributed_mode", AttrKind::Int),
    attr("dtype", AttrKind::Int),
    attr("endpoint", AttrKind::String),
    attr("endpoints", AttrKind::Strings),
    attr("entry", AttrKind::String),
    attr("epmap", AttrKind::Strings),
    attr("Fanin", AttrKind::Int),
    attr("grad_to_block_id", AttrKind::Strings),
    attr("half_async", AttrKind::Bool),
    attr("height_sections", AttrKind::Longs),
    attr("ids_per_param", AttrKind::Ints),
    attr("learning_rate_factor", AttrKind::Float),
    attr("lookup_table_version", AttrKind::String),
    attr("lr_counters", AttrKind::Strings),
    attr("lr_decay_block_id", AttrKind::Int),
    attr("merge_add", AttrKind::Bool),
    attr("optimize_blocks", AttrKind::Blocks),
    attr("padding_idx", AttrKind::Long),
    attr("piece_names", AttrKind::Strings),
    attr("pieces_per_param", AttrKind::Ints),
    attr("pserver_id", AttrKind::Int),
    attr("push_nums", AttrKind::Int),
    attr("recv_varnames", AttrKind::Strings),
    attr("rpc_get_thread_num", AttrKind::Int),
    attr("rpc_prefetch_thread_num", AttrKind::Int),
    attr("rpc_send_thread_num", AttrKind::Int),
    attr("sections", AttrKind::Longs),
    attr("send_varnames", AttrKind::Strings),
    attr("shape", AttrKind::Longs),
    attr("shard_num", AttrKind::Long),
    attr("sparse_grad_to_param", AttrKind::Strings),
    attr("sparse_tables", AttrKind::Strings),
    attr("staleness", AttrKind::Int),
    attr("state_names", AttrKind::Strings),
    attr("state_values", AttrKind::Floats),
    attr("table_class", AttrKind::String),
    attr("trainer_id", AttrKind::Int),
    attr("trainers", AttrKind::Int),
    attr("use_send_handler", AttrKind::Bool),
    attr("varnames", AttrKind::Strings),
];

const TABLE: &[Slot] = &[
    Slot::many("Ids"),
    Slot::one("W"),
    Slot::any("Outputs@GRAD"),
    Slot::maybe("Shows"),
    Slot::maybe("Clicks"),
];
const ROWS: &[Slot] = &[Slot::many("Outputs")];
const RECEIVED: &[Slot] = &[OUT, Slot::maybe("Dummy")];
const PARAMS: &[Slot] = &[Slot::many("Param"), Slot::any("Ids")];
const PARAMS_OUT: &[Slot] = &[Slot::many("ParamOut")];
const WEIGHT: &[Slot] = &[Slot::one("W")];

fn slots(kind: &str) -> Option<(&'static [Slot], &'static [Slot])> {
    Some(match kind {
        "send" | "send_barrier" | "fetch_barrier" | "split_byref" | "split_selected_rows" => {
            (&[X], &[OUT])
        }
        "recv" => (&[X], RECEIVED),
        "fake_init" => (&[], &[OUT]),
        "distributed_lookup_table" => (TABLE, ROWS),
        "distributed_push_sparse" => (TABLE, &[]),
        "geo_exchange" => (PARAMS, PARAMS_OUT),
        "listen_and_serv" => (&[X], &[]),
        "lookup_sparse_table" => (WEIGHT, &[]),
        _ => return None,
    })
}

impl Catalog for Remote {
    fn signature(&self, kind: &str) -> Option<Signature> {
        if let Some((inputs, outputs)) = slots(kind) {
            return Some(Signature { inputs, outputs, attrs: ATTRS });
        }
        Ops.signature(kind)
    }

    fn kinds(&self) -> Vec<&'static str> {
        Ops.kinds()
    }

    fn infer<'v>(
        &self,
        op: &Op,
        find: &dyn Fn(&str) -> Option<&'v Var>,
    ) -> bireme_ir::Result<Vec<Var>> {
        if slots(&op.kind).is_some() { Ok(Vec::new()) } else { Ops.infer(op, find) }
    }
}

/// Fails when something about `program` is broken.
pub(crate) fn check(program: &Program) {
    let mut program = program.clone();
    for op in program.blocks.iter_mut().flat_map(|block| &mut block.ops) {
        // Kept apart here, so that these tests hold with any version of the random ops.
        op.attrs.remove("init_name");
        op.attrs.remove("init_offset");
    }
    if let Err(error) = verify(&program, &Remote) {
        panic!("{error}\n{program}");
    }
    let text = program.to_string();
    assert_eq!(Program::parse(&text).unwrap().to_string(), text);
}
