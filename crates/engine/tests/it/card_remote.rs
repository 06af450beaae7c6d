//! A trainer's step on a card: what it receives goes to the card from page-locked memory, and only when there is
//! something new; what it sends comes from page-locked memory.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bireme_engine::remote::{GeoParam, Piece, Remote, Sending, TableRef};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Result, Value};
use bireme_ir::{Attr, DType, Op, Program, Var};

use crate::card::HostCard;

/// One parameter, its version and what was sent.
#[derive(Default)]
struct Server {
    state: Mutex<(f32, u64, Vec<Vec<f32>>)>,
}

impl Remote for Server {
    fn send(&self, _: &Sending, values: &[&Value]) -> Result<()> {
        let sent = values.iter().map(|value| value.tensor().unwrap().as_slice::<f32>().unwrap());
        self.state.lock().unwrap().2.extend(sent.map(<[f32]>::to_vec));
        Ok(())
    }

    fn send_barrier(&self, _: &[String]) -> Result<()> {
        Ok(())
    }

    fn recv(&self, _: &[Piece], outs: &mut [&mut Tensor], versions: &mut [u64]) -> Result<()> {
        let state = self.state.lock().unwrap();
        if versions[0] != state.1 || state.1 == 0 {
            outs[0].as_mut_slice::<f32>()?.fill(state.0);
            versions[0] = state.1;
        }
        Ok(())
    }

    fn fetch_barrier(&self, _: &[String]) -> Result<()> {
        Ok(())
    }

    fn pull_rows(&self, _: &TableRef, _: &[&[i64]], _: &mut [&mut [f32]]) -> Result<()> {
        Ok(())
    }

    fn push_rows(
        &self,
        _: &TableRef,
        _: &[&[i64]],
        _: &[&[f32]],
        _: Option<&[[f32; 2]]>,
    ) -> Result<()> {
        Ok(())
    }

    fn exchange(&self, _: &mut [GeoParam<'_>]) -> Result<()> {
        Ok(())
    }

    fn whoami(&self) -> String {
        "nobody".to_owned()
    }
}

/// `y = x * w`, which is sent; then `w` is received.
fn program() -> Program {
    let mut program = Program::new();
    let global = program.global_mut();
    for (name, is_kept) in [("x", false), ("w", true), ("y", false)] {
        let mut var = Var::tensor(name, DType::F32, [2]);
        var.persistable = is_kept;
        global.add_var(var);
    }
    let strings = |text: &str| Attr::Strings(vec![text.to_owned()]);
    let product = Op::new("elementwise_mul").input("X", ["x"]).input("Y", ["w"]);
    let send = Op::new("send").input("X", ["y"]).attr("send_varnames", strings("y"));
    let recv = Op::new("recv").output("Out", ["w"]).attr("recv_varnames", strings("w"));
    let recv = recv.attr("ranks", Attr::Ints(vec![1])).attr("shapes", Attr::Longs(vec![2]));
    global.ops = vec![
        product.output("Out", ["y"]),
        send.attr("epmap", strings("a:1")),
        recv.attr("epmap", strings("a:1")),
    ];
    program
}

#[test]
fn what_is_received_goes_up_when_it_is_new() {
    let (card, server) = (HostCard::new(&[]), Arc::new(Server::default()));
    let mut executor = Executor::on(card.clone());
    executor.connect(Some(server.clone()));
    executor.scope().set("w", &Tensor::from_slice([2], &[1.0f32, 2.0]).unwrap());
    let mut step = executor.prepare(&program(), &["x"], &[]).unwrap();
    let x = Tensor::from_slice([2], &[1.0f32, 1.0]).unwrap();
    let mut run = |value: f32, version: u64| {
        (server.state.lock().unwrap().0, server.state.lock().unwrap().1) = (value, version);
        let before = card.locked[0].load(Ordering::Relaxed);
        step.run(&[&x]).unwrap();
        card.locked[0].load(Ordering::Relaxed) - before
    };
    assert_eq!([run(3.0, 1), run(3.0, 1), run(3.0, 1)], [1, 0, 0]);
    assert_eq!([run(4.0, 2), run(4.0, 2)], [1, 0]);
    // Without a version nobody knows.
    assert_eq!([run(5.0, 0), run(5.0, 0), run(5.0, 3)], [1, 1, 1]);
    // What somebody else writes is replaced by the server's, as if that were new.
    assert_eq!(run(5.0, 3), 0);
    executor.scope().set("w", &Tensor::from_slice([2], &[9.0f32, 9.0]).unwrap());
    assert_eq!([run(5.0, 3), run(5.0, 3)], [1, 0]);
    assert_eq!(executor.scope().get("w").unwrap().as_slice::<f32>().unwrap(), [5.0, 5.0]);
    let sent: Vec<f32> = server.state.lock().unwrap().2.iter().map(|sent| sent[0]).collect();
    assert_eq!(sent, [1.0, 3.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0, 5.0, 9.0, 5.0]);
    assert_eq!(card.locked[1].load(Ordering::Relaxed), 11, "every gradient came to locked memory");
}
