//! Variable declarations: Paddle's `VarDesc` and the parameter facts that Paddle keeps in Python.

use crate::DType;

/// What a variable holds at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VarKind {
    /// A tensor, ragged when it has LoD levels.
    LodTensor,
    /// Rows of a taller tensor: the gradient of an embedding.
    SelectedRows,
    /// The list that `feed` ops read from.
    FeedMinibatch,
    /// The list that `fetch` ops write to.
    FetchList,
    /// Scopes kept by a loop for its backward pass.
    StepScopes,
    /// A rank table of sequences by length.
    LodRankTable,
    /// A list of tensors.
    LodTensorArray,
    /// A list of devices.
    PlaceList,
    /// A data reader.
    Reader,
    /// Something only its op understands.
    Raw,
    /// Several values as one.
    Tuple,
}

impl VarKind {
    /// Every kind, in the order of Paddle's numbers.
    pub const ALL: [VarKind; 11] = [
        VarKind::LodTensor,
        VarKind::SelectedRows,
        VarKind::FeedMinibatch,
        VarKind::FetchList,
        VarKind::StepScopes,
        VarKind::LodRankTable,
        VarKind::LodTensorArray,
        VarKind::PlaceList,
        VarKind::Reader,
        VarKind::Raw,
        VarKind::Tuple,
    ];

    /// Paddle's name: `LOD_TENSOR`, `SELECTED_ROWS`.
    pub const fn name(self) -> &'static str {
        match self {
            VarKind::LodTensor => "LOD_TENSOR",
            VarKind::SelectedRows => "SELECTED_ROWS",
            VarKind::FeedMinibatch => "FEED_MINIBATCH",
            VarKind::FetchList => "FETCH_LIST",
            VarKind::StepScopes => "STEP_SCOPES",
            VarKind::LodRankTable => "LOD_RANK_TABLE",
            VarKind::LodTensorArray => "LOD_TENSOR_ARRAY",
            VarKind::PlaceList => "PLACE_LIST",
            VarKind::Reader => "READER",
            VarKind::Raw => "RAW",
            VarKind::Tuple => "TUPLE",
        }
    }

    /// The kind that Paddle calls `name`, if there is one.
    pub fn from_name(name: &str) -> Option<VarKind> {
        VarKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The number in `VarType.Type`, as program files carry it.
    pub const fn code(self) -> i32 {
        match self {
            VarKind::LodTensor => 7,
            VarKind::SelectedRows => 8,
            VarKind::FeedMinibatch => 9,
            VarKind::FetchList => 10,
            VarKind::StepScopes => 11,
            VarKind::LodRankTable => 12,
            VarKind::LodTensorArray => 13,
            VarKind::PlaceList => 14,
            VarKind::Reader => 15,
            VarKind::Raw => 17,
            VarKind::Tuple => 18,
        }
    }

    /// The kind with this number in `VarType.Type`, if it is one.
    pub fn from_code(code: i32) -> Option<VarKind> {
        VarKind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Whether it holds one tensor, dense or of rows.
    pub const fn is_tensor(self) -> bool {
        matches!(self, VarKind::LodTensor | VarKind::SelectedRows)
    }
}

/// The declaration of one variable in a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    /// Unique within the block.
    pub name: String,
    /// What it holds.
    pub kind: VarKind,
    /// Element type, for kinds that have elements.
    pub dtype: DType,
    /// Dimensions; -1 for one that is known only when data arrives.
    pub shape: Vec<i64>,
    /// Levels of raggedness; 0 for a plain tensor.
    pub lod_level: u32,
    /// Whether the value outlives a run (parameters, optimizer state, metrics).
    pub persistable: bool,
    /// Whether backward passes stop here.
    pub stop_gradient: bool,
    /// Whether a feed of this variable is checked against `shape` and `dtype`.
    pub need_check_feed: bool,
    /// Present on trainable weights and their kind.
    pub param: Option<Param>,
}

/// What makes a variable a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Whether optimizers update it.
    pub trainable: bool,
    /// Factor on the optimizer's learning rate; 1 by default.
    pub learning_rate: f32,
    /// Overrides the optimizer's regulariser.
    pub regularizer: Option<Regularizer>,
    /// Whether gradient clipping includes it.
    pub need_clip: bool,
}

/// A penalty on the size of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Regularizer {
    /// Adds `coeff * sign(w)` to the gradient.
    L1(f32),
    /// Adds `coeff * w` to the gradient.
    L2(f32),
}

impl Var {
    /// A temporary dense tensor.
    pub fn tensor(name: impl Into<String>, dtype: DType, shape: impl Into<Vec<i64>>) -> Var {
        Var {
            name: name.into(),
            kind: VarKind::LodTensor,
            dtype,
            shape: shape.into(),
            lod_level: 0,
            persistable: false,
            stop_gradient: false,
            need_check_feed: false,
            param: None,
        }
    }

    /// A trainable, persistable tensor.
    pub fn parameter(name: impl Into<String>, dtype: DType, shape: impl Into<Vec<i64>>) -> Var {
        let mut var = Var::tensor(name, dtype, shape);
        var.persistable = true;
        var.param = Some(Param::default());
        var
    }

    /// Whether this is a parameter, trainable or not.
    pub fn is_parameter(&self) -> bool {
        self.param.is_some()
    }
}

impl Default for Param {
    fn default() -> Param {
        Param { trainable: true, learning_rate: 1.0, regularizer: None, need_clip: true }
    }
}
