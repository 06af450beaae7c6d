//! Python's operators on tensors and variables, with Paddle's rules for mixed types.
//!
//! A Python number takes the tensor's type, except that a float turns an integer tensor into
//! float32. Of two float tensors the wider type wins; else the right one takes the left one's type.

use std::sync::{Arc, Mutex, PoisonError};

use bireme_engine::eager::{EagerCard, EagerTensor, Form, Held, OpCache};
use bireme_engine::ir::Attr;
use bireme_engine::tensor::Tensor as EngineTensor;
use bireme_engine::{DType, Place};
use numpy::PyUntypedArray;
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::array;
use crate::error::to_py;
use crate::op_call::{Call, cache, run_op};
use crate::session::float_type;
use crate::tensor::Tensor;
use crate::variable::Variable;

/// An operator of two operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    MatMul,
    And,
    Or,
    Xor,
    BitAnd,
    BitOr,
    BitXor,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// An operator of one operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Neg,
    Abs,
}

impl Binary {
    fn kind(self) -> &'static str {
        match self {
            Binary::Add => "elementwise_add",
            Binary::Sub => "elementwise_sub",
            Binary::Mul => "elementwise_mul",
            Binary::Div => "elementwise_div",
            Binary::FloorDiv => "elementwise_floordiv",
            Binary::Mod => "elementwise_mod",
            Binary::Pow => "elementwise_pow",
            Binary::MatMul => "matmul_v2",
            Binary::And => "logical_and",
            Binary::Or => "logical_or",
            Binary::Xor => "logical_xor",
            Binary::BitAnd => "bitwise_and",
            Binary::BitOr => "bitwise_or",
            Binary::BitXor => "bitwise_xor",
            Binary::Eq => "equal",
            Binary::Ne => "not_equal",
            Binary::Lt => "less_than",
            Binary::Le => "less_equal",
            Binary::Gt => "greater_than",
            Binary::Ge => "greater_equal",
        }
    }

    fn cache(self) -> &'static OpCache {
        static CACHES: [std::sync::OnceLock<&'static OpCache>; 20] =
            [const { std::sync::OnceLock::new() }; 20];
        CACHES[self as usize].get_or_init(|| cache(self.kind()))
    }

    /// What the operator means for elements of type `dtype`: of integers it takes every bit.
    fn on(self, dtype: DType) -> Binary {
        match self {
            _ if dtype.is_float() || dtype == DType::Bool => self,
            Binary::And => Binary::BitAnd,
            Binary::Or => Binary::BitOr,
            Binary::Xor => Binary::BitXor,
            other => other,
        }
    }

    fn compares(self) -> bool {
        use Binary::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    fn named(name: &str) -> Option<Binary> {
        Some(match name {
            "add" => Binary::Add,
            "sub" => Binary::Sub,
            "mul" => Binary::Mul,
            "truediv" => Binary::Div,
            "floordiv" => Binary::FloorDiv,
            "mod" => Binary::Mod,
            "pow" => Binary::Pow,
            "matmul" => Binary::MatMul,
            "and" => Binary::And,
            "or" => Binary::Or,
            "xor" => Binary::Xor,
            "eq" => Binary::Eq,
            "ne" => Binary::Ne,
            "lt" => Binary::Lt,
            "le" => Binary::Le,
            "gt" => Binary::Gt,
            "ge" => Binary::Ge,
            _ => return None,
        })
    }
}

/// The operator `name` (`add`, `rsub`, `neg`, ...) on a tensor or variable; for classes whose
/// operators are attached from Python.
#[pyfunction]
#[pyo3(signature = (name, operand, other=None))]
pub(crate) fn operator<'py>(
    name: &str,
    operand: &Bound<'py, PyAny>,
    other: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(other) = other else {
        return unary(
            match name {
                "invert" => Unary::Not,
                "neg" => Unary::Neg,
                "abs" => Unary::Abs,
                _ => return Err(PyTypeError::new_err(format!("no operator `{name}`"))),
            },
            operand,
        );
    };
    if let Some(op) = Binary::named(name) {
        return binary(op, operand, other, false);
    }
    match name.strip_prefix('r').and_then(Binary::named) {
        Some(op) => binary(op, operand, other, true),
        None => Err(PyTypeError::new_err(format!("no operator `{name}`"))),
    }
}

