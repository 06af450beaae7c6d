//! Errors of the engine and of servers that a key of the configuration is to blame for.

use crate::config::{Config, Value};
use crate::{Error, zoo};

/// What an error means for a configuration: with an id that a table does not have, which key says
/// how many it has.
pub(super) fn with_keys(config: &Config, error: Error) -> Error {
    let message = error.to_string();
    let Some(rows) = rows_of_table(&message) else { return error };
    let keys = keys_of(config, rows);
    if keys.is_empty() {
        return error;
    }
    Error::Settings(format!(
        "{message}: {} {rows}, and must be above every id in the data",
        match &keys[..] {
            [key] => format!("`hyper_parameters.{key}` is"),
            keys => format!("`hyper_parameters.{}` are", keys.join("` and `hyper_parameters.")),
        }
    ))
}

/// The rows of a table that an id lies outside of, by the words of those who found it.
fn rows_of_table(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once(" lies outside ")?;
    if let Some((_, last)) = rest.split_once("rows 0 to ") {
        let digits = last.split(|c: char| !c.is_ascii_digit()).next()?;
        return digits.parse::<usize>().ok()?.checked_add(1);
    }
    rest.split_once(" rows")?.0.rsplit(' ').next()?.parse().ok()
}

/// Hyper parameters of the model that have this value.
fn keys_of(config: &Config, value: usize) -> Vec<String> {
    let Some(entry) = zoo::find(&super::model_name(config)) else { return Vec::new() };
    let mut hyper = config.hyper();
    // Asks for all of them; it has been built once, so it can be built again.
    (entry.build)(&mut hyper).ok();
    let asked: Vec<(String, String)> =
        hyper.defaults().map(|(key, default)| (key.to_owned(), default.to_owned())).collect();
    let fits = |(key, default): (String, String)| {
        let is = match hyper.node(&key).map(|node| &node.value) {
            Some(Value::Int(number)) => usize::try_from(*number) == Ok(value),
            Some(_) => false,
            None => default == value.to_string(),
        };
        is.then_some(key)
    };
    asked.into_iter().filter_map(fits).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_id_outside_a_table_names_the_key_that_sizes_it() {
        let text = "model: dnn\nhyper_parameters: {sparse_feature_number: 6001}\n";
        let config = Config::parse(Path::new("a.yaml"), text, &[]).unwrap();
        let key = "`hyper_parameters.sparse_feature_number` is 6001, and must be above every id";
        for message in [
            "op `lookup_table_v2` (`out`): id 7000 at position 1 of `Ids` lies outside the table, \
             which has 6001 rows",
            "id 7000 at position 1 of `C1` lies outside the table `emb` of 6001 rows",
            "id 7000 in slot 3 lies outside table `emb`, which has rows 0 to 6000",
        ] {
            let error = with_keys(&config, Error::Settings(message.to_owned())).to_string();
            assert!(error.starts_with(message) && error.contains(key), "{error}");
        }
        for other in ["id 7 lies outside table `x`, which has rows 0 to 9", "no 6001 rows"] {
            let error = with_keys(&config, Error::Settings(other.to_owned())).to_string();
            assert_eq!(error, other);
        }
    }
}
