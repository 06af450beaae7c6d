//! One optimize block: a parameter (or a piece of one), its accumulators, and the ops that update
//! it, prepared once.
//!
//! Every variable that the ops use has a value of the block's own, so blocks never wait for one
//! another; values of [`Shared`] are copied in when they have changed. A reader sees the state
//! between two updates, never inside one.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bireme_engine::eager::{Lent, Routine};
use bireme_engine::tensor::{SelectedRows, Tensor};
use bireme_engine::{DType, Value};
use bireme_ir::{Op, Var};

use super::Shared;
use super::ahead::{Ahead, Momentum};
use super::merge::{Merge, without_aliases};
use super::ranges::{Ranges, Source};
use super::rows;
use super::snapshot::Snapshot;
use crate::message::Array;
use crate::{Error, Result};

/// What a block is made of.
pub struct BlockSpec<'a> {
    /// Its ops in order.
    pub ops: &'a [Op],
    /// What trainers send, with the declarations that values must fit.
    pub received: BTreeMap<String, &'a Var>,
    /// Values that exist before training: parameters, accumulators.
    pub initial: BTreeMap<String, Tensor>,
    /// Names of values that live in [`Shared`].
    pub shared: Vec<String>,
    /// The program's seed, for ops that draw.
    pub seed: u64,
}

/// One optimize block of a server's program.
pub struct Block {
    ops: Vec<Op>,
    merge: Option<Merge>,
    seed: u64,
    /// The ops as they stand: all trainers have sent.
    routine: Routine,
    /// What trainers send.
    received: HashMap<String, Received>,
    /// Values that outlive a step, in the order of their names.
    kept: Vec<(String, usize)>,
    /// Copies of shared values.
    shared: Vec<(String, usize)>,
    param: Option<String>,
    momentum: Option<Momentum>,
    /// Ranges of rows that are reached under locks of their own, by whoever shares the lock of the
    /// unit.
    pub(super) ranges: Option<Ranges>,
    unit: RwLock<Unit>,
}

/// A variable that trainers send.
struct Received {
    place: usize,
    dtype: DType,
    shape: Vec<i64>,
}

/// What an update changes.
pub(super) struct Unit {
    pub(super) values: Vec<Value>,
    /// Another number after values that outlive a step may have changed.
    pub(super) version: AtomicU64,
    /// Values that a checkpoint reads in parts.
    pub(super) snapshot: Option<Snapshot>,
    /// Names of received variables that have come for the next update.
    pub(super) arrived: Vec<String>,
    shared_version: Option<u64>,
    /// Parameter as each trainer last got it; only with delay compensation.
    backups: HashMap<u32, Tensor>,
    /// Ops for some of the trainers, by the names that came.
    variants: HashMap<Vec<String>, Routine>,
}

impl Block {
    /// Prepares the ops.
    ///
    /// # Errors
    /// When an op does not exist or refuses its attributes, or a parameter has no value.
    pub fn new(spec: BlockSpec<'_>) -> Result<Block> {
        let ops = without_aliases(spec.ops);
        let routine = Routine::new(&ops, spec.seed)?;
        let merge = Merge::find(&ops, |name| spec.received.contains_key(name));
        let mut values = vec![Value::Tensor(Tensor::empty(DType::F32)); routine.len()];
        let mut kept = Vec::new();
        for (name, tensor) in spec.initial {
            if let Some(place) = routine.find(&name) {
                values[place] = Value::Tensor(tensor);
                kept.push((name, place));
            }
        }
        let place = |name: &String| Some((name.clone(), routine.find(name)?));
        let shared = spec.shared.iter().filter_map(place).collect();
        let received = spec.received.iter().filter_map(|(name, var)| {
            let (dtype, shape) = (var.dtype, var.shape.clone());
            Some((name.clone(), Received { place: routine.find(name)?, dtype, shape }))
        });
        let param = param_of(&ops, &kept);
        let momentum = Momentum::find(&ops, param.as_deref(), &routine);
        let ranges = Ranges::of(&Source {
            ops: &ops,
            merge,
            seed: spec.seed,
            routine: &routine,
            received: &spec.received,
            values: &values,
            kept: &kept,
        })?;
        let unit = Unit {
            values,
            version: AtomicU64::new(1),
            snapshot: None,
            arrived: Vec::new(),
            shared_version: None,
            backups: HashMap::new(),
            variants: HashMap::new(),
        };
        Ok(Block {
            merge,
            seed: spec.seed,
            received: received.collect(),
            kept,
            shared,
            param,
            momentum,
            ranges,
            unit: RwLock::new(unit),
            routine,
            ops,
        })
    }

