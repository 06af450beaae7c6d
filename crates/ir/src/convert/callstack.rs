//! An op's call site as Paddle's `op_callstack` attribute.
//!
//! Paddle stores the whole Python stack, two lines a frame: `File "a.py", line 3, in f`, then the
//! source. The frame users look for is the innermost one outside of installed packages.

use crate::Attr;
use crate::proto::OpDescAttr;

/// The attribute's name.
pub(super) const ATTR: &str = "op_callstack";

pub(super) fn write(site: &str) -> OpDescAttr {
    super::attr::write(ATTR, &Attr::Strings(vec![site.to_owned()]))
}

/// The call site in a stack: `file:line` of the user's frame, or else the last line that says
/// anything.
pub(super) fn read(lines: &[String]) -> Option<String> {
    let mut frames = lines.iter().rev().filter_map(|line| frame(line));
    match frames.find(|(file, _)| !file.contains("-packages/")) {
        Some((file, line)) => last_line(&format!("{file}:{line}")),
        None => lines.iter().rev().find_map(|line| last_line(line)),
    }
}

/// The last line of `text` that is not blank; reading a call site written by this crate thus
/// changes nothing.
fn last_line(text: &str) -> Option<String> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// File and line of `File "a.py", line 3, in f`.
fn frame(line: &str) -> Option<(&str, u32)> {
    let (file, rest) = line.trim().strip_prefix("File \"")?.split_once("\", line ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((file, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(lines: &[&str]) -> Option<String> {
        read(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn finds_the_users_frame() {
        let stack = [
            "  File \"train.py\", line 14, in <module>",
            "    y = net(x)",
            "  File \"net.py\", line 3, in net",
            "    return fc(x)",
            "  File \"lib/python3.11/site-packages/paddle/base/framework.py\", line 3016, in f",
            "    for frame in traceback.extract_stack():",
        ];
        assert_eq!(site(&stack).as_deref(), Some("net.py:3"));
    }

    #[test]
    fn takes_the_last_line_of_anything_else() {
        assert_eq!(site(&["fit.py:3"]).as_deref(), Some("fit.py:3"));
        assert_eq!(site(&["a\n b \n", ""]).as_deref(), Some("b"));
        assert_eq!(site(&["  File \" a.py\", line 3"]).as_deref(), Some("a.py:3"));
        assert_eq!(site(&[" "]), None);
        assert_eq!(site(&[]), None);
    }
}
