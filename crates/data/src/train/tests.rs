//! Training threads over batches: nothing is lost, and all stop together.
