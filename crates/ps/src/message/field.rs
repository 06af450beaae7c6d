//! What a message is made of: everything that can be written and read again, and the declarations
//! from which that follows for structs and enums.

use std::collections::HashMap;
use std::hash::Hash;

use bireme_comm::wire::{Reader, Result, Writer, damaged};
use bireme_engine::tensor::Tensor;
use bytemuck::Pod;

use super::{Array, Format};
use crate::Mode;

/// Something that a message carries; what it borrows is borrowed from the body.
pub(crate) trait Field<'a>: Sized {
    /// Bytes that it takes in a head, at least; bounds lists of it.
    const LEAST: usize;

    /// Writes it.
    fn write<'w>(&'w self, to: &mut Writer<'w>);

    /// Reads it.
    ///
    /// # Errors
    /// When the bytes are none of its kind.
    fn read(from: &mut Reader<'a>) -> Result<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl<'a> Field<'a> for $number {
            const LEAST: usize = size_of::<$number>();

            fn write<'w>(&'w self, to: &mut Writer<'w>) {
                to.head(&self.to_le_bytes());
            }

            fn read(from: &mut Reader<'a>) -> Result<Self> {
                let bytes = from.head(size_of::<$number>())?;
                Ok(<$number>::from_le_bytes(bytes.try_into().expect("so many bytes were read")))
            }
        }
    )* };
}

numbers!(u8, u32, u64, f32);

/// Implements [`Field`] for a type that travels as another one: how it becomes that one, and how it
/// is read from it.
macro_rules! travels_as {
    ($type:ty as $other:ty, $write:expr, $read:expr) => {
        impl<'a> Field<'a> for $type {
            const LEAST: usize = <$other as Field<'a>>::LEAST;

            fn write<'w>(&'w self, to: &mut Writer<'w>) {
                let write: fn(&$type, &mut Writer<'w>) = $write;
                write(self, to);
            }

            fn read(from: &mut Reader<'a>) -> Result<Self> {
                let read: fn($other) -> Result<$type> = $read;
                read(<$other as Field<'a>>::read(from)?)
            }
        }
    };
}

travels_as!(usize as u64, |value, to| to.head(&(*value as u64).to_le_bytes()), |value| {
    usize::try_from(value).map_err(|_| damaged("a number is too large"))
});
travels_as!(bool as u8, |value, to| to.head(&[u8::from(*value)]), |value| match value {
    0 => Ok(false),
    1 => Ok(true),
    _ => Err(damaged("a flag is neither 0 nor 1")),
});
travels_as!(Mode as u8, |mode, to| to.head(&[mode.code() as u8]), |code| {
    let mode = Mode::from_code(code.into());
    mode.ok_or_else(|| damaged("there is no such mode of training"))
});
travels_as!(Format as u8, |format, to| to.head(&[*format as u8]), |code| match code {
    0 => Ok(Format::Native),
    1 => Ok(Format::Text),
    _ => Err(damaged("there is no such format of checkpoints")),
});
travels_as!(String as &'a str, |value, to| to.text(value), |value| Ok(value.to_owned()));

impl<'a> Field<'a> for &'a str {
    const LEAST: usize = 4;

    fn write<'w>(&'w self, to: &mut Writer<'w>) {
        to.text(self);
    }

    fn read(from: &mut Reader<'a>) -> Result<Self> {
        let length = u32::read(from)? as usize;
        std::str::from_utf8(from.head(length)?).map_err(|_| damaged("a name is no UTF-8"))
    }
}

impl<'a, T: Pod> Field<'a> for &'a [T] {
    const LEAST: usize = 8;

    fn write<'w>(&'w self, to: &mut Writer<'w>) {
        to.slice(self);
    }

    fn read(from: &mut Reader<'a>) -> Result<Self> {
        let count = u64::read(from)?;
        from.array(count)
    }
}

impl<'a, T: Field<'a>> Field<'a> for Option<T> {
    const LEAST: usize = 1;

    fn write<'w>(&'w self, to: &mut Writer<'w>) {
        to.head(&[u8::from(self.is_some())]);
        if let Some(value) = self {
            value.write(to);
        }
    }

    fn read(from: &mut Reader<'a>) -> Result<Self> {
        bool::read(from)?.then(|| T::read(from)).transpose()
    }
}