    /// The parameter that the block updates.
    pub fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// Names of the values that outlive a step: the parameter and its accumulators.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(|(name, _)| name.as_str())
    }

    /// Names of what trainers send.
    pub fn received(&self) -> impl Iterator<Item = &str> {
        self.received.keys().map(String::as_str)
    }

    /// Names of the shared values that it reads.
    pub fn shared(&self) -> impl Iterator<Item = &str> {
        self.shared.iter().map(|(name, _)| name.as_str())
    }

    /// Checks that a value that a trainer sends has the declared type and shape.
    ///
    /// # Errors
    /// When it has not, or the block does not take such a variable.
    pub fn check(&self, name: &str, array: &Array<'_>) -> Result<()> {
        let Received { dtype, shape, .. } = self.received_as(name)?;
        let dims = array.dims();
        let first = match array {
            Array::Dense { .. } => dims.first().copied().unwrap_or(1) as i64,
            Array::Rows { height, .. } => *height as i64,
        };
        let same = |(at, dim): (usize, &i64)| {
            let has = if at == 0 { first } else { dims[at] as i64 };
            *dim < 0 || *dim == has
        };
        let fits = dims.len() == shape.len() && shape.iter().enumerate().all(same);
        if array.dtype() == *dtype && fits {
            return Ok(());
        }
        let mut has: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
        if let Some(has) = has.first_mut() {
            *has = first;
        }
        Err(Error::Request(format!(
            "`{name}` is {dtype} of shape {shape:?} in the server's program, but {} of shape \
             {has:?} came: do trainer and server run programs of the same model?",
            array.dtype()
        )))
    }

    /// As [`Block::check`], for a piece of a value: its whole size must be known, since memory is
    /// made for it before the rest has come.
    ///
    /// # Errors
    /// As [`Block::check`].
    pub fn check_piece(&self, name: &str, array: &Array<'_>) -> Result<()> {
        self.check(name, array)?;
        if self.received_as(name)?.shape.iter().all(|dim| *dim >= 0) {
            return Ok(());
        }
        Err(Error::Request(format!(
            "a piece of `{name}` came, whose size the server's program does not say"
        )))
    }

    /// Keeps what a trainer sent for the next [`Block::update`]; selected rows add up.
    ///
    /// # Errors
    /// When it does not fit, or a dense value comes twice.
    pub fn store(&self, name: &str, array: &Array<'_>) -> Result<()> {
        self.check(name, array)?;
        let place = self.received_as(name)?.place;
        if let Some(ranges) = &self.ranges {
            let _unit = self.share_unit();
            return ranges.store(place, name, array);
        }
        let unit = &mut *self.write_unit();
        if !unit.arrived.iter().any(|known| known == name) {
            array.store(&mut unit.values[place])?;
            unit.arrived.push(name.to_owned());
            return Ok(());
        }
        let mut more = Value::Tensor(Tensor::empty(array.dtype()));
        array.store(&mut more)?;
        match (&mut unit.values[place], more) {
            (Value::Rows(known), Value::Rows(more)) => known.append(&more),
            _ => {
                return Err(Error::Request(format!(
                    "`{name}` came twice in one step: a trainer sends each gradient once before \
                     its barrier"
                )));
            }
        }
        Ok(())
    }

    /// Runs the ops on what is there: a block that takes nothing from trainers.
    ///
    /// # Errors
    /// When an op refuses.
    pub fn run_all(&self, shared: &Shared, step: u64) -> Result<()> {
        let unit = &mut *self.change_unit()?;
        self.copy_shared(unit, shared);
        Ok(self.routine.run_on(&mut unit.values, step)?)
    }

    /// Applies one value at once, from where it lies.
    ///
    /// # Errors
    /// When it does not fit, or an op refuses.
    pub fn apply(&self, name: &str, array: &Array<'_>, shared: &Shared, step: u64) -> Result<()> {
        self.check(name, array)?;
        if let (Some(ranges), Array::Rows { .. }) = (&self.ranges, array) {
            let (place, unit) = (self.received_as(name)?.place, self.ready_unit(shared)?);
            let applied = ranges.apply(place, name, array, &unit.values, step);
            // Last, so that who reads an older number finds that there is something new.
            unit.version.fetch_add(1, Ordering::AcqRel);
            return applied;
        }
        let unit = &mut *self.change_unit()?;
        self.apply_locked(unit, name, array, shared, step)
    }

    /// As [`Block::apply`], with the gradient corrected for what happened to the parameter since
    /// `trainer` got it (DC-ASGD).
    ///
    /// # Errors
    /// As [`Block::apply`].
    pub fn apply_delayed(
        &self,
        name: &str,
        array: &Array<'_>,
        shared: &Shared,
        step: u64,
        delay: (u32, f32),
    ) -> Result<()> {
        self.check(name, array)?;
        let (trainer, lambda) = delay;
        let unit = &mut *self.change_unit()?;
        let param = self.param.as_ref().and_then(|param| self.routine.find(param));
        let (Some(param), Some(backup)) = (param, unit.backups.get(&trainer)) else {
            return self.apply_locked(unit, name, array, shared, step);
        };
        let corrected = rows::compensate(array, unit.values[param].tensor()?, backup, lambda)?;
        let corrected = match *array {
            Array::Dense { .. } => Value::Tensor(corrected),
            Array::Rows { height, rows, .. } => Value::Rows(SelectedRows {
                rows: rows.to_vec(),
                height: height as usize,
                value: corrected,
            }),
        };
        self.apply_locked(unit, name, &Array::of_value(&corrected), shared, step)
    }

    fn apply_locked(
        &self,
        unit: &mut Unit,
        name: &str,
        array: &Array<'_>,
        shared: &Shared,
        step: u64,
    ) -> Result<()> {
        let place = self.received_as(name)?.place;
        self.copy_shared(unit, shared);
        if self.routine.writes(place) {
            array.store(&mut unit.values[place])?;
            return self
                .run(unit, &[name.to_owned()], |routine, values| routine.run_on(values, step));
        }
        let value = &mut unit.values[place];
        match (*array, &mut *value) {
            (Array::Dense { .. }, Value::Tensor(_)) => {}
            (Array::Dense { dtype, .. }, _) => *value = Value::Tensor(Tensor::empty(dtype)),
            (Array::Rows { dtype, height, rows, .. }, _) => {
                if value.rows().is_none() {
                    *value = Value::Rows(SelectedRows::empty(dtype));
                }
                let Value::Rows(value) = value else { unreachable!("made rows above") };
                value.rows.clear();
                value.rows.extend_from_slice(rows);
                value.height = height as usize;
            }
        }
        let lent = Lent { dtype: array.dtype(), dims: array.dims(), bytes: array.bytes() };
        self.run(unit, &[name.to_owned()], |routine, values| {
            routine.run_lending(values, step, place, lent)
        })
    }

    /// Runs the ops for the received variables `names`.
    pub(super) fn run(
        &self,
        unit: &mut Unit,
        names: &[String],
        run: impl FnOnce(&Routine, &mut [Value]) -> bireme_engine::Result<()>,
    ) -> Result<()> {
        let Some(merge) = &self.merge else {
            return Ok(run(&self.routine, &mut unit.values)?);
        };
        // In the order of the block, that of trainers, whatever the order of arrival was.
        let inputs = merge.inputs(&self.ops);
        let came: Vec<String> =
            inputs.iter().filter(|name| names.contains(name)).cloned().collect();
        if came.len() == inputs.len() {
            return Ok(run(&self.routine, &mut unit.values)?);
        }
        if came.is_empty() {
            return Err(Error::Request(format!("{names:?} is nothing that a block adds up")));
        }
        if !unit.variants.contains_key(&came) {
            let ops = merge.only(&self.ops, &came);
            let variant = self.routine.variant(&ops, self.seed)?;
            unit.variants.insert(came.clone(), variant);
        }
        Ok(run(&unit.variants[&came], &mut unit.values)?)
    }

    pub(super) fn copy_shared(&self, unit: &mut Unit, shared: &Shared) {
        let version = shared.version();
        if unit.shared_version == Some(version) {
            return;
        }
        for (name, place) in &self.shared {
            if let Some(tensor) = shared.get(name) {
                unit.values[*place] = Value::Tensor(tensor);
            }
        }
        unit.shared_version = Some(version);
    }

    /// Adds differences to the parameter `name` (geo).
    ///
    /// # Errors
    /// When they do not fit.
    pub fn add(&self, name: &str, delta: &Array<'_>) -> Result<()> {
        let place = self.kept_as(name)?;
        let unit = &mut *self.change_unit()?;
        let value = unit.values[place].tensor_mut()?;
        fits(name, value, delta)?;
        rows::add(value, delta)
    }

    /// Replaces a value (or a piece of it).
    ///
    /// # Errors
    /// When it has another type or shape.
    pub fn set(&self, name: &str, array: &Array<'_>) -> Result<()> {
        let place = self.kept_as(name)?;
        let unit = &mut *self.change_unit()?;
        let value = unit.values[place].tensor_mut()?;
        fits(name, value, array)?;
        match array {
            Array::Dense { .. } => array.store_tensor(value),
            Array::Rows { rows, bytes, .. } => {
                let row = bytes.len() / rows.len().max(1);
                let all = value.as_mut_bytes();
                for (at, bytes) in rows.iter().zip(bytes.chunks_exact(row.max(1))) {
                    let start = *at as usize * row;
                    all[start..start + row].copy_from_slice(bytes);
                }
                Ok(())
            }
        }
    }

    /// Looks at a value.
    ///
    /// # Errors
    /// When the block has none of this name.
    pub fn read<T>(&self, name: &str, look: impl FnOnce(&Tensor) -> T) -> Result<T> {
        let place = self.kept_as(name)?;
        Ok(look(self.read_unit().values[place].tensor()?))
    }

    /// As [`Block::read`], with what the parameter's momentum will do to it in `steps` updates,
    /// where it has any, and a number for what both of them give, which is another one when that has
    /// changed.
    ///
    /// # Errors
    /// As [`Block::read`].
    pub fn read_ahead<T>(
        &self,
        name: &str,
        steps: u32,
        look: impl FnOnce(&Tensor, Option<Ahead<'_>>, u64) -> T,
    ) -> Result<T> {
        let place = self.kept_as(name)?;
        let unit = self.read_unit();
        let momentum = self.momentum.as_ref().filter(|_| self.param.as_deref() == Some(name));
        let momentum = momentum.filter(|_| steps > 0);
        let ahead = momentum.and_then(|momentum| momentum.after(steps, &unit.values));
        let steps = u64::from(steps.min(u32::from(u16::MAX)));
        // No block is updated 2^48 times.
        let version =
            unit.version.load(Ordering::Acquire) << u16::BITS | ahead.as_ref().map_or(0, |_| steps);
        Ok(look(unit.values[place].tensor()?, ahead, version))
    }

    /// Looks at several values of one instant.
    ///
    /// # Errors
    /// As [`Block::read`].
    pub fn read_all<T>(&self, names: &[&str], look: impl FnOnce(&[&Tensor]) -> T) -> Result<T> {
        let unit = self.read_unit();
        let value = |name: &&str| Ok(unit.values[self.kept_as(name)?].tensor()?);
        let values = names.iter().map(value).collect::<Result<Vec<&Tensor>>>()?;
        Ok(look(&values))
    }

    /// Changes several values, which the caller must leave in their types and shapes.
    ///
    /// # Errors
    /// As [`Block::read`].
    pub fn write_all<T>(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut [&mut Tensor]) -> T,
    ) -> Result<T> {
        let unit = &mut *self.change_unit()?;
        let places = names.iter().map(|name| self.kept_as(name)).collect::<Result<Vec<_>>>()?;
        let mut found: HashMap<usize, &mut Tensor> = HashMap::new();
        for (place, value) in unit.values.iter_mut().enumerate() {
            if places.contains(&place) {
                found.insert(place, value.tensor_mut()?);
            }
        }
        let values = places.iter().map(|place| found.remove(place));
        let values: Option<Vec<&mut Tensor>> = values.collect();
        let mut values =
            values.ok_or_else(|| Error::Request("a value was asked for twice".to_owned()))?;
        Ok(change(&mut values))
    }

    /// Copies rows of a value of f32, one after the other, to `out`.
    ///
    /// # Errors
    /// When there is no such value or row.
    pub fn copy_rows(&self, name: &str, wanted: &[u64], out: &mut Vec<f32>) -> Result<()> {
        let place = self.kept_as(name)?;
        if let Some(ranges) = self.ranges.as_ref().filter(|ranges| ranges.is_param(place)) {
            return ranges.copy(&self.share_unit().values, wanted, out);
        }
        self.read(name, |tensor| rows::copy(tensor, wanted, out))?
    }

    /// Elements in a row of a value.
    ///
    /// # Errors
    /// As [`Block::read`].
    pub fn row_width(&self, name: &str) -> Result<usize> {
        let place = self.kept_as(name)?;
        match self.ranges.as_ref().filter(|ranges| ranges.is_param(place)) {
            Some(ranges) => Ok(ranges.width()),
            None => self.read(name, |value| value.numel() / value.rows().max(1)),
        }
    }

    /// As [`Block::read`]; remembers the parameter as `trainer` sees it now (DC-ASGD).
    ///
    /// # Errors
    /// As [`Block::read`].
    pub fn read_for<T>(
        &self,
        trainer: u32,
        name: &str,
        look: impl FnOnce(&Tensor) -> T,
    ) -> Result<T> {
        let place = self.kept_as(name)?;
        let unit = &mut *self.write_unit();
        let now = unit.values[place].tensor()?;
        if self.param.as_deref() == Some(name) {
            match unit.backups.get_mut(&trainer) {
                Some(backup) => backup.copy_from(now),
                None => drop(unit.backups.insert(trainer, now.clone())),
            }
        }
        Ok(look(now))
    }

    /// Forgets what `trainer` has: it is gone.
    pub fn forget(&self, trainer: u32) {
        self.write_unit().backups.remove(&trainer);
    }

    pub(super) fn kept_as(&self, name: &str) -> Result<usize> {
        let at = self.kept.binary_search_by(|(known, _)| known.as_str().cmp(name));
        let at = at.map_err(|_| Error::Request(format!("there is no value `{name}` here")))?;
        Ok(self.kept[at].1)
    }

    fn received_as(&self, name: &str) -> Result<&Received> {
        let received = self.received.get(name);
        received.ok_or_else(|| Error::Request(format!("no update takes `{name}`")))
    }

    /// For whoever looks at all values. Where rows are reached by those who share the lock, nobody
    /// else may have it.
    pub(super) fn read_unit(&self) -> Held<'_> {
        match self.ranges {
            None => Held::Shared(self.share_unit()),
            Some(_) => Held::Alone(self.write_unit()),
        }
    }

    pub(super) fn write_unit(&self) -> RwLockWriteGuard<'_, Unit> {
        self.unit.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn share_unit(&self) -> RwLockReadGuard<'_, Unit> {
        // A panic inside an op leaves at worst a half-made update of this one parameter.
        self.unit.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For whoever changes rows of ranges: nobody reads the values from before any more, and those
    /// of [`Shared`] are the newest.
    pub(super) fn ready_unit(&self, shared: &Shared) -> Result<RwLockReadGuard<'_, Unit>> {
        loop {
            let unit = self.share_unit();
            let is_read = unit.snapshot.as_ref().is_some_and(Snapshot::is_untouched);
            if !is_read && unit.shared_version == Some(shared.version()) {
                return Ok(unit);
            }
            drop(unit);
            let unit = &mut *self.change_unit()?;
            self.copy_shared(unit, shared);
        }
    }

    /// As [`Block::write_unit`], for whoever changes values that outlive a step.
    pub(super) fn change_unit(&self) -> Result<RwLockWriteGuard<'_, Unit>> {
        let mut unit = self.write_unit();
        let Unit { snapshot, values, .. } = &mut *unit;
        if let Some(snapshot) = snapshot {
            snapshot.keep(values)?;
        }
        *unit.version.get_mut() += 1;
        Ok(unit)
    }
}

