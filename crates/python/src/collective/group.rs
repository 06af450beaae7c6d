//! `ProcessGroup`: the processes that make collective calls together, on eager tensors.
//!
//! Each method makes a piece of work that owns what it needs: values to send, tensors to fill. A
//! call that waits runs it at once and lends the tensor's own memory; one that does not hands it to
//! the group's thread with a copy, so that the tensor can be read meanwhile.

use std::sync::Arc;

use bireme_collective::Group;
use bireme_engine::eager::{EagerTensor, HostValue};
use bireme_engine::tensor::Tensor as EngineTensor;
use bireme_engine::{Error, Result, Value};
use bireme_fleet::collective::{Ranks, Rings, Road};
use bireme_fleet::eager::OnCards;
use bireme_fleet::eager::tensors::{self, Reduction, remote};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::task::Task;
use crate::error::{enter, to_py};
use crate::tensor::Tensor;
use crate::{jobs, ranks};

/// Processes that make collective calls together.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct ProcessGroup {
    pub(super) group: Group,
    /// What its cards have agreed on; for the group of all processes of the job these are the job's.
    rings: Option<Arc<Rings>>,
}

impl ProcessGroup {
    pub(super) fn new(group: Group) -> ProcessGroup {
        ProcessGroup { group, rings: None }
    }

    /// The cards of all ranks, where they exchange tensors like this one among themselves. The ranks agree on that the
    /// first time; all make the same calls.
    pub(super) fn on_cards(
        &self,
        py: Python<'_>,
        tensor: &EagerTensor,
    ) -> PyResult<Option<OnCards>> {
        let held = tensor.held();
        let (Some(rings), Some(card)) = (&self.rings, held.home()) else { return Ok(None) };
        enter(py, || {
            let road = jobs::environment()?.rpc.road;
            if road == Road::Host {
                return Ok(None);
            }
            rings.agree(Some(card.device()), road)?;
            let cards = rings.exchange().map(|(exchange, place)| OnCards::new(exchange, place));
            Ok(cards.filter(|cards| cards.takes(tensor)))
        })
    }

    /// Runs or starts `work`, which is told whether it may use the memory of its tensors.
    fn call(
        &self,
        py: Python<'_>,
        sync: bool,
        work: impl FnOnce(&Group, Memory) -> Result<()> + Send + 'static,
    ) -> PyResult<Task> {
        if !sync {
            return Ok(Task::start(&self.group, move |group| work(group, Memory::Copied)));
        }
        // The group lets what has been started go first.
        enter(py, || work(&self.group, Memory::Lent))?;
        Ok(Task::done())
    }

    fn check_rank(&self, name: &str, rank: usize) -> PyResult<()> {
        let size = self.group.size();
        if rank < size {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("`{name}` is {rank}, but the group has {size} ranks")))
    }

    fn check_parts(&self, name: &str, count: usize) -> PyResult<()> {
        let size = self.group.size();
        if count == size {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "`{name}` has {count} tensors, but the group has {size} ranks: give one for each"
        )))
    }
}

/// Whose memory an op may write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// The tensor's own: nobody looks at it meanwhile.
    Lent,
    /// A copy, which becomes the tensor's value at the end.
    Copied,
}

/// Lets `work` change the value of a tensor.
fn change(
    tensor: &EagerTensor,
    memory: Memory,
    work: impl FnOnce(&mut EngineTensor) -> Result<()>,
) -> Result<()> {
    let mut value = match memory {
        // Memory that the tape, or an array, shares is copied too.
        Memory::Lent => tensor.take_value()?,
        Memory::Copied => Value::clone(&*tensor.value()?),
    };
    let outcome = value.tensor_mut().and_then(work);
    tensor.replace_on_host(value);
    outcome
}

/// The bytes of a dense value.
fn bytes(value: &Value) -> Result<&[u8]> {
    Ok(value.tensor()?.as_bytes())
}

/// Copies what came into tensors that must fit.
fn fill(tensors: &[EagerTensor], memory: Memory, parts: &[Vec<u8>]) -> Result<()> {
    for (rank, (tensor, part)) in tensors.iter().zip(parts).enumerate() {
        change(tensor, memory, |tensor| fill_one(tensor, part, rank))?;
    }
    Ok(())
}

