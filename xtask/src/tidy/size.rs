//! Size rules: how long a file and a function may be, and who is excused.

use std::ops::AddAssign;

use super::code::{self, Function};
use super::{File, Finding};

/// Production lines a file may have.
const FILE_LIMIT: usize = 800;
/// Lines a function may have, from `fn` to its closing brace.
const FUNCTION_LIMIT: usize = 70;
/// Lines around the `match` of a function that is still a table.
const TABLE_FRAME: usize = 8;
/// Lines an arm of a table may have; a longer one is logic.
const TABLE_ARM: usize = 10;

/// Something that may exceed a limit.
pub(super) struct Exception {
    path: &'static str,
    /// A function's name; none excuses the file.
    function: Option<&'static str>,
    /// Why splitting would make it worse.
    reason: &'static str,
}

/// The only place where a size rule is waived.
pub(super) const EXCEPTIONS: &[Exception] = &[];

/// Lines of some files, tests apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineCount {
    pub(super) files: usize,
    pub(super) production: usize,
    pub(super) tests: usize,
}

impl AddAssign for LineCount {
    fn add_assign(&mut self, other: LineCount) {
        self.files += other.files;
        self.production += other.production;
        self.tests += other.tests;
    }
}

/// The lines of one Rust file.
pub(super) fn count_lines(file: &File) -> LineCount {
    let all = file.text.lines().count();
    let production = production_lines(file);
    LineCount { files: 1, production, tests: all - production }
}

/// At most [`FILE_LIMIT`] production lines a file.
pub(super) fn long_file(file: &File, exceptions: &[Exception]) -> Option<Finding> {
    let lines = production_lines(file);
    if lines <= FILE_LIMIT || is_excused(file, None, exceptions) {
        return None;
    }
    let problem = format!("{lines} production lines, limit {FILE_LIMIT}");
    Some(file.finding(FILE_LIMIT + 1, problem, "split the file by concept"))
}

/// At most [`FUNCTION_LIMIT`] lines a function outside tests, unless it is a flat `match`.
pub(super) fn long_functions(file: &File, exceptions: &[Exception]) -> Vec<Finding> {
    let masked = code::mask(&file.text);
    let production = production_lines(file);
    code::functions(&masked)
        .iter()
        .filter(|function| function.line <= production && function.lines > FUNCTION_LIMIT)
        .filter(|function| !is_table(&masked, function))
        .filter(|function| !is_excused(file, Some(&function.name), exceptions))
        .map(|function| {
            let problem = format!(
                "function `{}` has {} lines, limit {FUNCTION_LIMIT}",
                function.name, function.lines
            );
            file.finding(function.line, problem, "split it; push `if`s up and loops down")
        })
        .collect()
}

/// An exception that excuses nothing is deleted, so that the list stays true.
pub(super) fn stale_exceptions(files: &[File], exceptions: &[Exception]) -> Vec<Finding> {
    exceptions
        .iter()
        .filter(|exception| !files.iter().any(|file| is_needed(exception, file)))
        .map(|exception| Finding {
            path: exception.path.to_string(),
            line: 1,
            problem: format!("needless size exception ({})", exception.reason),
            fix: "delete it from the list in xtask/src/tidy/size.rs",
        })
        .collect()
}

fn is_needed(exception: &Exception, file: &File) -> bool {
    file.path == exception.path
        && match exception.function {
            None => long_file(file, &[]).is_some(),
            Some(name) => {
                let quoted = format!("`{name}`");
                long_functions(file, &[]).iter().any(|finding| finding.problem.contains(&quoted))
            }
        }
}

fn is_excused(file: &File, function: Option<&str>, exceptions: &[Exception]) -> bool {
    exceptions.iter().any(|exception| exception.path == file.path && exception.function == function)
}

fn production_lines(file: &File) -> usize {
    if file.is_test() { 0 } else { code::production_lines(&code::mask(&file.text)) }
}

