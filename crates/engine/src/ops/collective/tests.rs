//! The ops against a job of two ranks that always have the same: every sum is a double.

use std::sync::{Arc, Mutex};

use bireme_ir::{Attr, DType, Op, OpRole, Program, Var, VarKind};

use crate::collective::{Bring, Carried, Collective, Ongoing, Reduction};
use crate::tensor::Tensor;
use crate::{Executor, Place, Result};

/// Remembers what was asked, in order.
#[derive(Default)]
struct Twins {
    calls: Mutex<Vec<String>>,
}

impl Twins {
    fn note(&self, call: impl Into<String>) {
        self.calls.lock().unwrap().push(call.into());
    }
}

fn reduced(data: &mut Tensor, how: Reduction) -> Result<()> {
    for value in data.as_mut_slice::<f32>()? {
        *value = match how {
            Reduction::Sum => *value * 2.0,
            Reduction::Prod => *value * *value,
            Reduction::Min | Reduction::Max => *value,
        };
    }
    Ok(())
}

struct Flying(Carried, Reduction);

impl Ongoing for Flying {
    fn wait(mut self: Box<Self>) -> Result<Carried> {
        reduced(&mut self.0.data, self.1)?;
        Ok(self.0)
    }
}

impl Collective for Twins {
    fn rank(&self, _: i32) -> Result<usize> {
        Ok(1)
    }

    fn size(&self, _: i32) -> Result<usize> {
        Ok(2)
    }

    fn all_reduce(&self, _: i32, data: &mut Tensor, how: Reduction) -> Result<()> {
        self.note(format!("all_reduce {}", data.numel()));
        reduced(data, how)
    }

    fn start_all_reduce(&self, _: i32, data: Bring, how: Reduction) -> Result<Box<dyn Ongoing>> {
        let data = data()?;
        self.note(format!("start {}", data.data.numel()));
        Ok(Box::new(Flying(data, how)))
    }

    fn reduce(&self, _: i32, data: &mut Tensor, how: Reduction, _: usize) -> Result<()> {
        reduced(data, how)
    }

    fn reduce_scatter(&self, _: i32, data: &Tensor, out: &mut Tensor, _: Reduction) -> Result<()> {
        let half = data.numel() / 2;
        out.as_mut_slice::<f32>()?.copy_from_slice(&data.as_slice::<f32>()?[half..]);
        reduced(out, Reduction::Sum)
    }

    fn broadcast(&self, _: i32, _: &mut Tensor, root: usize) -> Result<()> {
        self.note(format!("broadcast from {root}"));
        Ok(())
    }

    fn all_gather(&self, _: i32, part: &Tensor, out: &mut Tensor) -> Result<()> {
        let size = part.as_bytes().len();
        out.as_mut_bytes()
            .chunks_exact_mut(size)
            .for_each(|to| to.copy_from_slice(part.as_bytes()));
        Ok(())
    }

    fn all_gather_varied(&self, _: i32, part: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![part.to_vec(); 2])
    }

    fn scatter(&self, _: i32, parts: &Tensor, out: &mut Tensor, _: usize) -> Result<()> {
        let half = out.as_bytes().len();
        out.as_mut_bytes().copy_from_slice(&parts.as_bytes()[half..]);
        Ok(())
    }

    fn all_to_all(&self, _: i32, parts: &Tensor, out: &mut Tensor) -> Result<()> {
        let half = parts.as_bytes().len() / 2;
        let own = &parts.as_bytes()[half..];
        out.as_mut_bytes().chunks_exact_mut(half).for_each(|to| to.copy_from_slice(own));
        Ok(())
    }

    fn send(&self, _: i32, data: &Tensor, to: usize) -> Result<()> {
        self.note(format!("send {} to {to}", data.numel()));
        Ok(())
    }

    fn receive(&self, _: i32, data: &mut Tensor, from: usize) -> Result<()> {
        self.note(format!("receive from {from}"));
        data.as_mut_slice::<f32>()?.fill(5.0);
        Ok(())
    }

    fn barrier(&self, ring: i32) -> Result<()> {
        self.note(format!("barrier of {ring}"));
        Ok(())
    }
}

fn program(shapes: &[(&str, &[i64])], ops: Vec<Op>) -> Program {
    let mut program = Program::new();
    for (name, shape) in shapes {
        let var = program.global_mut().add_var(Var::tensor(*name, DType::F32, shape.to_vec()));
        var.need_check_feed = *name == "x";
    }
    program.global_mut().ops = ops;
    program
}

fn unary(kind: &str) -> Op {
    Op::new(kind).input("X", ["x"]).output("Out", ["y"])
}

