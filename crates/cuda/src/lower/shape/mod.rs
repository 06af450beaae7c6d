//! Ops that move elements without changing them: joining, cutting, reshaping, repeating.

mod around;
mod assign;
mod cut;
mod join;
mod relabel;
mod repeat;
mod turn;

use super::Lower;

/// The ops of this family that the card runs.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("concat", join::concat),
    ("concat_grad", join::concat_grad),
    ("split", join::split),
    ("stack", |l| join::stack(l, "X", "Y")),
    ("stack_grad", |l| join::unstack(l, "Y@GRAD", "X@GRAD")),
    ("unstack", |l| join::unstack(l, "X", "Y")),
    ("unstack_grad", |l| join::stack(l, "Y@GRAD", "X@GRAD")),
    ("unbind", |l| join::unstack(l, "X", "Out")),
    ("c_bucket_gather", join::gather_bucket),
    ("c_bucket_spread", join::spread_bucket),
    ("reshape", relabel::forward),
    ("reshape_grad", relabel::gradient),
    ("reshape2", relabel::forward),
    ("reshape2_grad", relabel::gradient),
    ("squeeze", relabel::forward),
    ("squeeze_grad", relabel::gradient),
    ("squeeze2", relabel::forward),
    ("squeeze2_grad", relabel::gradient),
    ("unsqueeze", relabel::forward),
    ("unsqueeze_grad", relabel::gradient),
    ("unsqueeze2", relabel::forward),
    ("unsqueeze2_grad", relabel::gradient),
    ("flatten", relabel::forward),
    ("flatten_grad", relabel::gradient),
    ("flatten2", relabel::forward),
    ("flatten2_grad", relabel::gradient),
    ("flatten_contiguous_range", relabel::forward),
    ("flatten_contiguous_range_grad", relabel::gradient),
    ("shape", relabel::shape),
    ("transpose", turn::transpose),
    ("transpose_grad", turn::transpose_grad),
    ("transpose2", turn::transpose),
    ("transpose2_grad", turn::transpose_grad),
    ("flip", turn::flip),
    ("slice", cut::slice),
    ("slice_grad", cut::slice_grad),
    ("strided_slice", cut::slice),
    ("strided_slice_grad", cut::slice_grad),
    ("set_value", assign::set_value),
    ("set_value_grad", assign::set_value_grad),
    ("expand_v2", repeat::expand),
    ("expand_v2_grad", repeat::expand_grad),
    ("expand_as_v2", repeat::expand),
    ("expand_as_v2_grad", repeat::expand_grad),
    ("tile", repeat::tile),
    ("tile_grad", repeat::tile_grad),
    ("expand", repeat::tile),
    ("expand_grad", repeat::tile_grad),
    ("meshgrid", repeat::meshgrid),
    ("meshgrid_grad", repeat::meshgrid_grad),
    ("pad", around::pad),
    ("pad_grad", around::pad_grad),
    ("pad2d", around::pad),
    ("pad2d_grad", around::pad_grad),
    ("pad3d", around::pad),
    ("pad3d_grad", around::pad_grad),
    ("roll", |l| around::roll(l, "X", "Out", 1)),
    ("roll_grad", |l| around::roll(l, "Out@GRAD", "X@GRAD", -1)),
];
