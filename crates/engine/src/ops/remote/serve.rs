//! Ops of a server's program. `listen_and_serv` and its blocks are read by the parameter server;
//! an executor that meets one is told what to do instead.

use super::{ENDPOINTS, HETER, MODE, TRAINERS};
use crate::ops::prelude::*;

const SERVE_ATTRS: &[AttrSpec] = &[
    attr::absent("optimize_blocks", AttrKind::Blocks),
    attr::str("endpoint", "127.0.0.1:6164"),
    ENDPOINTS,
    attr::int("pserver_id", -1),
    attr::int("Fanin", 1),
    TRAINERS,
    HETER,
    MODE,
    attr::strings("grad_to_block_id", &[]),
    attr::strings("sparse_grad_to_param", &[]),
    attr::strings("sparse_tables", &[]),
    attr::int("lr_decay_block_id", -1),
    attr::strings("lr_counters", &[]),
    attr::strings("assigned_vars", &[]),
    attr::strings("param_pieces", &[]),
    attr::int("rpc_get_thread_num", 12),
    attr::int("rpc_send_thread_num", 12),
    attr::int("rpc_prefetch_thread_num", 12),
    attr::bool("dc_asgd", false),
    attr::float("dc_asgd_lambda", 1.0),
    attr::int("checkpint_block_id", -1),
    attr::strings("prefetch_var_name_to_block_id", &[]),
];

pub(super) const LISTEN_AND_SERV: OpDef = OpDef::new("listen_and_serv", |_| {
    Err(Error::kernel(
        "this is a parameter server's program: run it with `PsServer`, `Fleet::run_server`, or \
         the Python executor, which serve until the trainers are done",
    ))
})
.inputs(&[Slot::any("X")])
.attrs(SERVE_ATTRS)
.side_effect();

pub(super) const LOOKUP_SPARSE_TABLE: OpDef = OpDef::new("lookup_sparse_table", refuse)
    .inputs(&[Slot::any("W"), Slot::any("Ids")])
    .outputs(&[Slot::any("Out")])
    .attrs(&[
        attr::str("entry", "none"),
        attr::str("table_class", "none"),
        attr::str("accessor", ""),
        attr::long("padding_idx", -1),
        attr::long("shard_num", 1000),
        attr::float("learning_rate_factor", 1.0),
    ])
    .side_effect();

fn refuse(_: &crate::op::OpView<'_>) -> Result<crate::op::Kernel> {
    Err(Error::kernel("describes a table of a parameter server, and cannot run by itself"))
}
