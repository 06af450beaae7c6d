//! Ops that pick elements by position or condition.

mod along;
mod choose;
mod gather;
mod positions;
mod scatter;
mod send_recv;

use super::Lower;
pub(super) use along::put_along;
pub(super) use gather::take_slices;
pub(super) use positions::Indices;
pub(super) use scatter::put_rows;

/// The ops of this family that the card runs.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("gather", |l| gather::gather(l, "axis")),
    ("gather_grad", |l| gather::gather_grad(l, "axis")),
    ("index_select", |l| gather::gather(l, "dim")),
    ("index_select_grad", |l| gather::gather_grad(l, "dim")),
    ("gather_nd", gather::gather_nd),
    ("gather_nd_grad", gather::gather_nd_grad),
    ("put_rows", scatter::put_rows_op),
    ("scatter", scatter::scatter),
    ("scatter_grad", scatter::scatter_grad),
    ("take_along_axis", along::take_along_axis),
    ("take_along_axis_grad", along::take_along_axis_grad),
    ("index_sample", along::index_sample),
    ("index_sample_grad", along::index_sample_grad),
    ("graph_send_recv", send_recv::send),
    ("graph_send_recv_grad", send_recv::send_grad),
    ("where", choose::choose),
    ("where_grad", choose::choose_grad),
    ("one_hot", choose::one_hot),
    ("one_hot_v2", choose::one_hot),
    ("tril_triu", |l| choose::tril_triu(l, "X", "Out")),
    ("tril_triu_grad", |l| choose::tril_triu(l, "Out@GRAD", "X@GRAD")),
    ("diag_v2", choose::diag),
    ("diag_v2_grad", choose::diag_grad),
    ("sequence_mask", choose::sequence_mask),
];
