//! Steps of training threads that share a scope, and change its parameters while others read them.
//!
//! Memory that several threads use is touched by relaxed atomic accesses alone, which few kernels
//! make: those that move single rows of a table, and the optimizers'. They get windows that hand
//! out no slices ([`OpDef::shared`](crate::op::OpDef)). Every other op works on a copy: one made
//! when the step begins, which all ops share that read the variable before the step writes it
//! (so weights are copied once for both directions, and are the same in both), or one of its own,
//! copied in before the op and out after it. The first kind is moved ahead of what the steps beside
//! this one will do (`ahead.rs`), and what they have done meanwhile is taken out of gradients
//! (`late.rs`).

#![expect(unsafe_code, reason = "binds variables to memory that training threads share")]

use std::collections::{HashMap, HashSet};
use std::ptr::NonNull;
use std::sync::Arc;

use bireme_ir::{Signature, Slot, VarKind};

use crate::op::{Meta, shape_like};
use crate::optimizer::LookAhead;
use crate::plan::ahead::{self, Ahead};
use crate::plan::frame::Frame;
use crate::plan::late::{self, Late};
use crate::plan::layout::Source;
use crate::plan::select::{SelectedOp, VarId};
use crate::scope::Cell;
use crate::value::Value;

/// What a step begins with.
pub(crate) struct Beside {
    vars: Vec<SharedVar>,
    /// Holds the copies.
    _frames: Vec<Frame>,
}

struct SharedVar {
    cell: Arc<Cell>,
    /// Where this layout sees the scope's memory.
    window: NonNull<Value>,
    /// The copy that ops read which come before the first that writes.
    copy: Option<NonNull<Value>>,
    /// What moves the copy, where an optimizer has momentum.
    ahead: Option<Ahead>,
}

impl Beside {
    /// Points the windows at the variables as they are, and makes the copies, ahead of `others`
    /// steps that run beside this one.
    ///
    /// # Safety
    /// The caller has a turn of the scope, and no op of the layout runs.
    pub(crate) unsafe fn begin(&self, others: u32) {
        for var in &self.vars {
            let Some(value) = var.cell.get() else { continue };
            // SAFETY: nobody moves a variable while somebody has a turn; windows and copies are
            // this layout's own.
            unsafe {
                if let Value::Tensor(tensor) = value.as_ref() {
                    *var.window.as_ptr() = Value::Tensor(tensor.shared_window());
                }
                if let Some(copy) = var.copy {
                    transfer(var.window, copy);
                }
            }
        }
        // Now that all windows look at what there is.
        for var in self.vars.iter().filter(|_| others > 0) {
            if let (Some(copy), Some(ahead)) = (var.copy, &var.ahead) {
                // SAFETY: as above; the values lie in windows, or are this layout's own.
                unsafe { ahead.apply(copy, others) }
            }
        }
    }
}

/// What one op copies around each run: pairs of a window and the op's own value.
#[derive(Default)]
pub(crate) struct Copies {
    loads: Box<[(NonNull<Value>, NonNull<Value>)]>,
    stores: Box<[(NonNull<Value>, NonNull<Value>)]>,
    /// The gradient that the op is about to apply.
    late: Option<Late<NonNull<Value>>>,
}

impl Copies {
    /// Brings the op's own values up to date, its gradient too.
    #[inline]
    pub(crate) fn load(&self) {
        for (window, own) in &self.loads {
            // SAFETY: the windows are valid during a step; the value is this op's own.
            unsafe { transfer(*window, *own) }
        }
        if let Some(late) = &self.late {
            // SAFETY: as above; no op that runs beside this one, or after it, reads the gradient.
            unsafe { late.correct() }
        }
    }

    /// Shows others what the op wrote.
    #[inline]
    pub(crate) fn store(&self) {
        for (window, own) in &self.stores {
            // SAFETY: as in `load`; no other op of the layout uses the window's header now.
            unsafe { transfer(*own, *window) }
        }
    }
}

/// Copies a tensor; which of the two is shared, the tensors know.
///
/// # Safety
/// Both are valid, and nobody else uses them.
unsafe fn transfer(from: NonNull<Value>, to: NonNull<Value>) {
    // SAFETY: the caller's promise; the two are different variables.
    if let (Value::Tensor(from), Value::Tensor(to)) = unsafe { (from.as_ref(), &mut *to.as_ptr()) }
    {
        to.copy_from(from);
    }
}

/// Where the ops of a layout find what they share with others.
pub(crate) struct Sharing<'a> {
    source: &'a Source<'a>,
    metas: &'a [Option<Meta>],
    /// Holds the windows.
    main: &'a Frame,
    /// Holds the copies that are made when a step begins.
    copies: Frame,
    copied: HashSet<VarId>,
    first_write: HashMap<VarId, usize>,
    /// The momentum of variables.
    ahead: HashMap<VarId, LookAhead<NonNull<Value>>>,
    frames: Vec<Frame>,
}

