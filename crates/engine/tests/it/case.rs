//! Golden cases as the files hold them, and the engine values they stand for.
//!
//! Variables are named after slot and position, so a case needs no names of its own: `in.X.0`,
//! `out.Out.0`.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use bireme_engine::Value;
use bireme_engine::tensor::{Element, SelectedRows, Tensor};
use bireme_ir::{Attr, DType, Op, Scalar};
use serde::Deserialize;
use serde_json::Value as Json;

/// Slot to one item for each variable in it; `None` is a variable with nothing to compare.
pub(crate) type Items = BTreeMap<String, Vec<Option<Item>>>;

/// The values that a run of an op reads and writes.
pub(crate) type Values = HashMap<String, Value>;

/// One run of one op under Paddle.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) op: String,
    /// Counts the cases of this op in its file, from 0.
    pub(crate) case: usize,
    attrs: BTreeMap<String, BTreeMap<String, Json>>,
    pub(crate) inputs: Items,
    /// Output slots whose variables are those of an input slot.
    #[serde(default)]
    same: BTreeMap<String, String>,
    pub(crate) outputs: Items,
    /// Gradients given to the outputs.
    #[serde(default)]
    pub(crate) targets: Items,
    /// Gradients that Paddle computed for the inputs.
    #[serde(default)]
    pub(crate) grads: Items,
    /// Whether finite differences apply.
    #[serde(default = "yes")]
    pub(crate) fd: bool,
    pub(crate) rtol: Option<f64>,
    pub(crate) atol: Option<f64>,
}

/// One tensor, or selected rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Item {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<usize>,
    data: Vec<Json>,
    #[serde(default)]
    lod: Vec<Vec<usize>>,
    rows: Option<Vec<i64>>,
    height: Option<usize>,
}

fn yes() -> bool {
    true
}

/// Where the golden files are: in the repository, unless the program was carried elsewhere with them (`cargo xtask
/// gpu-test`): then where `BIREME_GOLDEN` says, or beside the program.
fn folder() -> PathBuf {
    let beside = env::current_exe().ok().and_then(|program| Some(program.parent()?.join("golden")));
    let beside = beside.filter(|folder| folder.is_dir());
    let named = env::var_os("BIREME_GOLDEN").map(PathBuf::from);
    let in_repository = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden");
    named.or(beside).unwrap_or_else(in_repository)
}

/// Every case with the name of its family.
pub(crate) fn all() -> Vec<(String, Case)> {
    let folder = folder();
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("golden files in `{}`: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let family = path.file_stem().expect("ends in .json").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a golden file can be read");
        let cases: Vec<Case> = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("`{}`: {error}: run the generator", path.display()));
        all.extend(cases.into_iter().map(|case| (family.clone(), case)));
    }
    all
}

impl Case {
    /// What failure messages call this case.
    pub(crate) fn title(&self) -> String {
        format!("op `{}` case {}", self.op, self.case)
    }

    /// The op, with its variables.
    pub(crate) fn op(&self) -> Op {
        let mut op = Op::new(&self.op);
        for (slot, items) in &self.inputs {
            op = op.input(slot, (0..items.len()).map(|i| input_name(slot, i)));
        }
        for (slot, items) in &self.outputs {
            op = op.output(slot, (0..items.len()).map(|i| self.output_name(slot, i)));
        }
        for (name, kinded) in &self.attrs {
            let (kind, value) = kinded.first_key_value().expect("an attribute has a kind");
            op = op.attr(name, attr(kind, value));
        }
        op
    }

    /// The variable at position `i` of output slot `slot`.
    pub(crate) fn output_name(&self, slot: &str, i: usize) -> String {
        match self.same.get(slot) {
            Some(input) => input_name(input, i),
            None => format!("out.{slot}.{i}"),
        }
    }

    /// The inputs as values.
    pub(crate) fn input_values(&self) -> Values {
        named(&self.inputs).map(|(slot, i, item)| (input_name(slot, i), item.value())).collect()
    }
}

