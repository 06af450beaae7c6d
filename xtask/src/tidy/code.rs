//! Just enough of Rust's syntax for the size rules: which bytes are code, where functions are.
//!
//! [`mask`] keeps every newline and the length, so that offsets and line numbers of the masked text
//! are those of the source. A construct that is not understood never hides the code after it.

use std::ops::Range;

/// A function with a body.
pub(super) struct Function {
    pub(super) name: String,
    /// Line of the `fn` keyword, from 1.
    pub(super) line: usize,
    /// Lines from the `fn` keyword to the closing brace.
    pub(super) lines: usize,
    /// Offsets of the body between its braces.
    pub(super) body: Range<usize>,
}

/// The source with comments, strings and character literals blanked out.
pub(super) fn mask(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut masked = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if let Some(len) = opaque_len(&bytes[at..]) {
            let end = (at + len).min(bytes.len());
            masked.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { b'\n' } else { b' ' }));
            at = end;
        } else {
            masked.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(masked).expect("only whole tokens are replaced, by ASCII")
}

/// The length of the comment or literal that starts here, if one does.
fn opaque_len(rest: &[u8]) -> Option<usize> {
    match rest {
        [b'/', b'/', ..] => Some(find(rest, b"\n", 0).unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(block_comment_len(rest)),
        [b'"', ..] => Some(string_len(rest)),
        [b'r', b'"' | b'#', ..] => raw_string_len(rest),
        [b'\'', ..] => char_len(rest),
        _ => None,
    }
}

/// Block comments nest.
fn block_comment_len(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn string_len(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`; `r#name` is an identifier.
fn raw_string_len(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&b| b == b'#').count();
    let quote = 1 + hashes;
    if rest.get(quote) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    Some(find(rest, &end, quote + 1).map_or(rest.len(), |at| at + end.len()))
}

/// `'x'` or `'\n'`; `'a` without a closing quote is a lifetime.
fn char_len(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return find(rest, b"'", 3).map(|at| at + 1);
    }
    let width = match rest.get(1)? {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

fn find(bytes: &[u8], pattern: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(pattern.len()).position(|window| window == pattern).map(|at| at + from)
}

/// The functions of a masked source, in order, nested ones too.
pub(super) fn functions(masked: &str) -> Vec<Function> {
    words(masked, "fn").filter_map(|at| function(masked, at)).collect()
}

fn function(masked: &str, at: usize) -> Option<Function> {
    let rest = masked[at + 2..].trim_start();
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == '#';
    let name: String = rest.chars().take_while(|&c| is_name(c)).collect();
    // `fn(` is a type.
    if name.is_empty() {
        return None;
    }
    let open = body_open(masked, at)?;
    let close = matching_close(masked, open);
    let lines = line_of(masked, close) - line_of(masked, at) + 1;
    Some(Function { name, line: line_of(masked, at), lines, body: open + 1..close })
}

/// The first `{` after `at` outside parentheses and brackets; none when a `;` comes first.
pub(super) fn body_open(masked: &str, at: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (offset, byte) in masked[at..].bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at + offset),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The `}` that closes the `{` at `open`, or the end of a text that lacks it.
pub(super) fn matching_close(masked: &str, open: usize) -> usize {
    let mut depth = 0;
    for (offset, byte) in masked[open..].bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + offset;
        }
    }
    masked.len()
}

/// Offsets at which `word` stands alone.
pub(super) fn words<'a>(masked: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    masked.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !masked[..at].ends_with(is_name) && !masked[at + word.len()..].starts_with(is_name)
    })
}

/// The line, from 1, of an offset.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Lines before the inline test module; all of them when there is none.
pub(super) fn production_lines(masked: &str) -> usize {
    let lines: Vec<&str> = masked.lines().collect();
    let starts_test_module = |index: usize| {
        lines[index].trim() == "#[cfg(test)]"
            && lines[index + 1..]
                .iter()
                .find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
                .is_some_and(|line| line.contains("mod ") && line.contains('{'))
    };
    (0..lines.len()).find(|&index| starts_test_module(index)).unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_chars_are_blank() {
        let check = |source: &str, expected: &str| {
            let masked = mask(source);
            assert_eq!(masked.len(), source.len(), "{source}");
            assert_eq!(masked.lines().count(), source.lines().count(), "{source}");
            let words: Vec<&str> = masked.split_whitespace().collect();
            assert_eq!(words.join(" "), expected, "{source}");
        };
        check("a // {\nb", "a b");
        check("a /*{ /*\n}*/ {*/ b", "a b");
        check(r#"f("{\"{") + 1"#, "f( ) + 1");
        check("r#\"{\"#; r#fn", "; r#fn");
        check("b\"{\" &'a x '{' '\\'' '\\u{7b}' 'é'", "b &'a x");
        check("x \"open {", "x");
    }

    #[test]
    fn functions_are_found_with_their_length() {
        let source = "fn a() {}\ntrait T {\n  fn b(x: [u8; 2]);\n  fn c(f: fn(u8) -> u8)\n  {\n    fn d() { }\n  }\n}\n";
        let found: Vec<_> =
            functions(&mask(source)).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("a".into(), 1, 1), ("c".into(), 4, 4), ("d".into(), 6, 1)]);
    }

    #[test]
    fn production_ends_at_the_inline_test_module() {
        let check = |source: &str, expected: usize| {
            assert_eq!(production_lines(&mask(source)), expected, "{source}");
        };
        check("a\nb\n#[cfg(test)]\nmod tests {\n}\n", 2);
        check("a\n#[cfg(test)]\n#[path = \"x\"]\nmod tests {\n}\n", 1);
        check("a\n#[cfg(test)]\nmod tests;\nb\n", 4);
        check("a\n// #[cfg(test)]\n// mod tests {\nb\n", 4);
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(words("fn fnord _fn (fn", "fn").collect::<Vec<_>>(), [0, 14]);
    }
}
