//! Ranks that die, stop, never come, or call something else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use bireme_collective::{Error, Group, Reduce};
use bireme_comm::{Interrupt, Secret};

use crate::ranks::{Way, each_rank, each_rank_with, settings, taken_port};

fn problem(result: bireme_collective::Result<()>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_rank_that_dies_is_named_on_all_others() {
    for way in Way::ALL {
        each_rank(way, 4, |group| {
            let start = Instant::now();
            if group.rank() == 2 {
                return group.barrier().unwrap();
            }
            // Who is slow may still be in the barrier when others have noticed.
            let mut data = vec![1.0f32; 10];
            let sum = |()| group.all_reduce(&mut data, Reduce::Sum);
            let first = problem(group.barrier().and_then(sum));
            assert!(first.contains("trainer 2 ("), "{first}");
            // The group stays at its end, with the same reason.
            assert_eq!(problem(group.barrier()), first);
            assert!(start.elapsed() < settings().heartbeat_timeout);
        });
    }
}

/// As a process that ends: what its objects hold is never dropped.
#[test]
fn who_leaves_is_not_lost_though_its_clones_live_on() {
    for way in Way::ALL {
        let both_saw_it = Barrier::new(2);
        each_rank(way, 3, |group| {
            group.barrier().unwrap();
            if group.rank() == 1 {
                std::mem::forget(group.clone());
                return group.leave();
            }
            let has_left = || group.departed().is_some_and(|gone| gone.starts_with("trainer 1 ("));
            let start = Instant::now();
            while !has_left() {
                assert!(start.elapsed() < settings().deadline, "{way:?}: {:?}", group.departed());
                std::thread::yield_now();
            }
            assert!(group.failure().is_none(), "{way:?}: {:?}", group.failure());
            // A rank is told of the lowest rank that left, so neither leaves before the other has seen it.
            both_saw_it.wait();
        });
    }
}

#[test]
fn an_abort_tells_everyone_why() {
    each_rank(Way::Unix, 3, |group| {
        if group.rank() == 1 {
            return group.abort("the disk is full");
        }
        let text = problem(group.barrier());
        assert!(text.contains("trainer 1 (") && text.contains("the disk is full"), "{text}");
    });
}

#[test]
fn ranks_that_disagree_learn_it() {
    type Work = fn(&Group) -> bireme_collective::Result<()>;
    let sum: Work = |group| group.all_reduce(&mut [1.0f32; 10], Reduce::Sum);
    let others: [(Work, &str); 7] = [
        (|group| group.all_reduce(&mut [1.0f32; 11], Reduce::Sum), "all_reduce(sum, 11 of f32)"),
        (|group| group.all_reduce(&mut [1.0f32; 10], Reduce::Max), "all_reduce(max, 10 of f32)"),
        (|group| group.all_reduce(&mut [1i32; 10], Reduce::Sum), "all_reduce(sum, 10 of i32)"),
        (|group| group.all_reduce(&mut vec![1.0f32; 1 << 20], Reduce::Sum), "1048576 of f32"),
        (|group| group.broadcast(&mut [0; 40], 0), "broadcast(40 bytes, root 0)"),
        (|group| group.reduce(&mut [1.0f32; 10], Reduce::Sum, 1), "root 1)"),
        (|group| group.barrier(), "barrier"),
    ];
    for (way, ranks) in
        [(Way::Memory, 2), (Way::Memory, 3), (Way::Shared, 2), (Way::Shared, 3), (Way::Hosts, 3)]
    {
        for (other, name) in others {
            let texts = each_rank(way, ranks, |group| {
                let work = if group.rank() == 1 { other } else { sum };
                // A broadcast's root is done when its data is on the way.
                match work(&group).and_then(|()| group.barrier()) {
                    Err(Error::Mismatch { ours, theirs, .. }) => format!("{ours} {theirs}"),
                    Err(error) => error.to_string(),
                    Ok(()) => panic!("{name} was taken for a sum"),
                }
            });
            assert!(texts.iter().all(|text| text.contains(name)), "{texts:?}");
        }
    }
}

#[test]
fn roots_that_differ_are_noticed_though_both_wait() {
    for way in [Way::Memory, Way::Shared] {
        let texts = each_rank(way, 2, |group| {
            problem(group.reduce(&mut [1.0f32; 4], Reduce::Sum, group.rank()))
        });
        assert!(texts.iter().all(|text| text.contains("disagree")), "{texts:?}");
    }
}

#[test]
fn a_message_of_another_size_is_noticed() {
    each_rank(Way::Memory, 2, |group| {
        if group.rank() == 0 {
            group.send(1, &[1, 2, 3]).unwrap();
            assert!(group.barrier().is_err());
        } else {
            let text = problem(group.receive(0, &mut [0; 4]));
            assert!(
                text.contains("a receive of 4 bytes") && text.contains("a send of 3"),
                "{text}"
            );
        }
    });
}

#[test]
fn a_rank_that_never_comes_is_named() {
    for way in Way::ALL {
        let short = |_: usize, config: &mut bireme_collective::Config| {
            config.settings.deadline = Duration::from_secs(1);
        };
        each_rank_with(
            way,
            3,
            |rank, config| {
                short(rank, config);
                // Rank 2 is in another group.
                if rank == 2 {
                    config.name = "another".into();
                }
            },
            |group| {
                let text = group.unwrap_err().to_string();
                assert!(text.contains("within 1.0 s"), "{text}");
                // Rank 2 itself misses the others.
                assert!(text.contains("trainer 2 (") || text.contains("trainer 0 ("), "{text}");
            },
        );
    }
}

#[test]
fn a_rank_that_is_late_for_a_call_is_named() {
    for way in [Way::Memory, Way::Shared] {
        each_rank_with(
            way,
            2,
            |_, config| config.settings.deadline = Duration::from_secs(2),
            |group| {
                let group = group.unwrap();
                if group.rank() == 0 {
                    let text = problem(group.barrier());
                    assert!(text.contains("trainer 1 ("), "{text}");
                    assert!(text.contains("did not join barrier within 2.0 s"), "{text}");
                } else {
                    // Waits for the news without making a call.
                    while group.send(0, &[]).is_ok() {
                        std::thread::yield_now();
                    }
                }
            },
        );
    }
}

#[test]
fn another_secret_is_refused() {
    for way in Way::ALL {
        each_rank_with(
            way,
            2,
            |rank, config| {
                config.settings.deadline = Duration::from_secs(2);
                config.settings.secret = Secret::new(&[rank as u8]);
            },
            |group| {
                let text = group.unwrap_err().to_string();
                assert!(text.contains("the secrets differ"), "{text}");
            },
        );
    }
}

#[test]
fn a_taken_port_is_named() {
    let (endpoint, _listener) = taken_port();
    let config = bireme_collective::Config::new(0, vec![endpoint.clone(), "127.0.0.1:1".into()]);
    let text = Group::connect(&config, &Way::Tcp.transport()).unwrap_err().to_string();
    assert!(text.contains(&format!("cannot listen on `{endpoint}`")), "{text}");
}

#[test]
fn the_user_can_end_a_wait() {
    let (wanted, formed) = (Arc::new(AtomicBool::new(false)), Barrier::new(2));
    each_rank_with(
        Way::Memory,
        2,
        |rank, config| {
            let wanted = wanted.clone();
            let question = move || rank == 0 && wanted.load(Ordering::Acquire);
            config.settings.interrupt = Some(Interrupt::new(question));
        },
        |group| {
            let group = group.unwrap();
            formed.wait();
            wanted.store(true, Ordering::Release);
            if group.rank() == 0 {
                let error = group.receive(1, &mut [0]).unwrap_err();
                assert!(matches!(error, Error::Interrupted { .. }), "{error}");
            } else {
                let text = problem(group.receive(0, &mut [0]));
                assert!(text.contains("trainer 0 (host:1) gave up: interrupted"), "{text}");
            }
        },
    );
}

#[test]
fn arguments_that_cannot_work_leave_the_group_alone() {
    each_rank(Way::Memory, 2, |group| {
        assert_eq!(
            problem(group.broadcast(&mut [], 2)),
            "broadcast: there is no rank 2 in a group of 2"
        );
        assert!(problem(group.all_gather(&[1], &mut [0; 3])).contains("2 ranks need 2 times"));
        assert!(problem(group.send(group.rank(), &[])).contains("is this process"));
        assert!(group.subgroup(&[0, 0]).is_err() && group.subgroup(&[]).is_err());
        group.barrier().unwrap();
    });
}

#[test]
fn a_panic_in_the_background_is_an_error_everywhere() {
    each_rank(Way::Memory, 2, |group| {
        if group.rank() == 0 {
            let pending = group.start::<()>(|_| panic!("no such thing"));
            let text = problem(pending.wait());
            assert!(text.contains("no such thing"), "{text}");
        }
        let text = problem(group.barrier());
        assert!(text.contains("no such thing"), "{text}");
    });
}
