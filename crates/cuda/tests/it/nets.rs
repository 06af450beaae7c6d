//! Ops of networks, forward and back: the card gives what the host gives, and the same bits whatever the order of its
//! blocks.

use std::collections::HashMap;

use bireme_emulator::Control;
use bireme_engine::Value;
use bireme_engine::device::run_once_on;
use bireme_engine::op::{OpView, run_once};
use bireme_engine::tensor::Tensor;
use bireme_ir::{Attr, DType, EMPTY_VAR, Op, grad_name};
use half::{bf16, f16};

use crate::card::{device, is_real};
use crate::compare::{Tolerance, numbers};

/// An op and its variables, which are called as their slots.
pub(crate) struct Net {
    op: Op,
    values: HashMap<String, Value>,
    dtype: DType,
    drawn: u64,
}

/// An op of 32-bit floats.
pub(crate) fn net(kind: &str) -> Net {
    Net { op: Op::new(kind), values: HashMap::new(), dtype: DType::F32, drawn: 1 }
}

impl Net {
    /// Of other floats.
    pub(crate) fn of(mut self, dtype: DType) -> Net {
        self.dtype = dtype;
        self
    }

    /// An input of real numbers between two limits.
    pub(crate) fn real(mut self, slot: &str, dims: &[usize], low: f64, high: f64) -> Net {
        let value = self.draw(dims, low, high);
        self.input(slot, value)
    }

    /// An input of whole numbers from 0, below `bound`.
    pub(crate) fn whole(mut self, slot: &str, dims: &[usize], bound: usize) -> Net {
        let count = dims.iter().product();
        let drawn: Vec<i64> = (0..count).map(|_| (self.next() * bound as f64) as i64).collect();
        self.input(slot, Tensor::from_slice(dims, &drawn).unwrap())
    }

    /// An input.
    pub(crate) fn input(mut self, slot: &str, tensor: Tensor) -> Net {
        let vars = self.op.inputs.entry(slot.to_owned()).or_default();
        let name = if vars.is_empty() { slot.to_owned() } else { format!("{slot}.{}", vars.len()) };
        vars.push(name.clone());
        self.values.insert(name, tensor.into());
        self
    }

    /// Outputs.
    pub(crate) fn out<const N: usize>(mut self, slots: [&str; N]) -> Net {
        for slot in slots {
            self.op.outputs.insert(slot.to_owned(), vec![slot.to_owned()]);
        }
        self
    }

    /// Several outputs in one slot.
    pub(crate) fn outs(mut self, slot: &str, count: usize) -> Net {
        let names = (0..count).map(|i| format!("{slot}.{i}")).collect();
        self.op.outputs.insert(slot.to_owned(), names);
        self
    }

    /// An attribute.
    pub(crate) fn attr(mut self, name: &str, value: impl Into<Attr>) -> Net {
        self.op.attrs.insert(name.to_owned(), value.into());
        self
    }

