//! Layers append Paddle's ops under Paddle's names.
