//! The messages of Paddle's `framework.proto` (proto2), with the field numbers of Paddle 2.6.
//!
//! Enums are plain `int32` here: they look the same on the wire, and an unknown number then is an
//! error with a place instead of a silent default. Lists of numbers are not packed, as in Paddle.
//! Blocks, variables, ops, slots and attributes stay bytes until each is converted: two bytes of
//! hostile input would otherwise become an empty message of hundreds.

/// `ProgramDesc`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ProgramDesc {
    /// Messages of type [`BlockDesc`].
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) blocks: Vec<Vec<u8>>,
    #[prost(message, optional, tag = "4")]
    pub(crate) version: Option<Version>,
    /// A message of type [`OpVersionMap`].
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(crate) op_version_map: Option<Vec<u8>>,
}

/// `Version`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Version {
    #[prost(int64, optional, tag = "1")]
    pub(crate) version: Option<i64>,
}

/// `OpVersionMap`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OpVersionMap {
    #[prost(message, repeated, tag = "1")]
    pub(crate) pair: Vec<OpVersionPair>,
}

/// `OpVersionMap.OpVersionPair`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OpVersionPair {
    #[prost(string, required, tag = "1")]
    pub(crate) op_name: String,
    #[prost(message, required, tag = "2")]
    pub(crate) op_version: OpVersion,
}

/// `OpVersion`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OpVersion {
    #[prost(int32, required, tag = "1")]
    pub(crate) version: i32,
}

/// `BlockDesc`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BlockDesc {
    #[prost(int32, required, tag = "1")]
    pub(crate) idx: i32,
    #[prost(int32, required, tag = "2")]
    pub(crate) parent_idx: i32,
    /// Messages of type [`VarDesc`].
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) vars: Vec<Vec<u8>>,
    /// Messages of type [`OpDesc`].
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub(crate) ops: Vec<Vec<u8>>,
    #[prost(int32, optional, tag = "5", default = "-1")]
    pub(crate) forward_block_idx: Option<i32>,
}

/// `VarDesc`; its `attrs` (field 7, used by automatic parallelism) are not read.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VarDesc {
    #[prost(string, required, tag = "1")]
    pub(crate) name: String,
    #[prost(message, required, tag = "2")]
    pub(crate) r#type: VarType,
    #[prost(bool, optional, tag = "3")]
    pub(crate) persistable: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub(crate) need_check_feed: Option<bool>,
    #[prost(bool, optional, tag = "5")]
    pub(crate) is_parameter: Option<bool>,
    #[prost(bool, optional, tag = "6")]
    pub(crate) stop_gradient: Option<bool>,
}

/// `VarType`, without the descriptions of kinds that have no tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VarType {
    #[prost(int32, required, tag = "1")]
    pub(crate) r#type: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) selected_rows: Option<TensorDesc>,
    #[prost(message, optional, tag = "3")]
    pub(crate) lod_tensor: Option<LodTensorDesc>,
    #[prost(message, optional, tag = "4")]
    pub(crate) tensor_array: Option<LodTensorDesc>,
}

/// `VarType.TensorDesc`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorDesc {
    #[prost(int32, required, tag = "1")]
    pub(crate) data_type: i32,
    #[prost(int64, repeated, packed = "false", tag = "2")]
    pub(crate) dims: Vec<i64>,
}

/// `VarType.LoDTensorDesc`, and `VarType.LoDTensorArrayDesc`, which has the same fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LodTensorDesc {
    #[prost(message, required, tag = "1")]
    pub(crate) tensor: TensorDesc,
    #[prost(int32, optional, tag = "2")]
    pub(crate) lod_level: Option<i32>,
}

/// `OpDesc`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OpDesc {
    /// Messages of type [`OpDescVar`]; so are the outputs.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) inputs: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(crate) outputs: Vec<Vec<u8>>,
    #[prost(string, required, tag = "3")]
    pub(crate) r#type: String,
    /// Messages of type [`OpDescAttr`].
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub(crate) attrs: Vec<Vec<u8>>,
    #[prost(bool, optional, tag = "5")]
    pub(crate) is_target: Option<bool>,
}

/// `OpDesc.Var`: one slot.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OpDescVar {
    #[prost(string, required, tag = "1")]
    pub(crate) parameter: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) arguments: Vec<String>,
}

/// `OpDesc.Attr`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OpDescAttr {
    #[prost(string, required, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, required, tag = "2")]
    pub(crate) r#type: i32,
    #[prost(int32, optional, tag = "3")]
    pub(crate) i: Option<i32>,
    #[prost(float, optional, tag = "4")]
    pub(crate) f: Option<f32>,
    #[prost(string, optional, tag = "5")]
    pub(crate) s: Option<String>,
    #[prost(int32, repeated, packed = "false", tag = "6")]
    pub(crate) ints: Vec<i32>,
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub(crate) floats: Vec<f32>,
    #[prost(string, repeated, tag = "8")]
    pub(crate) strings: Vec<String>,
    #[prost(bool, optional, tag = "10")]
    pub(crate) b: Option<bool>,
    #[prost(bool, repeated, packed = "false", tag = "11")]
    pub(crate) bools: Vec<bool>,
    #[prost(int32, optional, tag = "12")]
    pub(crate) block_idx: Option<i32>,
    #[prost(int64, optional, tag = "13")]
    pub(crate) l: Option<i64>,
    #[prost(int32, repeated, packed = "false", tag = "14")]
    pub(crate) blocks_idx: Vec<i32>,
    #[prost(int64, repeated, packed = "false", tag = "15")]
    pub(crate) longs: Vec<i64>,
    #[prost(double, repeated, packed = "false", tag = "16")]
    pub(crate) float64s: Vec<f64>,
    #[prost(string, optional, tag = "17")]
    pub(crate) var_name: Option<String>,
    #[prost(string, repeated, tag = "18")]
    pub(crate) vars_name: Vec<String>,
    #[prost(double, optional, tag = "19")]
    pub(crate) float64: Option<f64>,
    #[prost(message, optional, tag = "20")]
    pub(crate) scalar: Option<ScalarDesc>,
    #[prost(message, repeated, tag = "21")]
    pub(crate) scalars: Vec<ScalarDesc>,
}

/// `Scalar`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScalarDesc {
    #[prost(int32, required, tag = "1")]
    pub(crate) r#type: i32,
    #[prost(bool, optional, tag = "2")]
    pub(crate) b: Option<bool>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    #[prost(double, optional, tag = "4")]
    pub(crate) r: Option<f64>,
    #[prost(message, optional, tag = "5")]
    pub(crate) c: Option<ComplexDesc>,
}

/// `Complex`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ComplexDesc {
    #[prost(double, required, tag = "1")]
    pub(crate) r: f64,
    #[prost(double, required, tag = "2")]
    pub(crate) i: f64,
}
