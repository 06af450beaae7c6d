//! The conversions between attribute types that Paddle makes when it reads an attribute.
//!
//! Python writes `0` where an op takes a float and `[]` where it takes any list; programs saved by
//! older versions carry `INT` where newer ones have `LONG`. A conversion never loses a value: one
//! that would (2**40 as `INT`) is refused.

use crate::{Attr, AttrKind, Scalar};

impl Attr {
    /// This value as type `kind`, or `None` when the types do not convert or the value does not fit.
    pub fn coerce(&self, kind: AttrKind) -> Option<Attr> {
        if self.kind() == kind {
            return Some(self.clone());
        }
        if self.is_empty_list() {
            return empty(kind);
        }
        Some(match kind {
            AttrKind::Bool => Attr::Bool(self.to_bool()?),
            AttrKind::Int => Attr::Int(i32::try_from(self.to_long()?).ok()?),
            AttrKind::Long => Attr::Long(self.to_long()?),
            AttrKind::Float => Attr::Float(self.to_double()? as f32),
            AttrKind::Float64 => Attr::Float64(self.to_double()?),
            AttrKind::Scalar => Attr::Scalar(self.to_scalar()?),
            AttrKind::Bools => Attr::Bools(each(self, Attr::to_bool)?),
            AttrKind::Ints => Attr::Ints(each(self, |attr| i32::try_from(attr.to_long()?).ok())?),
            AttrKind::Longs => Attr::Longs(each(self, Attr::to_long)?),
            AttrKind::Floats => Attr::Floats(each(self, |attr| Some(attr.to_double()? as f32))?),
            AttrKind::Float64s => Attr::Float64s(each(self, Attr::to_double)?),
            AttrKind::Scalars => Attr::Scalars(each(self, Attr::to_scalar)?),
            AttrKind::String
            | AttrKind::Strings
            | AttrKind::Block
            | AttrKind::Blocks
            | AttrKind::Var
            | AttrKind::Vars => return None,
        })
    }

    fn is_empty_list(&self) -> bool {
        match self {
            Attr::Ints(list) => list.is_empty(),
            Attr::Floats(list) => list.is_empty(),
            Attr::Strings(list) => list.is_empty(),
            Attr::Bools(list) => list.is_empty(),
            Attr::Longs(list) => list.is_empty(),
            Attr::Float64s(list) => list.is_empty(),
            Attr::Scalars(list) => list.is_empty(),
            _ => false,
        }
    }

    fn to_bool(&self) -> Option<bool> {
        match self {
            Attr::Bool(value) | Attr::Scalar(Scalar::Bool(value)) => Some(*value),
            _ => match self.to_long()? {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
        }
    }

    fn to_long(&self) -> Option<i64> {
        match self {
            Attr::Bool(value) | Attr::Scalar(Scalar::Bool(value)) => Some(i64::from(*value)),
            Attr::Int(value) => Some(i64::from(*value)),
            Attr::Long(value) | Attr::Scalar(Scalar::Long(value)) => Some(*value),
            Attr::Float(value) => whole(f64::from(*value)),
            Attr::Float64(value) | Attr::Scalar(Scalar::Float64(value)) => whole(*value),
            _ => None,
        }
    }

    fn to_double(&self) -> Option<f64> {
        match self {
            Attr::Float(value) => Some(f64::from(*value)),
            Attr::Float64(value) | Attr::Scalar(Scalar::Float64(value)) => Some(*value),
            _ => self.to_long().map(|value| value as f64),
        }
    }

    fn to_scalar(&self) -> Option<Scalar> {
        match self {
            Attr::Scalar(value) => Some(*value),
            Attr::Bool(value) => Some(Scalar::Bool(*value)),
            Attr::Float(_) | Attr::Float64(_) => self.to_double().map(Scalar::Float64),
            _ => self.to_long().map(Scalar::Long),
        }
    }
}

/// A float that is an integer, as one. 2**53 bounds the integers that floats hold exactly.
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then_some(value as i64)
}

fn empty(kind: AttrKind) -> Option<Attr> {
    Some(match kind {
        AttrKind::Ints => Attr::Ints(Vec::new()),
        AttrKind::Floats => Attr::Floats(Vec::new()),
        AttrKind::Strings => Attr::Strings(Vec::new()),
        AttrKind::Bools => Attr::Bools(Vec::new()),
        AttrKind::Longs => Attr::Longs(Vec::new()),
        AttrKind::Float64s => Attr::Float64s(Vec::new()),
        AttrKind::Scalars => Attr::Scalars(Vec::new()),
        _ => return None,
    })
}

/// Converts every element of a list of numbers.
fn each<T>(list: &Attr, convert: impl Fn(&Attr) -> Option<T>) -> Option<Vec<T>> {
    match list {
        Attr::Ints(list) => list.iter().map(|value| convert(&Attr::Int(*value))).collect(),
        Attr::Floats(list) => list.iter().map(|value| convert(&Attr::Float(*value))).collect(),
        Attr::Bools(list) => list.iter().map(|value| convert(&Attr::Bool(*value))).collect(),
        Attr::Longs(list) => list.iter().map(|value| convert(&Attr::Long(*value))).collect(),
        Attr::Float64s(list) => list.iter().map(|value| convert(&Attr::Float64(*value))).collect(),
        Attr::Scalars(list) => list.iter().map(|value| convert(&Attr::Scalar(*value))).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_convert_when_they_fit() {
        assert_eq!(Attr::Int(3).coerce(AttrKind::Long), Some(Attr::Long(3)));
        assert_eq!(Attr::Long(3).coerce(AttrKind::Int), Some(Attr::Int(3)));
        assert_eq!(Attr::Long(1 << 40).coerce(AttrKind::Int), None);
        assert_eq!(Attr::Int(1).coerce(AttrKind::Bool), Some(Attr::Bool(true)));
        assert_eq!(Attr::Int(2).coerce(AttrKind::Bool), None);
        assert_eq!(Attr::Int(2).coerce(AttrKind::Float), Some(Attr::Float(2.0)));
        assert_eq!(Attr::Float(2.5).coerce(AttrKind::Int), None);
        assert_eq!(Attr::Float(f32::NAN).coerce(AttrKind::Long), None);
        let scalar = Attr::Scalar(Scalar::Float64(0.5));
        assert_eq!(scalar.coerce(AttrKind::Float), Some(Attr::Float(0.5)));
        assert_eq!(Attr::Float(0.5).coerce(AttrKind::Scalar), Some(scalar));
        assert_eq!(Attr::String("1".into()).coerce(AttrKind::Int), None);
    }

    #[test]
    fn lists_convert_by_element_and_empty_ones_always() {
        assert_eq!(Attr::Ints(vec![1, 2]).coerce(AttrKind::Longs), Some(Attr::Longs(vec![1, 2])));
        assert_eq!(Attr::Longs(vec![1 << 40]).coerce(AttrKind::Ints), None);
        assert_eq!(Attr::Strings(vec![]).coerce(AttrKind::Ints), Some(Attr::Ints(vec![])));
        assert_eq!(Attr::Ints(vec![1]).coerce(AttrKind::Int), None);
    }
}
