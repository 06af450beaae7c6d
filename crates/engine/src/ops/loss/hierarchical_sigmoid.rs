//! `hierarchical_sigmoid`: classes are the leaves of a binary tree, and each inner node on the way
//! to a class decides between its two sides by a row of `W`.
//!
//! Without `PathTable` the tree is the complete one, where class `c` of `n` is leaf `c + n` and a
//! node's parent has half its number. `PreOut` holds `ln(1 + exp(logit))` for each decision; where
//! a way is shorter than the longest, that of a logit of 0, which `Out` counts too, as Paddle's
//! does.

use bireme_ir::VarKind;

use super::sampler::check_class;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("hierarchical_sigmoid", kernel)
    .inputs(&[
        Slot::one("X"),
        Slot::one("W"),
        Slot::one("Label"),
        Slot::maybe("PathTable"),
        Slot::maybe("PathCode"),
        Slot::maybe("Bias"),
    ])
    .outputs(&[Slot::one("Out"), Slot::one("PreOut"), Slot::maybe("W_Out")])
    .attrs(&[
        attr::int("num_classes", 2),
        attr::int("trainer_id", 0),
        attr::longs("height_sections", &[]),
        attr::strings("epmap", &[]),
        attr::strings("table_names", &[]),
        attr::bool("is_sparse", false),
        attr::bool("remote_prefetch", false),
    ])
    .infer(infer)
    .inplace(&[("W", "W_Out")])
    .gradient(
        Gradient::new(&["X", "W", "Bias"], grad_kernel)
            .reads(&["X", "W", "Label", "PathTable", "PathCode", "Bias", "PreOut"])
            .infer(infer_grad),
    );

/// Logits beyond this do not change a decision, but might overflow.
const LIMIT: f64 = 40.0;

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, w, label) = (cx.input("X")?, cx.input("W")?, cx.input("Label")?);
    let ([rows, width], [nodes, depth]) = (&x.dims[..], &w.dims[..]) else {
        return Err(Error::kernel(format!(
            "`X` and `W` must be matrices, but their shapes are {:?} and {:?}",
            x.dims, w.dims
        )));
    };
    let classes = classes(cx.op())?;
    let path = cx.maybe_input("PathTable");
    let code = cx.maybe_input("PathCode");
    let length = match (path, code) {
        (None, None) => bits(classes - 1) as i64,
        (Some(path), Some(code)) if path.rank() == 2 && code.rank() == 2 => path.dims[1],
        _ => {
            return Err(Error::kernel(
                "`PathTable` and `PathCode` must both be given, as matrices, or neither",
            ));
        }
    };
    let enough = path.is_some() || *nodes < 0 || *nodes >= classes as i64 - 1;
    let fits = same_dim(*width, *depth).is_ok()
        && label.dims.first().is_some_and(|labels| same_dim(*labels, *rows).is_ok());
    if !fits || !enough {
        return Err(Error::kernel(format!(
            "`X` {:?}, `Label` {:?} and `W` {:?} of {classes} classes do not fit",
            x.dims, label.dims, w.dims
        )));
    }
    let (out, pre_out) = (x.with_dims([*rows, 1]), x.with_dims([*rows, length]));
    let w = w.clone();
    cx.set("Out", out);
    cx.set("PreOut", pre_out);
    cx.set("W_Out", w);
    Ok(())
}

fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    let mut w = cx.input("W")?.clone();
    if cx.op().bool("is_sparse")? {
        w.kind = VarKind::SelectedRows;
    }
    cx.set("W@GRAD", w);
    cx.like(&[("X@GRAD", "X")])?;
    if cx.maybe_input("Bias").is_some() {
        cx.like(&[("Bias@GRAD", "Bias")])?;
    }
    Ok(())
}

fn classes(op: &OpView<'_>) -> Result<usize> {
    let classes = op.i64("num_classes")?;
    let possible = usize::try_from(classes).ok().filter(|classes| *classes >= 2);
    possible.ok_or_else(|| Error::kernel(format!("`num_classes` must be 2 or more, not {classes}")))
}

/// How many bits a number has.
fn bits(number: usize) -> usize {
    (usize::BITS - number.leading_zeros()) as usize
}

/// A decision on the way to a class.
struct Decision {
    sample: usize,
    /// Which place of the sample's row in `PreOut` it has.
    place: usize,
    /// The row of `W`.
    node: usize,
    /// Whether the way goes to the side that counts as 1.
    right: bool,
}

/// The ways to the classes of a batch.
struct Ways {
    label: In,
    custom: Option<(In, In)>,
    classes: usize,
    decisions: Vec<Decision>,
}

