//! One rank's tensors on all ranks: how data parallel training starts.

use bireme_collective::Group;
use bireme_engine::eager::EagerTensor;
use bireme_engine::{Error, Result};

use super::tensors::remote;

/// Gives every rank the values that `root` has, all in one message.
///
/// # Errors
/// When a rank is lost, or has tensors of other types or shapes.
pub fn synchronize(group: &Group, tensors: &[EagerTensor], root: usize) -> Result<()> {
    if group.size() == 1 {
        return Ok(());
    }
    agree(group, tensors, root)?;
    let values = tensors.iter().map(EagerTensor::value).collect::<Result<Vec<_>>>()?;
    let mut bytes = Vec::new();
    for value in &values {
        bytes.extend_from_slice(value.tensor()?.as_bytes());
    }
    group.broadcast(&mut bytes, root).map_err(remote)?;
    if group.rank() == root {
        return Ok(());
    }
    let mut rest = bytes.as_slice();
    for (tensor, value) in tensors.iter().zip(values) {
        let mut copy = value.tensor()?.clone();
        let (here, next) = rest.split_at(copy.as_bytes().len());
        copy.as_mut_bytes().copy_from_slice(here);
        tensor.replace_on_host(copy);
        rest = next;
    }
    Ok(())
}

/// That all ranks have the same tensors as `root`.
fn agree(group: &Group, tensors: &[EagerTensor], root: usize) -> Result<()> {
    let mut mine = String::new();
    for tensor in tensors {
        mine.push_str(&format!("{} of shape {}\n", tensor.dtype(), tensor.dims()));
    }
    let all = group.all_gather_varied(mine.as_bytes()).map_err(remote)?;
    for (rank, theirs) in all.iter().enumerate() {
        if theirs == &all[root] {
            continue;
        }
        let (theirs, wanted) =
            (String::from_utf8_lossy(theirs), String::from_utf8_lossy(&all[root]));
        let mut lines = theirs.lines().zip(wanted.lines()).enumerate();
        let problem = match lines.find(|(_, (theirs, wanted))| theirs != wanted) {
            Some((at, (theirs, wanted))) => {
                format!("its tensor {at} is {theirs}, that of rank {root} {wanted}")
            }
            None => format!(
                "it has {} tensors, rank {root} has {}",
                theirs.lines().count(),
                wanted.lines().count()
            ),
        };
        return Err(Error::remote(format!(
            "rank {rank} has another model than rank {root}: {problem}"
        )));
    }
    Ok(())
}
