//! Optimizer steps on the card: of whole tensors, and of rows.

use bireme_engine::Value;
use bireme_engine::tensor::Tensor;
use bireme_ir::{Attr, DType, Op};

use crate::beside_host::{Values, check_within, on_card, values};
use crate::card::{device, get, launch, open, put, shared};
use crate::draws::Draws;

/// An optimizer op: its type, its accumulators with their output slots, its powers, its attributes.
type Rule =
    (&'static str, &'static [(&'static str, &'static str)], usize, &'static [(&'static str, f32)]);

const MOMENTS: &[(&str, &str)] = &[("Moment1", "Moment1Out"), ("Moment2", "Moment2Out")];
const MOMENT: &[(&str, &str)] = &[("Moment", "MomentOut")];
const VELOCITY: &[(&str, &str)] = &[("Velocity", "VelocityOut")];
const ACCUMULATORS: &[(&str, &str)] =
    &[("SquaredAccumulator", "SquaredAccumOut"), ("LinearAccumulator", "LinearAccumOut")];
const MEANS: &[(&str, &str)] =
    &[("MeanSquare", "MeanSquareOut"), ("Moment", "MomentOut"), ("MeanGrad", "MeanGradOut")];
const NORMS: &[(&str, &str)] = &[("Moment", "MomentOut"), ("InfNorm", "InfNormOut")];
const AVERAGES: &[(&str, &str)] =
    &[("AvgSquaredGrad", "AvgSquaredGradOut"), ("AvgSquaredUpdate", "AvgSquaredUpdateOut")];

const RULES: &[Rule] = &[
    ("sgd", &[], 0, &[]),
    ("momentum", VELOCITY, 0, &[("mu", 0.9), ("rescale_grad", 0.5)]),
    ("momentum", VELOCITY, 0, &[("mu", 0.9), ("use_nesterov", 1.0), ("regularization_coeff", 0.1)]),
    ("adagrad", MOMENT, 0, &[]),
    ("decayed_adagrad", MOMENT, 0, &[]),
    ("adam", MOMENTS, 2, &[]),
    ("adam", MOMENTS, 2, &[("lazy_mode", 1.0)]),
    ("adam", MOMENTS, 2, &[("lazy_mode", 1.0), ("use_global_beta_pow", 1.0)]),
    ("adamw", MOMENTS, 2, &[("with_decay", 1.0), ("coeff", 0.1), ("lr_ratio", 0.5)]),
    ("adamw", MOMENTS, 2, &[("lazy_mode", 1.0)]),
    ("adamax", NORMS, 1, &[]),
    ("adadelta", AVERAGES, 0, &[]),
    ("rmsprop", MEANS, 0, &[("momentum", 0.5), ("centered", 1.0)]),
    ("rmsprop", MEANS, 0, &[("momentum", 0.5)]),
    ("ftrl", ACCUMULATORS, 0, &[("l1", 0.1)]),
    ("ftrl", ACCUMULATORS, 0, &[("lr_power", -0.3)]),
    ("lamb", MOMENTS, 2, &[]),
    ("lamb", MOMENTS, 2, &[("weight_decay", 0.0), ("always_adapt", 1.0)]),
    ("lars_momentum", VELOCITY, 0, &[("mu", 0.9)]),
];

/// Attributes that are truth values.
const TRUTHS: [&str; 7] = [
    "use_nesterov",
    "lazy_mode",
    "use_global_beta_pow",
    "with_decay",
    "centered",
    "always_adapt",
    "multi_precision",
];

fn op((kind, state, powers, attributes): Rule, in_place: bool) -> Op {
    let out = |name: &str| if in_place { name.to_owned() } else { format!("{name} after") };
    let mut op = Op::new(kind)
        .input("Param", ["Param"])
        .input("Grad", ["Grad"])
        .input("LearningRate", ["LearningRate"])
        .output("ParamOut", [out("Param")]);
    for (input, output) in state {
        op = op.input(input, [*input]).output(output, [out(input)]);
    }
    for slot in ["Beta1Pow", "Beta2Pow"].into_iter().take(powers) {
        op = op.input(slot, [slot]);
        if powers == 2 {
            op = op.output(&format!("{slot}Out"), [out(slot)]);
        }
    }
    for (name, value) in attributes {
        let is_truth = TRUTHS.contains(name);
        let attr = if is_truth { Attr::Bool(*value != 0.0) } else { Attr::Float(*value) };
        op.attrs.insert((*name).to_owned(), attr);
        if *name == "regularization_coeff" {
            op = op.attr("regularization_method", "l2_decay");
        }
    }
    op
}

