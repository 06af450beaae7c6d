//! The communicator's knobs: how a trainer's gradients are queued, merged and sent.

use crate::{Error, Mode, Result};

/// Declares the knobs: each with its default, and the least it may be where 0 would let nothing
/// ever move.
macro_rules! knobs {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr $(, at least $least:literal)?;)*) => {
        /// How gradients are queued, merged and sent in async modes: Paddle's
        /// `FLAGS_communicator_*`.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Knobs { $($(#[$doc])* pub $name: $type,)* }

        impl Default for Knobs {
            fn default() -> Knobs {
                Knobs { $($name: $default,)* }
            }
        }

        /// The knobs of [`Knobs`], as far as somebody has set them.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct CommunicatorFlags { $($(#[$doc])* pub $name: Option<$type>,)* }

        impl Knobs {
            fn obey(&mut self, flags: &CommunicatorFlags) -> Result<()> {
                $(if let Some(value) = flags.$name {
                    $(if value < $least {
                        return Err(Error::Config(format!(
                            "{PREFIX}{} = `{value}` must be a whole number of at least {}",
                            stringify!($name),
                            $least
                        )));
                    })?
                    self.$name = value;
                })*
                Ok(())
            }
        }
    };
}

knobs! {
    /// How many steps' gradients are merged into one before they are sent; default 1 (`CPU_NUM`).
    max_merge_var_num: usize = 1, at least 1;
    /// How many steps' gradients may wait in the queue before a step must wait; default 1
    /// (`CPU_NUM`).
    send_queue_size: usize = 1, at least 1;
    /// Whether parameters are pulled by a thread of their own rather than after each send; default
    /// true.
    independent_recv_thread: bool = true;
    /// How many steps are sent before parameters are pulled again; default 1 (`CPU_NUM`).
    min_send_grad_num_before_recv: usize = 1;
    /// Threads that send, at most; default 5.
    thread_pool_size: usize = 5, at least 1;
    /// How many times 10 ms a sender waits for more to merge when the queue is empty; default 5.
    send_wait_times: usize = 5;
    /// Whether merged gradients are added up, which is exact where the update is linear in the
    /// gradient (SGD), rather than averaged, which suits rules that scale the gradient themselves
    /// (Adam, Adagrad); default true.
    is_sgd_optimizer: bool = true;
    /// Async: whether a step starts from the values that are expected when its gradients arrive,
    /// which the optimizer's momentum tells, rather than from those of the moment; default true.
    look_ahead: bool = true;
    /// All modes: whether a push of NaN or infinity is an error here, before it is on the servers;
    /// default true.
    check_finite: bool = true;
}

/// What the names of the knobs begin with.
const PREFIX: &str = "FLAGS_communicator_";

impl Knobs {
    /// The knobs of a mode: Paddle's defaults for `cpu_num` training threads, then what each of
    /// `flags` says, the last of them above all. Sync and half-async merge and queue exactly one
    /// gradient per thread, so those two knobs are forced there, with a warning, as in Paddle.
    ///
    /// # Errors
    /// When a value is 0 where nothing would ever move.
    pub fn of_mode(
        mode: Mode,
        cpu_num: usize,
        geo_steps: u32,
        flags: &[&CommunicatorFlags],
    ) -> Result<Knobs> {
        let threads = cpu_num.max(1);
        let depth = if mode.sends_deltas() { geo_steps as usize } else { threads };
        let mut knobs = Knobs {
            max_merge_var_num: depth,
            send_queue_size: depth,
            min_send_grad_num_before_recv: threads,
            ..Knobs::default()
        };
        flags.iter().try_for_each(|flags| knobs.obey(flags))?;
        if matches!(mode, Mode::Sync | Mode::HalfAsync) {
            let forced = [
                ("max_merge_var_num", &mut knobs.max_merge_var_num),
                ("send_queue_size", &mut knobs.send_queue_size),
            ];
            for (name, knob) in forced {
                if *knob != threads {
                    tracing::warn!("{PREFIX}{name} = {knob} will be forced to {threads}");
                    *knob = threads;
                }
            }
        }
        Ok(knobs)
    }

    /// Steps sent before parameters are pulled again.
    pub(crate) fn recv_after(&self) -> usize {
        self.min_send_grad_num_before_recv.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_have_paddles_defaults_and_obey_flags() {
        let flags = CommunicatorFlags {
            max_merge_var_num: Some(20),
            is_sgd_optimizer: Some(false),
            ..CommunicatorFlags::default()
        };
        let knobs = Knobs::of_mode(Mode::Async, 4, 100, &[&flags]).unwrap();
        assert_eq!((knobs.max_merge_var_num, knobs.send_queue_size), (20, 4));
        assert!(!knobs.is_sgd_optimizer && knobs.independent_recv_thread);
        assert_eq!(Knobs::of_mode(Mode::Sync, 2, 100, &[&flags]).unwrap().max_merge_var_num, 2);
        let geo = Knobs::of_mode(Mode::Geo, 1, 7, &[]).unwrap();
        assert_eq!((geo.max_merge_var_num, geo.send_queue_size), (7, 7));

        let bad = CommunicatorFlags { send_queue_size: Some(0), ..flags };
        let error = Knobs::of_mode(Mode::Async, 1, 100, &[&bad]).unwrap_err().to_string();
        assert!(error.contains("send_queue_size = `0` must be a whole number"), "{error}");
    }
}
