//! Metrics on the card.

use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::beside_host::{Values, check_within, on_card, values};
use crate::card::device;
use crate::draws::Draws;

fn auc(steps: i32) -> Op {
    Op::new("auc")
        .input("Predict", ["p"])
        .input("Label", ["l"])
        .input("StatPos", ["pos"])
        .input("StatNeg", ["neg"])
        .input("InsTagWeight", ["weight"])
        .output("AUC", ["auc"])
        .output("StatPosOut", ["pos"])
        .output("StatNegOut", ["neg"])
        .attr("num_thresholds", 2999)
        .attr("slide_steps", steps)
}

fn batch(draws: &mut Draws, dtype: DType, samples: usize) -> Values {
    let label: Vec<i64> = (0..samples).map(|_| (draws.unit() * 3.0) as i64 - 1).collect();
    values([
        ("p", draws.tensor(dtype, &[samples, 2], 0.0, 1.0).into()),
        ("l", Tensor::from_slice([samples, 1], &label).unwrap().into()),
        ("weight", Tensor::from_slice([1], &[1.0f32]).unwrap().into()),
    ])
}

#[test]
fn areas_over_batches() {
    let mut draws = Draws(1);
    for steps in [0, 1, 3] {
        let numbers = 3000 * (steps as usize + 1) + usize::from(steps > 0);
        let mut state = values([
            ("pos", Tensor::zeros(DType::I64, [1, numbers]).into()),
            ("neg", Tensor::zeros(DType::I64, [1, numbers]).into()),
        ]);
        for (at, samples) in [5000, 1, 700, 0, 33].into_iter().enumerate() {
            let dtype = if at == 2 { DType::F64 } else { DType::F32 };
            state.extend(batch(&mut draws, dtype, samples));
            if at == 1 {
                // A batch that is made up, and must not count.
                let weight = Tensor::from_slice([1], &[0.0f32]).unwrap();
                state.insert("weight".to_owned(), weight.into());
            }
            state = check_within(&auc(steps), &state, 1e-12);
        }
    }
}

#[test]
fn what_is_no_probability_is_complained_of() {
    if device().is_none() {
        return;
    }
    for (bad, problem) in
        [(1.5f32, "2 at position 3"), (-0.1, "-1 at position 3"), (f32::NAN, "element 3 is NaN")]
    {
        let mut given = batch(&mut Draws(2), DType::F32, 5);
        let mut predict = given["p"].tensor().unwrap().clone();
        predict.as_mut_slice::<f32>().unwrap()[7] = bad;
        given.insert("p".to_owned(), predict.into());
        for name in ["pos", "neg"] {
            given.insert(name.to_owned(), Tensor::zeros(DType::I64, [3000]).into());
        }
        let error = on_card(&auc(0), &given, 1).unwrap().unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn accuracy_of_the_best_classes() {
    let mut draws = Draws(3);
    for (samples, classes) in [(1, 1), (3000, 3), (70, 1), (0, 2)] {
        let indices = draws.ids(samples * classes, 10, 0.0);
        let label: Vec<i32> = draws.ids(samples, 10, 0.0).into_iter().map(|id| id as i32).collect();
        let given = values([
            ("out", draws.tensor(DType::F32, &[samples, classes], 0.0, 1.0).into()),
            ("indices", Tensor::from_slice([samples, classes], &indices).unwrap().into()),
            ("label", Tensor::from_slice([samples, 1], &label).unwrap().into()),
        ]);
        let op = Op::new("accuracy")
            .input("Out", ["out"])
            .input("Indices", ["indices"])
            .input("Label", ["label"])
            .output("Accuracy", ["accuracy"])
            .output("Correct", ["correct"])
            .output("Total", ["total"]);
        check_within(&op, &given, 1e-6);
    }
}