impl Ways {
    fn of(op: &OpView<'_>) -> Result<Ways> {
        let custom = op.maybe_input("PathTable").zip(op.maybe_input("PathCode"));
        let label = op.input("Label")?;
        Ok(Ways { label, custom, classes: classes(op)?, decisions: Vec::new() })
    }

    /// The decisions of this step, sample by sample, where `W` has `nodes` rows.
    fn read(&mut self, run: &Run<'_>, nodes: usize) -> Result<&[Decision]> {
        self.decisions.clear();
        let Some((table, code)) = self.custom else {
            for (sample, class) in run.get::<i64>(self.label)?.iter().enumerate() {
                check_class(*class, self.classes, "Label")?;
                let leaf = *class as usize + self.classes;
                let way = (0..bits(leaf) - 1).map(|place| Decision {
                    sample,
                    place,
                    node: (leaf >> (place + 1)) - 1,
                    right: leaf >> place & 1 == 1,
                });
                self.decisions.extend(way);
            }
            return Ok(&self.decisions);
        };
        let (length, code) = (run.dims(table)?[1].max(1), run.get::<i64>(code)?);
        let table = run.get::<i64>(table)?;
        if code.len() != table.len() {
            return Err(Error::kernel("`PathTable` and `PathCode` must have the same shape"));
        }
        for (sample, way) in table.chunks_exact(length).enumerate() {
            // A negative number ends a way.
            for (place, node) in way.iter().enumerate().take_while(|(_, node)| **node >= 0) {
                if *node as usize >= nodes {
                    return Err(Error::kernel(format!(
                        "`PathTable` names node {node}, but `W` has {nodes} rows"
                    )));
                }
                let right = code[sample * length + place] != 0;
                self.decisions.push(Decision { sample, place, node: *node as usize, right });
            }
        }
        Ok(&self.decisions)
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, bias, mut ways) = (op.input("X")?, op.maybe_input("Bias"), Ways::of(op)?);
    let (mut out, mut pre_out) = (op.output("Out")?, op.output("PreOut")?);
    // Paddle's programs name the weights as an output, which they are unless they lie elsewhere.
    let mut both = op.maybe_in_out("W", "W_Out");
    let w = if both.is_none() { Some(op.input("W")?) } else { None };
    float_kernel!(op, "X", |run, T| {
        if let Some(both) = &mut both {
            run.carry_over(both)?;
        }
        let w = match (w, &both) {
            (Some(w), _) => run.tensor(w)?,
            (None, Some(both)) => run.before(both)?,
            (None, None) => return Err(Error::kernel("input slot `W` is empty")),
        };
        let (width, nodes) = (run.dims(x)?[1], w.rows());
        let decisions = ways.read(run, nodes)?;
        let (x, w) = (run.get::<T>(x)?, w.as_slice::<T>()?);
        let bias = bias.map(|bias| run.get::<T>(bias)).transpose()?;
        if bias.is_some_and(|bias| bias.len() != nodes) {
            return Err(Error::kernel("`Bias` must have an element for each row of `W`"));
        }
        let (out, tensor) = (run.set::<T>(&mut out)?, run.out(&mut pre_out)?);
        let length = tensor.dims()[1];
        let pre_out = tensor.as_mut_slice::<T>()?;
        pre_out.fill(0.0);
        out.fill(0.0);
        for Decision { sample, place, node, right } in decisions {
            let (x, w) = (&x[sample * width..][..width], &w[node * width..][..width]);
            let logit = sum_of_pairs(x, w, |x, w| x * w) + bias.map_or(0.0, |bias| bias[*node]);
            let logit = logit.clamp(-LIMIT as T, LIMIT as T);
            pre_out[sample * length + place] = logit;
            out[*sample] -= if *right { logit } else { 0.0 };
        }
        for (pre_out, out) in pre_out.chunks_exact_mut(length.max(1)).zip(out) {
            pre_out.iter_mut().for_each(|logit| *logit = logit.exp().ln_1p());
            *out += sum_of(pre_out, |cost| cost);
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, w, mut ways) = (op.input("X")?, op.input("W")?, Ways::of(op)?);
    let (pre_out, dout) = (op.input("PreOut")?, op.input("Out@GRAD")?);
    let wanted = ["X@GRAD", "W@GRAD", "Bias@GRAD"];
    let [mut dx, mut dw, mut dbias] = wanted.map(|slot| op.maybe_output(slot));
    let sparse = op.bool("is_sparse")?;
    float_kernel!(op, "X", |run, T| {
        let (rows, width) = (run.tensor(x)?.rows(), run.dims(x)?[1]);
        let (nodes, length) = (run.tensor(w)?.rows(), run.dims(pre_out)?[1]);
        let decisions = ways.read(run, nodes)?;
        let (x, w, pre_out) = (run.get::<T>(x)?, run.get::<T>(w)?, run.get::<T>(pre_out)?);
        let dout = run.get::<T>(dout)?;
        let last = decisions.iter().map(|decision| decision.place + 1).max().unwrap_or(0);
        if dout.len() != rows || pre_out.len() != rows * length || last > length {
            return Err(Error::kernel("`PreOut` and `Out@GRAD` are not those of `X`"));
        }
        let slope = |decision: &Decision| {
            let taken = 1.0 - (-pre_out[decision.sample * length + decision.place]).exp();
            (taken - if decision.right { 1.0 } else { 0.0 }) * dout[decision.sample]
        };
        if let Some(dbias) = &mut dbias {
            let dbias = run.set::<T>(dbias)?;
            dbias.fill(0.0);
            decisions.iter().for_each(|decision| dbias[decision.node] += slope(decision));
        }
        if let Some(dw) = &mut dw {
            let row_of = |decision: &Decision| &x[decision.sample * width..][..width];
            if sparse {
                let dw = run.out_rows(dw, T::DTYPE);
                dw.height = nodes;
                dw.rows.clear();
                dw.rows.extend(decisions.iter().map(|decision| decision.node as i64));
                dw.value.resize(T::DTYPE, [decisions.len(), width]);
                let rows = dw.value.as_mut_slice::<T>()?.chunks_exact_mut(width.max(1));
                for (row, decision) in rows.zip(decisions) {
                    let slope = slope(decision);
                    row.iter_mut().zip(row_of(decision)).for_each(|(d, x)| *d = slope * *x);
                }
            } else {
                let dw = run.set::<T>(dw)?;
                dw.fill(0.0);
                for decision in decisions {
                    let (d, slope) = (&mut dw[decision.node * width..][..width], slope(decision));
                    d.iter_mut().zip(row_of(decision)).for_each(|(d, x)| *d += slope * *x);
                }
            }
        }
        if let Some(dx) = &mut dx {
            let dx = run.set::<T>(dx)?;
            dx.fill(0.0);
            for decision in decisions {
                let (d, slope) = (&mut dx[decision.sample * width..][..width], slope(decision));
                let w = &w[decision.node * width..][..width];
                d.iter_mut().zip(w).for_each(|(d, w)| *d += slope * *w);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn op() -> Op {
        let op = Op::new("hierarchical_sigmoid").input("X", ["x"]).input("W", ["w"]);
        let op = op.input("Label", ["label"]).output("Out", ["out"]).output("PreOut", ["pre_out"]);
        op.attr("num_classes", 5)
    }

    fn values(label: i64) -> HashMap<String, Value> {
        HashMap::from([
            ("x".to_owned(), Tensor::from_slice([1, 2], &[1.0, -2.0]).unwrap().into()),
            ("w".to_owned(), Tensor::from_slice([4, 2], &[0.3; 8]).unwrap().into()),
            ("label".to_owned(), Tensor::from_slice([1, 1], &[label]).unwrap().into()),
        ])
    }

    #[test]
    fn the_costs_of_all_classes_are_those_of_probabilities() {
        let mut total = 0.0;
        for class in 0..5 {
            let mut values = values(class);
            run_once(&op(), &mut values).unwrap();
            // Ways of two decisions count an empty third one, of ln 2.
            let unused = if class < 3 { std::f64::consts::LN_2 } else { 0.0 };
            total += (unused - values["out"].tensor().unwrap().to_f64_vec()[0]).exp();
        }
        assert!((total - 1.0).abs() < 1e-9, "{total}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for label in [-1, 5] {
            let error = run_once(&op(), &mut values(label)).unwrap_err().to_string();
            assert!(error.contains(&format!("class {label}, but there are 5")), "{error}");
        }
        let mut values = values(0);
        let path = Tensor::from_slice([1, 2], &[0i64, 4]).unwrap();
        values.insert("path".to_owned(), path.into());
        let custom = op().input("PathTable", ["path"]);
        assert!(run_once(&custom, &mut values).is_err());
        let error = run_once(&custom.input("PathCode", ["path"]), &mut values).unwrap_err();
        assert!(error.to_string().contains("names node 4, but `W` has 4 rows"), "{error}");
    }
}
