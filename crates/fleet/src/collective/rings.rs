//! Answers the ops of a program with groups: ring 0 is the whole job, others may be parts of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bireme_collective::{Error as GroupError, Group, Pending, Reduce};
use bireme_engine::collective::{Bring, Carried, Collective, Ongoing, Reduction};
use bireme_engine::device::{Device, Exchange};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Error, Place, Result, dispatch};
use bireme_ir::difference;

use super::cards::{self, Agreed, Road};
use crate::eager::tensors;

/// The rings of a process. One that nobody has made is the whole job, as in Paddle's programs, where
/// several rings only keep several streams busy.
pub struct Rings {
    whole: Group,
    parts: RwLock<BTreeMap<i32, Part>>,
    /// Whether the ranks have compared what they train.
    compared: AtomicBool,
    /// How the cards of the whole job exchange, once the ranks have agreed.
    agreed: Mutex<Option<Agreement>>,
}

/// A ring that is a part of the job.
struct Part {
    group: Group,
    /// How its cards exchange, once its ranks have agreed.
    agreed: Option<Agreed>,
}

/// What the ranks of the whole job have agreed on, and by what.
struct Agreement {
    whole: Agreed,
    device: Option<Arc<dyn Device>>,
    road: Road,
}

impl Rings {
    /// Rings that are all the whole job.
    pub fn new(whole: Group) -> Rings {
        let (parts, compared) = (RwLock::default(), AtomicBool::new(false));
        Rings { whole, parts, compared, agreed: Mutex::default() }
    }

    /// Decides, once, how the cards of all ranks exchange; `device` is this rank's card. All ranks make this call at
    /// the same place, those without a card too. Rank 0 logs in a line what a user should know.
    ///
    /// # Errors
    /// When a rank is lost, or asks for what cannot be; on every rank.
    pub fn agree(&self, device: Option<&Arc<dyn Device>>, road: Road) -> Result<()> {
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        if agreed.is_some() {
            return Ok(());
        }
        let whole = cards::agree(&self.whole, device, road)?;
        if let (Some(line), 0) = (&whole.line, self.whole.rank()) {
            tracing::warn!("{line}");
        }
        // In the order of their numbers, which is the same for all ranks that are in several.
        let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        for part in parts.values_mut().filter(|part| part.agreed.is_none()) {
            part.agreed = Some(cards::agree(&part.group, device, road)?);
        }
        *agreed = Some(Agreement { whole, device: device.cloned(), road });
        Ok(())
    }

    /// Why cards exchange through the host's memory, if they do.
    pub fn why_host(&self) -> Option<String> {
        let agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        agreed.as_ref()?.whole.line.clone()
    }

    /// The way of this rank's card to those of all others, where they exchange among themselves.
    pub fn exchange(&self) -> Option<(Arc<dyn Exchange>, Place)> {
        let agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        let Agreement { whole, device, .. } = agreed.as_ref()?;
        Some((Arc::clone(&whole.cards.as_ref()?.exchange), device.as_ref()?.place()))
    }

    /// Compares the fingerprint of this rank's program with those of all others, once: the first
    /// time with a program that trains. All ranks make this call at the same place.
    ///
    /// # Errors
    /// When they differ, with how, on every rank; when a rank is lost.
    pub fn compare(&self, fingerprint: &[String]) -> Result<()> {
        let alone = self.whole.size() < 2;
        if alone || fingerprint.is_empty() || self.compared.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let all = self.whole.all_gather_varied(fingerprint.join("\n").as_bytes()).map_err(lost)?;
        let lines: Vec<Vec<String>> = all
            .iter()
            .map(|part| String::from_utf8_lossy(part).lines().map(str::to_owned).collect())
            .collect();
        for (rank, theirs) in lines.iter().enumerate().skip(1) {
            let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
            let who = format!("rank {rank}");
            if let Some(difference) = difference(("rank 0", &lines[0]), (&who, &theirs)) {
                return Err(Error::remote(format!(
                    "{who} trains another program than rank 0: {difference}. Start all processes \
                     of the job with the same script and settings"
                )));
            }
        }
        Ok(())
    }

