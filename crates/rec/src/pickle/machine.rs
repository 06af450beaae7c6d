//! The machine that pickles are programs of, as far as data needs it.

use std::collections::HashMap;

use bireme_engine::DType;
use bireme_engine::tensor::{Dims, MAX_RANK, Tensor};

/// The number of a value: what the stack and the memo hold, so that a value which is on both changes
/// for both.
pub(super) type Id = usize;

/// A value.
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// A number with a fraction, of which nothing is needed.
    Float,
    Text(String),
    Bytes(Vec<u8>),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// Something by its name.
    Named(Name),
    Type(DType),
    Array(Array),
}

/// What a pickle may name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Reconstruct,
    FromBuffer,
    NdArray,
    DType,
    Encode,
    OrderedDict,
    Tuple,
}

/// An array; without a tensor until its state is set.
#[derive(Default)]
pub(super) struct Array {
    pub(super) tensor: Option<Tensor>,
}

/// Values that a pickle may make: far more than a model has.
const MAX_VALUES: usize = 10_000_000;

type Result<T> = std::result::Result<T, String>;

/// Runs a pickle; all values, and which of them it is about.
///
/// # Errors
/// When it is no pickle, or wants more than data.
pub(super) fn run(bytes: &[u8]) -> Result<(Vec<Value>, Id)> {
    // A few bytes may name a large value again and again; each copy of it counts.
    let copies = bytes.len().saturating_mul(16).saturating_add(1 << 20);
    let mut machine = Machine { input: bytes, copies, ..Machine::default() };
    loop {
        if machine.values.len() > MAX_VALUES {
            return Err("it makes too many values".to_owned());
        }
        let code = machine.take(1)?[0];
        if code == b'.' {
            let root = machine.pop()?;
            return Ok((machine.values, root));
        }
        machine.step(code)?;
    }
}

#[derive(Default)]
struct Machine<'a> {
    input: &'a [u8],
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    /// Bytes and items that calls may still copy.
    copies: usize,
}

