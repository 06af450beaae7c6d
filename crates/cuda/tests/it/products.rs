//! Products of matrices against plain loops.

use bireme_cuda::driver::{
    Compute, Element, Epilogue, Error, Operand, ProductSpec, Products, Stream,
};
use half::{bf16, f16};
use std::sync::Arc;

use crate::card::{alone, open, shared};

/// Small numbers that are whole in every type, so that sums are too.
fn numbers(count: usize, salt: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 7 + salt * 3) % 11) as f64 - 5.0).collect()
}

fn encode(values: &[f64], element: Element) -> Vec<u8> {
    let each = |x: &f64| match element {
        Element::F64 => x.to_ne_bytes().to_vec(),
        Element::F32 => (*x as f32).to_ne_bytes().to_vec(),
        Element::Bf16 => bf16::from_f64(*x).to_ne_bytes().to_vec(),
        Element::F16 => f16::from_f64(*x).to_ne_bytes().to_vec(),
    };
    values.iter().flat_map(each).collect()
}

fn decode(bytes: &[u8], element: Element) -> Vec<f64> {
    match element {
        Element::F64 => {
            bytes.chunks(8).map(|x| f64::from_ne_bytes(x.try_into().unwrap())).collect()
        }
        Element::F32 => {
            bytes.chunks(4).map(|x| f64::from(f32::from_ne_bytes(x.try_into().unwrap()))).collect()
        }
        Element::Bf16 => {
            bytes.chunks(2).map(|x| bf16::from_ne_bytes(x.try_into().unwrap()).to_f64()).collect()
        }
        Element::F16 => {
            bytes.chunks(2).map(|x| f16::from_ne_bytes(x.try_into().unwrap()).to_f64()).collect()
        }
    }
}

/// Elements of an operand that is stored as `rows`×`cols`.
fn extent(operand: &Operand, rows: usize, cols: usize, batch: usize) -> usize {
    (batch - 1) * operand.batch_step + (rows - 1) * operand.row_step + cols
}

fn stored(operand: &Operand, rows: usize, cols: usize) -> (usize, usize) {
    if operand.transposed { (cols, rows) } else { (rows, cols) }
}

fn at(operand: &Operand, batch: usize, row: usize, col: usize) -> usize {
    let (row, col) = if operand.transposed { (col, row) } else { (row, col) };
    batch * operand.batch_step + row * operand.row_step + col
}

/// The values of all operands of a product.
struct Values {
    a: Vec<f64>,
    b: Vec<f64>,
    out: Vec<f64>,
    bias: Vec<f64>,
}

fn values(spec: &ProductSpec) -> Values {
    let (a_rows, a_cols) = stored(&spec.a, spec.m, spec.k);
    let (b_rows, b_cols) = stored(&spec.b, spec.k, spec.n);
    Values {
        a: numbers(extent(&spec.a, a_rows, a_cols, spec.batch), 1),
        b: numbers(extent(&spec.b, b_rows, b_cols, spec.batch), 2),
        out: numbers(extent(&spec.out, spec.m, spec.n, spec.batch), 3),
        bias: numbers(spec.n, 4),
    }
}

fn by_loops(spec: &ProductSpec, values: &Values) -> Vec<f64> {
    let mut out = values.out.clone();
    for batch in 0..spec.batch {
        for i in 0..spec.m {
            for j in 0..spec.n {
                let term =
                    |x| values.a[at(&spec.a, batch, i, x)] * values.b[at(&spec.b, batch, x, j)];
                let sum: f64 = (0..spec.k).map(term).sum();
                let place = at(&spec.out, batch, i, j);
                let mut value = spec.alpha * sum + spec.beta * out[place];
                if spec.epilogue != Epilogue::None {
                    value += values.bias[j];
                }
                out[place] =
                    if spec.epilogue == Epilogue::BiasRelu { value.max(0.0) } else { value };
            }
        }
    }
    out
}

