//! Fresh names, counted by prefix.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A generator of names that its clones share: `fc` gives `fc_0`, then `fc_1`.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Comes before every name.
    prefix: Arc<str>,
    /// How often each prefix has been used.
    used: Arc<Mutex<HashMap<String, usize>>>,
}

impl Names {
    /// A generator that has given no name yet.
    pub fn new() -> Names {
        Names::default()
    }

    /// A generator whose names all start with `prefix`.
    pub fn with_prefix(prefix: &str) -> Names {
        Names { prefix: prefix.into(), ..Names::default() }
    }

    /// The next name that starts with `prefix`.
    pub fn unique(&self, prefix: &str) -> String {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // Most prefixes have been seen before; only a new one is copied.
        let count = match used.get_mut(prefix) {
            Some(count) => count,
            None => used.entry(prefix.to_owned()).or_insert(0),
        };
        *count += 1;
        format!("{}{prefix}_{}", self.prefix, *count - 1)
    }
}
