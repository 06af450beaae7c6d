//! Attributes that a program may give any op.

use crate::Attr;

/// Names that `verify` accepts on every op, whether its signature lists them or not.
///
/// The first group is what Paddle gives every op. The rest are what Paddle 2.6 calls "extra"
/// attributes: hints for a library, a quantiser or a server that do not change what an op
/// computes. They are in every saved program (`paddle.base.core.get_op_extra_attrs(type)` lists
/// them by op type). Those that would change a result ask for a fusion or a quantisation that only
/// some libraries of Paddle do: they must have the value that asks for nothing. Extra attributes that
/// ops understand (`is_sparse`, `seed`, `threshold`, `beta`) are not here: an op that has them lists
/// them.
pub const COMMON_ATTRS: &[&str] = &[
    // Of every op.
    "op_callstack",
    "op_device",
    "op_namescope",
    "op_role",
    "op_role_var",
    "with_quant_attr",
    // Of our own ops that talk to servers: what processes of a job compare.
    "fingerprint",
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

/// A value that leaves an op's result alone.
enum Neutral {
    False,
    Text(&'static [&'static str]),
    /// Of a factor, or of each of a list.
    One,
}

const NEUTRAL: &[(&str, Neutral)] = &[
    ("force_fp32_output", Neutral::False),
    ("fuse_activation", Neutral::Text(&[""])),
    ("fuse_relu", Neutral::False),
    ("fuse_relu_before_depthwise_conv", Neutral::False),
    ("fuse_residual_connection", Neutral::False),
    ("fuse_with_relu", Neutral::False),
    ("mkldnn_data_type", Neutral::Text(&["", "float32"])),
    ("Scale_in", Neutral::One),
    ("Scale_in_eltwise", Neutral::One),
    ("Scale_out", Neutral::One),
    ("Scale_weights", Neutral::One),
    ("Scale_x", Neutral::One),
    ("Scale_y", Neutral::One),
    ("scale_out", Neutral::One),
    ("scale_x", Neutral::One),
    ("scale_y", Neutral::One),
    ("use_quantizer", Neutral::False),
    ("remote_prefetch", Neutral::False),
];

/// Whether this value of a common attribute leaves the result of an op that does not list it alone.
pub(super) fn is_harmless(name: &str, value: &Attr) -> bool {
    let Some((_, neutral)) = NEUTRAL.iter().find(|(known, _)| *known == name) else {
        return true;
    };
    match (neutral, value) {
        (Neutral::False, Attr::Bool(value)) => !value,
        (Neutral::False, Attr::Int(value)) => *value == 0,
        (Neutral::Text(texts), Attr::String(value)) => texts.contains(&value.as_str()),
        (Neutral::One, Attr::Float(value)) => *value == 1.0,
        (Neutral::One, Attr::Float64(value)) => *value == 1.0,
        (Neutral::One, Attr::Int(value)) => *value == 1,
        (Neutral::One, Attr::Floats(values)) => values.iter().all(|value| *value == 1.0),
        (Neutral::One, Attr::Float64s(values)) => values.iter().all(|value| *value == 1.0),
        // An empty list loses its type in some of Paddle's files.
        (Neutral::One, Attr::Ints(values)) => values.iter().all(|value| *value == 1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_neutral_value_is_of_a_common_attribute() {
        for (name, _) in NEUTRAL {
            assert!(COMMON_ATTRS.contains(name), "{name}");
        }
    }

    #[test]
    fn only_neutral_values_are_harmless() {
        assert!(is_harmless("fuse_with_relu", &false.into()));
        assert!(!is_harmless("fuse_with_relu", &true.into()));
        assert!(is_harmless("fuse_activation", &"".into()));
        assert!(!is_harmless("fuse_activation", &"relu".into()));
        assert!(is_harmless("Scale_weights", &vec![1.0f32].into()));
        assert!(!is_harmless("Scale_weights", &vec![1.0f32, 0.5].into()));
        assert!(!is_harmless("scale_x", &"1".into()));
        assert!(is_harmless("use_cudnn", &true.into()));
    }

    #[test]
    fn no_name_is_listed_twice() {
        let mut names = COMMON_ATTRS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COMMON_ATTRS.len());
    }
}