/// A comparison.
pub(crate) fn compare<'py>(
    op: CompareOp,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let op = match op {
        CompareOp::Eq => Binary::Eq,
        CompareOp::Ne => Binary::Ne,
        CompareOp::Lt => Binary::Lt,
        CompareOp::Le => Binary::Le,
        CompareOp::Gt => Binary::Gt,
        CompareOp::Ge => Binary::Ge,
    };
    // Nothing is equal to what no tensor can be made of; Python asks that of containers.
    if !is_operand(right) && !is_array_like(right) && !array::is_number(right) {
        let py = left.py();
        return match op {
            Binary::Eq => Ok(PyBool::new(py, false).to_owned().into_any()),
            Binary::Ne => Ok(PyBool::new(py, true).to_owned().into_any()),
            _ => Ok(py.NotImplemented().into_bound(py)),
        };
    }
    binary(op, left, right, false)
}

/// An operator of one operand.
pub(crate) fn unary<'py>(op: Unary, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let call = match op {
        Unary::Not => match dtype(value)? {
            DType::Bool => Call::new(cache("logical_not")),
            integer if !integer.is_float() => Call::new(cache("bitwise_not")),
            _ => return Err(PyTypeError::new_err("`~` takes a tensor of integers or bool")),
        },
        Unary::Neg => Call::new(cache("scale")).attr("scale", -1.0f32),
        Unary::Abs => Call::new(cache("abs")),
    };
    call.input(value)?.run(value.py())
}

/// An operator of two operands, of which `operand` is a tensor or variable: the left one, or with
/// `reflected` the right one.
pub(crate) fn binary<'py>(
    op: Binary,
    operand: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
    reflected: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = operand.py();
    if let (Ok(x), Ok(y)) = (operand.cast::<Tensor>(), other.cast::<Tensor>()) {
        let (x, y) = (&x.get().inner, &y.get().inner);
        let same = x.dtype() == y.dtype();
        if same && (op != Binary::Div || x.dtype().is_float()) && !reflected {
            return eager(py, op.on(x.dtype()), x, y);
        }
    }
    if !is_operand(other) && !is_array_like(other) && !array::is_number(other) {
        return Ok(py.NotImplemented().into_bound(py));
    }
    let mine = dtype(operand)?;
    let common = common_type(op, mine, other)?;
    let operand = cast(operand, mine, common)?;
    // In a program as one op, as Paddle writes it; at once the number is an operand, so that each
    // new number does not make a new op.
    if array::is_number(other)
        && operand.is_instance_of::<Variable>()
        && let Some(scaled) = by_scale(op, &operand, other, common, reflected)?
    {
        return Ok(scaled);
    }
    let other = convert(&operand, other, common)?;
    let (left, right) = if reflected { (other, operand) } else { (operand, other) };
    Call::new(op.on(common).cache()).input(&left)?.input(&right)?.run(py)
}

fn eager<'py>(
    py: Python<'py>,
    op: Binary,
    x: &EagerTensor,
    y: &EagerTensor,
) -> PyResult<Bound<'py, PyAny>> {
    let form = Form { attrs: &[], inputs: &[1, 1], outputs: &[1] };
    let mut made = run_op(py, op.cache(), form, &[x.clone(), y.clone()])?;
    let inner = made.pop().expect("the op has one output");
    Ok(Bound::new(py, Tensor { inner })?.into_any())
}

/// The type both operands get.
fn common_type(op: Binary, mine: DType, other: &Bound<'_, PyAny>) -> PyResult<DType> {
    let float_number = other.is_instance_of::<PyFloat>();
    let integral = !mine.is_float();
    if op == Binary::Div && integral {
        return Ok(float_type());
    }
    if integral && float_number {
        return Ok(float_type());
    }
    // Arithmetic on truth values counts them.
    if mine == DType::Bool && !matches!(op, Binary::And | Binary::Or | Binary::Xor) {
        if is_operand(other) && dtype(other)? != DType::Bool {
            return dtype(other);
        }
        if !op.compares() {
            return Ok(DType::I64);
        }
        if other.is_instance_of::<PyInt>() && !other.is_instance_of::<PyBool>() {
            return Ok(DType::I64);
        }
    }
    // Paddle turns the right operand into the left one's type; not so where that would lose a float,
    // or half of one.
    if is_operand(other) {
        let theirs = dtype(other)?;
        if theirs.is_float() && (integral || theirs.size() > mine.size()) {
            return Ok(theirs);
        }
        if theirs.is_float() && theirs != mine && theirs.size() == mine.size() {
            return Ok(DType::F32);
        }
    }
    Ok(mine)
}

