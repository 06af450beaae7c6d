//! Checkpoints: shards, manifest, loading onto any number of servers, Paddle's text layout.