impl<'a, T: Field<'a>> Field<'a> for Vec<T> {
    const LEAST: usize = 4;

    fn write<'w>(&'w self, to: &mut Writer<'w>) {
        to.count(self.len());
        self.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut Reader<'a>) -> Result<Self> {
        let count = from.count(T::LEAST)?;
        (0..count).map(|_| T::read(from)).collect()
    }
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),*)),*) => { $(
        impl<'a, $($part: Field<'a>),*> Field<'a> for ($($part,)*) {
            const LEAST: usize = 0 $(+ $part::LEAST)*;

            fn write<'w>(&'w self, to: &mut Writer<'w>) {
                $(self.$at.write(to);)*
            }

            fn read(from: &mut Reader<'a>) -> Result<Self> {
                Ok(($($part::read(from)?,)*))
            }
        }
    )* };
}

tuples!((A 0, B 1), (A 0, B 1, C 2));

impl<'a, K: Field<'a> + Eq + Hash, V: Field<'a>> Field<'a> for HashMap<K, V> {
    const LEAST: usize = 4;

    fn write<'w>(&'w self, to: &mut Writer<'w>) {
        to.count(self.len());
        for (key, value) in self {
            key.write(to);
            value.write(to);
        }
    }

    fn read(from: &mut Reader<'a>) -> Result<Self> {
        Ok(Vec::<(K, V)>::read(from)?.into_iter().collect())
    }
}

/// A whole tensor with its levels of sequences.
impl<'a> Field<'a> for Tensor {
    const LEAST: usize = Array::LEAST + 4;

    fn write<'w>(&'w self, to: &mut Writer<'w>) {
        Array::of_tensor(self).put(to);
        to.count(self.lod().len());
        self.lod().iter().for_each(|level| level.write(to));
    }

    fn read(from: &mut Reader<'a>) -> Result<Self> {
        let array = Array::read(from)?;
        if !array.is_whole() {
            return Err(damaged("a piece of a tensor came where a whole one must come"));
        }
        let mut tensor = Tensor::empty(array.dtype());
        let stored = array.store_tensor(&mut tensor);
        let lod = Vec::<Vec<usize>>::read(from)?;
        // Checks the offsets against the rows.
        let tensor = stored.and_then(|()| Ok(tensor.with_lod(&lod)?));
        tensor.map_err(|error| damaged(&error.to_string()))
    }
}

/// Makes a struct a [`Field`]: `fields!(Life<'a> { number, began })`. Its fields travel in this
/// order.
macro_rules! fields {
    ($name:ident $(<$life:lifetime>)? { $($field:ident),* $(,)? }) => {
        fields!(@implement [$($life)? 'body], $name $(<$life>)?, $($field)*);
    };
    // The lifetime of the struct is that of the body; where it has none, any will do.
    (@implement [$life:lifetime $($body:lifetime)?], $type:ty, $($field:ident)*) => {
        impl<$life> $crate::message::field::Field<$life> for $type {
            const LEAST: usize = [$(stringify!($field)),*].len();

            fn write<'w>(&'w self, to: &mut bireme_comm::wire::Writer<'w>) {
                $($crate::message::field::Field::write(&self.$field, to);)*
            }

            fn read(from: &mut bireme_comm::wire::Reader<$life>) -> bireme_comm::wire::Result<Self> {
                Ok(Self { $($field: $crate::message::field::Field::read(from)?),* })
            }
        }
    };
}

/// Declares the messages of a protocol as an enum: each entry is a number, a name and fields, from
/// which follow [`Field`]-wise writing (`write_fields`) and reading (`read_fields`).
macro_rules! messages {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident<$life:lifetime> { $(
            $(#[$doc:meta])*
            $number:literal $variant:ident $({
                $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)?
            })?
        ),* $(,)? }
    ) => {
        $(#[$meta])*
        $vis enum $name<$life> { $(
            $(#[$doc])*
            $variant $({ $($(#[$field_doc])* $field: $type),* })?
        ),* }

        impl<$life> $name<$life> {
            /// The message's number.
            $vis fn method(&self) -> u16 {
                match self { $(Self::$variant { .. } => $number),* }
            }

            /// The message's name.
            #[allow(dead_code, reason = "not every protocol asks for it")]
            $vis fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => stringify!($variant)),* }
            }

            fn write_fields<'w>(&'w self, to: &mut bireme_comm::wire::Writer<'w>) {
                match self { $(
                    Self::$variant { $($($field),*)? } => {
                        $($($crate::message::field::Field::write($field, to);)*)?
                    }
                )* }
            }

            fn read_fields(
                number: u16,
                from: &mut bireme_comm::wire::Reader<$life>,
            ) -> bireme_comm::wire::Result<Self> {
                Ok(match number {
                    $($number => Self::$variant { $($($field: $crate::message::field::Field::read(from)?),*)? },)*
                    _ => {
                        let what = stringify!($name).to_lowercase();
                        return Err(bireme_comm::wire::damaged(&format!("there is no {what} {number}")));
                    }
                })
            }
        }
    };
}

pub(crate) use {fields, messages};