/// Arithmetic with a number as one op, where that is exact.
fn by_scale<'py>(
    op: Binary,
    operand: &Bound<'py, PyAny>,
    number: &Bound<'py, PyAny>,
    dtype: DType,
    reflected: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !matches!(dtype, DType::F32 | DType::I32 | DType::I64) {
        return Ok(None);
    }
    let value: f64 = number.extract()?;
    // Attributes are single floats: larger integers would be rounded.
    if dtype != DType::F32 && value.abs() > f64::from(1 << 24) {
        return Ok(None);
    }
    let (scale, bias) = match (op, reflected) {
        (Binary::Add, _) => (1.0, value),
        (Binary::Sub, false) => (1.0, -value),
        (Binary::Sub, true) => (-1.0, value),
        (Binary::Mul, _) => (value, 0.0),
        _ => return Ok(None),
    };
    let call = Call::new(cache("scale")).attr("scale", scale as f32);
    let call = call.attr("bias", bias as f32).input(operand)?;
    call.run(operand.py()).map(Some)
}

/// Whether a value is a tensor or variable.
fn is_operand(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<Tensor>() || value.is_instance_of::<Variable>()
}

fn is_array_like(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyUntypedArray>() || value.hasattr("__array__").unwrap_or(false)
}

/// The element type of a tensor or variable.
fn dtype(value: &Bound<'_, PyAny>) -> PyResult<DType> {
    match value.cast::<Tensor>() {
        Ok(tensor) => Ok(tensor.get().inner.dtype()),
        Err(_) => value.cast::<Variable>()?.get().read(|var| var.dtype),
    }
}

fn cast<'py>(value: &Bound<'py, PyAny>, from: DType, to: DType) -> PyResult<Bound<'py, PyAny>> {
    if from == to {
        return Ok(value.clone());
    }
    let call = Call::new(cache("cast")).attr("in_dtype", from.code());
    call.attr("out_dtype", to.code()).input(value)?.run(value.py())
}

/// The other operand as what the first one is, of type `common`.
fn convert<'py>(
    operand: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
    common: DType,
) -> PyResult<Bound<'py, PyAny>> {
    let py = operand.py();
    if is_operand(other) {
        return cast(other, dtype(other)?, common);
    }
    if array::is_number(other) {
        if operand.is_instance_of::<Variable>() {
            return constant(operand, other, common);
        }
        let scalar = array::scalar(other, common)?;
        let home = operand.cast::<Tensor>()?.get().inner.held().home().cloned();
        let inner = match home {
            Some(card) => EagerTensor::from_held(number_on(&card, scalar).map_err(to_py)?),
            None => EagerTensor::new(scalar),
        };
        return Ok(Bound::new(py, Tensor { inner })?.into_any());
    }
    let inner = EagerTensor::new(array::tensor_from(other, Some(common), common)?);
    Ok(Bound::new(py, Tensor { inner })?.into_any())
}

/// Numbers that scripts compute with on cards: each is copied there once, not for every op.
static NUMBERS: Mutex<Vec<(Place, Arc<Held>)>> = Mutex::new(Vec::new());

/// Numbers that are kept.
const MAX_NUMBERS: usize = 64;

/// A number on a card.
fn number_on(card: &Arc<EagerCard>, number: EngineTensor) -> bireme_engine::Result<Arc<Held>> {
    let place = card.place();
    let mut known = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |(there, held): &(Place, Arc<Held>)| {
        let same = |tensor: &EngineTensor| {
            tensor.dtype() == number.dtype() && tensor.as_bytes() == number.as_bytes()
        };
        *there == place && held.host().is_ok_and(|value| value.tensor().is_ok_and(same))
    };
    if let Some(at) = known.iter().position(is_it) {
        known.swap(0, at);
        return Ok(Arc::clone(&known[0].1));
    }
    let held = Arc::new(Held::new(number));
    held.card(card)?;
    known.truncate(MAX_NUMBERS - 1);
    known.insert(0, (place, Arc::clone(&held)));
    Ok(held)
}

/// A number as a variable of the program that `operand` belongs to.
fn constant<'py>(
    operand: &Bound<'py, PyAny>,
    number: &Bound<'py, PyAny>,
    dtype: DType,
) -> PyResult<Bound<'py, PyAny>> {
    let value: f64 = number.extract()?;
    let text = if dtype.is_float() { value.to_string() } else { number.str()?.to_string() };
    let ones = Call::new(cache("fill_constant"))
        .attr("shape", Attr::Longs(Vec::new()))
        .attr("dtype", dtype.code())
        .attr("value", value as f32)
        .attr("str_value", text);
    ones.in_program_of(operand.cast::<Variable>()?).run(operand.py())
}