/// What `op` makes of [[1, 2], [3, 4]], and what it asked.
fn run(op: Op, shape: &[i64]) -> Result<(Vec<f64>, Vec<String>)> {
    let program = program(&[("x", &[-1, 2]), ("y", shape)], vec![op]);
    let twins = Arc::new(Twins::default());
    let mut executor = Executor::new(Place::Cpu)?.collective(Arc::clone(&twins) as _);
    let x = Tensor::from_slice([2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    let y = executor.run(&program, &[("x", &x)], &["y"])?;
    let calls = twins.calls.lock().unwrap().clone();
    Ok((y[0].to_f64_vec(), calls))
}

#[test]
fn each_op_asks_its_question() {
    let ring = |kind: &str| unary(kind).attr("ring_id", 0).attr("use_calc_stream", true);
    let of = |op: Op, shape: &[i64]| run(op, shape).unwrap().0;
    assert_eq!(of(ring("c_allreduce_sum"), &[-1, 2]), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(of(ring("c_allreduce_prod"), &[-1, 2]), [1.0, 4.0, 9.0, 16.0]);
    assert_eq!(of(ring("c_allreduce_max"), &[-1, 2]), [1.0, 2.0, 3.0, 4.0]);
    // This rank is not the root, and keeps what it has.
    assert_eq!(of(ring("c_reduce_sum").attr("root_id", 0), &[-1, 2]), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(of(ring("c_reduce_sum").attr("root_id", 1), &[-1, 2]), [2.0, 4.0, 6.0, 8.0]);
    let two = |kind: &str| ring(kind).attr("nranks", 2);
    assert_eq!(of(two("c_allgather"), &[-1, 2]), [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(of(two("c_reducescatter"), &[-1, 2]), [6.0, 8.0]);
    assert_eq!(of(two("c_scatter"), &[-1, 2]), [3.0, 4.0]);
    assert_eq!(of(two("c_concat"), &[-1, 4]), [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    assert_eq!(of(two("c_split").attr("rank", 1), &[-1, 1]), [2.0, 4.0]);
    assert_eq!(of(ring("alltoall"), &[-1, 2]), [3.0, 4.0, 3.0, 4.0]);
    assert_eq!(of(ring("c_identity"), &[-1, 2]), [1.0, 2.0, 3.0, 4.0]);
    let barrier = run(unary("barrier").attr("ring_id", 3), &[-1, 2]).unwrap();
    assert_eq!((barrier.0.len(), barrier.1), (4, vec!["barrier of 3".to_owned()]));
    let received = Op::new("recv_v2").output("Out", ["y"]).attr("out_shape", vec![1, 2]);
    assert_eq!(of(received.attr("peer", 0), &[1, 2]), [5.0, 5.0]);
}

#[test]
fn mistakes_are_named() {
    let error = run(unary("c_allgather").attr("nranks", 3), &[-1, 2]).unwrap_err().to_string();
    assert!(error.contains("`nranks` is 3, but ring 0 has 2 ranks"), "{error}");
    let init = Op::new("c_comm_init").attr("rank", 0).attr("nranks", 2);
    let program = program(&[], vec![init]);
    let twins: Arc<dyn Collective> = Arc::new(Twins::default());
    let mut executor = Executor::new(Place::Cpu).unwrap().collective(twins);
    let error = executor.run(&program, &[], &[]).unwrap_err().to_string();
    assert!(error.contains("rank 0 of 2, but this process is rank 1 of 2"), "{error}");
    let mut apart = Executor::new(Place::Cpu).unwrap();
    let error = apart.run(&program, &[], &[]).unwrap_err().to_string();
    assert!(error.contains("is not connected"), "{error}");
}

/// Two gradients in a bucket that flies, one that is reduced on the spot.
fn bucketed(threads: usize) -> (Vec<Vec<f64>>, Vec<String>) {
    let relu = |from: &str, to: &str| Op::new("relu").input("X", [from]).output("Out", [to]);
    let start = Op::new("c_bucket_start").input("X", ["a", "b"]).output("Ticket", ["t"]);
    let wait = |vars: &[&str]| {
        Op::new("c_bucket_wait")
            .input("X", vars.to_vec())
            .output("Out", vars.to_vec())
            .attr("scale", 0.5f32)
    };
    let ops = vec![
        relu("x", "a"),
        Op::new("square").input("X", ["x"]).output("Out", ["b"]),
        start,
        relu("b", "c"),
        wait(&["a", "b"]).input("Ticket", ["t"]),
        wait(&["c"]),
        Op::new("send_v2").input("X", ["c"]).attr("peer", 0),
    ];
    let shapes: Vec<(&str, &[i64])> =
        ["x", "a", "b", "c"].map(|name| (name, &[-1, 2][..])).to_vec();
    let mut program = program(&shapes, ops);
    program.global_mut().add_var(Var::tensor("t", DType::I64, [1]));
    let twins = Arc::new(Twins::default());
    let executor = Executor::new(Place::Cpu).unwrap().threads(threads);
    let mut executor = executor.collective(Arc::clone(&twins) as _);
    let x = Tensor::from_slice([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let fetched = executor.run(&program, &[("x", &x)], &["a", "b", "c"]).unwrap();
    let calls = twins.calls.lock().unwrap().clone();
    (fetched.iter().map(Tensor::to_f64_vec).collect(), calls)
}

#[test]
fn buckets_fly_and_keep_their_order() {
    for threads in [1, 2] {
        let (values, calls) = bucketed(threads);
        // The mean of two ranks that have the same is what they have.
        assert_eq!(values[0], [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(values[1], [1.0, 4.0, 9.0, 16.0]);
        assert_eq!(values[2], [1.0, 4.0, 9.0, 16.0]);
        assert_eq!(calls, ["start 8", "all_reduce 4", "send 4 to 0"]);
    }
}

#[test]
fn gradients_are_merged_and_applied_when_the_condition_holds() {
    let mut program = program(&[("x", &[-1, 2]), ("half", &[-1, 2])], Vec::new());
    let global = program.global_mut();
    for (name, dtype, shape) in
        [("step", DType::I64, &[1][..]), ("sum", DType::F32, &[1, 2]), ("w", DType::F32, &[1, 2])]
    {
        global.add_var(Var::tensor(name, dtype, shape.to_vec())).persistable = true;
    }
    global.add_var(Var::tensor("k", DType::I64, [1]));
    global.add_var(Var::tensor("left", DType::I64, [1]));
    global.add_var(Var::tensor("now", DType::Bool, [1]));
    global.add_var(Var::tensor("none", DType::I64, [1]));
    let constant = |name: &str, value: f32| {
        Op::new("fill_constant")
            .output("Out", [name])
            .attr("shape", vec![1i64])
            .attr("dtype", DType::I64.code())
            .attr("value", value)
    };
    let binary = |kind: &str, x: &str, y: &str, out: &str| {
        Op::new(kind).input("X", [x]).input("Y", [y]).output("Out", [out])
    };
    global.ops = vec![
        Op::new("increment").input("X", ["step"]).output("Out", ["step"]),
        Op::new("gradient_merge")
            .input("X", ["x"])
            .input("Step", ["step"])
            .output("Out", ["sum"])
            .attr("k_steps", 2),
        constant("k", 2.0),
        constant("none", 0.0),
        binary("elementwise_mod", "step", "k", "left"),
        binary("equal", "left", "none", "now"),
        Op::new("conditional_block").input("Cond", ["now"]).attr("sub_block", Attr::Block(1)),
    ];
    let block = program.append_block(0);
    block.ops = vec![
        Op::new("scale").input("X", ["sum"]).output("Out", ["half"]).attr("scale", 0.5f32),
        binary("elementwise_add", "w", "half", "w").role(OpRole::OPTIMIZE),
    ];
    let mut executor = Executor::new(Place::Cpu).unwrap();
    let scope = executor.scope().clone();
    scope.set("step", &Tensor::from_slice([1], &[0i64]).unwrap());
    scope.set("w", &Tensor::zeros(DType::F32, [1, 2]));
    for (x, w) in [(2.0f32, 0.0), (4.0, 3.0), (6.0, 3.0), (10.0, 11.0)] {
        let x = Tensor::from_slice([1, 2], &[x, x]).unwrap();
        executor.run(&program, &[("x", &x)], &[]).unwrap();
        assert_eq!(scope.get("w").unwrap().to_f64_vec(), [w, w]);
    }
}

#[test]
fn rows_of_all_ranks_follow_each_other() {
    let mut program = program(&[("grad", &[9, 1]), ("y", &[9, 1])], Vec::new());
    let global = program.global_mut();
    for name in ["grad", "y"] {
        if let Some(var) = global.vars.get_mut(name) {
            var.kind = VarKind::SelectedRows;
        }
    }
    let mut rows = crate::tensor::SelectedRows {
        rows: vec![3, 1],
        height: 9,
        value: Tensor::from_slice([2, 1], &[1.0f32, 2.0]).unwrap(),
    };
    super::rows::all_gather(&Twins::default(), 0, &mut rows).unwrap();
    assert_eq!(rows.rows, [3, 1, 3, 1]);
    assert_eq!(rows.value.as_slice::<f32>().unwrap(), [1.0, 2.0, 1.0, 2.0]);
}
