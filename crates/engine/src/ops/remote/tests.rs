//! The ops against a parameter server made of a map.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bireme_ir::{DType, Op, Program, Var};

use crate::remote::{GeoParam, Piece, Remote, RowSpread, Sending, TableRef};
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Error, Executor, Place, Result};

/// Keeps what was sent, and answers with it.
#[derive(Default)]
struct Echo {
    values: Mutex<HashMap<String, Value>>,
    calls: Mutex<Vec<String>>,
}

impl Echo {
    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Remote for Echo {
    fn send(&self, how: &Sending, values: &[&Value]) -> Result<()> {
        for (piece, value) in how.pieces.iter().zip(values) {
            self.note(format!("send {} to {}", piece.name, piece.endpoint));
            self.values.lock().unwrap().insert(piece.name.clone(), (*value).clone());
        }
        Ok(())
    }

    fn send_barrier(&self, endpoints: &[String]) -> Result<()> {
        self.note(format!("barrier of {}", endpoints.len()));
        Ok(())
    }

    fn recv(&self, pieces: &[Piece], outs: &mut [&mut Tensor], _: &mut [u64]) -> Result<()> {
        for (piece, out) in pieces.iter().zip(outs) {
            self.note(format!("recv {}", piece.name));
            let values = self.values.lock().unwrap();
            let value = values.get(&piece.name).ok_or_else(|| Error::kernel("no such piece"))?;
            out.copy_from(value.tensor()?);
        }
        Ok(())
    }

    fn fetch_barrier(&self, _: &[String]) -> Result<()> {
        self.note("fetched".to_owned());
        Ok(())
    }

    fn pull_rows(&self, table: &TableRef, ids: &[&[i64]], outs: &mut [&mut [f32]]) -> Result<()> {
        assert_eq!(table.spread, RowSpread::Keys { shards: 1000 });
        for (ids, out) in ids.iter().zip(outs) {
            for (id, row) in ids.iter().zip(out.chunks_exact_mut(table.width)) {
                row.fill(*id as f32);
            }
        }
        Ok(())
    }

    fn push_rows(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        grads: &[&[f32]],
        counts: Option<&[[f32; 2]]>,
    ) -> Result<()> {
        self.note(format!("push {} {ids:?} {grads:?} {counts:?}", table.name));
        Ok(())
    }

    fn exchange(&self, params: &mut [GeoParam<'_>]) -> Result<()> {
        for param in params {
            self.note(format!("exchange {} {:?}", param.pieces[0].0.name, param.touched));
            param.value.as_mut_slice::<f32>()?.fill(9.0);
        }
        Ok(())
    }

    fn whoami(&self) -> String {
        "trainer 0 of 1".to_owned()
    }
}

fn program(vars: &[(&str, DType, &[i64], bool)], ops: Vec<Op>) -> Program {
    let mut program = Program::new();
    for (name, dtype, shape, persistable) in vars {
        let var = program.global_mut().add_var(Var::tensor(*name, *dtype, shape.to_vec()));
        var.persistable = *persistable;
        var.need_check_feed = *name == "x" || *name == "ids";
    }
    program.global_mut().ops = ops;
    program
}

#[test]
fn a_step_sends_waits_and_receives_in_this_order() {
    let f32 = DType::F32;
    let vars: &[(&str, DType, &[i64], bool)] = &[
        ("x", f32, &[-1, 2], false),
        ("y", f32, &[-1, 2], false),
        ("sent", f32, &[0], false),
        ("met", f32, &[0], false),
        ("w", f32, &[2, 2], true),
    ];
    let ops = vec![
        Op::new("relu").input("X", ["x"]).output("Out", ["y"]),
        Op::new("send")
            .input("X", ["y"])
            .output("Out", ["sent"])
            .attr("send_varnames", vec!["w".to_owned()])
            .attr("epmap", vec!["127.0.0.1:1".to_owned()]),
        Op::new("send_barrier")
            .input("X", ["sent"])
            .output("Out", ["met"])
            .attr("endpoints", vec!["127.0.0.1:1".to_owned()]),
        Op::new("recv")
            .input("X", ["met"])
            .output("Out", ["w"])
            .attr("recv_varnames", vec!["w".to_owned()])
            .attr("epmap", vec!["127.0.0.1:1".to_owned()])
            .attr("ranks", vec![2])
            .attr("shapes", vec![2i64, 2]),
    ];
    let program = program(vars, ops);
    let x = Tensor::from_slice([2, 2], &[1f32, -2.0, 3.0, 4.0]).unwrap();
    let alone = Executor::new(Place::Cpu).unwrap().run(&program, &[("x", &x)], &[]);
    assert!(alone.unwrap_err().to_string().contains("not connected"));
    for threads in [1, 2] {
        let echo = Arc::new(Echo::default());
        let executor = Executor::new(Place::Cpu).unwrap().threads(threads);
        let mut executor = executor.remote(Arc::clone(&echo) as Arc<dyn Remote>);
        executor.run(&program, &[("x", &x)], &[]).unwrap();
        assert_eq!(
            *echo.calls.lock().unwrap(),
            ["send w to 127.0.0.1:1", "barrier of 1", "recv w"]
        );
        assert_eq!(executor.scope().get("w").unwrap().to_f64_vec(), [1.0, 0.0, 3.0, 4.0]);
    }
}

#[test]
fn what_a_server_has_in_another_shape_reaches_no_kernel() {
    let recv = Op::new("recv")
        .output("Out", ["w"])
        .attr("recv_varnames", vec!["w".to_owned()])
        .attr("epmap", vec!["127.0.0.1:1".to_owned()])
        .attr("ranks", vec![2])
        .attr("shapes", vec![2i64, 2]);
    let program = program(&[("w", DType::F32, &[2, 2], true)], vec![recv]);
    let echo = Arc::new(Echo::default());
    let wide = Tensor::from_slice([2, 3], &[0f32; 6]).unwrap();
    echo.values.lock().unwrap().insert("w".to_owned(), Value::Tensor(wide));
    let executor = Executor::new(Place::Cpu).unwrap();
    let mut executor = executor.remote(Arc::clone(&echo) as Arc<dyn Remote>);
    let error = executor.run(&program, &[], &[]).unwrap_err().to_string();
    assert!(error.contains("has `w` with the shape [2, 3], this program with [2, 2]"), "{error}");
}

#[test]
fn rows_of_a_remote_table_are_pulled_and_pushed() {
    let f32 = DType::F32;
    let vars: &[(&str, DType, &[i64], bool)] = &[
        ("ids", DType::I64, &[-1, 1], false),
        ("w", f32, &[100, 3], true),
        ("rows", f32, &[-1, 3], false),
    ];
    let endpoints = || vec!["127.0.0.1:1".to_owned()];
    let startup = program(
        vars,
        vec![Op::new("fake_init").output("Out", ["w"]).attr("shape", vec![100i64, 3])],
    );
    let table = |op: Op| {
        op.input("Ids", ["ids"])
            .input("W", ["w"])
            .attr("table_names", vec!["w".to_owned()])
            .attr("endpoints", endpoints())
            .attr("lookup_table_version", "lookup_table")
    };
    let ops = vec![
        table(Op::new("distributed_lookup_table")).output("Outputs", ["rows"]),
        table(Op::new("distributed_push_sparse")).input("Outputs@GRAD", ["rows"]),
    ];
    let main = program(vars, ops);
    let echo = Arc::new(Echo::default());
    let mut executor =
        Executor::new(Place::Cpu).unwrap().remote(Arc::clone(&echo) as Arc<dyn Remote>);
    executor.run(&startup, &[], &[]).unwrap();
    assert_eq!(&*executor.scope().get("w").unwrap().dims(), [0, 3]);
    let ids = Tensor::from_slice([2, 1], &[7i64, -1]).unwrap();
    let rows = executor.run(&main, &[("ids", &ids)], &["rows"]).unwrap();
    assert_eq!(rows[0].to_f64_vec(), [7.0, 7.0, 7.0, -1.0, -1.0, -1.0]);
    let call = "push w [[7, -1]] [[7.0, 7.0, 7.0, -1.0, -1.0, -1.0]] None";
    assert_eq!(*echo.calls.lock().unwrap(), [call]);
}

/// Pushes two slots of a table whose entry counts shows and clicks; what the servers get.
fn pushed_counts(ids: [&Tensor; 2], shows: &Tensor, clicks: &Tensor) -> Result<String> {
    let f32 = DType::F32;
    let ragged = |tensor: &Tensor| -> Vec<i64> {
        tensor
            .dims()
            .iter()
            .enumerate()
            .map(|(at, dim)| if at == 0 { -1 } else { *dim as i64 })
            .collect()
    };
    let mut program = Program::new();
    let block = program.global_mut();
    for (name, tensor) in [("a", ids[0]), ("b", ids[1]), ("show", shows), ("click", clicks)] {
        let var = block.add_var(Var::tensor(name, tensor.dtype(), ragged(tensor)));
        var.need_check_feed = true;
        var.lod_level = tensor.lod().len() as u32;
    }
    for name in ["ra", "rb"] {
        block.add_var(Var::tensor(name, f32, [-1, 1]));
    }
    block.add_var(Var::tensor("w", f32, [100, 1])).persistable = true;
    let table = |op: Op| {
        op.input("Ids", ["a", "b"])
            .input("W", ["w"])
            .attr("table_names", vec!["w".to_owned()])
            .attr("endpoints", vec!["127.0.0.1:1".to_owned()])
            .attr("lookup_table_version", "lookup_table")
    };
    let push = table(Op::new("distributed_push_sparse"))
        .input("Outputs@GRAD", ["ra", "rb"])
        .input("Shows", ["show"])
        .input("Clicks", ["click"]);
    block.ops = vec![
        Op::new("fake_init").output("Out", ["w"]).attr("shape", vec![100i64, 1]),
        table(Op::new("distributed_lookup_table")).output("Outputs", ["ra", "rb"]),
        push,
    ];
    let echo = Arc::new(Echo::default());
    let mut executor =
        Executor::new(Place::Cpu).unwrap().remote(Arc::clone(&echo) as Arc<dyn Remote>);
    let feeds = [("a", ids[0]), ("b", ids[1]), ("show", shows), ("click", clicks)];
    executor.run(&program, &feeds, &[])?;
    let calls = echo.calls.lock().unwrap();
    Ok(calls[0].rsplit_once("Some(").unwrap().1.trim_end_matches(')').to_owned())
}

#[test]
fn an_id_counts_with_the_sample_whose_sequence_it_is_in() {
    let ids = |ids: &[i64]| Tensor::from_slice([ids.len(), 1], ids).unwrap();
    // Three samples: 3, 0 and 1 ids in one slot; 0, 2 and 0 in the other.
    let a = ids(&[1, 2, 3, 4]).with_lod(&[vec![0, 3, 3, 4]]).unwrap();
    let b = ids(&[5, 6]).with_lod(&[vec![0, 0, 2, 2]]).unwrap();
    let shows = Tensor::from_slice([3, 1], &[10i32, 20, 30]).unwrap();
    let clicks = Tensor::from_slice([3, 1], &[1f64, 2.0, 3.0]).unwrap();
    let expected = "[[10.0, 1.0], [10.0, 1.0], [10.0, 1.0], [30.0, 3.0], [20.0, 2.0], [20.0, 2.0]]";
    assert_eq!(pushed_counts([&a, &b], &shows, &clicks).unwrap(), expected);
    // Two levels: a sample is a sequence of the outer one.
    let nested = ids(&[1, 2, 3, 4]).with_lod(&[vec![0, 2, 2, 3], vec![0, 1, 3, 4]]).unwrap();
    assert_eq!(pushed_counts([&nested, &b], &shows, &clicks).unwrap(), expected);
    // No sequences: a sample is a row. One pair is everybody's.
    let rows = Tensor::from_slice([3, 1], &[7i64, 8, 9]).unwrap();
    let dense = "[[10.0, 1.0], [20.0, 2.0], [30.0, 3.0], [20.0, 2.0], [20.0, 2.0]]";
    assert_eq!(pushed_counts([&rows, &b], &shows, &clicks).unwrap(), dense);
    // Two ids of each sample, one below the other as `[-1, 1]` of lookups.
    let flat = ids(&[1, 2, 3, 4, 5, 6]);
    let twice = "[[10.0, 1.0], [10.0, 1.0], [20.0, 2.0], [20.0, 2.0], [30.0, 3.0], [30.0, 3.0], \
                 [20.0, 2.0], [20.0, 2.0]]";
    assert_eq!(pushed_counts([&flat, &b], &shows, &clicks).unwrap(), twice);
    let one = Tensor::from_slice([1, 1], &[4f32]).unwrap();
    let alike = "[[4.0, 4.0], [4.0, 4.0], [4.0, 4.0], [4.0, 4.0], [4.0, 4.0]]";
    assert_eq!(pushed_counts([&rows, &b], &one, &one).unwrap(), alike);
}

#[test]
fn counts_that_fit_no_sample_are_refused() {
    let ids = Tensor::from_slice([2, 1], &[1i64, 2]).unwrap();
    let three = Tensor::from_slice([3, 1], &[1f32, 1.0, 1.0]).unwrap();
    let error = pushed_counts([&ids, &ids], &three, &three).unwrap_err().to_string();
    assert!(error.contains("`a` has 2 samples, but `Shows` and `Clicks` count 3"), "{error}");
    let two = Tensor::from_slice([2, 1], &[1f32, 1.0]).unwrap();
    let error = pushed_counts([&ids, &ids], &two, &three).unwrap_err().to_string();
    assert!(error.contains("`Shows` counts 2 samples, but `Clicks` 3"), "{error}");
    let flags = Tensor::from_slice([2, 1], &[1u8, 0]).unwrap();
    let error = pushed_counts([&ids, &ids], &two, &flags).unwrap_err().to_string();
    assert!(error.contains("`Clicks` must be float32"), "{error}");
}

#[test]
fn geo_parameters_are_corrected_in_place() {
    let vars: &[(&str, DType, &[i64], bool)] =
        &[("ids", DType::I64, &[-1], false), ("w", DType::F32, &[2], true)];
    let exchange = Op::new("geo_exchange")
        .input("Param", ["w"])
        .input("Ids", ["ids"])
        .output("ParamOut", ["w"])
        .attr("piece_names", vec!["w.delta".to_owned()])
        .attr("epmap", vec!["127.0.0.1:1".to_owned()])
        .attr("sections", vec![2i64])
        .attr("pieces_per_param", vec![1])
        .attr("ids_per_param", vec![1]);
    let main = program(vars, vec![exchange]);
    let echo = Arc::new(Echo::default());
    let mut executor =
        Executor::new(Place::Cpu).unwrap().remote(Arc::clone(&echo) as Arc<dyn Remote>);
    executor.scope().set("w", &Tensor::from_slice([2], &[1f32, 2.0]).unwrap());
    let ids = Tensor::from_slice([2], &[1i64, 0]).unwrap();
    executor.run(&main, &[("ids", &ids)], &[]).unwrap();
    assert_eq!(executor.scope().get("w").unwrap().to_f64_vec(), [9.0, 9.0]);
    assert_eq!(*echo.calls.lock().unwrap(), ["exchange w.delta Some([[1, 0]])"]);
}
