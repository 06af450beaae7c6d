//! Programs read from files, checked before anyone runs them.

use bireme_ir::{Program, verify};

use crate::catalog::Ops;

/// That the engine knows every op and attribute of a program for inference, and that its shapes
/// agree.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn check(program: &Program) -> bireme_ir::Result<()> {
    verify(&without_feeds(program), &Ops)
}

/// The program without the ops that only say what goes in and out: the executor does their work,
/// so the engine has no definitions of them.
fn without_feeds(program: &Program) -> Program {
    let mut inner = program.clone();
    let feeds = program.feed_names();
    let global = inner.global_mut();
    global.ops.retain(|op| op.kind != "feed" && op.kind != "fetch");
    for feed in feeds {
        if let Some(var) = global.vars.get_mut(&feed) {
            var.need_check_feed = true;
        }
    }
    inner
}
