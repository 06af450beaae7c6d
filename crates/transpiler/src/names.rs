//! Names of what distribution adds to programs; all of them are Paddle's.

/// Slice `index` of `var`.
pub fn block(var: &str, index: usize) -> String {
    format!("{var}.block{index}")
}

/// What trainer `trainer` sends of `var`, which the server adds up over trainers.
pub fn of_trainer(var: &str, trainer: usize) -> String {
    format!("{var}.trainer_{trainer}")
}

/// The difference of `param` that geo trainers send.
pub fn delta(param: &str) -> String {
    format!("{param}.delta")
}

/// Where local SGD keeps the parameter of the last exchange.
pub fn snapshot(param: &str) -> String {
    format!("{param}@SNAPSHOT")
}

/// Whether `name` is `var` or a slice of it.
pub fn is_split_of(name: &str, var: &str) -> bool {
    name.strip_prefix(var).is_some_and(|rest| rest.is_empty() || rest.starts_with(".block"))
}

/// Variables without a value that keep ops in order.
#[derive(Debug, Default)]
pub(crate) struct Dummies {
    count: usize,
}

impl Dummies {
    /// The next one.
    pub(crate) fn next(&mut self) -> String {
        self.count += 1;
        format!("__control_var@{}", self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_known_by_name() {
        assert_eq!(of_trainer(&block("w@GRAD", 1), 0), "w@GRAD.block1.trainer_0");
        assert!(is_split_of("w", "w") && is_split_of("w.block3", "w"));
        assert!(!is_split_of("w_1", "w") && !is_split_of("v", "w"));
        assert_eq!(delta(&block("w", 0)), "w.block0.delta");
    }
}
