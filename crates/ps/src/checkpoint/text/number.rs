//! Numbers as text: the shortest that reads back exactly.

/// Appends a number.
pub(super) fn push(line: &mut String, number: f32) {
    let plain = number.to_string();
    // Long runs of zeros are shorter with an exponent.
    let short = if plain.len() > 8 { format!("{number:e}") } else { String::new() };
    line.push_str(if !short.is_empty() && short.len() < plain.len() { &short } else { &plain });
}

/// Reads the numbers of a line.
pub(super) fn parse(words: &mut std::str::SplitAsciiWhitespace<'_>) -> Result<Vec<f32>, String> {
    let number = |word: &str| {
        // As Paddle prints what is not a number on some machines.
        let word = word.strip_prefix('-').filter(|rest| *rest == "nan").unwrap_or(word);
        word.parse().map_err(|_| format!("`{}` is not a number", word.escape_debug()))
    };
    words.map(number).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(number: f32) -> String {
        let mut line = String::new();
        push(&mut line, number);
        line
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.1, -3.0, 1e-20, 0.000_123, 1e30, 16_777_216.0].map(text);
        assert_eq!(texts, ["0.1", "-3", "1e-20", "0.000123", "1e30", "16777216"]);
    }

    #[test]
    fn what_paddle_prints_is_read() {
        let words = "0.0123457 1e-05 -nan inf -inf 3";
        let numbers = parse(&mut words.split_ascii_whitespace()).unwrap();
        assert_eq!(numbers[..2], [0.012_345_7, 1e-5]);
        assert!(numbers[2].is_nan());
        assert_eq!(numbers[3..], [f32::INFINITY, f32::NEG_INFINITY, 3.0]);
        assert!(parse(&mut "1 x".split_ascii_whitespace()).unwrap_err().contains("`x`"));
    }

    proptest! {
        #[test]
        fn numbers_survive(bits: u32) {
            let number = f32::from_bits(bits);
            let read = parse(&mut text(number).split_ascii_whitespace()).unwrap()[0];
            prop_assert!(read.to_bits() == bits || number.is_nan() && read.is_nan());
        }
    }
}