    /// Makes ring `ring` a part of the job. Its ranks all make this call at the same place: where the job has agreed
    /// on how cards exchange, they do so for their own, which get a communicator of their own.
    ///
    /// # Errors
    /// As [`Rings::agree`].
    pub fn set(&self, ring: i32, group: Group) -> Result<()> {
        let agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        let agreed = match &*agreed {
            Some(Agreement { device, road, .. }) => {
                Some(cards::agree(&group, device.as_ref(), *road)?)
            }
            None => None,
        };
        let part = Part { group, agreed };
        self.parts.write().unwrap_or_else(PoisonError::into_inner).insert(ring, part);
        Ok(())
    }

    /// The group of a ring.
    pub fn group(&self, ring: i32) -> Group {
        let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
        parts.get(&ring).map_or(&self.whole, |part| &part.group).clone()
    }
}

/// The engine's error for one of a group; an interrupt stays one.
fn lost(error: GroupError) -> Error {
    match error {
        GroupError::Interrupted { .. } => Error::Interrupted,
        error => Error::remote(error),
    }
}

fn reduce(how: Reduction) -> Reduce {
    match how {
        Reduction::Sum => Reduce::Sum,
        Reduction::Prod => Reduce::Prod,
        Reduction::Min => Reduce::Min,
        Reduction::Max => Reduce::Max,
    }
}

fn no_numbers(tensor: &Tensor) -> Error {
    Error::kernel(format!("elements of type {} cannot be reduced over ranks", tensor.dtype()))
}

fn all_reduce(group: &Group, data: &mut Tensor, how: Reduction) -> Result<()> {
    let how = match how {
        Reduction::Sum => tensors::Reduction::Sum,
        Reduction::Prod => tensors::Reduction::Product,
        Reduction::Min => tensors::Reduction::Min,
        Reduction::Max => tensors::Reduction::Max,
    };
    tensors::all_reduce(group, data, how)
}

impl Collective for Rings {
    fn rank(&self, ring: i32) -> Result<usize> {
        Ok(self.group(ring).rank())
    }

    fn size(&self, ring: i32) -> Result<usize> {
        Ok(self.group(ring).size())
    }

    fn all_reduce(&self, ring: i32, data: &mut Tensor, how: Reduction) -> Result<()> {
        all_reduce(&self.group(ring), data, how)
    }

    fn start_all_reduce(&self, ring: i32, data: Bring, how: Reduction) -> Result<Box<dyn Ongoing>> {
        let work = move |group: &Group| {
            let reduced = data().and_then(|mut carried| {
                all_reduce(group, &mut carried.data, how)?;
                Ok(carried)
            });
            if let Err(error) = &reduced {
                // The others wait for this rank's part, which does not come.
                group.abort(&error.to_string());
            }
            Ok(reduced)
        };
        Ok(Box::new(Flight(self.group(ring).start(work))))
    }

    fn reduce(&self, ring: i32, data: &mut Tensor, how: Reduction, root: usize) -> Result<()> {
        dispatch!(data.dtype(), T in [f32, f64, i64, i32] => {
            let group = self.group(ring);
            group.reduce(data.as_mut_slice::<T>()?, reduce(how), root).map_err(lost)
        }, else => Err(no_numbers(data)))
    }

    fn reduce_scatter(
        &self,
        ring: i32,
        data: &Tensor,
        out: &mut Tensor,
        how: Reduction,
    ) -> Result<()> {
        dispatch!(data.dtype(), T in [f32, f64, i64, i32] => {
            let (data, out) = (data.as_slice::<T>()?, out.as_mut_slice::<T>()?);
            self.group(ring).reduce_scatter(data, out, reduce(how)).map_err(lost)
        }, else => Err(no_numbers(data)))
    }

