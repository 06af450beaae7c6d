//! The program of a GPUBox trainer for data whose keys were turned into row numbers before: feeds of
//! keys become feeds of rows, 32 bits each, and nothing is looked for in the step.
//!
//! A feed stays one of keys, and `find_rows` with it, where somebody else reads the keys, too: an op
//! that is no lookup, another table, or who fetches them; and where the rows that it finds go to an op
//! that is no lookup (the records of an accessor, an entry, other ranks).

use std::collections::BTreeSet;

use bireme_ir::{DType, Op, Program};

use crate::gpubox::{PASSED_THROUGH, passed_through};

/// A program that is fed row numbers.
#[derive(Clone, Debug)]
pub struct ByRows {
    /// What a step runs.
    pub program: Program,
    /// The feeds that hold row numbers instead of keys.
    pub feeds: Vec<RowFeed>,
}

/// A feed of row numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFeed {
    /// The variable, which had keys.
    pub name: String,
    /// The variable with the rows of these keys ([`Op`] `pass_table`, slot `Index`).
    pub index: String,
}

/// `program`, as `transpile_gpubox` wrote it, for feeds of row numbers where that can be; `None` where
/// no feed can. Who runs it fetches `fetches`.
pub fn by_rows(program: &Program, fetches: &[String]) -> Option<ByRows> {
    let mut changed = program.clone();
    let mut feeds = Vec::new();
    let described = program.global().ops.iter().filter(|op| op.kind == "pass_table");
    for feed in described.flat_map(|op| op.inputs_of("Ids")).collect::<BTreeSet<_>>() {
        let Some(keys) = Keys::from(program, feed, fetches) else { continue };
        keys.become_rows(&mut changed);
        feeds.push(RowFeed { name: feed.clone(), index: keys.index });
    }
    let global = changed.global_mut();
    global.ops.retain(|op| op.kind != "find_rows" || !op.inputs_of("Ids").is_empty());
    (!feeds.is_empty()).then_some(ByRows { program: changed, feeds })
}

/// Variables that hold the same keys, and the one table that they are keys of.
struct Keys {
    variables: BTreeSet<String>,
    index: String,
}

impl Keys {
    /// All variables that hold keys of `feed`, or keys together with it; `None` where somebody else than
    /// the lookups of one table reads them.
    fn from(program: &Program, feed: &str, fetches: &[String]) -> Option<Keys> {
        let ops = &program.global().ops;
        let is_passed = |op: &Op| PASSED_THROUGH.contains(&op.kind.as_str());
        let (mut variables, mut indexes) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![feed.to_owned()];
        while let Some(name) = open.pop() {
            if !variables.insert(name.clone()) {
                continue;
            }
            let elsewhere = program.blocks.iter().skip(1).flat_map(|block| &block.ops);
            let is_elsewhere =
                |op: &Op| op.input_vars().chain(op.output_vars()).any(|var| *var == name);
            let is_kept = program.global().var(&name).is_none_or(|var| var.persistable);
            if is_kept || fetches.contains(&name) || elsewhere.into_iter().any(is_elsewhere) {
                return None;
            }
            for op in ops {
                let writes = op.output_vars().any(|var| *var == name);
                if !writes && !op.input_vars().any(|var| *var == name) {
                    continue;
                }
                match op.kind.as_str() {
                    "pass_table" => {}
                    "find_rows" if !writes => {
                        indexes.extend(op.inputs_of("Index").iter().cloned());
                        let pairs = op.inputs_of("Ids").iter().zip(op.outputs_of("Out"));
                        let mut found = pairs.filter(|(ids, _)| **ids == name);
                        if !found.all(|(_, rows)| only_looked_up(ops, rows)) {
                            return None;
                        }
                    }
                    _ if is_passed(op)
                        && (writes || passed_through(op).any(|var| *var == name)) =>
                    {
                        open.extend(passed_through(op).chain(op.output_vars()).cloned());
                    }
                    _ => return None,
                }
            }
        }
        let index = indexes.pop_first().filter(|_| indexes.is_empty())?;
        Some(Keys { variables, index })
    }

