//! Gradients that are reduced together, in the order in which the backward pass makes them: the
//! first buckets are on their way while the last are computed.

use std::collections::{HashMap, HashSet};

use bireme_ir::{DType, Op, OpRole, Program, Var, VarKind};

use super::{CollectiveStrategy, gradients};

/// Some dense variables of one type.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) vars: Vec<String>,
    /// The op that makes the last of them.
    pub(super) after: usize,
    bytes: f64,
}

impl Bucket {
    /// The op that starts the reduction.
    pub(super) fn start(&self, ticket: &str) -> Op {
        let op = Op::new("c_bucket_start").input("X", self.vars.clone());
        op.output("Ticket", [ticket]).attr("ring_id", 0).role(OpRole::BACKWARD)
    }

    /// The op that ends it, and multiplies by `scale`; without a ticket it does all of it.
    pub(super) fn wait(&self, scale: f32) -> Op {
        let op = Op::new("c_bucket_wait").input("X", self.vars.clone());
        let op = op.output("Out", self.vars.clone()).attr("ring_id", 0).role(OpRole::BACKWARD);
        if scale == 1.0 { op } else { op.attr("scale", scale) }
    }
}

/// All that is reduced in a step.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    pub(super) dense: Vec<Bucket>,
    /// Gradients that are rows of a table.
    pub(super) sparse: Vec<String>,
}

impl Buckets {
    /// The gradients that the program's updates use.
    pub(super) fn of_gradients(program: &Program, strategy: &CollectiveStrategy) -> Buckets {
        let ops = &program.global().ops;
        let mut packing = Packing::new(strategy);
        let mut last_writer: HashMap<&str, usize> = HashMap::new();
        for (index, op) in ops.iter().enumerate() {
            if op.op_role().base() == OpRole::BACKWARD {
                last_writer.extend(op.output_vars().map(|var| (var.as_str(), index)));
            }
        }
        let mut made: Vec<(usize, &str, &str)> = Vec::new();
        let mut seen = HashSet::new();
        for op in ops.iter().filter(|op| op.op_role().base() == OpRole::BACKWARD) {
            for (param, grad) in gradients(op) {
                if seen.insert(grad.as_str()) {
                    let after = last_writer.get(grad.as_str()).copied().unwrap_or(0);
                    made.push((after, param, grad));
                }
            }
        }
        made.sort_by_key(|(after, ..)| *after);
        for (after, param, grad) in made {
            let declared = program.global().var(grad);
            let is_sparse = declared.is_some_and(|var| var.kind == VarKind::SelectedRows);
            let like = program.global().var(param).or(declared);
            packing.add(grad, like, is_sparse, after);
        }
        packing.finish()
    }

    /// Gradients, each with its parameter and the op that makes it.
    pub(super) fn of_made(
        mut made: Vec<(String, &Var, usize)>,
        strategy: &CollectiveStrategy,
    ) -> Buckets {
        let mut packing = Packing::new(strategy);
        made.sort_by_key(|(.., after)| *after);
        for (grad, like, after) in made {
            packing.add(&grad, Some(like), false, after);
        }
        packing.finish()
    }

    /// Variables in a given order, all of them there at once.
    pub(super) fn of_vars<'a>(
        vars: impl IntoIterator<Item = (String, &'a Var, bool)>,
        strategy: &CollectiveStrategy,
    ) -> Buckets {
        let mut packing = Packing::new(strategy);
        for (name, like, is_sparse) in vars {
            packing.add(&name, Some(like), is_sparse, 0);
        }
        packing.finish()
    }
}

/// Fills buckets, one for each type at a time.
struct Packing {
    limit: f64,
    open: HashMap<DType, Bucket>,
    done: Buckets,
}

impl Packing {
    fn new(strategy: &CollectiveStrategy) -> Packing {
        let limit = if strategy.fuse { strategy.bucket_mb * 1024.0 * 1024.0 } else { 0.0 };
        Packing { limit, open: HashMap::new(), done: Buckets::default() }
    }

    fn add(&mut self, name: &str, like: Option<&Var>, is_sparse: bool, after: usize) {
        if is_sparse {
            return self.done.sparse.push(name.to_owned());
        }
        let dtype = like.map_or(DType::F32, |var| var.dtype);
        let elements: i64 = like.map_or(0, |var| var.shape.iter().product());
        let bytes = elements as f64 * dtype.size() as f64;
        let fits = |bucket: &Bucket| bucket.bytes + bytes <= self.limit;
        if self.open.get(&dtype).is_some_and(|bucket| !fits(bucket)) {
            self.done.dense.extend(self.open.remove(&dtype));
        }
        let empty = Bucket { vars: Vec::new(), after, bytes: 0.0 };
        let bucket = self.open.entry(dtype).or_insert(empty);
        bucket.vars.push(name.to_owned());
        (bucket.after, bucket.bytes) = (after, bucket.bytes + bytes);
    }

    fn finish(mut self) -> Buckets {
        let mut rest: Vec<Bucket> = self.open.into_values().collect();
        // The map has no order, and every rank must reduce in the same one.
        rest.sort_by(|a, b| (a.after, &a.vars).cmp(&(b.after, &b.vars)));
        self.done.dense.extend(rest);
        self.done
    }
}