    fn broadcast(&self, ring: i32, data: &mut Tensor, root: usize) -> Result<()> {
        self.group(ring).broadcast(data.as_mut_bytes(), root).map_err(lost)
    }

    fn all_gather(&self, ring: i32, part: &Tensor, out: &mut Tensor) -> Result<()> {
        self.group(ring).all_gather(part.as_bytes(), out.as_mut_bytes()).map_err(lost)
    }

    fn all_gather_varied(&self, ring: i32, part: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.group(ring).all_gather_varied(part).map_err(lost)
    }

    fn scatter(&self, ring: i32, parts: &Tensor, out: &mut Tensor, root: usize) -> Result<()> {
        let group = self.group(ring);
        let parts = (group.rank() == root).then(|| parts.as_bytes());
        group.scatter(parts, out.as_mut_bytes(), root).map_err(lost)
    }

    fn all_to_all(&self, ring: i32, parts: &Tensor, out: &mut Tensor) -> Result<()> {
        self.group(ring).all_to_all(parts.as_bytes(), out.as_mut_bytes()).map_err(lost)
    }

    fn send(&self, ring: i32, data: &Tensor, to: usize) -> Result<()> {
        self.group(ring).send(to, data.as_bytes()).map_err(lost)
    }

    fn receive(&self, ring: i32, data: &mut Tensor, from: usize) -> Result<()> {
        self.group(ring).receive(from, data.as_mut_bytes()).map_err(lost)
    }

    fn barrier(&self, ring: i32) -> Result<()> {
        self.group(ring).barrier().map_err(lost)
    }

    fn all_on_cards(&self) -> bool {
        let agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        agreed.as_ref().is_none_or(|agreed| agreed.whole.everywhere)
    }

    fn on_card(&self, ring: i32) -> Option<Arc<dyn Exchange>> {
        let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
        match parts.get(&ring) {
            Some(part) => Some(Arc::clone(&part.agreed.as_ref()?.cards.as_ref()?.exchange)),
            None => self.exchange().map(|(exchange, _)| exchange),
        }
    }
}

/// A reduction on the group's own thread.
struct Flight(Pending<Result<Carried>>);

impl Ongoing for Flight {
    fn wait(self: Box<Self>) -> Result<Carried> {
        self.0.wait().map_err(lost)?
    }
}

#[cfg(test)]
mod tests {
    use bireme_collective::Config;
    use bireme_comm::{Memory, Transport};

    use super::*;

    /// What two ranks with these lines say, each twice.
    fn compare(lines: [&str; 2]) -> Vec<Vec<Result<()>>> {
        let transport: Arc<dyn Transport> = Arc::new(Memory::new(1));
        let endpoints = ["a:1".to_owned(), "b:1".to_owned()];
        std::thread::scope(|scope| {
            let rank = |(rank, line): (usize, &str)| {
                let (config, transport) = (Config::new(rank, endpoints.to_vec()), &transport);
                let line = [line.to_owned()];
                scope.spawn(move || {
                    let rings = Rings::new(Group::connect(&config, transport).unwrap());
                    // A program that trains nothing is not compared.
                    rings.compare(&[]).unwrap();
                    (0..2).map(|_| rings.compare(&line)).collect::<Vec<_>>()
                })
            };
            let threads: Vec<_> = lines.into_iter().enumerate().map(rank).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn ranks_compare_what_they_train() {
        for said in compare(["`w` = [2]", "`w` = [2]"]) {
            said.into_iter().for_each(|said| said.unwrap());
        }
        for said in compare(["`w` = [2]", "`w` = [3]"]) {
            let error = said[0].as_ref().unwrap_err().to_string();
            assert!(error.contains("rank 1 trains another program than rank 0"), "{error}");
            assert!(error.contains("`w` is [3] on rank 1, [2] on rank 0"), "{error}");
        }
    }
}
