//! First values of parameters: each initialiser is one op of the startup program, with Paddle's
//! attributes. Random ones draw from the counter-based generator, keyed by seed and variable.

use bireme_ir::{DType, Op, OpRole, Var};

use crate::tensor::Tensor;
use crate::{Error, Result};

/// How a parameter gets its first value. A `seed` of 0 means the program's own seed.
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer {
    /// Every element is this number.
    Constant(f64),
    /// Uniform between two bounds.
    Uniform {
        /// The lower bound.
        low: f32,
        /// The upper bound.
        high: f32,
        /// Its own seed.
        seed: i32,
    },
    /// Normal.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        std: f32,
        /// Its own seed.
        seed: i32,
    },
    /// Normal, redrawn until within two standard deviations of the mean.
    TruncatedNormal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        std: f32,
        /// Its own seed.
        seed: i32,
    },
    /// Glorot and Bengio, 2010: keeps the variance of activations and gradients through a layer.
    Xavier(Fan),
    /// He et al., 2015 (Paddle's MSRA and Kaiming): keeps the variance through a layer with relu.
    Msra(Fan),
    /// A copy of this tensor.
    Assign(Tensor),
}

/// The distribution and the fans of a variance-keeping initialiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fan {
    /// Uniform (the default) or normal.
    pub uniform: bool,
    /// Inputs of one output; from the shape when not given.
    pub fan_in: Option<f64>,
    /// Outputs that one input feeds; from the shape when not given.
    pub fan_out: Option<f64>,
    /// Slope of the leaky relu that follows (MSRA only); 0 is a plain relu.
    pub negative_slope: f64,
    /// Its own seed.
    pub seed: i32,
}

impl Default for Fan {
    fn default() -> Fan {
        Fan { uniform: true, fan_in: None, fan_out: None, negative_slope: 0.0, seed: 0 }
    }
}

impl Fan {
    /// The normal distribution, fans from the shape.
    pub fn normal() -> Fan {
        Fan { uniform: false, ..Fan::default() }
    }
}

impl Initializer {
    /// What weights get when nothing is said.
    pub fn default_weight() -> Initializer {
        Initializer::Xavier(Fan::default())
    }

    /// What biases get when nothing is said.
    pub fn default_bias() -> Initializer {
        Initializer::Constant(0.0)
    }

    /// Uniform between two bounds, from the program's seed.
    pub fn uniform(low: f32, high: f32) -> Initializer {
        Initializer::Uniform { low, high, seed: 0 }
    }

    /// Normal, from the program's seed.
    pub fn normal(mean: f32, std: f32) -> Initializer {
        Initializer::Normal { mean, std, seed: 0 }
    }

    /// Truncated normal, from the program's seed.
    pub fn truncated_normal(mean: f32, std: f32) -> Initializer {
        Initializer::TruncatedNormal { mean, std, seed: 0 }
    }

    /// The startup op that gives `var` its first value.
    ///
    /// # Errors
    /// When an assigned tensor does not have the shape and type of `var`.
    pub fn op(&self, var: &Var) -> Result<Op> {
        let op = match self {
            Initializer::Constant(value) => constant(*value),
            Initializer::Uniform { low, high, seed } => uniform(*low, *high, *seed),
            Initializer::Normal { mean, std, seed } => {
                gaussian("gaussian_random", *mean, *std, *seed)
            }
            Initializer::TruncatedNormal { mean, std, seed } => {
                gaussian("truncated_gaussian_random", *mean, *std, *seed)
            }
            Initializer::Xavier(fan) => xavier(fan, &var.shape),
            Initializer::Msra(fan) => msra(fan, &var.shape),
            Initializer::Assign(tensor) => return assign(tensor, var),
        };
        Ok(op
            .output("Out", [var.name.as_str()])
            .attr("shape", var.shape.clone())
            .attr("dtype", var.dtype.code())
            .role(OpRole::FORWARD))
    }
}

fn constant(value: f64) -> Op {
    // The text keeps digits that single precision would lose.
    Op::new("fill_constant")
        .attr("value", value as f32)
        .attr("str_value", format!("{value:?}"))
        .attr("force_cpu", false)
}

fn uniform(low: f32, high: f32, seed: i32) -> Op {
    Op::new("uniform_random").attr("min", low).attr("max", high).attr("seed", seed)
}

fn gaussian(kind: &str, mean: f32, std: f32, seed: i32) -> Op {
    Op::new(kind).attr("mean", mean).attr("std", std).attr("seed", seed)
}

fn xavier(fan: &Fan, shape: &[i64]) -> Op {
    let (fan_in, fan_out) = fans(shape);
    let fans = fan.fan_in.unwrap_or(fan_in) + fan.fan_out.unwrap_or(fan_out);
    spread(fan, 2.0 / fans)
}

