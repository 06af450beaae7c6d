//! No op without a golden case, no gradient without a compared one.

use std::collections::HashSet;

use bireme_engine::op::GradRule;
use bireme_engine::ops;

use crate::case;

/// Why the ops that talk to parameter servers have no golden cases.
const REMOTE: &str = "talks to parameter servers, or describes one";

/// Why the ops of collective jobs have no golden cases.
const RANKS: &str = "talks to the other ranks of a job; see `ops/collective/tests.rs`";

/// Why ops of control flow and arrays have no golden cases.
const BLOCKS: &str =
    "of programs with blocks or arrays; see `flow/tests.rs` and `test_control_flow.py`";

/// Ops that golden cases cannot show, and why. They have tests of their own.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("assert", "has no outputs"),
    ("feed", "moves values between a program and its caller"),
    ("fetch", "moves values between a program and its caller"),
    ("print", "writes to the terminal"),
    ("cross_entropy_grad2", "the gradient of `cross_entropy2`, under a name of its own"),
    ("fused_fc", "put in by the plan, whose tests compare it with the ops it stands for"),
    ("fused_embedding_concat", "put in by the plan, like `fused_fc`"),
    ("fused_fc_weight_grad", "put in by the plan, like `fused_fc`"),
    ("fused_logit", "put in by the plan, like `fused_fc`"),
    ("fused_softmax_loss", "put in by the plan, like `fused_fc`"),
    ("fused_pack_weights", "put in by the plan, like `fused_fc`"),
    ("gaussian_random", "random: our generator is not Paddle's"),
    ("truncated_gaussian_random", "random: our generator is not Paddle's"),
    ("uniform_random", "random: our generator is not Paddle's"),
    ("uniform_random_batch_size_like", "random: our generator is not Paddle's"),
    ("randint", "random: our generator is not Paddle's"),
    ("randperm", "random: our generator is not Paddle's"),
    ("bernoulli", "random: our generator is not Paddle's"),
    ("multinomial", "random: our generator is not Paddle's"),
    ("flatten", "of older programs, no longer in Paddle 2.6"),
    ("lstm_unit", "of older programs, no longer in Paddle 2.6"),
    ("one_hot", "of older programs, no longer in Paddle 2.6"),
    ("cos_sim", "of older programs, no longer in Paddle 2.6"),
    ("pad2d", "of older programs, without a kernel in Paddle 2.6"),
    ("smooth_l1_loss", "of older programs, no longer in Paddle 2.6"),
    ("squeeze", "of older programs, no longer in Paddle 2.6"),
    ("unsqueeze", "of older programs, no longer in Paddle 2.6"),
    ("send", REMOTE),
    ("send_barrier", REMOTE),
    ("recv", REMOTE),
    ("fetch_barrier", REMOTE),
    ("distributed_lookup_table", REMOTE),
    ("distributed_push_sparse", REMOTE),
    ("geo_exchange", REMOTE),
    ("listen_and_serv", REMOTE),
    ("lookup_sparse_table", REMOTE),
    ("fake_init", REMOTE),
    ("heter_listen_and_serv", REMOTE),
    ("send_and_recv", REMOTE),
    ("alltoall", RANKS),
    ("barrier", RANKS),
    ("c_allgather", RANKS),
    ("c_allreduce_sum", RANKS),
    ("c_allreduce_prod", RANKS),
    ("c_allreduce_min", RANKS),
    ("c_allreduce_max", RANKS),
    ("c_broadcast", RANKS),
    ("c_bucket_gather", RANKS),
    ("c_bucket_spread", RANKS),
    ("c_bucket_start", RANKS),
    ("c_bucket_wait", RANKS),
    ("c_comm_init", RANKS),
    ("c_comm_init_all", RANKS),
    ("c_concat", RANKS),
    ("c_gen_nccl_id", RANKS),
    ("c_identity", RANKS),
    ("c_reduce_sum", RANKS),
    ("c_reduce_prod", RANKS),
    ("c_reduce_min", RANKS),
    ("c_reduce_max", RANKS),
    ("c_reducescatter", RANKS),
    ("c_scatter", RANKS),
    ("c_split", RANKS),
    ("c_sync_calc_stream", RANKS),
    ("c_sync_comm_stream", RANKS),
    ("c_wait_comm", RANKS),
    ("c_wait_compute", RANKS),
    ("gen_nccl_id", RANKS),
    ("recv_v2", RANKS),
    ("send_v2", RANKS),
    ("find_rows", "ours; see `ops/embedding/find_rows.rs`"),
    ("spread_rows", "ours; see `ops/embedding/spread_rows.rs`"),
    ("put_rows", "ours; see `ops/index/put_rows.rs`"),
    ("admit_rows", "ours; see `ops/records/admit_rows.rs`"),
    ("count_rows", "ours; see `ops/records/count_rows.rs`"),
    ("counts_of_rows", "ours; see `ops/records/counts_of_rows.rs`"),
    ("update_records", "ours; see `ops/records/update_records.rs`"),
    ("pass_table", REMOTE),
    ("pass_dense", REMOTE),
    ("gradient_merge", "ours; see `ops/collective/tests.rs`"),
    ("batch_fc", "a kernel for cards only in Paddle 2.6; see `ops/matmul/batch_fc.rs`"),
    (
        "fused_seqpool_cvm",
        "a kernel for cards only in Paddle 2.6; see `ops/sequence/fused_seqpool_cvm.rs`",
    ),
    ("filter_by_instag", "of older programs, no longer in Paddle 2.6"),
    ("sample_logits", "of older programs, no longer in Paddle 2.6"),
    ("rank_attention", "a kernel for cards only in Paddle 2.6; see `ops/matmul/rank_attention.rs`"),
    ("conditional_block", BLOCKS),
    ("while", BLOCKS),
    ("select_input", BLOCKS),
    ("select_output", BLOCKS),
    ("write_to_array", BLOCKS),
    ("read_from_array", BLOCKS),
    ("lod_array_length", BLOCKS),
    ("empty_array", BLOCKS),
    ("tensor_array_to_tensor", BLOCKS),
    ("split_byref", "no kernel in Paddle 2.6; a part of trainers' programs"),
    ("split_selected_rows", "no kernel in Paddle 2.6; a part of trainers' programs"),
];

#[test]
fn every_op_has_a_golden_case() {
    let cases = case::all();
    let shown: HashSet<&str> = cases.iter().map(|(_, case)| case.op.as_str()).collect();
    let with_gradient: HashSet<&str> = cases
        .iter()
        .filter(|(_, case)| !case.grads.is_empty())
        .map(|(_, case)| case.op.as_str())
        .collect();
    let mut missing = Vec::new();
    for def in ops::all() {
        let excepted = EXCEPTIONS.iter().any(|(name, _)| *name == def.name);
        if def.name.ends_with("_grad") || excepted {
            continue;
        }
        if !shown.contains(def.name) {
            missing.push(format!("op `{}` has no golden case", def.name));
        } else if !matches!(def.grad, GradRule::None) && !with_gradient.contains(def.name) {
            missing.push(format!("op `{}` has a gradient, but no golden case of it", def.name));
        }
    }
    assert!(missing.is_empty(), "add cases in tools/golden/cases:\n{}", missing.join("\n"));
}
