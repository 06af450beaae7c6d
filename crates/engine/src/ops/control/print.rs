//! `print`: writes a tensor to standard error, in Paddle's layout, and passes it on.

use std::fmt::Write as _;
use std::io::Write as _;

use bireme_ir::Op;

use crate::ops::prelude::*;
use crate::tensor::Lod;

const ATTRS: &[AttrSpec] = &[
    attr::int("first_n", -1),
    attr::str("message", ""),
    attr::int("summarize", 20),
    attr::bool("print_tensor_name", true),
    attr::bool("print_tensor_type", true),
    attr::bool("print_tensor_shape", true),
    attr::bool("print_tensor_layout", true),
    attr::bool("print_tensor_lod", true),
    attr::str("print_phase", "BOTH"),
    attr::bool("is_forward", true),
];

pub(super) const DEF: OpDef = OpDef::new("print", kernel)
    .inputs(&[Slot::one("In")])
    .outputs(&[Slot::one("Out")])
    .attrs(ATTRS)
    .like(&[("Out", "In")])
    .lod_from("In")
    .side_effect()
    .grad(GradRule::Fn(grad));

/// The gradient is printed, and passed on, by the same op.
fn grad(view: &OpView<'_>) -> Result<Vec<Op>> {
    let gradients =
        |vars: &[String]| vars.iter().map(|var| bireme_ir::grad_name(var)).collect::<Vec<_>>();
    let mut op = Op::new("print")
        .input("In", gradients(view.op.outputs_of("Out")))
        .output("Out", gradients(view.op.inputs_of("In")));
    op.attrs.clone_from(&view.op.attrs);
    op.attrs.retain(|name, _| !matches!(name.as_str(), "op_role" | "op_role_var"));
    op.site.clone_from(&view.op.site);
    Ok(vec![op.attr("is_forward", false)])
}

/// What is printed of a tensor.
struct Style {
    name: Option<String>,
    message: String,
    /// How many elements; all when absent.
    summarize: Option<usize>,
    dtype: bool,
    shape: bool,
    layout: bool,
    lod: bool,
}

impl Style {
    fn of(op: &OpView<'_>) -> Result<Style> {
        let name = op.op.inputs_of("In").first().cloned();
        Ok(Style {
            name: name.filter(|_| op.bool("print_tensor_name").unwrap_or(true)),
            message: op.string("message")?,
            summarize: usize::try_from(op.i64("summarize")?).ok(),
            dtype: op.bool("print_tensor_type")?,
            shape: op.bool("print_tensor_shape")?,
            layout: op.bool("print_tensor_layout")?,
            lod: op.bool("print_tensor_lod")?,
        })
    }

    fn text(&self, tensor: &Tensor) -> String {
        let mut text = String::new();
        let mut line = |label: &str, value: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{label}: {value}");
        };
        if let Some(name) = &self.name {
            line("Variable", name);
        }
        if !self.message.is_empty() {
            line("  - message", &self.message);
        }
        if self.lod {
            line("  - lod", &lod_text(tensor.lod()));
        }
        line("  - place", &"Place(cpu)");
        if self.shape {
            line("  - shape", &tensor.dims());
        }
        if self.layout {
            line("  - layout", &"NCHW");
        }
        if self.dtype {
            line("  - dtype", &tensor.dtype());
        }
        let shown = self.summarize.unwrap_or(usize::MAX);
        let data: Vec<String> = tensor.to_f64_vec().into_iter().take(shown).map(general).collect();
        line("  - data", &format!("[{}]", data.join(" ")));
        text
    }
}

fn lod_text(lod: &Lod) -> String {
    let level = |offsets: &Vec<usize>| {
        let offsets: Vec<String> = offsets.iter().map(usize::to_string).collect();
        format!("{{{}}}", offsets.join(", "))
    };
    format!("{{{}}}", lod.iter().map(level).collect::<String>())
}

/// Six significant digits, as C++ streams print.
pub(super) fn general(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) && value.is_finite() && value.fract() != 0.0 {
        return format!("{value:.5e}");
    }
    let whole_digits = if size < 1.0 { 0 } else { size.log10() as usize + 1 };
    let leading_zeros = if size > 0.0 && size < 0.1 { (-size.log10()) as usize } else { 0 };
    let text = format!("{value:.*}", 6usize.saturating_sub(whole_digits) + leading_zeros);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, mut out) = (op.input("In")?, op.output("Out")?);
    let style = Style::of(op)?;
    let other_phase = if op.bool("is_forward")? { "BACKWARD" } else { "FORWARD" };
    let silent = op.string("print_phase")?.eq_ignore_ascii_case(other_phase);
    let limit = u64::try_from(op.i64("first_n")?).ok().filter(|limit| *limit > 0);
    let mut printed = 0;
    Ok(Box::new(move |run| {
        if !silent && limit.is_none_or(|limit| printed < limit) {
            printed += 1;
            let text = match run.value(input) {
                Value::Tensor(tensor) => style.text(tensor),
                Value::Rows(rows) => style.text(&rows.value),
            };
            std::io::stderr().write_all(text.as_bytes()).map_err(|error| {
                Error::kernel(format!("cannot print to standard error: {error}"))
            })?;
        }
        match run.value(input) {
            Value::Tensor(tensor) => run.out(&mut out)?.copy_from(tensor),
            Value::Rows(rows) => run.out_rows(&mut out, rows.value.dtype()).clone_from(rows),
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected text is what Paddle 2.6.2 prints for this tensor.
    #[test]
    fn looks_like_paddle() {
        let op = Op::new("print").input("In", ["x"]).output("Out", ["y"]);
        let op = op.attr("message", "hello").attr("summarize", 4);
        let values = [0.539_050_8_f32, 0.672_151_5, 100.0, -5.0, 0.25, 0.5];
        let tensor = Tensor::from_slice([3, 2], &values).unwrap().with_lod(&[vec![0, 1, 3]]);
        let text = Style::of(&OpView::new(&op).unwrap()).unwrap().text(&tensor.unwrap());
        expect_test::expect![[r"
            Variable: x
              - message: hello
              - lod: {{0, 1, 3}}
              - place: Place(cpu)
              - shape: [3, 2]
              - layout: NCHW
              - dtype: float32
              - data: [0.539051 0.672152 100 -5]
        "]]
        .assert_eq(&text);
    }

    #[test]
    fn numbers_keep_six_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1234.5678, "1234.57"),
            (0.001_234_567_8, "0.00123457"),
            (1_234_567.5, "1.23457e6"),
            (12_345_678.0, "12345678"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(general(value), text);
        }
    }
}