fn fill_one(tensor: &mut EngineTensor, part: &[u8], rank: usize) -> Result<()> {
    let to = tensor.as_mut_bytes();
    if to.len() != part.len() {
        return Err(Error::kernel(format!(
            "rank {rank} sent {} bytes, but the tensor for it has {} bytes: shapes and types must \
             be the same on both sides",
            part.len(),
            to.len()
        )));
    }
    to.copy_from_slice(part);
    Ok(())
}

fn handles(tensors: &[PyRef<'_, Tensor>]) -> Vec<EagerTensor> {
    tensors.iter().map(|tensor| tensor.inner.clone()).collect()
}

fn values(tensors: &[PyRef<'_, Tensor>]) -> PyResult<Vec<HostValue>> {
    tensors.iter().map(|tensor| value(tensor)).collect()
}

/// The value of a tensor, on the host.
fn value(tensor: &Tensor) -> PyResult<HostValue> {
    tensor.inner.value().map_err(to_py)
}

/// The number of a reduction in Paddle's `ReduceOp`.
fn reduction(op: u32) -> PyResult<Reduction> {
    Ok(match op {
        0 => Reduction::Sum,
        1 => Reduction::Max,
        2 => Reduction::Min,
        3 => Reduction::Product,
        4 => Reduction::Average,
        _ => return Err(PyValueError::new_err(format!("there is no `ReduceOp` of number {op}"))),
    })
}

#[pymethods]
impl ProcessGroup {
    /// The group of all processes of the job, as the arguments or else the environment name them;
    /// connects at the first call.
    #[staticmethod]
    #[pyo3(signature = (rank=None, endpoints=None))]
    fn all(
        py: Python<'_>,
        rank: Option<usize>,
        endpoints: Option<Vec<String>>,
    ) -> PyResult<ProcessGroup> {
        let given = rank.zip(endpoints.filter(|endpoints| !endpoints.is_empty()));
        let given = given.map(|(rank, endpoints)| Ranks { rank, endpoints });
        let rings = enter(py, || ranks::rings(given.as_ref()))?;
        Ok(ProcessGroup { group: rings.group(0), rings: Some(rings) })
    }

    /// A group of processes that is not that of the job.
    #[staticmethod]
    fn connect(py: Python<'_>, rank: usize, endpoints: Vec<String>) -> PyResult<ProcessGroup> {
        enter(py, || ranks::meet(&Ranks { rank, endpoints })).map(ProcessGroup::new)
    }

    /// A group of this process alone.
    #[staticmethod]
    fn alone() -> ProcessGroup {
        ProcessGroup::new(Group::alone())
    }

    /// Lets go of the group of all processes; the next call of `all` connects anew.
    #[staticmethod]
    fn forget_all(py: Python<'_>) -> PyResult<()> {
        enter(py, || {
            ranks::leave();
            Ok(())
        })
    }

    /// Tells the other processes that this one ends with an error.
    #[staticmethod]
    fn abort_all(py: Python<'_>, why: &str) -> PyResult<()> {
        enter(py, || {
            ranks::quit(why);
            Ok(())
        })
    }

    /// The number of this process in the group, from 0.
    #[getter]
    fn rank(&self) -> usize {
        self.group.rank()
    }

    /// How many processes there are.
    #[getter]
    fn size(&self) -> usize {
        self.group.size()
    }

    /// The group of some ranks of this one, by their numbers in it; every rank calls it. `None` for
    /// those that are not among them.
    fn subgroup(&self, py: Python<'_>, ranks: Vec<usize>) -> PyResult<Option<ProcessGroup>> {
        for rank in &ranks {
            self.check_rank("ranks", *rank)?;
        }
        let made = enter(py, || self.group.subgroup(&ranks).map_err(remote))?;
        // Its ranks agree for themselves how their cards exchange, when one of them first has a tensor there.
        Ok(made.map(|group| {
            let rings = Some(Arc::new(Rings::new(group.clone())));
            ProcessGroup { group, rings }
        }))
    }

    /// The tensor becomes the reduction of those of all ranks.
    #[pyo3(signature = (tensor, op=0, sync=true))]
    fn all_reduce(
        &self,
        py: Python<'_>,
        tensor: PyRef<'_, Tensor>,
        op: u32,
        sync: bool,
    ) -> PyResult<Task> {
        let (tensor, op) = (tensor.inner.clone(), reduction(op)?);
        if let Some(cards) = self.on_cards(py, &tensor)?
            && enter(py, || cards.all_reduce(&tensor, op))?
        {
            return Ok(Task::done());
        }
        self.call(py, sync, move |group, memory| {
            change(&tensor, memory, |tensor| tensors::all_reduce(group, tensor, op))
        })
    }

    /// As `all_reduce`, on rank `root` alone; the tensors of others stay as they are.
    #[pyo3(signature = (tensor, root, op=0, sync=true))]
    fn reduce(
        &self,
        py: Python<'_>,
        tensor: PyRef<'_, Tensor>,
        root: usize,
        op: u32,
        sync: bool,
    ) -> PyResult<Task> {
        self.check_rank("dst", root)?;
        let (tensor, op, own) = (tensor.inner.clone(), reduction(op)?, self.group.rank());
        if let Some(cards) = self.on_cards(py, &tensor)?
            && enter(py, || cards.reduce(&tensor, op, root, own))?
        {
            return Ok(Task::done());
        }
        self.call(py, sync, move |group, memory| {
            change(&tensor, memory, |tensor| tensors::reduce(group, tensor, op, root))
        })
    }

    /// The tensor becomes that of rank `root`.
    #[pyo3(signature = (tensor, root, sync=true))]
    fn broadcast(
        &self,
        py: Python<'_>,
        tensor: PyRef<'_, Tensor>,
        root: usize,
        sync: bool,
    ) -> PyResult<Task> {
        self.check_rank("src", root)?;
        let tensor = tensor.inner.clone();
        if let Some(cards) = self.on_cards(py, &tensor)?
            && enter(py, || cards.broadcast(&tensor, root))?
        {
            return Ok(Task::done());
        }
        self.call(py, sync, move |group, memory| {
            change(&tensor, memory, |tensor| {
                group.broadcast(tensor.as_mut_bytes(), root).map_err(remote)
            })
        })
    }

    /// `parts` become the tensors of all ranks.
    #[pyo3(signature = (parts, tensor, sync=true))]
    fn all_gather(
        &self,
        py: Python<'_>,
        parts: Vec<PyRef<'_, Tensor>>,
        tensor: PyRef<'_, Tensor>,
        sync: bool,
    ) -> PyResult<Task> {
        self.check_parts("tensor_list", parts.len())?;
        let (parts, mine) = (handles(&parts), value(&tensor)?);
        self.call(py, sync, move |group, memory| {
            let all = group.all_gather_varied(bytes(&mine)?).map_err(remote)?;
            fill(&parts, memory, &all)
        })
    }

    /// `whole` becomes the tensors of all ranks, one after the other.
    #[pyo3(signature = (whole, tensor, sync=true))]
    fn all_gather_into(
        &self,
        py: Python<'_>,
        whole: PyRef<'_, Tensor>,
        tensor: PyRef<'_, Tensor>,
        sync: bool,
    ) -> PyResult<Task> {
        let (whole, mine) = (whole.inner.clone(), value(&tensor)?);
        check_whole("the output", &whole, tensor.inner.dims().numel(), self.group.size())?;
        self.call(py, sync, move |group, memory| {
            change(&whole, memory, |whole| {
                group.all_gather(bytes(&mine)?, whole.as_mut_bytes()).map_err(remote)
            })
        })
    }

    /// On rank `root`, `parts` become the tensors of all ranks.
    #[pyo3(signature = (parts, tensor, root, sync=true))]
    fn gather(
        &self,
        py: Python<'_>,
        parts: Vec<PyRef<'_, Tensor>>,
        tensor: PyRef<'_, Tensor>,
        root: usize,
        sync: bool,
    ) -> PyResult<Task> {
        self.check_rank("dst", root)?;
        if self.group.rank() == root {
            self.check_parts("gather_list", parts.len())?;
        }
        let (parts, mine) = (handles(&parts), value(&tensor)?);
        self.call(py, sync, move |group, memory| {
            let mut sent: Vec<&[u8]> = vec![&[]; group.size()];
            sent[root] = bytes(&mine)?;
            let all = group.all_to_all_varied(&sent).map_err(remote)?;
            if group.rank() == root { fill(&parts, memory, &all) } else { Ok(()) }
        })
    }

    /// The tensor becomes this rank's part of what `root` has.
    #[pyo3(signature = (tensor, parts, root, sync=true))]
    fn scatter(
        &self,
        py: Python<'_>,
        tensor: PyRef<'_, Tensor>,
        parts: Vec<PyRef<'_, Tensor>>,
        root: usize,
        sync: bool,
    ) -> PyResult<Task> {
        self.check_rank("src", root)?;
        let (tensor, is_root) = (tensor.inner.clone(), self.group.rank() == root);
        // One tensor is the parts one after the other.
        let parts = values(&parts)?;
        if is_root && parts.len() != 1 {
            self.check_parts("tensor_list", parts.len())?;
        }
        self.call(py, sync, move |group, memory| {
            let whole = joined(&parts, is_root)?;
            change(&tensor, memory, |tensor| {
                let to = tensor.as_mut_bytes();
                group.scatter(whole.as_deref(), to, root).map_err(remote)
            })
        })
    }

    /// The tensor becomes this rank's part of the reduction of `parts`, or of one tensor that is
    /// all parts one after the other.
    #[pyo3(signature = (tensor, parts, op=0, sync=true))]
    fn reduce_scatter(
        &self,
        py: Python<'_>,
        tensor: PyRef<'_, Tensor>,
        parts: Vec<PyRef<'_, Tensor>>,
        op: u32,
        sync: bool,
    ) -> PyResult<Task> {
        let op = reduction(op)?;
        if parts.len() != 1 {
            self.check_parts("tensor_list", parts.len())?;
        }
        let (tensor, parts) = (tensor.inner.clone(), values(&parts)?);
        self.call(py, sync, move |group, memory| {
            let whole = match &parts[..] {
                [one] => one.tensor()?.clone(),
                several => concatenated(several)?,
            };
            change(&tensor, memory, |part| tensors::reduce_scatter(group, &whole, part, op))
        })
    }

    /// `outputs` become what each rank has for this one among its `inputs`.
    #[pyo3(signature = (outputs, inputs, sync=true))]
    fn all_to_all(
        &self,
        py: Python<'_>,
        outputs: Vec<PyRef<'_, Tensor>>,
        inputs: Vec<PyRef<'_, Tensor>>,
        sync: bool,
    ) -> PyResult<Task> {
        self.check_parts("in_tensor_list", inputs.len())?;
        self.check_parts("out_tensor_list", outputs.len())?;
        let (outputs, inputs) = (handles(&outputs), values(&inputs)?);
        self.call(py, sync, move |group, memory| {
            let parts = inputs.iter().map(|value| bytes(value)).collect::<Result<Vec<_>>>()?;
            fill(&outputs, memory, &group.all_to_all_varied(&parts).map_err(remote)?)
        })
    }

    /// As `all_to_all` of the rows of two tensors, cut as the sizes say.
    #[pyo3(signature = (output, input, output_rows, input_rows, sync=true))]
    fn all_to_all_rows(
        &self,
        py: Python<'_>,
        output: PyRef<'_, Tensor>,
        input: PyRef<'_, Tensor>,
        output_rows: Vec<usize>,
        input_rows: Vec<usize>,
        sync: bool,
    ) -> PyResult<Task> {
        self.check_parts("in_split_sizes", input_rows.len())?;
        self.check_parts("out_split_sizes", output_rows.len())?;
        let input_cuts = cuts("in_split_sizes", &input.inner, &input_rows)?;
        let output_cuts = cuts("out_split_sizes", &output.inner, &output_rows)?;
        let (output, input) = (output.inner.clone(), value(&input)?);
        self.call(py, sync, move |group, memory| {
            let mut rest = bytes(&input)?;
            let mut parts = Vec::new();
            for cut in input_cuts {
                let (part, next) = rest.split_at(cut);
                parts.push(part);
                rest = next;
            }
            let came = group.all_to_all_varied(&parts).map_err(remote)?;
            change(&output, memory, |output| {
                let mut rest = output.as_mut_bytes();
                for (rank, (cut, part)) in output_cuts.into_iter().zip(&came).enumerate() {
                    let (here, next) = rest.split_at_mut(cut);
                    if part.len() != cut {
                        return Err(Error::kernel(format!(
                            "rank {rank} sent {} bytes, but `out_split_sizes` leaves {cut} bytes \
                             for it",
                            part.len()
                        )));
                    }
                    here.copy_from_slice(part);
                    rest = next;
                }
                Ok(())
            })
        })
    }

    /// Sends a tensor to a rank, which receives it.
    #[pyo3(signature = (tensor, to, sync=true))]
    fn send(
        &self,
        py: Python<'_>,
        tensor: PyRef<'_, Tensor>,
        to: usize,
        sync: bool,
    ) -> PyResult<Task> {
        self.check_rank("dst", to)?;
        let value = value(&tensor)?;
        self.call(py, sync, move |group, _| group.send(to, bytes(&value)?).map_err(remote))
    }

    /// The tensor becomes what a rank sends.
    #[pyo3(signature = (tensor, source, sync=true))]
    fn receive(
        &self,
        py: Python<'_>,
        tensor: PyRef<'_, Tensor>,
        source: usize,
        sync: bool,
    ) -> PyResult<Task> {
        self.check_rank("src", source)?;
        let tensor = tensor.inner.clone();
        self.call(py, sync, move |group, memory| {
            change(&tensor, memory, |tensor| {
                group.receive(source, tensor.as_mut_bytes()).map_err(remote)
            })
        })
    }

    /// Waits for all ranks.
    #[pyo3(signature = (sync=true))]
    fn barrier(&self, py: Python<'_>, sync: bool) -> PyResult<Task> {
        self.call(py, sync, move |group, _| group.barrier().map_err(remote))
    }

    /// Waits until everything that was started has ended.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        Task::start(&self.group, |_| Ok(())).finish(py)
    }

    /// The bytes of all ranks.
    fn all_gather_bytes<'py>(
        &self,
        py: Python<'py>,
        part: Vec<u8>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let all = enter(py, || self.group.all_gather_varied(&part).map_err(remote))?;
        Ok(all.iter().map(|part| PyBytes::new(py, part)).collect())
    }

    /// The bytes that each rank has for this one.
    fn all_to_all_bytes<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<Vec<u8>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let all = enter(py, || {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            self.group.all_to_all_varied(&parts).map_err(remote)
        })?;
        Ok(all.iter().map(|part| PyBytes::new(py, part)).collect())
    }

    /// Gives every rank the values of `root` for these tensors.
    #[pyo3(signature = (tensors, root=0))]
    fn synchronize(
        &self,
        py: Python<'_>,
        tensors: Vec<PyRef<'_, Tensor>>,
        root: usize,
    ) -> PyResult<()> {
        self.check_rank("src", root)?;
        let tensors = handles(&tensors);
        enter(py, || bireme_fleet::eager::synchronize(&self.group, &tensors, root))
    }
}

