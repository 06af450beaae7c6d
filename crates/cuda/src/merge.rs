//! Makes one launch of several in recorded work: the updates of all parameters, the sums for all biases.
//!
//! A small kernel costs a card more to begin than to do, so kernels that may come often in a step have a variant for many
//! targets ([`Many`]). A piece joins an earlier one, or waits for a later one, where nothing between them reads or writes
//! what it does.

use crate::bound::{Bound, Call};
use crate::driver::Function;
use crate::lanes::{Access, meets};
use crate::recorded::Recorded;
use crate::work::Many;

/// The kernel for many targets, ready to be launched.
#[derive(Clone)]
pub(crate) struct Joint {
    pub(crate) function: Function,
    pub(crate) many: Many,
}

/// Launches that become one; alone, most of them.
struct Group {
    /// The op of the first.
    op: &'static str,
    members: Vec<Bound>,
    accesses: Vec<Access>,
}

impl Group {
    /// The kernel that its members would become one of, and how many targets they have.
    fn joint(&self) -> Option<(&Joint, usize)> {
        let joints = || self.members.iter().filter_map(joint);
        Some((joints().next()?, joints().map(|joint| joint.many.targets).sum()))
    }

    /// Whether the members of both can be one launch, as far as room goes.
    fn fits(&self, other: &Group) -> bool {
        let (Some((mine, count)), Some((theirs, more))) = (self.joint(), other.joint()) else {
            return false;
        };
        mine.many.name == theirs.many.name && count + more <= mine.many.most
    }

    fn take(&mut self, other: Group) {
        self.members.extend(other.members);
        self.accesses.extend(other.accesses);
    }

    fn finish(mut self) -> Recorded {
        if self.members.len() > 1
            && let Some(call) = join(&self.members)
        {
            self.members = vec![Bound::Kernel(call)];
        }
        let work = self.members.into_iter().next().expect("a group has a member");
        Recorded { op: self.op, work, accesses: self.accesses }
    }
}

/// Recorded work with fewer launches.
pub(crate) fn merge(work: Vec<Recorded>) -> Vec<Recorded> {
    let alone = |Recorded { op, work, accesses }| Group { op, members: vec![work], accesses };
    let groups = work.into_iter().map(alone).collect();
    // First to the earliest: an update may be followed by what overwrites its inputs. Then to the latest: a sum is made
    // long before it is needed.
    let mut groups = gather(groups);
    groups.reverse();
    let mut groups = gather(groups);
    groups.reverse();
    groups.into_iter().map(Group::finish).collect()
}

/// Moves each group to one that comes before, where nothing between them meets it.
fn gather(groups: Vec<Group>) -> Vec<Group> {
    let mut gathered: Vec<Group> = Vec::with_capacity(groups.len());
    for group in groups {
        let mut target = None;
        if group.joint().is_some() {
            for (at, earlier) in gathered.iter().enumerate().rev() {
                if meets(&earlier.accesses, &group.accesses) {
                    break;
                }
                if earlier.fits(&group) {
                    target = Some(at);
                    break;
                }
            }
        }
        match target {
            Some(at) => gathered[at].take(group),
            None => gathered.push(group),
        }
    }
    gathered
}

fn joint(bound: &Bound) -> Option<&Joint> {
    match bound {
        Bound::Kernel(call) => call.joint.as_ref(),
        _ => None,
    }
}

/// One launch for the targets of all members.
fn join(members: &[Bound]) -> Option<Call> {
    let calls: Vec<&Call> = members
        .iter()
        .filter_map(|bound| match bound {
            Bound::Kernel(call) => Some(call),
            _ => None,
        })
        .collect();
    let Joint { function, many } = calls.first()?.joint.as_ref()?;
    let mut arrays = [Vec::new(), Vec::new()];
    let (mut blocks, mut targets) = (0, 0);
    for call in &calls {
        let own = &call.joint.as_ref()?.many;
        for (which, array) in arrays.iter_mut().enumerate() {
            let words = &call.args[which];
            let element = words.len() / own.room;
            let start = array.len();
            array.extend_from_slice(&words[..own.targets * element]);
            if let (1, Some(word)) = (which, many.block_word) {
                for target in array[start..].chunks_exact_mut(element) {
                    target[word] += u64::from(blocks);
                }
            }
        }
        blocks += call.blocks[0];
        targets += own.targets;
    }
    for array in &mut arrays {
        array.resize(array.len() / targets * many.most, 0);
    }
    let mut args: Vec<Vec<u64>> = arrays.into();
    if calls[0].args.len() > 2 {
        args.push(vec![targets as u64]);
    }
    let (function, blocks, threads) = (function.clone(), [blocks, 1, 1], calls[0].threads);
    Some(Call { function, blocks, threads, args, joint: None })
}