fn by_card(
    products: &Products,
    stream: &Arc<Stream>,
    spec: &ProductSpec,
    values: &Values,
) -> Result<Vec<f64>, Error> {
    let put = |values: &[f64], element| {
        let bytes = encode(values, element);
        let memory = stream.allocate(bytes.len())?;
        stream.upload(memory.whole(), &bytes)?;
        Ok(memory)
    };
    let a = put(&values.a, spec.input)?;
    let b = put(&values.b, spec.input)?;
    let out = put(&values.out, spec.output)?;
    let bias = put(&values.bias, spec.output)?;
    products.run(stream, spec, a.whole(), b.whole(), out.whole(), Some(bias.whole()))?;
    let mut bytes = vec![0; out.len()];
    stream.download(&mut bytes, out.whole())?;
    Ok(decode(&bytes, spec.output))
}

/// All ways to store the operands of a product of 5×7 by 7×3.
fn layouts(
    input: Element,
    output: Element,
    compute: Compute,
    epilogue: Epilogue,
) -> Vec<ProductSpec> {
    let (m, n, k) = (5, 3, 7);
    let mut specs = Vec::new();
    for bits in 0..32 {
        let is_set = |bit: usize| bits >> bit & 1 == 1;
        let batch = if is_set(2) { 3 } else { 1 };
        let operand = |rows, cols, transposed| {
            let (rows, cols) = if transposed { (cols, rows) } else { (rows, cols) };
            let row_step = if is_set(3) { cols + 2 } else { cols };
            Operand { row_step, batch_step: rows * row_step + 1, transposed }
        };
        let mut spec = ProductSpec {
            batch,
            input,
            output,
            compute,
            epilogue,
            ..ProductSpec::dense(m, n, k, input)
        };
        spec.a = operand(m, k, is_set(0));
        spec.b = operand(k, n, is_set(1));
        spec.out = operand(m, n, false);
        (spec.alpha, spec.beta) = if is_set(4) { (2.0, -1.0) } else { (1.0, 0.0) };
        specs.push(spec);
    }
    specs
}

#[test]
fn products_equal_plain_loops() {
    let Some(_machine) = shared() else { return };
    let (card, stream) = open(0);
    let products = Products::new(&card).unwrap();
    let epilogues = [Epilogue::None, Epilogue::Bias, Epilogue::BiasRelu];
    let floats = [
        (Element::F32, Element::F32, Compute::F32),
        (Element::F32, Element::F32, Compute::Tf32),
        (Element::Bf16, Element::Bf16, Compute::F32),
        (Element::Bf16, Element::F32, Compute::F32),
        (Element::F16, Element::F16, Compute::F32),
        (Element::F16, Element::F32, Compute::F32),
    ];
    let mut specs = layouts(Element::F64, Element::F64, Compute::F64, Epilogue::None);
    for (input, output, compute) in floats {
        specs.extend(
            epilogues.iter().flat_map(|&epilogue| layouts(input, output, compute, epilogue)),
        );
    }
    for spec in &specs {
        let values = values(spec);
        let wanted = decode(&encode(&by_loops(spec, &values), spec.output), spec.output);
        assert_eq!(by_card(&products, &stream, spec, &values).unwrap(), wanted, "{spec:?}");
    }
}

#[test]
fn one_matrix_may_serve_a_whole_batch() {
    let Some(_machine) = shared() else { return };
    let (card, stream) = open(0);
    let products = Products::new(&card).unwrap();
    let mut spec = ProductSpec { batch: 4, ..ProductSpec::dense(2, 3, 5, Element::F32) };
    (spec.a.batch_step, spec.b.batch_step, spec.out.batch_step) = (10, 0, 6);
    let values = values(&spec);
    assert_eq!(by_card(&products, &stream, &spec, &values).unwrap(), by_loops(&spec, &values));
}

#[test]
fn tf32_rounds_the_factors() {
    let Some(_machine) = shared() else { return };
    let (card, stream) = open(0);
    let products = Products::new(&card).unwrap();
    let mut spec = ProductSpec::dense(1, 1, 1, Element::F32);
    let fine = 1.0 + 2f64.powi(-12);
    let values = Values { a: vec![fine], b: vec![1.0], out: vec![0.0], bias: vec![0.0] };
    assert_eq!(by_card(&products, &stream, &spec, &values).unwrap(), [fine]);
    spec.compute = Compute::Tf32;
    assert_eq!(by_card(&products, &stream, &spec, &values).unwrap(), [1.0]);
}

