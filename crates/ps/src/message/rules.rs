//! What holds for a request whatever it carries, and the macro that makes a table of requests.

use bireme_comm::{Peer, Reply};

use super::Answer;
use crate::Result;

/// What holds for a request whatever it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether it changes state and must not be executed twice: its answer is kept until the asker
    /// has it, what `comm` calls `once`.
    pub once: bool,
    /// Who may ask for it.
    pub asker: Asker,
    /// What the time until its answer depends on.
    pub pace: Pace,
}

/// Who may ask for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Everybody, also the older process of a trainer that was restarted.
    Anybody,
    /// Everybody whose place no other process has.
    Current,
    /// Processes that have joined and are at work.
    Member,
}

/// What the time until an answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// On this request: the asker's deadline holds.
    Quick,
    /// On other processes that have to come: only the server can say that they are overdue.
    Others,
    /// On all that the server has, and on its disk.
    Files,
}

/// A question: asked again where the answer is lost.
pub(crate) const READS: Rules = Rules { once: false, asker: Asker::Current, pace: Pace::Quick };

/// A change of what the server holds, by one who is at work.
pub(crate) const CHANGES: Rules = Rules { once: true, asker: Asker::Member, pace: Pace::Quick };

impl Rules {
    /// Allowed to these.
    pub(crate) const fn of(self, asker: Asker) -> Rules {
        Rules { asker, ..self }
    }

    /// Answered when others have come, too.
    pub(crate) const fn until_others_come(self) -> Rules {
        Rules { pace: Pace::Others, ..self }
    }

    /// Reads or writes all that the server has.
    pub(crate) const fn work_on_files(self) -> Rules {
        Rules { pace: Pace::Files, ..self }
    }
}

/// Who asked, and where the answer goes.
pub(crate) struct Asked<'p> {
    pub(crate) peer: &'p Peer,
    /// Where the answer goes.
    pub(crate) reply: Reply,
}

impl Asked<'_> {
    /// Gives the answer, or says why there is none.
    pub(crate) fn answer(self, result: Result<Answer<'_>>) {
        match result {
            Ok(answer) => self.reply.send(&answer.encode().parts()),
            Err(error) => self.reply.fail(&error.to_string()),
        }
    }

    /// Says that it is done, or why it is not.
    pub(crate) fn done(self, result: Result<()>) {
        self.answer(result.map(|()| Answer::Done));
    }
}

/// Declares a table of requests. An entry is
/// `number Name function [rules] { fields }`: a variant of the enum, and a function of the trait by
/// which it is answered.
macro_rules! requests {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident<$life:lifetime>, answered by $serve:ident { $(
            $(#[$doc:meta])*
            $number:literal $variant:ident $function:ident [$rules:expr] $({
                $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)?
            })?
        ),* $(,)? }
    ) => {
        $crate::message::field::messages! {
            $(#[$meta])*
            $vis enum $name<$life> { $(
                $(#[$doc])*
                $number $variant $({ $($(#[$field_doc])* $field: $type),* })?
            ),* }
        }

        /// One function for each request.
        #[expect(clippy::too_many_arguments, reason = "a function takes what its request carries")]
        pub(crate) trait $serve<$life> { $(
            $(#[$doc])*
            fn $function(&self, asked: $crate::message::Asked<'_> $($(, $field: $type)*)?);
        )* }

        impl<$life> $name<$life> {
            /// All requests: number, name and rules.
            $vis const TABLE: &'static [(u16, &'static str, $crate::message::Rules)] =
                &[$(($number, stringify!($variant), $rules)),*];

            /// What holds for the request whatever it carries.
            $vis fn rules(&self) -> $crate::message::Rules {
                match self { $(Self::$variant { .. } => $rules),* }
            }

            /// The rank that the request says it comes from.
            $vis fn trainer(&self) -> Option<u32> {
                match self { $(
                    Self::$variant { $($($field),*)? } => {
                        None$($(.or($crate::message::rules::rank!($field $field)))*)?
                    }
                )* }
            }

            /// Has it answered.
            pub(crate) fn dispatch(
                self,
                to: &impl $serve<$life>,
                asked: $crate::message::Asked<'_>,
            ) {
                match self { $(
                    Self::$variant { $($($field),*)? } => to.$function(asked $($(, $field)*)?),
                )* }
            }

            /// The body to send.
            $vis fn encode(&self) -> bireme_comm::wire::Encoded<'_> {
                bireme_comm::wire::Encoded::new(|to| self.write_fields(to))
            }

            /// Reads the body of a request with this number.
            ///
            /// # Errors
            /// When there is no such request, or the body is not what it must be.
            $vis fn decode(number: u16, body: &$life [u8]) -> $crate::Result<Self> {
                Ok(bireme_comm::wire::decode(body, |from| Self::read_fields(number, from))?)
            }
        }
    };
}

/// What a field says of the rank that a request comes from.
macro_rules! rank {
    (trainer $rank:ident) => {
        Some(*$rank)
    };
    ($other:ident $value:ident) => {{
        let _ = $value;
        None
    }};
}

pub(crate) use {rank, requests};
