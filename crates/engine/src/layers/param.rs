//! Parameters: what a user can say about one, and how it enters both programs.

use bireme_ir::{DType, Param, Regularizer, Var};

use crate::graph::{Graph, Variable};
use crate::initializer::Initializer;
use crate::{Error, Result};

/// What a user says about a parameter; the rest has Paddle's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamAttr {
    /// Its name; layers that name the same parameter share it. Made from the layer's by default.
    pub name: Option<String>,
    /// Its first value; Xavier for weights and 0 for biases by default.
    pub initializer: Option<Initializer>,
    /// Factor on the optimizer's learning rate; 1 by default.
    pub learning_rate: f32,
    /// Overrides the optimizer's regulariser.
    pub regularizer: Option<Regularizer>,
    /// Whether optimizers update it; yes by default.
    pub trainable: bool,
    /// Whether gradient clipping includes it; yes by default.
    pub need_clip: bool,
}

impl Default for ParamAttr {
    fn default() -> ParamAttr {
        ParamAttr {
            name: None,
            initializer: None,
            learning_rate: 1.0,
            regularizer: None,
            trainable: true,
            need_clip: true,
        }
    }
}

impl ParamAttr {
    /// A parameter of this name.
    pub fn named(name: impl Into<String>) -> ParamAttr {
        ParamAttr { name: Some(name.into()), ..ParamAttr::default() }
    }

    /// Sets its first value.
    pub fn init(mut self, initializer: Initializer) -> ParamAttr {
        self.initializer = Some(initializer);
        self
    }

    /// Sets the factor on the optimizer's learning rate.
    pub fn learning_rate(mut self, factor: f32) -> ParamAttr {
        self.learning_rate = factor;
        self
    }

    /// Sets its regulariser.
    pub fn regularizer(mut self, regularizer: Regularizer) -> ParamAttr {
        self.regularizer = Some(regularizer);
        self
    }

    /// Keeps optimizers from changing it.
    pub fn frozen(mut self) -> ParamAttr {
        self.trainable = false;
        self
    }
}

impl From<&str> for ParamAttr {
    fn from(name: &str) -> ParamAttr {
        ParamAttr::named(name)
    }
}

impl From<Initializer> for ParamAttr {
    fn from(initializer: Initializer) -> ParamAttr {
        ParamAttr::default().init(initializer)
    }
}

/// A parameter of this shape: declared in both programs and given its first value by the startup
/// program, or the existing parameter of that name.
///
/// `prefix` (such as `fc_0.w`) names it when `attr` does not; `default` is its first value when
/// `attr` names none.
///
/// # Errors
/// When a parameter of that name has another shape, or the first value does not fit.
#[track_caller]
pub fn create_parameter(
    graph: &Graph,
    attr: &ParamAttr,
    prefix: &str,
    shape: impl Into<Vec<i64>>,
    dtype: DType,
    default: &Initializer,
) -> Result<Variable> {
    let shape = shape.into();
    let name = attr.name.clone().unwrap_or_else(|| graph.unique_name(prefix));
    if let Ok(existing) = graph.variable(&name) {
        let var = existing.var();
        if var.is_parameter() && var.shape == shape && var.dtype == dtype {
            return Ok(existing);
        }
        return Err(Error::kernel(format!(
            "`{name}` is declared as {} {:?}, so it cannot be a parameter of {dtype} {shape:?}: \
             share a parameter between layers of one shape, or rename one",
            var.dtype, var.shape
        )));
    }
    let mut var = Var::parameter(name, dtype, shape);
    var.stop_gradient = !attr.trainable;
    var.param = Some(Param {
        trainable: attr.trainable,
        learning_rate: attr.learning_rate,
        regularizer: attr.regularizer,
        need_clip: attr.need_clip,
    });
    let init = attr.initializer.as_ref().unwrap_or(default).op(&var)?;
    Ok(graph.persistable(var, init))
}
