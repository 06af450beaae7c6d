//! Text for the person at the terminal: progress, advice and errors on stderr.
//!
//! Nothing here fails or panics: that nobody listens is no reason to stop working. Names from a
//! file cannot send commands to the terminal.

use std::borrow::Cow;
use std::io::{self, Write};

/// Writes lines to stderr.
pub(crate) fn say(text: &str) {
    for line in text.split('\n') {
        // Nowhere to report a failure to.
        writeln!(io::stderr(), "{}", printable(line)).ok();
    }
}

/// `text` with its control characters written as escapes.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(escape).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(printable("fc_0.w_0 é"), "fc_0.w_0 é");
        assert_eq!(printable("a\u{1b}[2J\n\u{9b}b"), "a\\u{1b}[2J\\n\\u{9b}b");
    }
}
