//! Arrays by name as Python pickles of NumPy arrays: what Paddle's `static.save` writes as
//! `.pdparams` and `.pdopt`, and what `paddle.load` reads.
//!
//! A pickle is a program. The reader here builds containers, numbers, texts and arrays, and refuses
//! whatever else a file asks for by name; it believes no size before it has compared it with what
//! the file holds.

mod machine;

use std::collections::BTreeMap;
use std::io::{self, Write};

use bireme_engine::DType;
use bireme_engine::tensor::Tensor;

use machine::Value;

/// Under this key `paddle.save` keeps the names that parameters have in layers.
const NAME_TABLE: &str = "StructuredToParameterName@@";
/// Under this key Paddle notes arrays that it has cut, in pickles before protocol 4.
const SLICES: &str = "UnpackBigParamInfor@@";

/// Writes arrays by name, in protocol 4, which Paddle writes too.
///
/// # Errors
/// When `get` has no such value, or `out` fails.
pub fn write<'t>(
    out: &mut dyn Write,
    names: impl IntoIterator<Item = &'t str>,
    get: impl Fn(&str) -> io::Result<Tensor>,
) -> io::Result<()> {
    out.write_all(b"\x80\x04}(")?;
    for name in names {
        text(out, name)?;
        // One at a time: tables are large.
        array(out, &get(name)?)?;
    }
    out.write_all(b"u.")
}

fn array(out: &mut dyn Write, tensor: &Tensor) -> io::Result<()> {
    // numpy.core.multiarray._reconstruct(numpy.ndarray, (0,), b"b")
    out.write_all(b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n")?;
    out.write_all(b"K\x00\x85C\x01b\x87R")?;
    // Its state: version, shape, type, whether it is stored by columns, bytes.
    out.write_all(b"(K\x01(")?;
    for size in tensor.dims().iter() {
        out.write_all(b"\x8a\x08")?;
        out.write_all(&(*size as u64).to_le_bytes())?;
    }
    out.write_all(b"t")?;
    let (name, order) = type_name(tensor.dtype());
    out.write_all(b"cnumpy\ndtype\n")?;
    text(out, name)?;
    out.write_all(b"\x89\x88\x87R(K\x03")?;
    text(out, order)?;
    out.write_all(b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89")?;
    let bytes = tensor.as_bytes();
    out.write_all(b"\x8e")?;
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(bytes)?;
    out.write_all(b"tb")
}

fn text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    out.write_all(b"X")?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(text.as_bytes())
}

/// NumPy's name of a type, and its mark for the order of bytes.
fn type_name(dtype: DType) -> (&'static str, &'static str) {
    match dtype {
        DType::Bool => ("b1", "|"),
        DType::I8 => ("i1", "|"),
        DType::U8 => ("u1", "|"),
        DType::I16 => ("i2", "<"),
        DType::I32 => ("i4", "<"),
        DType::I64 => ("i8", "<"),
        DType::F16 => ("f2", "<"),
        // NumPy has no such type; Paddle writes the bits.
        DType::BF16 => ("u2", "<"),
        DType::F32 => ("f4", "<"),
        DType::F64 => ("f8", "<"),
    }
}

/// Reads arrays by name; whatever else the dictionary holds is left out.
///
/// # Errors
/// When the bytes are no pickle of a dictionary, or ask for something that data does not need.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, String> {
    let (mut values, root) = machine::run(bytes)?;
    let Value::Dict(items) = std::mem::replace(&mut values[root], Value::None) else {
        return Err("it holds no values by name".to_owned());
    };
    let mut tensors = BTreeMap::new();
    for (key, item) in items {
        let Value::Text(name) = &values[key] else { continue };
        let name = name.clone();
        if name == SLICES {
            return Err("it holds arrays in slices: save it with pickle protocol 4".to_owned());
        }
        if name == NAME_TABLE {
            continue;
        }
        // A named tensor is a pair of its name and its values.
        let item = match &values[item] {
            Value::Tuple(pair) if pair.len() == 2 => pair[1],
            _ => item,
        };
        if let Value::Array(array) = &mut values[item] {
            let tensor = array.tensor.take();
            let tensor = tensor.ok_or_else(|| format!("array `{name}` has no values"))?;
            tensors.insert(name, tensor);
        }
    }
    Ok(tensors)
}

#[cfg(test)]
mod tests;