impl<'a> Machine<'a> {
    fn step(&mut self, code: u8) -> Result<()> {
        match code {
            0x80 => self.take(1).map(drop),
            // A frame: only its length.
            0x95 => self.take(8).map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => self.pop().map(drop),
            b'N' => self.push(Value::None),
            0x88 | 0x89 => self.push(Value::Bool(code == 0x88)),
            b'K' | b'M' | b'J' | 0x8a => self.integer(code),
            b'G' => {
                self.take(8)?;
                self.push(Value::Float)
            }
            b'X' | 0x8c | 0x8d => {
                let length = self.length(match code {
                    b'X' => 4,
                    0x8c => 1,
                    _ => 8,
                })?;
                let text = String::from_utf8_lossy(self.take(length)?).into_owned();
                self.push(Value::Text(text))
            }
            b'B' | b'C' | 0x8e | 0x96 | b'T' | b'U' => {
                let length = self.length(match code {
                    b'B' | b'T' => 4,
                    b'C' | b'U' => 1,
                    _ => 8,
                })?;
                let bytes = self.take(length)?.to_vec();
                self.push(Value::Bytes(bytes))
            }
            b'}' | b']' | b')' | b't' | 0x85..=0x87 | b's' | b'u' | b'a' | b'e' => {
                self.container(code)
            }
            b'q' | b'r' | 0x94 | b'h' | b'j' => self.remember(code),
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.named(&module, &name)
            }
            0x93 => {
                let (name, module) = (self.pop_text()?, self.pop_text()?);
                self.named(&module, &name)
            }
            b'R' => self.call(),
            b'b' => self.build(),
            code => Err(format!("it is damaged, or no pickle of arrays (code {code:#04x})")),
        }
    }

    fn integer(&mut self, code: u8) -> Result<()> {
        let length = match code {
            b'K' => 1,
            b'M' => 2,
            b'J' => 4,
            _ => usize::from(self.take(1)?[0]),
        };
        let from = self.take(length)?;
        if length > 8 {
            return Err("it holds a number that is too large".to_owned());
        }
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(from);
        let signed = matches!(code, b'J' | 0x8a);
        if signed && from.last().is_some_and(|last| last & 0x80 != 0) {
            bytes[length..].fill(0xff);
        }
        self.push(Value::Int(i64::from_le_bytes(bytes)))
    }

    fn container(&mut self, code: u8) -> Result<()> {
        match code {
            b'}' => self.push(Value::Dict(Vec::new())),
            b']' => self.push(Value::List(Vec::new())),
            b')' => self.push(Value::Tuple(Vec::new())),
            b't' => {
                let items = self.since_mark()?;
                self.push(Value::Tuple(items))
            }
            0x85..=0x87 => {
                let start = self.stack.len().checked_sub(usize::from(code - 0x84));
                let items = self.stack.split_off(start.ok_or_else(damaged)?);
                self.push(Value::Tuple(items))
            }
            b's' | b'u' => {
                let items = match code {
                    b'u' => self.since_mark()?,
                    _ => {
                        let (value, key) = (self.pop()?, self.pop()?);
                        vec![key, value]
                    }
                };
                let pairs = items.chunks_exact(2).map(|pair| (pair[0], pair[1]));
                let top = *self.stack.last().ok_or_else(damaged)?;
                match &mut self.values[top] {
                    Value::Dict(dict) => dict.extend(pairs),
                    _ => return Err(damaged()),
                }
                Ok(())
            }
            _ => {
                let items = if code == b'e' { self.since_mark()? } else { vec![self.pop()?] };
                let top = *self.stack.last().ok_or_else(damaged)?;
                match &mut self.values[top] {
                    Value::List(list) => list.extend(items),
                    _ => return Err(damaged()),
                }
                Ok(())
            }
        }
    }

    /// Puts into the memo, or gets from it.
    fn remember(&mut self, code: u8) -> Result<()> {
        let place = match code {
            0x94 => self.memo.len() as u64,
            b'q' | b'h' => self.length(1)? as u64,
            _ => self.length(4)? as u64,
        };
        if matches!(code, b'h' | b'j') {
            let id = *self.memo.get(&place).ok_or_else(damaged)?;
            self.stack.push(id);
            return Ok(());
        }
        self.memo.insert(place, *self.stack.last().ok_or_else(damaged)?);
        Ok(())
    }

    fn named(&mut self, module: &str, name: &str) -> Result<()> {
        let of_numpy = |part: &str| {
            ["numpy.core.", "numpy._core."]
                .iter()
                .any(|core| module.strip_prefix(core) == Some(part))
        };
        let name = match (module, name) {
            ("numpy", "ndarray") => Name::NdArray,
            ("numpy", "dtype") => Name::DType,
            ("_codecs", "encode") => Name::Encode,
            ("collections", "OrderedDict") => Name::OrderedDict,
            ("builtins" | "__builtin__", "tuple") => Name::Tuple,
            (_, "_reconstruct") if of_numpy("multiarray") => Name::Reconstruct,
            (_, "_frombuffer") if of_numpy("numeric") => Name::FromBuffer,
            _ => {
                return Err(format!(
                    "it asks for `{module}.{name}`, which data does not need: it is not loaded"
                ));
            }
        };
        self.push(Value::Named(name))
    }

    /// Calls what was named with a tuple of arguments.
    fn call(&mut self) -> Result<()> {
        let (arguments, name) = (self.pop()?, self.pop()?);
        let Value::Tuple(arguments) = &self.values[arguments] else { return Err(damaged()) };
        let arguments = arguments.clone();
        self.count(&arguments)?;
        let Value::Named(name) = self.values[name] else { return Err(damaged()) };
        let value = match name {
            Name::Reconstruct => Value::Array(Array::default()),
            Name::OrderedDict => Value::Dict(Vec::new()),
            Name::DType => Value::Type(self.element_type(&arguments)?),
            Name::Encode => match arguments.first().map(|id| &self.values[*id]) {
                // Bytes before protocol 3, a character for each.
                Some(Value::Text(text)) => {
                    let byte = |c: char| u8::try_from(u32::from(c)).map_err(|_| damaged());
                    Value::Bytes(text.chars().map(byte).collect::<Result<_>>()?)
                }
                _ => return Err(damaged()),
            },
            Name::Tuple => match arguments.first().map(|id| &self.values[*id]) {
                Some(Value::Tuple(items) | Value::List(items)) => Value::Tuple(items.clone()),
                _ => return Err(damaged()),
            },
            Name::FromBuffer => {
                let [bytes, dtype, shape, order, ..] = arguments[..] else { return Err(damaged()) };
                let by_columns = matches!(&self.values[order], Value::Text(order) if order == "F");
                Value::Array(Array { tensor: Some(self.tensor(shape, dtype, bytes, by_columns)?) })
            }
            Name::NdArray => return Err(damaged()),
        };
        self.push(value)
    }

    /// Sets the state of an array or a type.
    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        let top = *self.stack.last().ok_or_else(damaged)?;
        let Value::Tuple(state) = &self.values[state] else { return Err(damaged()) };
        let state = state.clone();
        self.count(&state)?;
        match &self.values[top] {
            Value::Type(_) => match state.get(1).map(|order| &self.values[*order]) {
                Some(Value::Text(order)) if order == ">" => {
                    Err("its numbers have their bytes in the other order".to_owned())
                }
                _ => Ok(()),
            },
            Value::Array(_) => {
                let [_, shape, dtype, by_columns, bytes] = state[..] else { return Err(damaged()) };
                let by_columns = matches!(self.values[by_columns], Value::Bool(true));
                let tensor = self.tensor(shape, dtype, bytes, by_columns)?;
                self.values[top] = Value::Array(Array { tensor: Some(tensor) });
                Ok(())
            }
            _ => Err(damaged()),
        }
    }

    /// Counts what a call with these arguments copies at most.
    fn count(&mut self, arguments: &[Id]) -> Result<()> {
        let size = |id: &Id| match &self.values[*id] {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Tuple(items) | Value::List(items) => items.len(),
            _ => 1,
        };
        let copied = arguments.iter().map(size).fold(arguments.len(), usize::saturating_add);
        self.copies = self
            .copies
            .checked_sub(copied)
            .ok_or("it copies the same values again and again: it is not loaded")?;
        Ok(())
    }

    fn element_type(&self, arguments: &[Id]) -> Result<DType> {
        let name = match arguments.first().map(|id| &self.values[*id]) {
            Some(Value::Text(name)) => name.clone(),
            Some(Value::Bytes(name)) => String::from_utf8_lossy(name).into_owned(),
            _ => return Err(damaged()),
        };
        let bare = name.trim_start_matches(['<', '|']);
        let found = DType::ALL.into_iter().find(|dtype| super::type_name(*dtype).0 == bare);
        found.ok_or_else(|| format!("it has arrays of `{name}`, which are not read"))
    }

    fn tensor(&self, shape: Id, dtype: Id, bytes: Id, by_columns: bool) -> Result<Tensor> {
        let (Value::Tuple(shape), Value::Type(dtype), Value::Bytes(bytes)) =
            (&self.values[shape], &self.values[dtype], &self.values[bytes])
        else {
            return Err("an array does not hold plain numbers".to_owned());
        };
        let size = |id: &Id| match self.values[*id] {
            Value::Int(size) => usize::try_from(size).map_err(|_| damaged()),
            _ => Err(damaged()),
        };
        let dims = shape.iter().map(size).collect::<Result<Vec<_>>>()?;
        if dims.len() > MAX_RANK {
            let axes = dims.len();
            return Err(format!("an array has {axes} axes, of which at most {MAX_RANK} are read"));
        }
        let wanted = Dims::new(&dims).bytes(*dtype);
        let wanted = wanted.ok_or_else(|| format!("an array of shape {dims:?} is too large"))?;
        if wanted != bytes.len() {
            return Err(format!("an array of shape {dims:?} has {} bytes", bytes.len()));
        }
        if by_columns && dims.len() > 1 {
            return Err("an array is stored by columns: save it with `np.ascontiguousarray`".into());
        }
        let mut tensor = Tensor::empty(*dtype);
        tensor.resize(*dtype, dims.as_slice());
        tensor.as_mut_bytes().copy_from_slice(bytes);
        Ok(tensor)
    }

    fn push(&mut self, value: Value) -> Result<()> {
        self.stack.push(self.values.len());
        self.values.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<Id> {
        self.stack.pop().ok_or_else(damaged)
    }

    fn pop_text(&mut self) -> Result<String> {
        let id = self.pop()?;
        match &self.values[id] {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(damaged()),
        }
    }

    fn since_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len());
        Ok(self.stack.split_off(mark.ok_or_else(damaged)?))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.input.split_at_checked(count).ok_or("it ends too early")?;
        self.input = rest;
        Ok(taken)
    }

    fn length(&mut self, width: usize) -> Result<usize> {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.take(width)?);
        usize::try_from(u64::from_le_bytes(bytes)).map_err(|_| damaged())
    }

    fn line(&mut self) -> Result<String> {
        let end = self.input.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let line = self.take(end)?;
        self.take(1)?;
        Ok(String::from_utf8_lossy(line).into_owned())
    }
}

fn damaged() -> String {
    "it is damaged, or no pickle of arrays".to_owned()
}