/// The variable at position `i` of input slot `slot`.
pub(crate) fn input_name(slot: &str, i: usize) -> String {
    format!("in.{slot}.{i}")
}

/// Items that are there, with slot and position.
pub(crate) fn named(items: &Items) -> impl Iterator<Item = (&str, usize, &Item)> {
    items.iter().flat_map(|(slot, items)| {
        let there = items.iter().enumerate();
        there.filter_map(move |(i, item)| Some((slot.as_str(), i, item.as_ref()?)))
    })
}

impl Item {
    /// What it stands for.
    pub(crate) fn value(&self) -> Value {
        let tensor = self.tensor().with_lod(&self.lod).expect("Paddle accepted the LoD");
        match (&self.rows, self.height) {
            (Some(rows), Some(height)) => {
                Value::Rows(SelectedRows { rows: rows.clone(), height, value: tensor })
            }
            _ => Value::Tensor(tensor),
        }
    }

    fn tensor(&self) -> Tensor {
        let dtype = DType::from_name(&self.dtype).expect("an element type we know");
        let mut tensor = Tensor::zeros(dtype, self.shape.clone());
        // 64-bit integers do not fit a real number.
        if let Ok(values) = tensor.as_mut_slice::<i64>() {
            let read = self.data.iter().map(|item| item.as_i64().expect("an integer"));
            values.iter_mut().zip(read).for_each(|(value, read)| *value = read);
            return tensor;
        }
        let read = self.data.iter().map(real);
        bireme_engine::dispatch!(dtype, T in [f32, f64, i32, u8, i8, i16] => {
            let values = tensor.as_mut_slice::<T>().expect("of this type");
            values.iter_mut().zip(read).for_each(|(value, read)| *value = T::from_f64(read));
        }, else => panic!("golden files of {dtype} are not understood"));
        tensor
    }
}

/// A number; those that JSON lacks are texts.
fn real(json: &Json) -> f64 {
    json.as_f64().unwrap_or_else(|| {
        let text = json.as_str().expect("a number or a text");
        text.parse().expect("`NaN` or `Infinity`")
    })
}

fn attr(kind: &str, value: &Json) -> Attr {
    let int = |json: &Json| json.as_i64().expect("an integer");
    let short = |json: &Json| int(json) as i32;
    let float = |json: &Json| real(json) as f32;
    let truth = |json: &Json| json.as_bool().expect("a truth value");
    let text = |json: &Json| json.as_str().expect("a text").to_owned();
    match kind {
        "int" => Attr::Int(short(value)),
        "long" => Attr::Long(int(value)),
        "float" => Attr::Float(float(value)),
        "float64" => Attr::Float64(real(value)),
        "bool" => Attr::Bool(truth(value)),
        "string" => Attr::String(text(value)),
        "ints" => Attr::Ints(list(value, short)),
        "longs" => Attr::Longs(list(value, int)),
        "floats" => Attr::Floats(list(value, float)),
        "float64s" => Attr::Float64s(list(value, real)),
        "bools" => Attr::Bools(list(value, truth)),
        "strings" => Attr::Strings(list(value, text)),
        "scalar" => Attr::Scalar(scalar(value)),
        "scalars" => Attr::Scalars(list(value, scalar)),
        _ => panic!("no attribute is a `{kind}`"),
    }
}

fn list<T>(json: &Json, each: impl Fn(&Json) -> T) -> Vec<T> {
    json.as_array().expect("a list").iter().map(each).collect()
}

fn scalar(json: &Json) -> Scalar {
    let (kind, value) = json.as_object().and_then(|map| map.iter().next()).expect("a scalar");
    match kind.as_str() {
        "bool" => Scalar::Bool(value.as_bool().expect("a truth value")),
        "long" => Scalar::Long(value.as_i64().expect("an integer")),
        "float64" => Scalar::Float64(real(value)),
        _ => panic!("no scalar is a `{kind}`"),
    }
}