    /// Has the variables hold rows, and lookups read them where they read what `find_rows` found.
    fn become_rows(&self, program: &mut Program) {
        let global = program.global_mut();
        let mut found = Vec::new();
        for op in global.ops.iter_mut().filter(|op| op.kind == "find_rows") {
            let ids = op.inputs.remove("Ids").unwrap_or_default();
            let rows = op.outputs.remove("Out").unwrap_or_default();
            let pairs = ids.into_iter().zip(rows);
            let (own, others): (Vec<_>, Vec<_>) =
                pairs.partition(|(ids, _)| self.variables.contains(ids));
            found.extend(own);
            let (ids, rows): (Vec<String>, Vec<String>) = others.into_iter().unzip();
            op.inputs.insert("Ids".to_owned(), ids);
            op.outputs.insert("Out".to_owned(), rows);
        }
        for (ids, rows) in found {
            global.ops.iter_mut().for_each(|op| op.rename_input(&rows, &ids));
            global.vars.shift_remove(&rows);
        }
        for name in &self.variables {
            if let Some(var) = global.vars.get_mut(name) {
                var.dtype = DType::I32;
            }
        }
    }
}

/// Whether lookups, and their gradients, are all that reads a variable.
fn only_looked_up(ops: &[Op], rows: &str) -> bool {
    let mut readers = ops.iter().filter(|op| op.input_vars().any(|var| var == rows));
    readers.all(|op| op.kind.starts_with("lookup_table"))
}

#[cfg(test)]
mod tests {
    use bireme_ir::Var;

    use super::*;

    /// `a` and `b` are joined before they are looked up, `c` is looked up as it is, and `d` is read by a mask, too.
    fn program() -> Program {
        let mut program = Program::new();
        let global = program.global_mut();
        for name in ["a", "b", "c", "d", "ab", "shape", "c@ROWS@w", "d@ROWS@w", "ab@ROWS@w"] {
            global.add_var(Var::tensor(name, DType::I64, [-1, 1]));
        }
        let found = ["c@ROWS@w", "d@ROWS@w", "ab@ROWS@w"];
        global.ops = vec![
            Op::new("concat").input("X", ["a", "b"]).output("Out", ["ab"]),
            Op::new("find_rows")
                .input("Ids", ["c", "d", "ab"])
                .input("Index", ["w@KEYS"])
                .output("Out", found),
            Op::new("not_equal").input("X", ["d"]).output("Out", ["mask"]),
            Op::new("lookup_table_v2").input("Ids", ["ab@ROWS@w"]).output("Out", ["x"]),
            Op::new("lookup_table_v2").input("Ids", ["c@ROWS@w"]).output("Out", ["y"]),
            Op::new("lookup_table_v2").input("Ids", ["d@ROWS@w"]).output("Out", ["z"]),
            Op::new("pass_table").input("Index", ["w@KEYS"]).input("Ids", ["a", "b", "c", "d"]),
        ];
        program
    }

    fn names(by_rows: &ByRows) -> Vec<&str> {
        by_rows.feeds.iter().map(|feed| feed.name.as_str()).collect()
    }

    #[test]
    fn feeds_that_lookups_alone_read_become_rows() {
        let by_rows = by_rows(&program(), &[]).unwrap();
        assert_eq!(names(&by_rows), ["a", "b", "c"]);
        assert!(by_rows.feeds.iter().all(|feed| feed.index == "w@KEYS"));
        let global = by_rows.program.global();
        let dtype = |name: &str| global.var(name).unwrap().dtype;
        assert_eq!(["a", "b", "ab", "c"].map(dtype), [DType::I32; 4]);
        assert_eq!(dtype("d"), DType::I64);
        assert_eq!(global.ops[1].inputs_of("Ids"), ["d"]);
        assert_eq!(global.ops[1].outputs_of("Out"), ["d@ROWS@w"]);
        let looked_up: Vec<&String> = global.ops[3..6].iter().flat_map(Op::input_vars).collect();
        assert_eq!(looked_up, ["ab", "c", "d@ROWS@w"]);
        assert!(global.var("c@ROWS@w").is_none());
    }

    #[test]
    fn what_is_fetched_stays_a_feed_of_keys() {
        let fetched = |name: &str| by_rows(&program(), &[name.to_owned()]).unwrap();
        assert_eq!(names(&fetched("c")), ["a", "b"]);
        // What is joined is one or the other together.
        assert_eq!(names(&fetched("b")), ["c"]);
        let mut other = program();
        let op = Op::new("find_rows").input("Ids", ["c", "a"]).input("Index", ["v@KEYS"]);
        other.global_mut().ops.push(op.output("Out", ["c@ROWS@v", "a@ROWS@v"]));
        assert!(by_rows(&other, &[]).is_none(), "keys of two tables have two rows");
    }

    #[test]
    fn without_keys_there_is_nothing_to_do() {
        let mut program = program();
        let op = Op::new("cast").input("X", ["c"]).output("Out", ["shape"]);
        program.global_mut().ops.push(op);
        assert_eq!(names(&by_rows(&program, &[]).unwrap()), ["a", "b"]);
        assert!(by_rows(&Program::new(), &[]).is_none());
    }
}