    /// Numbers of no meaning.
    fn next(&mut self) -> f64 {
        self.drawn = self
            .drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.drawn >> 11) as f64 / (1u64 << 53) as f64
    }

    fn draw(&mut self, dims: &[usize], low: f64, high: f64) -> Tensor {
        let count = dims.iter().product();
        let drawn: Vec<f64> = (0..count).map(|_| low + (high - low) * self.next()).collect();
        tensor_of(self.dtype, dims, &drawn)
    }

    /// Runs the op and its gradient on both, which must agree.
    pub(crate) fn check(mut self) {
        let op = self.op.clone();
        self.step(&op);
        for grad in self.gradients(&op) {
            self.step(&grad);
        }
    }

    /// Runs `op` and the op that is named as its gradient, where the definition has none of its own.
    pub(crate) fn check_with(mut self, gradient: impl Fn(&Op) -> Op) {
        let op = self.op.clone();
        self.step(&op);
        self.draw_targets(&op);
        self.step(&gradient(&op));
    }

    /// Gradients of all outputs, drawn.
    fn draw_targets(&mut self, op: &Op) {
        for name in op.output_vars() {
            let tensor = self.values[name].tensor().unwrap();
            if tensor.dtype().is_float() {
                let dims = tensor.dims().to_vec();
                let drawn = self.draw(&dims, -1.0, 1.0);
                self.values.insert(grad_name(name), drawn.into());
            }
        }
    }

    fn gradients(&mut self, op: &Op) -> Vec<Op> {
        self.draw_targets(op);
        let view = OpView::new(op).unwrap();
        let mut grads = view.def.grad.ops(&view).unwrap();
        let is_float =
            |name: &String| self.values.get(name).is_none_or(|value| value.dtype().is_float());
        for grad in &mut grads {
            let given = |name: &String| is_float(&name.replace("@GRAD", ""));
            grad.outputs.retain(|_, vars| vars.iter().all(given));
            grad.inputs.retain(|_, vars| vars.iter().all(|var| self.values.contains_key(var)));
        }
        grads
    }

    /// One op on both; the host's values are kept.
    fn step(&mut self, op: &Op) {
        let Some((_machine, device)) = device() else { return };
        let given = self.values.clone();
        let mut host = self.given_to_host(op);
        run_once(op, &mut host).unwrap();
        let mut bits: Option<Vec<Vec<u8>>> = None;
        for seed in [0, 1, 77] {
            reorder(seed);
            let mut card = given.clone();
            let ran = run_once_on(&device, op, &mut card).unwrap_or_else(|e| panic!("{op:?}: {e}"));
            assert!(ran, "the card declines {op:?}");
            let names: Vec<&String> = op.output_vars().filter(|name| *name != EMPTY_VAR).collect();
            let of = |name: &&String| card[*name].tensor().unwrap().as_bytes().to_vec();
            let now: Vec<Vec<u8>> = names.iter().map(of).collect();
            match &bits {
                Some(first) => assert!(*first == now, "{op:?} depends on the order of blocks"),
                None => names.iter().for_each(|name| self.compare(op, name, &host, &card)),
            }
            bits = Some(now);
        }
        for name in op.output_vars() {
            let value = host[name].tensor().unwrap();
            let is_narrow =
                matches!(self.dtype, DType::BF16 | DType::F16) && value.dtype() == DType::F32;
            let kept = if is_narrow { narrow(self.dtype, value) } else { value.clone() };
            self.values.insert(name.clone(), kept.into());
        }
    }

    /// The inputs of `op` for the host, which computes with 32 bits where the card has 16.
    fn given_to_host(&self, op: &Op) -> HashMap<String, Value> {
        let wide = |name: &String| {
            let tensor = self.values[name].tensor().unwrap();
            let is_narrow = matches!(tensor.dtype(), DType::BF16 | DType::F16);
            let numbers = || tensor_of(DType::F32, &tensor.dims(), &tensor.to_f64_vec());
            (name.clone(), if is_narrow { numbers() } else { tensor.clone() }.into())
        };
        op.input_vars().map(wide).collect()
    }

    fn compare(
        &self,
        op: &Op,
        name: &str,
        host: &HashMap<String, Value>,
        card: &HashMap<String, Value>,
    ) {
        let (expected, got) = (host[name].tensor().unwrap(), card[name].tensor().unwrap());
        assert_eq!(expected.dims(), got.dims(), "{op:?}: `{name}`");
        let within = match self.dtype {
            DType::F64 => Tolerance { rtol: 1e-11, atol: 1e-11 },
            DType::F32 => Tolerance { rtol: 5e-5, atol: 1e-5 },
            _ => Tolerance { rtol: 2e-2, atol: 2e-2 },
        };
        if let Some(what) = numbers(&expected.to_f64_vec(), &got.to_f64_vec(), within) {
            panic!("{op:?}: `{name}` {what}");
        }
    }

    /// Both refuse the op, the card in words that contain `text`.
    pub(crate) fn refused(self, text: &str) {
        let Some((_machine, device)) = device() else { return };
        assert!(
            run_once(&self.op, &mut self.values.clone()).is_err(),
            "the host runs {:?}",
            self.op
        );
        let error =
            run_once_on(&device, &self.op, &mut self.values.clone()).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

/// Lets the emulated card run blocks in another order.
fn reorder(seed: u64) {
    if let (false, Some(Ok(machine))) = (is_real(), Control::open()) {
        machine.seed(seed);
    }
}

fn tensor_of(dtype: DType, dims: &[usize], values: &[f64]) -> Tensor {
    let f32s = || values.iter().map(|x| *x as f32);
    match dtype {
        DType::F32 => Tensor::from_slice(dims, &f32s().collect::<Vec<_>>()),
        DType::F64 => Tensor::from_slice(dims, values),
        DType::BF16 => Tensor::from_slice(dims, &f32s().map(bf16::from_f32).collect::<Vec<_>>()),
        _ => Tensor::from_slice(dims, &f32s().map(f16::from_f32).collect::<Vec<_>>()),
    }
    .unwrap()
}

fn narrow(dtype: DType, tensor: &Tensor) -> Tensor {
    tensor_of(dtype, &tensor.dims(), &tensor.to_f64_vec())
}
