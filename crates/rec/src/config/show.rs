//! The configuration in PaddleRec's frame, which has the measures of `fleetrun`'s.

/// Width of the values.
const VALUE: usize = 45;

/// Keys and values in a frame.
pub(super) fn table<'a>(rows: impl Iterator<Item = (&'a str, String)> + Clone) -> String {
    let width = rows.clone().map(|(key, _)| key.len()).max().unwrap_or(0).max(40);
    let border = format!("    +{}+\n", "=".repeat(width + 2 + VALUE));
    let mut text = border.clone();
    text += &format!("    |{:>width$}  {:^VALUE$}|\n", "PaddleRec Benchmark Envs", "Value");
    text += &format!("    +{}+\n", "-".repeat(width + 2 + VALUE));
    for (key, value) in rows {
        let length = value.chars().count();
        let value = match length >= VALUE {
            true => format!("... {}", value.chars().skip(length - 41).collect::<String>()),
            false => value,
        };
        text += &format!("    |{key:>width$}  {value:^VALUE$}|\n");
    }
    text + &border
}