fn msra(fan: &Fan, shape: &[i64]) -> Op {
    let fan_in = fan.fan_in.unwrap_or(fans(shape).0);
    spread(fan, 2.0 / (1.0 + fan.negative_slope * fan.negative_slope) / fan_in)
}

/// A distribution around 0 with this variance.
fn spread(fan: &Fan, variance: f64) -> Op {
    if fan.uniform {
        let limit = (3.0 * variance).sqrt() as f32;
        uniform(-limit, limit, fan.seed)
    } else {
        gaussian("gaussian_random", 0.0, variance.sqrt() as f32, fan.seed)
    }
}

/// Paddle's reading of a weight's shape: `[in, out]`, or `[out, in, window…]` for convolutions.
fn fans(shape: &[i64]) -> (f64, f64) {
    let (fan_in, fan_out) = match shape {
        [] => (1, 1),
        [all] => (*all, *all),
        [fan_in, fan_out] => (*fan_in, *fan_out),
        [fan_out, fan_in, window @ ..] => {
            let window: i64 = window.iter().product();
            (fan_in * window, fan_out * window)
        }
    };
    (fan_in as f64, fan_out as f64)
}

fn assign(tensor: &Tensor, var: &Var) -> Result<Op> {
    let shape: Vec<i64> = tensor.dims().iter().map(|dim| *dim as i64).collect();
    if shape != var.shape || tensor.dtype() != var.dtype {
        return Err(Error::kernel(format!(
            "initial value of `{}` is {} {shape:?}, but the parameter is {} {:?}",
            var.name,
            tensor.dtype(),
            var.dtype,
            var.shape
        )));
    }
    let op = Op::new("assign_value")
        .output("Out", [var.name.as_str()])
        .attr("shape", shape.iter().map(|dim| *dim as i32).collect::<Vec<_>>())
        .attr("dtype", var.dtype.code())
        .role(OpRole::FORWARD);
    Ok(match tensor.dtype() {
        DType::F32 => op.attr("fp32_values", tensor.as_slice::<f32>()?.to_vec()),
        DType::F64 => op.attr("fp64_values", tensor.as_slice::<f64>()?.to_vec()),
        DType::I32 => op.attr("int32_values", tensor.as_slice::<i32>()?.to_vec()),
        DType::I64 => op.attr("int64_values", tensor.as_slice::<i64>()?.to_vec()),
        DType::Bool => {
            let bits = tensor.as_slice::<u8>()?.iter().map(|bit| i32::from(*bit));
            op.attr("bool_values", bits.collect::<Vec<_>>())
        }
        other => {
            return Err(Error::kernel(format!("cannot store {other} values in a program")));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bireme_ir::Attr;

    fn float(op: &Op, name: &str) -> f32 {
        match op.attrs.get(name) {
            Some(Attr::Float(value)) => *value,
            other => panic!("`{name}` is {other:?}"),
        }
    }

    /// Bounds and deviations as `paddle.nn.initializer.*` puts them on the startup ops of a
    /// parameter of this shape (Paddle 2.6.2).
    #[test]
    fn fans_give_paddles_bounds() {
        let var = Var::parameter("w", DType::F32, [3, 2]);
        let limit = |init: Initializer| float(&init.op(&var).unwrap(), "max");
        let std = |init: Initializer| float(&init.op(&var).unwrap(), "std");
        assert_eq!(limit(Initializer::Xavier(Fan::default())), 1.095_445_2);
        assert_eq!(std(Initializer::Xavier(Fan::normal())), 0.632_455_5);
        assert_eq!(std(Initializer::Msra(Fan::normal())), 0.816_496_6);
        assert_eq!(limit(Initializer::Msra(Fan::default())), std::f32::consts::SQRT_2);
        let leaky = Fan { negative_slope: 0.1, ..Fan::default() };
        assert_eq!(limit(Initializer::Msra(leaky)), 1.407_195_1);
        let conv = Var::parameter("k", DType::F32, [4, 3, 2, 2]);
        let op = Initializer::default_weight().op(&conv).unwrap();
        assert_eq!(float(&op, "max"), 0.462_910_06);
    }

    #[test]
    fn assigned_values_must_fit() {
        let var = Var::parameter("w", DType::F32, [2]);
        let values = Tensor::from_slice([2], &[1.0f32, 2.0]).unwrap();
        let op = Initializer::Assign(values).op(&var).unwrap();
        assert_eq!(op.attrs["fp32_values"], Attr::Floats(vec![1.0, 2.0]));
        let wrong = Initializer::Assign(Tensor::from_slice([1], &[1.0f32]).unwrap());
        assert_eq!(
            wrong.op(&var).unwrap_err().to_string(),
            "initial value of `w` is float32 [1], but the parameter is float32 [2]"
        );
    }
}
