//! Which variables have a value when an op runs.

use std::collections::HashMap;

use crate::{Block, Var};

/// Variable to the first op of `block` that writes it.
pub(super) fn first_writers(block: &Block) -> HashMap<&str, usize> {
    let mut writers = HashMap::new();
    for (index, op) in block.ops.iter().enumerate() {
        for var in op.output_vars() {
            writers.entry(var.as_str()).or_insert(index);
        }
    }
    writers
}

/// Whether `var`, declared in the block of `writers`, has a value when op `index` reads it.
pub(super) fn has_value(var: &Var, writers: &HashMap<&str, usize>, index: usize) -> bool {
    // Persistable variables live in the scope, and a feed comes before the first op. Kinds other
    // than tensors (readers, step scopes) are made by whoever runs the program.
    if var.persistable || var.need_check_feed || !var.kind.is_tensor() {
        return true;
    }
    match writers.get(var.name.as_str()) {
        Some(writer) => *writer < index,
        // `fluid.layers.data` marks its variables by nothing but this.
        None => var.stop_gradient,
    }
}
