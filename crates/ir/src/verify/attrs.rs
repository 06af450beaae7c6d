//! Attributes that a program may give any op.

/// Names that `verify` accepts on every op, whether its signature lists them or not.
///
/// The first group is what Paddle gives every op. The rest are what Paddle 2.6 calls "extra"
/// attributes: hints for a library, a quantiser or a server that do not change what an op
/// computes. They are in every saved program (`paddle.base.core.get_op_extra_attrs(type)` lists
/// them by op type). Extra attributes that do change a result (`is_sparse`, `seed`, `threshold`,
/// `beta`) are not here: an op that has them lists them.
pub const COMMON_ATTRS: &[&str] = &[
    // Of every op.
    "op_callstack",
    "op_device",
    "op_namescope",
    "op_role",
    "op_role_var",
    "with_quant_attr",
    // Choice of library and its tuning.
    "deterministic",
    "exhaustive_search",
    "force_fp32_output",
    "fuse_activation",
    "fuse_alpha",
    "fuse_beta",
    "fuse_relu",
    "fuse_relu_before_depthwise_conv",
    "fuse_residual_connection",
    "fuse_with_relu",
    "mkldnn_data_type",
    "rng_name",
    "use_addto",
    "use_cudnn",
    "use_mkldnn",
    "workspace_size_MB",
    // Layouts that only those libraries look at.
    "data_format",
    "x_data_format",
    "y_data_format",
    // Quantisation.
    "Scale_in",
    "Scale_in_eltwise",
    "Scale_out",
    "Scale_weights",
    "Scale_x",
    "Scale_y",
    "out_threshold",
    "quantization_type",
    "scale_out",
    "scale_x",
    "scale_y",
    "use_quantizer",
    // Tables on servers, as ops carried them before servers had op types of their own.
    "epmap",
    "height_sections",
    "remote_prefetch",
    "slot",
    "table_names",
    "trainer_id",
    // Set on all ops of an inference program; means something only to ops that list it.
    "is_test",
    // Memory of control flow.
    "skip_eager_deletion_vars",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_listed_twice() {
        let mut names = COMMON_ATTRS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COMMON_ATTRS.len());
    }
}