/// Whether a function is nothing but a `match` of short arms: a table is read by looking up one
/// row, so that its length does no harm.
fn is_table(masked: &str, function: &Function) -> bool {
    let body = &masked[function.body.clone()];
    code::words(body, "match").any(|at| {
        let Some(open) = code::body_open(body, at) else { return false };
        let close = code::matching_close(body, open);
        let lines = code::line_of(body, close) - code::line_of(body, at) + 1;
        function.lines - lines <= TABLE_FRAME && longest_block(&body[open + 1..close]) <= TABLE_ARM
    })
}

/// Lines of the longest brace block in the text.
fn longest_block(text: &str) -> usize {
    let mut longest = 0;
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('{')) {
        let open = at + found;
        let close = code::matching_close(text, open);
        longest = longest.max(code::line_of(text, close) - code::line_of(text, open) + 1);
        at = close + 1;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCUSED: &[Exception] = &[
        Exception { path: "crates/a.rs", function: None, reason: "a reason" },
        Exception { path: "crates/a.rs", function: Some("long"), reason: "a reason" },
    ];

    fn rust(text: String) -> File {
        File { path: "crates/a.rs".into(), text }
    }

    fn long_function() -> File {
        rust(format!("//! A.\nfn long() {{\n{}}}\n", "    step();\n".repeat(69)))
    }

    #[test]
    fn file_limit_counts_production_lines_only() {
        let lines = |count: usize| "x\n".repeat(count);
        assert_eq!(long_file(&rust(lines(800)), &[]), None);
        let tests = "#[cfg(test)]\nmod tests {\n";
        assert_eq!(long_file(&rust(lines(800) + tests + &lines(300)), &[]), None);
        let finding = long_file(&rust(lines(801)), &[]).expect("over the limit");
        assert_eq!(finding.problem, "801 production lines, limit 800");
        assert_eq!(long_file(&rust(lines(801)), EXCUSED), None);
        let test_file = File { path: "crates/ir/tests/it/main.rs".into(), text: lines(2000) };
        assert_eq!(long_file(&test_file, &[]), None);
    }

    #[test]
    fn function_limit_names_the_function() {
        let findings = long_functions(&long_function(), &[]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
        assert_eq!(findings[0].problem, "function `long` has 71 lines, limit 70");
        assert!(long_functions(&long_function(), EXCUSED).is_empty());
        let fits = rust(format!("fn fits() {{\n{}}}\n", "    step();\n".repeat(68)));
        assert!(long_functions(&fits, &[]).is_empty());
    }

    #[test]
    fn functions_of_tests_have_no_limit() {
        let text = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", long_function().text);
        assert!(long_functions(&rust(text), &[]).is_empty());
    }

    #[test]
    fn flat_match_is_a_table_and_a_match_of_logic_is_not() {
        let arms = "        K::A => V { x: 1 },\n".repeat(90);
        let table = format!("fn f(k: K) -> V {{\n    Ok(match k {{\n{arms}    }})\n}}\n");
        assert!(long_functions(&rust(table), &[]).is_empty());
        let arm = format!("        K::A => {{\n{}        }}\n", "            step();\n".repeat(20));
        let logic = format!("fn f(k: K) {{\n    match k {{\n{}    }}\n}}\n", arm.repeat(4));
        assert_eq!(long_functions(&rust(logic), &[]).len(), 1);
    }

    #[test]
    fn needless_exceptions_are_found() {
        let findings = stale_exceptions(&[long_function()], EXCUSED);
        assert_eq!(findings.len(), 1, "the file is short, the function is not");
        assert_eq!(findings[0].problem, "needless size exception (a reason)");
    }

    #[test]
    fn lines_are_counted_apart() {
        let file = rust("//! A.\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n".into());
        assert_eq!(count_lines(&file), LineCount { files: 1, production: 2, tests: 3 });
    }
}
