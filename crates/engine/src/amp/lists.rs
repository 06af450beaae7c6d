//! Which ops compute with 16 bits: Paddle's lists, and what users add to them.

use std::collections::BTreeSet;

use crate::{Error, Result};

/// Fast with 16 bits, and safe: always computed so. They are products, which are summed in 32 bits.
const WHITE: &[&str] =
    &["bmm", "conv2d", "depthwise_conv2d", "einsum", "fc", "matmul", "matmul_v2", "mul"];

/// Neither fast nor dangerous: computed as what they read was, unless that is of 32 bits for a reason.
const GRAY: &[&str] = &[
    "abs",
    "assign",
    "batch_norm",
    "cast",
    "clip",
    "concat",
    "dropout",
    "elementwise_add",
    "elementwise_div",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "elu",
    "expand",
    "expand_as_v2",
    "expand_v2",
    "flatten2",
    "flatten_contiguous_range",
    "gather",
    "gather_nd",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "max_pool2d_with_index",
    "pad",
    "pad3d",
    "pool2d",
    "prelu",
    "relu",
    "relu6",
    "reshape",
    "reshape2",
    "scale",
    "sigmoid",
    "sign",
    "silu",
    "slice",
    "split",
    "squeeze2",
    "stack",
    "strided_slice",
    "swish",
    "tanh",
    "tile",
    "top_k",
    "top_k_v2",
    "transpose",
    "transpose2",
    "unsqueeze2",
    "unstack",
    "where",
];

/// Loses too many digits with 16 bits, or overflows: always computed with 32. So is every op that no list names.
const BLACK: &[&str] = &[
    "cos_sim",
    "cross_entropy",
    "cross_entropy2",
    "cumsum",
    "exp",
    "expm1",
    "frobenius_norm",
    "group_norm",
    "huber_loss",
    "layer_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_loss",
    "log_softmax",
    "logsumexp",
    "lookup_table",
    "lookup_table_v2",
    "mean",
    "p_norm",
    "pow",
    "reciprocal",
    "reduce_mean",
    "reduce_prod",
    "reduce_sum",
    "rsqrt",
    "scatter",
    "sigmoid_cross_entropy_with_logits",
    "softmax",
    "softmax_with_cross_entropy",
    "softplus",
    "square",
    "squared_l2_norm",
    "sum",
];

/// How an op is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// With 16 bits.
    White,
    /// As what it reads was.
    Gray,
    /// With 32 bits.
    Black,
}

/// Op types by how they are computed, and variables that stay of 32 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists {
    white: BTreeSet<String>,
    gray: BTreeSet<String>,
    black: BTreeSet<String>,
    black_vars: BTreeSet<String>,
}

impl Default for Lists {
    fn default() -> Lists {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let black_vars = BTreeSet::new();
        Lists { white: set(WHITE), gray: set(GRAY), black: set(BLACK), black_vars }
    }
}

impl Lists {
    /// Paddle's lists with op types that a user wants with 16 bits, op types with 32, and variables whose
    /// ops are left at 32.
    ///
    /// # Errors
    /// When an op is in both lists.
    pub fn custom<S: AsRef<str>>(white: &[S], black: &[S], black_vars: &[S]) -> Result<Lists> {
        let mut lists = Lists::default();
        let black: BTreeSet<String> = black.iter().map(|name| name.as_ref().to_owned()).collect();
        for name in white.iter().map(AsRef::as_ref) {
            if black.contains(name) {
                return Err(Error::kernel(format!(
                    "`{name}` is both in the custom white list and in the custom black list"
                )));
            }
            lists.gray.remove(name);
            lists.black.remove(name);
            lists.white.insert(name.to_owned());
        }
        for name in black {
            lists.gray.remove(&name);
            lists.white.remove(&name);
            lists.black.insert(name);
        }
        lists.black_vars = black_vars.iter().map(|name| name.as_ref().to_owned()).collect();
        Ok(lists)
    }

    /// How ops of type `kind` are computed: with 32 bits where no list says.
    pub fn color(&self, kind: &str) -> Color {
        self.named(kind).unwrap_or(Color::Black)
    }

    /// The list that names op type `kind`, if one does.
    pub fn named(&self, kind: &str) -> Option<Color> {
        let lists =
            [(&self.white, Color::White), (&self.gray, Color::Gray), (&self.black, Color::Black)];
        lists.iter().find(|(list, _)| list.contains(kind)).map(|(_, color)| *color)
    }

    /// Op types that are always computed with 16 bits.
    pub fn white(&self) -> impl Iterator<Item = &str> {
        self.white.iter().map(String::as_str)
    }

    /// Op types that are computed as what they read was.
    pub fn gray(&self) -> impl Iterator<Item = &str> {
        self.gray.iter().map(String::as_str)
    }

    /// Op types that a list names as computed with 32 bits.
    pub fn black(&self) -> impl Iterator<Item = &str> {
        self.black.iter().map(String::as_str)
    }

    /// Whether ops that use variable `name` are left at 32 bits.
    pub fn is_black_var(&self, name: &str) -> bool {
        self.black_vars.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_word_counts() {
        let lists = Lists::custom(&["softmax"], &["mul"], &["x"]).unwrap();
        assert_eq!(lists.color("softmax"), Color::White);
        assert_eq!(lists.color("mul"), Color::Black);
        assert_eq!(lists.color("relu"), Color::Gray);
        assert_eq!(lists.color("auc"), Color::Black);
        assert!(lists.is_black_var("x"));
        let error = Lists::custom(&["mul"], &["mul"], &[]).unwrap_err().to_string();
        assert!(error.contains("`mul` is both in the custom white list"), "{error}");
    }

    #[test]
    fn no_op_is_listed_twice() {
        let lists = Lists::default();
        let all: Vec<&str> = lists.white().chain(lists.gray()).chain(lists.black()).collect();
        let different: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), different.len());
    }
}