/// A unit that nobody changes.
pub(super) enum Held<'a> {
    Shared(RwLockReadGuard<'a, Unit>),
    Alone(RwLockWriteGuard<'a, Unit>),
}

impl Deref for Held<'_> {
    type Target = Unit;

    fn deref(&self) -> &Unit {
        match self {
            Held::Shared(unit) => unit,
            Held::Alone(unit) => unit,
        }
    }
}

/// The parameter of a block: what an optimizer updates, or what differences are added to.
fn param_of(ops: &[Op], kept: &[(String, usize)]) -> Option<String> {
    let is_kept = |name: &String| kept.iter().any(|(known, _)| known == name);
    let updated = ops.iter().flat_map(|op| op.outputs_of("ParamOut")).next();
    let written = ops.iter().flat_map(Op::output_vars).find(|name| is_kept(name));
    updated.filter(|name| is_kept(name)).or(written).cloned()
}

/// Checks that an array is of a value's type and shape.
fn fits(name: &str, value: &Tensor, array: &Array<'_>) -> Result<()> {
    let dims = match array {
        Array::Dense { dims, .. } => *dims,
        Array::Rows { dims, height, .. } => dims.with_rows(*height as usize),
    };
    if value.dtype() == array.dtype() && value.dims() == dims {
        return Ok(());
    }
    Err(Error::Request(format!(
        "`{name}` is {} of shape {} on the server, but {} of shape {dims} came",
        value.dtype(),
        value.dims(),
        array.dtype()
    )))
}
