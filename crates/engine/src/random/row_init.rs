//! The first values of a table's row, which follow from its key: those that an initialiser gives a dense parameter of
//! the same name and seed, in the row whose number is the key. Tables of servers and of cards draw them alike.

use serde::{Deserialize, Serialize};

use super::Philox;

/// How the weights of a new row are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowInit {
    /// `fill_constant`.
    Constant(f32),
    /// `uniform_random`.
    Uniform {
        /// The least value.
        min: f32,
        /// The value that is never reached.
        max: f32,
    },
    /// `gaussian_random`.
    Gaussian {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
    /// `truncated_gaussian_random`: within two standard deviations.
    TruncatedGaussian {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
}

impl RowInit {
    /// Fills in elements `first ..` of the variable that `draw` is the stream of.
    pub fn fill(&self, draw: &Philox, first: u64, out: &mut [f32]) {
        // Keys are any 64-bit numbers, so positions may wrap around.
        let positions = (0..).map(|i| first.wrapping_add(i));
        match *self {
            RowInit::Constant(value) => out.fill(value),
            RowInit::Uniform { min, max } if first.checked_add(out.len() as u64 + 4).is_some() => {
                draw.fill_uniform(first, min, max, out);
            }
            RowInit::Uniform { min, max } => {
                for (out, i) in out.iter_mut().zip(positions) {
                    *out = min + (max - min) * draw.uniform(i);
                }
            }
            RowInit::Gaussian { mean, std } => {
                for (out, i) in out.iter_mut().zip(positions) {
                    *out = (mean + std * f64::from(draw.normal(i))) as f32;
                }
            }
            RowInit::TruncatedGaussian { mean, std } => {
                for (out, i) in out.iter_mut().zip(positions) {
                    *out = (mean + std * draw.truncated_normal(i)) as f32;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bireme_ir::Op;

    use super::*;
    use crate::op::run_once;

    /// A table draws what a dense parameter of that name and seed has in that row.
    #[test]
    fn rows_equal_those_of_a_dense_parameter() {
        let dense = |kind: &str, attrs: &[(&str, f32)]| {
            let op = Op::new(kind).output("Out", ["emb"]).attr("shape", vec![50i64, 9]);
            let op = op.attr("seed", 7).attr("dtype", 5);
            let op = attrs.iter().fold(op, |op, (name, value)| op.attr(name, *value));
            let mut values = HashMap::new();
            run_once(&op, &mut values).unwrap();
            values["emb"].tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
        };
        let (mean, std) = (f64::from(0.1f32), f64::from(0.3f32));
        let normal = [("mean", 0.1), ("std", 0.3)];
        let cases = [
            (dense("fill_constant", &[("value", 0.5)]), RowInit::Constant(0.5)),
            (
                dense("uniform_random", &[("min", -0.2), ("max", 0.7)]),
                RowInit::Uniform { min: -0.2, max: 0.7 },
            ),
            (dense("gaussian_random", &normal), RowInit::Gaussian { mean, std }),
            (dense("truncated_gaussian_random", &normal), RowInit::TruncatedGaussian { mean, std }),
        ];
        let draw = Philox::new(7, "emb");
        for (dense, init) in cases {
            for key in 0..50u64 {
                let mut row = [0.0; 9];
                init.fill(&draw, key * 9, &mut row);
                assert_eq!(row, dense[key as usize * 9..][..9], "{init:?}");
            }
        }
    }

    #[test]
    fn positions_wrap_around() {
        let draw = Philox::new(1, "emb");
        let init = RowInit::Uniform { min: 0.0, max: 1.0 };
        let (mut whole, mut end) = ([0.0; 9], [0.0; 4]);
        init.fill(&draw, u64::MAX - 4, &mut whole);
        init.fill(&draw, 0, &mut end);
        assert_eq!(whole[5..], end);
    }
}