/// Several values one after the other, as bytes; `None` on ranks that have nothing to give.
fn joined(parts: &[HostValue], is_root: bool) -> Result<Option<Vec<u8>>> {
    if !is_root {
        return Ok(None);
    }
    let mut whole = Vec::new();
    for part in parts {
        whole.extend_from_slice(bytes(part)?);
    }
    Ok(Some(whole))
}

/// Several tensors of one type as one.
fn concatenated(parts: &[HostValue]) -> Result<EngineTensor> {
    let first = parts[0].tensor()?;
    let mut total = 0;
    for part in parts {
        let part = part.tensor()?;
        if part.dtype() != first.dtype() || part.numel() != first.numel() {
            return Err(Error::kernel(format!(
                "the tensors of a list must be alike: {} of shape {} and {} of shape {}",
                first.dtype(),
                first.dims(),
                part.dtype(),
                part.dims()
            )));
        }
        total += part.numel();
    }
    let mut whole = EngineTensor::zeros(first.dtype(), [total]);
    let mut rest = whole.as_mut_bytes();
    for part in parts {
        let part = bytes(part)?;
        let (here, next) = rest.split_at_mut(part.len());
        here.copy_from_slice(part);
        rest = next;
    }
    Ok(whole)
}

/// The bytes of each run of rows.
fn cuts(name: &str, tensor: &EagerTensor, rows: &[usize]) -> PyResult<Vec<usize>> {
    let dims = tensor.dims();
    let height = dims.first().copied().unwrap_or(0);
    let total = rows.iter().try_fold(0usize, |sum, rows| sum.checked_add(*rows));
    if total != Some(height) {
        return Err(PyValueError::new_err(format!(
            "`{name}` must add up to the {height} rows of the tensor, got {rows:?}"
        )));
    }
    let row_bytes = dims.tail(1) * tensor.dtype().size();
    Ok(rows.iter().map(|rows| rows * row_bytes).collect())
}

fn check_whole(name: &str, whole: &EagerTensor, part: usize, size: usize) -> PyResult<()> {
    let has = whole.dims().numel();
    if has == part * size {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{name} has {has} elements, but {size} ranks have {part} elements each"
    )))
}