fn given(
    draws: &mut Draws,
    (_, state, ..): Rule,
    dtype: DType,
    dims: &[usize],
    grad: Value,
) -> Values {
    let number = |x: f32| Value::from(Tensor::from_slice([1], &[x]).unwrap());
    let mut values = values([
        ("Param", draws.tensor(dtype, dims, -1.0, 1.0).into()),
        ("Grad", grad),
        ("LearningRate", number(0.05)),
        ("Beta1Pow", number(0.81)),
        ("Beta2Pow", Tensor::from_slice([1], &[0.998001f64]).unwrap().into()),
    ]);
    for (name, _) in state {
        // Squares are more than the square of a mean.
        let low = if *name == "MeanSquare" { 0.6 } else { 0.1 };
        values.insert((*name).to_owned(), draws.tensor(dtype, dims, low, low + 0.4).into());
    }
    values
}

fn tolerance(dtype: DType) -> f64 {
    if dtype == DType::F32 { 2e-5 } else { 1e-10 }
}

#[test]
fn whole_tensors() {
    let mut draws = Draws(1);
    for rule in RULES {
        for (dtype, dims, in_place) in [
            (DType::F32, vec![40, 77], true),
            (DType::F32, vec![3], false),
            (DType::F64, vec![5, 103], true),
            (DType::F32, vec![0, 4], false),
        ] {
            let grad = draws.tensor(dtype, &dims, -1.0, 1.0).into();
            let given = given(&mut draws, *rule, dtype, &dims, grad);
            check_within(&op(*rule, in_place), &given, tolerance(dtype));
        }
    }
}

#[test]
fn rows_of_sparse_gradients() {
    let mut draws = Draws(2);
    for rule in RULES {
        for (dtype, height, width, count, in_place) in [
            (DType::F32, 300, 16, 2500, true),
            (DType::F32, 70, 9, 150, false),
            (DType::F32, 900, 1, 1400, true),
            (DType::F64, 50, 5, 70, true),
            (DType::F32, 8, 4, 0, true),
        ] {
            let rows = draws.ids(count, height, 0.5);
            let grad = draws.rows(dtype, rows, height, width);
            let given = given(&mut draws, *rule, dtype, &[height, width], grad);
            // Long sums in another order, and steps in proportion to their quotients.
            check_within(&op(*rule, in_place), &given, 20.0 * tolerance(dtype));
        }
    }
}

#[test]
fn a_row_outside_of_the_parameter_is_complained_of() {
    if device().is_none() {
        return;
    }
    let mut draws = Draws(3);
    let grad = draws.rows(DType::F32, vec![2, -1], 8, 4);
    let given = given(&mut draws, RULES[0], DType::F32, &[8, 4], grad);
    let error = on_card(&op(RULES[0], true), &given, 1).unwrap().unwrap_err().to_string();
    assert!(error.contains("-1 at position 1 lies outside 0..8"), "{error}");
}

/// As many as a launch can take, as in `kernels/update.cu`.
const MANY: usize = 64;

#[test]
fn many_tensors_in_one_launch() {
    let Some(_machine) = shared() else { return };
    let (_card, stream) = open(0);
    let rate = put(&stream, &[0.5f32]);
    let mut draws = Draws(4);
    let mut drawn =
        |count: usize| -> Vec<f32> { (0..count).map(|_| draws.unit() as f32).collect() };
    let tensors: Vec<[Vec<f32>; 3]> =
        [5, 1024, 1, 3001].into_iter().map(|count| [(); 3].map(|()| drawn(count))).collect();
    let memory: Vec<_> =
        tensors.iter().map(|tensor| tensor.each_ref().map(|values| put(&stream, values))).collect();
    // Parameter, where it goes, gradient, index, moment, where it goes, rate, two powers; then six attributes, which
    // numbers are of 64 bits, elements, first block with the divisor of rows.
    let (mut places, mut extents, mut blocks) = ([[0u64; 9]; MANY], [[0u64; 10]; MANY], 0u32);
    for (at, [param, grad, moment]) in memory.iter().enumerate() {
        let [param, grad, moment] = [param, grad, moment].map(|memory| memory.address());
        places[at] = [param, param, grad, 0, moment, moment, rate.address(), 0, 0];
        (extents[at][0], extents[at][7]) = (1e-3f64.to_bits(), tensors[at][0].len() as u64);
        (extents[at][8], extents[at][9]) = (u64::from(blocks) | 1 << 32, 1);
        blocks += tensors[at][0].len().div_ceil(1024) as u32;
    }
    let count = tensors.len() as u32;
    launch!(stream, "update_many_adagrad_f32", blocks, 256, 0, places, extents, count).unwrap();
    for ([param, grad, moment], [made, _, made_moment]) in tensors.iter().zip(&memory) {
        let (made, made_moment) = (get::<f32>(&stream, made), get::<f32>(&stream, made_moment));
        for i in 0..param.len() {
            let squares = moment[i] + grad[i] * grad[i];
            let expected = param[i] - 0.5 * grad[i] / (squares.sqrt() + 1e-3);
            assert!((made[i] - expected).abs() < 1e-5 && (made_moment[i] - squares).abs() < 1e-6);
        }
    }
}