#[test]
fn what_is_multiplied_by_zero_is_not_read() {
    let Some(_machine) = shared() else { return };
    let (card, stream) = open(0);
    let products = Products::new(&card).unwrap();
    let spec = ProductSpec::dense(1, 1, 1, Element::F32);
    let values = Values { a: vec![2.0], b: vec![3.0], out: vec![f64::NAN], bias: vec![0.0] };
    assert_eq!(by_card(&products, &stream, &spec, &values).unwrap(), [6.0]);
}

#[test]
fn products_are_recorded_and_replayed() {
    let Some(machine) = alone() else { return };
    for seed in 0..5 {
        machine.control.seed(seed);
        let (card, stream) = open(0);
        let products = Products::new(&card).unwrap();
        let spec = ProductSpec { beta: 1.0, ..ProductSpec::dense(1, 2, 1, Element::F32) };
        let put = |values: &[f64]| {
            let memory = stream.allocate(values.len() * 4).unwrap();
            stream.upload(memory.whole(), &encode(values, Element::F32)).unwrap();
            memory
        };
        let (a, b, out) = (put(&[2.0]), put(&[3.0, 4.0]), put(&[0.0, 0.0]));
        let record = || products.run(&stream, &spec, a.whole(), b.whole(), out.whole(), None);
        let unprepared = stream.capture(record).err().unwrap();
        assert!(unprepared.to_string().contains("`Products::prepare`"), "{unprepared}");
        products.prepare(&stream).unwrap();
        let graph = stream.capture(record).unwrap();
        for _ in 0..3 {
            graph.launch(&stream).unwrap();
        }
        let mut bytes = vec![0; 8];
        stream.download(&mut bytes, out.whole()).unwrap();
        assert_eq!(decode(&bytes, Element::F32), [18.0, 24.0]);
    }
}

#[test]
fn a_product_that_does_not_fit_is_refused() {
    let Some(_machine) = shared() else { return };
    let (card, stream) = open(0);
    let products = Products::new(&card).unwrap();
    let spec = ProductSpec::dense(2, 3, 5, Element::F32);
    let memory = stream.allocate(60).unwrap();
    let small = memory.span(0..39).unwrap();
    let error =
        products.run(&stream, &spec, small, memory.whole(), memory.whole(), None).unwrap_err();
    assert!(error.to_string().contains("`a`, 2×5 F32"), "{error}");
    let spec = ProductSpec { epilogue: Epilogue::Bias, ..spec };
    let error = products
        .run(&stream, &spec, memory.whole(), memory.whole(), memory.whole(), None)
        .unwrap_err();
    assert!(error.to_string().contains("bias of 12 bytes"), "{error}");
    // cuBLASLt has no epilogues for 64-bit floats.
    let spec =
        ProductSpec { epilogue: Epilogue::Bias, ..ProductSpec::dense(1, 1, 1, Element::F64) };
    let error = products.run(
        &stream,
        &spec,
        memory.whole(),
        memory.whole(),
        memory.whole(),
        Some(memory.whole()),
    );
    assert!(error.unwrap_err().to_string().contains("NOT_SUPPORTED"));
}

#[test]
fn a_failed_product_is_told() {
    let Some(machine) = alone() else { return };
    let machine = machine.quiet();
    let (card, stream) = open(0);
    let products = Products::new(&card).unwrap();
    machine.control.fail_launch(1);
    let spec = ProductSpec::dense(2, 3, 5, Element::F32);
    let failed = by_card(&products, &stream, &spec, &values(&spec)).unwrap_err();
    let wanted =
        "a kernel failed on the card, `product 2×3×5` or one before it: unspecified launch failure";
    assert_eq!(failed.to_string(), wanted);
}
