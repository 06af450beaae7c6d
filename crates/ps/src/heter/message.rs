//! The protocol between stages: one enum of requests, and an answer of named values.

use std::collections::HashMap;

use bireme_comm::wire;
use bireme_engine::tensor::Tensor;

use super::StageConfig;
use crate::message::Encoded;
use crate::message::field::{Field, fields, messages};
use crate::{Mode, Result};

/// Values by name.
pub(super) type Values = HashMap<String, Tensor>;

messages! {
    /// What a stage asks of the next one; the numbers are apart from those that servers know.
    #[derive(Debug)]
    pub(super) enum Request<'a> {
        /// A process of the stage before is there; what it takes the job for.
        101 Hello { counts: Vec<u32>, micro_batches: u32, mode: Mode },
        /// A micro-batch to be carried on.
        102 Unit { unit: Unit },
        /// A trainer has no more units.
        103 Complete { trainer: u32 },
        /// A trainer ended with an error.
        104 Quit { problem: &'a str },
        /// A trainer that was lost is there again, and has units again.
        105 Begin { trainer: u32 },
    }
}

/// One micro-batch of one trainer's step.
#[derive(Debug, Default)]
pub(super) struct Unit {
    pub(super) trainer: u32,
    pub(super) step: u64,
    /// Its number within the step.
    pub(super) micro: u32,
    /// Its share of the batch's samples; 0 for a unit without any, which only counts.
    pub(super) weight: f32,
    /// Variables whose values the trainer wants to see.
    pub(super) wanted: Vec<String>,
    pub(super) values: Values,
}

fields!(Unit { trainer, step, micro, weight, wanted, values });

impl<'a> Request<'a> {
    /// What a process says first.
    pub(super) fn hello(config: &StageConfig) -> Request<'static> {
        Request::Hello {
            counts: config.counts.clone(),
            micro_batches: config.micro_batches,
            mode: config.mode,
        }
    }

    pub(super) fn encode(&self) -> Encoded<'_> {
        Encoded::new(|to| self.write_fields(to))
    }

    pub(super) fn decode(method: u16, body: &'a [u8]) -> Result<Request<'a>> {
        let request = wire::decode(body, |from| Request::read_fields(method, from))?;
        match &request {
            Request::Unit { unit } if !unit.weight.is_finite() => {
                Err(wire::damaged("a weight is no number").into())
            }
            _ => Ok(request),
        }
    }
}

/// What a stage answers to a unit.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Gradients for the stage before.
    pub(super) values: Values,
    /// What the trainer wanted to see, each with whether it has a row for every sample.
    pub(super) seen: Vec<(String, bool, Tensor)>,
}

fields!(Answer { values, seen });

impl Answer {
    pub(super) fn encode(&self) -> Encoded<'_> {
        Encoded::new(|to| self.write(to))
    }

    pub(super) fn decode(body: &[u8]) -> Result<Answer> {
        Ok(wire::decode(body, Answer::read)?)
    }
}

/// Reads a body as a request with this number and as an answer, and what it reads again after
/// writing it; for fuzzing, as the types are the stages' own.
#[doc(hidden)]
pub fn read_twice(number: u16, body: &[u8]) {
    if let Ok(request) = Request::decode(number, body) {
        let written = bireme_comm::Body::copy_of(&request.encode().parts().concat());
        let again = Request::decode(request.method(), &written).expect("what is written is read");
        match (request, again) {
            (Request::Unit { unit }, Request::Unit { unit: again }) => {
                assert_eq!(unit.values, again.values);
            }
            (request, again) => assert_eq!(format!("{request:?}"), format!("{again:?}")),
        }
    }
    if let Ok(answer) = Answer::decode(body) {
        let written = bireme_comm::Body::copy_of(&answer.encode().parts().concat());
        let again = Answer::decode(&written).expect("what is written is read");
        assert_eq!((answer.values, answer.seen), (again.values, again.seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_answers_arrive_as_they_were_sent() {
        let ragged = Tensor::from_slice([3, 1], &[1i64, 2, 3]).unwrap();
        let ragged = ragged.with_lod(&[vec![0, 1, 3]]).unwrap();
        let unit = Unit {
            trainer: 1,
            step: 7,
            micro: 2,
            weight: 0.25,
            wanted: vec!["loss".to_owned()],
            values: Values::from([("ids".to_owned(), ragged.clone())]),
        };
        let request = Request::Unit { unit };
        let bytes = bireme_comm::Body::copy_of(&request.encode().parts().concat());
        let Request::Unit { unit: read } = Request::decode(request.method(), &bytes).unwrap()
        else {
            unreachable!("a unit was sent")
        };
        assert_eq!((read.trainer, read.step, read.micro, read.weight), (1, 7, 2, 0.25));
        assert_eq!(read.wanted, ["loss"]);
        assert_eq!(read.values["ids"].lod(), ragged.lod());
        assert_eq!(read.values["ids"].as_bytes(), ragged.as_bytes());

        let answer = Answer {
            values: Values::new(),
            seen: vec![("loss".to_owned(), false, Tensor::scalar(0.5f32))],
        };
        let bytes = bireme_comm::Body::copy_of(&answer.encode().parts().concat());
        let read = Answer::decode(&bytes).unwrap();
        assert_eq!(read.seen[0].2.to_f64_vec(), [0.5]);
        for cut in 0..bytes.len() {
            let part = bireme_comm::Body::copy_of(&bytes[..cut]);
            assert!(Answer::decode(&part).is_err(), "{cut} bytes");
        }
    }
}