impl<'a> Sharing<'a> {
    /// Of a layout whose steps may run beside others: every variable that it shares stays where it
    /// is. `None` for one whose steps must be alone.
    pub(crate) fn new(
        source: &'a Source<'a>,
        metas: &'a [Option<Meta>],
        main: &'a Frame,
    ) -> Option<Sharing<'a>> {
        let stays = |var: &VarId| {
            metas[*var].as_ref().is_some_and(|meta| {
                meta.kind == VarKind::LodTensor && meta.is_static() && meta.lod_level == 0
            })
        };
        if source.shared.is_empty() || !source.shared.iter().all(stays) {
            return None;
        }
        let mut first_write = HashMap::new();
        for (position, op) in source.selection.ops.iter().enumerate() {
            for var in &op.outputs {
                first_write.entry(*var).or_insert(position);
            }
        }
        let copies = Frame::new(metas.len());
        let (copied, ahead, frames) = (HashSet::new(), HashMap::new(), Vec::new());
        Some(Sharing { source, metas, main, copies, copied, first_write, ahead, frames })
    }

    /// Whether training threads share a variable.
    pub(crate) fn contains(&self, var: VarId) -> bool {
        self.source.shared.contains(&var)
    }

    /// Where one call of an op finds its shared variables, and what it copies.
    pub(crate) fn bind(&mut self, position: usize) -> (HashMap<VarId, NonNull<Value>>, Copies) {
        let op = &self.source.selection.ops[position];
        let (mut places, mut loads, mut stores) = (HashMap::new(), Vec::new(), Vec::new());
        for var in op.inputs.iter().chain(&op.outputs) {
            if !self.contains(*var) || places.contains_key(var) {
                continue;
            }
            let (window, writes) = (self.main.at(*var), op.outputs.contains(var));
            let is_first = self.first_write.get(var).is_none_or(|first| *first >= position);
            let place = if is_made_for(op, *var) {
                window
            } else if !writes && is_first {
                self.copied.insert(*var);
                self.copies.at(*var)
            } else {
                let own = self.own(*var);
                // Also what is only written: an op may leave a part of it as it is.
                loads.push((window, own));
                if writes {
                    stores.push((window, own));
                }
                own
            };
            places.insert(*var, place);
        }
        stores.extend(self.note_momentum(op));
        let late = self.late(position, op);
        (places, Copies { loads: loads.into(), stores: stores.into(), late })
    }

    /// The gradient that an op applies to weights that the step has a copy of, if nobody else is to
    /// see it.
    fn late(&self, position: usize, op: &SelectedOp) -> Option<Late<NonNull<Value>>> {
        let (grad, param, squares) = late::of(op)?;
        let selection = self.source.selection;
        let is_read =
            |(at, other): (usize, &SelectedOp)| at != position && other.inputs.contains(&grad);
        let is_seen = self.source.cells.contains_key(&grad)
            || selection.feeds.contains(&grad)
            || selection.fetches.contains(&grad)
            || selection.ops.iter().enumerate().any(is_read);
        let is_here =
            self.copied.contains(&param) && squares.is_none_or(|squares| self.contains(squares));
        let at = |var| self.main.at(var);
        (is_here && !is_seen).then(|| Late {
            grad: at(grad),
            param: at(param),
            seen: self.copies.at(param),
            squares: squares.map(at),
        })
    }

    /// Remembers what an op keeps of momentum. A rate that the step computes is gone when the next
    /// one begins, so the op is to keep it: where, and what.
    fn note_momentum(&mut self, op: &SelectedOp) -> Option<(NonNull<Value>, NonNull<Value>)> {
        let (param, vars) = ahead::of(op)?;
        let kept = match self.contains(vars.rate) {
            true => None,
            // Of this step alone: nobody knows what others have.
            false if self.source.cells.contains_key(&vars.rate) => return None,
            false => Some(self.own(vars.rate)),
        };
        let place = |var: &VarId| match kept {
            Some(kept) if *var == vars.rate => Some(kept),
            _ => self.contains(*var).then(|| self.main.at(*var)),
        };
        let values = vars.map(place)?;
        self.ahead.insert(param, values);
        kept.map(|kept| (kept, self.main.at(vars.rate)))
    }

    /// A value of the shape of `var`.
    fn own(&mut self, var: VarId) -> NonNull<Value> {
        let frame = Frame::new(1);
        let own = frame.at(0);
        if let Some(meta) = &self.metas[var] {
            // SAFETY: nobody else has the frame.
            shape_like(unsafe { &mut *own.as_ptr() }, meta);
        }
        self.frames.push(frame);
        own
    }

    /// What a step begins with.
    pub(crate) fn finish(mut self) -> Beside {
        let mut ahead = std::mem::take(&mut self.ahead);
        let mut shared = |var: &VarId| SharedVar {
            cell: Arc::clone(&self.source.cells[var]),
            window: self.main.at(*var),
            copy: self.copied.contains(var).then(|| self.copies.at(*var)),
            ahead: ahead.remove(var).map(Ahead::new),
        };
        let vars = self.source.shared.iter().map(&mut shared).collect();
        let mut frames = self.frames;
        frames.push(self.copies);
        Beside { vars, _frames: frames }
    }
}

/// Whether an op's kernel is made for memory that others change, in all slots that hold `var`.
fn is_made_for(op: &SelectedOp, var: VarId) -> bool {
    let Signature { inputs, outputs, .. } = op.def.signature;
    let shares = |slot: &Slot| op.def.shares(slot.name);
    op.guard() != Some(var)
        && inputs.iter().all(|slot| shares(slot) || !op.inputs_of(slot.name).contains(&var))
        && outputs.iter().all(|slot| shares(slot) || !op.outputs_of(slot.name).contains(&var))
}
