//! The protocol between stages: one enum of requests, and an answer of named values.

use std::collections::HashMap;

use bireme_engine::tensor::Tensor;

use super::StageConfig;
use crate::message::wire::{Reader, Writer, damaged};
use crate::message::{Array, Encoded};
use crate::{Mode, Result};

/// Numbers of requests on the wire; apart from those that parameter servers know.
mod method {
    pub(super) const HELLO: u16 = 101;
    pub(super) const UNIT: u16 = 102;
    pub(super) const COMPLETE: u16 = 103;
    pub(super) const QUIT: u16 = 104;
}

/// Values by name.
pub(super) type Values = HashMap<String, Tensor>;

/// What a stage asks of the next one.
#[derive(Debug)]
pub(super) enum Request {
    /// A process of the stage before is there; what it takes the job for.
    Hello { counts: Vec<u32>, micro_batches: u32, mode: Mode },
    /// A micro-batch to be carried on.
    Unit(Unit),
    /// A trainer has no more units.
    Complete { trainer: u32 },
    /// A trainer ended with an error.
    Quit { problem: String },
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

impl Request {
    /// What a process says first.
    pub(super) fn hello(config: &StageConfig) -> Request {
        Request::Hello {
            counts: config.counts.clone(),
            micro_batches: config.micro_batches,
            mode: config.mode,
        }
    }

    pub(super) fn method(&self) -> u16 {
        match self {
            Request::Hello { .. } => method::HELLO,
            Request::Unit(_) => method::UNIT,
            Request::Complete { .. } => method::COMPLETE,
            Request::Quit { .. } => method::QUIT,
        }
    }

    pub(super) fn encode(&self) -> Encoded<'_> {
        let mut to = Writer::new();
        match self {
            Request::Hello { counts, micro_batches, mode } => {
                to.u32(counts.len() as u32);
                counts.iter().for_each(|count| to.u32(*count));
                to.u32(*micro_batches);
                to.u32(mode.code() as u32);
            }
            Request::Unit(unit) => {
                to.u32(unit.trainer);
                to.u64(unit.step);
                to.u32(unit.micro);
                to.u32(unit.weight.to_bits());
                to.texts(&unit.wanted.iter().map(String::as_str).collect::<Vec<_>>());
                to.u32(unit.values.len() as u32);
                unit.values.iter().for_each(|(name, tensor)| write(&mut to, name, tensor));
            }
            Request::Complete { trainer } => to.u32(*trainer),
            Request::Quit { problem } => to.text(problem),
        }
        to.finish()
    }

    pub(super) fn decode(method: u16, body: &[u8]) -> Result<Request> {
        let mut from = Reader::new(body)?;
        let request = match method {
            method::HELLO => {
                let count = from.count(4)?;
                let counts = (0..count).map(|_| from.u32()).collect::<Result<_>>()?;
                let micro_batches = from.u32()?;
                let mode = i32::try_from(from.u32()?).ok().and_then(Mode::from_code);
                let mode = mode.ok_or_else(|| damaged("there is no such mode"))?;
                Request::Hello { counts, micro_batches, mode }
            }
            method::UNIT => {
                let (trainer, step, micro) = (from.u32()?, from.u64()?, from.u32()?);
                let weight = f32::from_bits(from.u32()?);
                if !weight.is_finite() {
                    return Err(damaged("a weight is no number"));
                }
                let wanted = from.texts()?.into_iter().map(str::to_owned).collect();
                let count = from.count(LEAST)?;
                let values = (0..count).map(|_| read(&mut from)).collect::<Result<_>>()?;
                Request::Unit(Unit { trainer, step, micro, weight, wanted, values })
            }
            method::COMPLETE => Request::Complete { trainer: from.u32()? },
            method::QUIT => Request::Quit { problem: from.text()?.to_owned() },
            _ => return Err(damaged("there is no such request between stages")),
        };
        from.finish()?;
        Ok(request)
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

impl Answer {
    pub(super) fn encode(&self) -> Encoded<'_> {
        let mut to = Writer::new();
        to.u32(self.values.len() as u32);
        self.values.iter().for_each(|(name, tensor)| write(&mut to, name, tensor));
        to.u32(self.seen.len() as u32);
        for (name, by_row, tensor) in &self.seen {
            to.u8(u8::from(*by_row));
            write(&mut to, name, tensor);
        }
        to.finish()
    }

    pub(super) fn decode(body: &[u8]) -> Result<Answer> {
        let mut from = Reader::new(body)?;
        let count = from.count(LEAST)?;
        let values = (0..count).map(|_| read(&mut from)).collect::<Result<_>>()?;
        let count = from.count(LEAST + 1)?;
        let mut seen = Vec::with_capacity(count);
        for _ in 0..count {
            let by_row = from.flag()?;
            let (name, tensor) = read(&mut from)?;
            seen.push((name, by_row, tensor));
        }
        from.finish()?;
        Ok(Answer { values, seen })
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
            (Request::Unit(unit), Request::Unit(again)) => assert_eq!(unit.values, again.values),
            (request, again) => assert_eq!(format!("{request:?}"), format!("{again:?}")),
        }
    }
    if let Ok(answer) = Answer::decode(body) {
        let written = bireme_comm::Body::copy_of(&answer.encode().parts().concat());
        let again = Answer::decode(&written).expect("what is written is read");
        assert_eq!((answer.values, answer.seen), (again.values, again.seen));
    }
}

/// Bytes of a named tensor in the head, at least: name, array, levels.
const LEAST: usize = 4 + 3 + 4;

fn write<'a>(to: &mut Writer<'a>, name: &str, tensor: &'a Tensor) {
    to.text(name);
    to.array(&Array::of_tensor(tensor));
    to.u32(tensor.lod().len() as u32);
    for level in tensor.lod() {
        to.u32(level.len() as u32);
        level.iter().for_each(|offset| to.u64(*offset as u64));
    }
}

fn read(from: &mut Reader<'_>) -> Result<(String, Tensor)> {
    let name = from.text()?.to_owned();
    let array = from.array()?;
    if !array.is_whole() {
        return Err(damaged("a piece of a tensor came where a whole one must come"));
    }
    let mut tensor = Tensor::empty(array.dtype());
    array.store_tensor(&mut tensor)?;
    let levels = from.count(4)?;
    let mut lod = Vec::with_capacity(levels);
    for _ in 0..levels {
        let count = from.count(8)?;
        let offsets = (0..count).map(|_| Ok(from.u64()? as usize));
        lod.push(offsets.collect::<Result<Vec<usize>>>()?);
    }
    // Checks the offsets against the rows.
    Ok((name, tensor.with_lod(&lod)?))
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
        let request = Request::Unit(unit);
        let bytes = bireme_comm::Body::copy_of(&request.encode().parts().concat());
        let Request::Unit(read) = Request::decode(request.method(), &bytes).unwrap() else {
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
