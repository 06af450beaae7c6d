//! The fingerprint of a training program: what must be the same in all processes of a job, in lines
//! `what = value` that a message can quote.
//!
//! Only what parameters depend on counts: the updates, the ops that their gradients come from, the
//! learning rates. What one process may compute for itself (metrics, printing), seeds, devices and
//! the names of temporaries do not.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;

use crate::{Attr, Block, Op, Program};

/// Attributes that say how or where, and not what; also those that begin with `op_`.
const IGNORED: [&str; 15] = [
    "rank",
    "peer",
    "startup_seed",
    "seed",
    "fix_seed",
    "rng_name",
    "force_cpu",
    "place_type",
    "use_cudnn",
    "use_mkldnn",
    "mkldnn_data_type",
    "use_quantizer",
    "with_quant_attr",
    "is_target",
    "name",
];

/// The ops by which ranks run different parts of one program.
const BETWEEN_STAGES: [&str; 2] = ["send_v2", "recv_v2"];

/// The only line of a program that rightly differs from rank to rank; equal to any other.
const NOT_COMPARED: &str = "the stage of a pipeline = its own";

/// Differences that a message names; the rest is counted.
const NAMED: usize = 6;

/// Shows its input, and hands it on.
const PRINT: &str = "print";

/// The input of random ops that only says what they begin with.
const SEED: &str = "Seed";

/// The line that tells least: it differs with all others.
const ORDER: &str = "the order and attributes of ops";

impl Program {
    /// The lines of this program, with the learning rates that `startup` gives their values: without
    /// it, they are set later. Empty for a program that updates nothing. That of a stage of a
    /// pipeline equals any other.
    pub fn fingerprint(&self, startup: Option<&Program>) -> Vec<String> {
        let ops = &self.global().ops;
        let updates: Vec<&Op> = ops.iter().filter(|op| is_update(op)).collect();
        let mut all = self.blocks.iter().flat_map(|block| &block.ops);
        if all.any(|op| BETWEEN_STAGES.contains(&op.kind.as_str())) {
            // A stage may have no parameters, and yet take part in the training of others.
            let trains = !updates.is_empty() || ops.iter().any(|op| op.kind.ends_with("_grad"));
            return trains.then(|| NOT_COMPARED.to_owned()).into_iter().collect();
        }
        let Some(_) = updates.first() else { return Vec::new() };
        let mut lines: Vec<String> = Vec::new();
        for op in &updates {
            lines.extend(op.inputs_of("Param").iter().map(|param| self.line(op, param, startup)));
        }
        let mut writer = Writer {
            program: self,
            numbers: HashMap::new(),
            printed: HashMap::new(),
            text: String::new(),
        };
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for op in self.needed(&updates) {
            if op.kind != PRINT {
                *kinds.entry(&op.kind).or_default() += 1;
            }
            writer.op(self.global(), op);
        }
        let plural = |count| if count == 1 { "op" } else { "ops" };
        let count = |(kind, count): (&str, usize)| {
            format!("the number of `{kind}` ops = {count} {}", plural(count))
        };
        lines.extend(kinds.into_iter().map(count));
        lines.push(format!("{ORDER} = {:016x}", hash(&writer.text)));
        lines
    }

    /// What a parameter is, and how it is updated.
    fn line(&self, op: &Op, param: &str, startup: Option<&Program>) -> String {
        let var = self.global().var(param);
        let shape = var.map_or(String::new(), |var| format!("{:?} {}", var.shape, var.dtype));
        let rate = op.inputs_of("LearningRate").first();
        let first = rate.and_then(|rate| first_value(startup?, rate));
        let rate = first.map_or(String::new(), |value| format!(", learning rate {value}"));
        format!("`{param}` = {shape}, {}{rate}", op.kind)
    }

    /// The ops of the global block that `updates` depend on, and they, in order.
    fn needed<'a>(&'a self, updates: &[&'a Op]) -> Vec<&'a Op> {
        let mut wanted: HashSet<&str> = HashSet::new();
        let mut kept = Vec::new();
        for op in self.global().ops.iter().rev() {
            let is_update = updates.iter().any(|update| std::ptr::eq(*update, op));
            if is_update || op.output_vars().any(|var| wanted.contains(var.as_str())) {
                let inputs = op.inputs.iter().filter(|(slot, _)| *slot != SEED);
                wanted.extend(inputs.flat_map(|(_, vars)| vars).map(String::as_str));
                kept.push(op);
            }
        }
        kept.reverse();
        kept
    }
}

fn is_update(op: &Op) -> bool {
    let has = |vars: &[String]| !vars.is_empty();
    has(op.inputs_of("Param")) && has(op.inputs_of("Grad")) && has(op.outputs_of("ParamOut"))
}

/// The constant that a startup program fills `var` with.
fn first_value(startup: &Program, var: &str) -> Option<String> {
    let fills = |op: &&Op| op.kind == "fill_constant" && op.output_vars().any(|out| out == var);
    let op = startup.global().ops.iter().rfind(fills)?;
    match op.attrs.get("value")? {
        Attr::Float(value) => Some(value.to_string()),
        Attr::Float64(value) => Some((*value as f32).to_string()),
        _ => None,
    }
}

/// Writes ops with temporaries numbered as they appear.
struct Writer<'a> {
    program: &'a Program,
    numbers: HashMap<&'a str, usize>,
    /// What was printed, by the name under which it is handed on.
    printed: HashMap<&'a str, &'a str>,
    text: String,
}

impl<'a> Writer<'a> {
    fn op(&mut self, block: &'a Block, op: &'a Op) {
        if op.kind == PRINT {
            for (from, to) in op.input_vars().zip(op.output_vars()) {
                let from = self.printed.get(from.as_str()).copied().unwrap_or(from);
                self.printed.insert(to, from);
            }
            return;
        }
        self.text.push_str(&op.kind);
        for (slots, is_read) in [(&op.inputs, true), (&op.outputs, false)] {
            for (slot, vars) in slots.iter().filter(|(_, vars)| !vars.is_empty()) {
                if slot == SEED && is_read {
                    continue;
                }
                self.word(slot);
                vars.iter().for_each(|var| self.var(block, var, is_read));
            }
            self.text.push('>');
        }
        for (name, attr) in &op.attrs {
            if name.starts_with("op_") || IGNORED.contains(&name.as_str()) {
                continue;
            }
            match attr {
                Attr::Block(at) => self.block(*at),
                Attr::Blocks(blocks) => blocks.iter().for_each(|at| self.block(*at)),
                attr => {
                    self.word(name);
                    // Writing to a string cannot fail.
                    let _ = write!(self.text, "{attr:?}");
                }
            }
        }
        self.text.push('\n');
    }

    fn block(&mut self, at: i32) {
        let program = self.program;
        let block = usize::try_from(at).ok().filter(|at| *at > 0);
        if let Some(block) = block.and_then(|at| program.blocks.get(at)) {
            self.text.push('{');
            block.ops.iter().for_each(|op| self.op(block, op));
            self.text.push('}');
        }
    }

    /// Parameters, and feeds, which are read before anything writes them, have names that all
    /// processes share; whatever else is a number.
    fn var(&mut self, block: &Block, name: &'a str, is_read: bool) {
        let name = self.printed.get(name).copied().unwrap_or(name);
        let declared = self.program.find_var(block.idx, name);
        let is_new = !self.numbers.contains_key(name);
        let is_feed = is_read && is_new && declared.is_some_and(|var| !var.persistable);
        if is_feed || declared.is_some_and(|var| var.is_parameter()) {
            return self.word(name);
        }
        let next = self.numbers.len();
        let number = *self.numbers.entry(name).or_insert(next);
        self.word(&number.to_string());
    }

    fn word(&mut self, word: &str) {
        self.text.push(' ');
        self.text.push_str(word);
    }
}

/// FNV-1a: the same in every process, whatever its architecture.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// How the fingerprint of `them` differs from that of `us`, each with a name, in words; `None` where
/// it does not.
pub fn difference(us: (&str, &[String]), them: (&str, &[&str])) -> Option<String> {
    if us.1.iter().any(|line| line == NOT_COMPARED) || them.1.contains(&NOT_COMPARED) {
        return None;
    }
    let entries = |lines: &mut dyn Iterator<Item = &'_ str>| -> BTreeMap<String, String> {
        lines.map(split).map(|(what, value)| (what.to_owned(), value.to_owned())).collect()
    };
    let here = entries(&mut us.1.iter().map(String::as_str));
    let there = entries(&mut them.1.iter().copied());
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in us.1.iter().map(String::as_str).chain(them.1.iter().copied()).map(split) {
        if here.get(name) != there.get(name) && !names.contains(&name) {
            names.push(name);
        }
    }
    if names.len() > 1 {
        names.retain(|name| *name != ORDER);
    }
    let (us, them) = (us.0, them.0);
    let word = |name: &&str| match (here.get(*name), there.get(*name)) {
        (Some(here), Some(there)) => format!("{name} is {there} on {them}, {here} on {us}"),
        (Some(here), None) => format!("{name} is {here} on {us}, and nothing on {them}"),
        (_, there) => {
            let there = there.map_or("", String::as_str);
            format!("{name} is {there} on {them}, and nothing on {us}")
        }
    };
    let mut words: Vec<String> = names.iter().take(NAMED).map(word).collect();
    if names.len() > NAMED {
        words.push(format!("differences in all: {}", names.len()));
    }
    (!words.is_empty()).then(|| words.join("; "))
}

fn split(line: &str) -> (&str, &str) {
    line.split_once(" = ").unwrap_or((line, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A layer with SGD, by the names of its temporaries, its activation, width and scale.
    fn program(temporary: &str, activation: &str, width: usize, extra: &str) -> Program {
        let text = format!(
            "{{ // block 0
    var x : LOD_TENSOR.shape(-1, 3).dtype(float32).stop_gradient(True).need_check_feed(True)
    persist trainable param w : LOD_TENSOR.shape(3, {width}).dtype(float32).stop_gradient(False)
    persist var rate : LOD_TENSOR.shape(1,).dtype(float32).stop_gradient(True)
    {{Out=['{temporary}']}} = mul(inputs={{X=['x'], Y=['w']}}, op_role = 0, x_num_col_dims = 1)
    {{Out=['{temporary}.a']}} = {activation}(inputs={{X=['{temporary}']}}, op_role = 0)
    {{Out=['drop']}} = dropout(inputs={{X=['{temporary}.a']}}, seed = {width})
    {extra}
    {{W@GRAD=['w@GRAD']}} = mul_grad(inputs={{X=['x'], G=['drop']}}, op_role = 1)
    {{ParamOut=['w']}} = sgd(inputs={{Param=['w'], Grad=['w@GRAD'], LearningRate=['rate']}})
}}"
        );
        Program::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn startup(rate: f32) -> Program {
        let text = format!(
            "{{ // block 0
    persist var rate : LOD_TENSOR.shape(1,).dtype(float32).stop_gradient(True)
    {{Out=['rate']}} = fill_constant(inputs={{}}, shape = [1L], value = {rate:?}, dtype = 5)
}}"
        );
        Program::parse(&text).unwrap()
    }

    fn told(here: &[String], there: &[String]) -> Option<String> {
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        difference(("server 0", here), ("trainer 1", &there))
    }

    #[test]
    fn metrics_names_and_seeds_do_not_count() {
        let plain = program("tmp", "relu", 2, "").fingerprint(Some(&startup(0.1)));
        let metric = "{Out=['shown']} = auc(inputs={X=['drop']})";
        let other = program("fc_7.tmp_3", "relu", 2, metric).fingerprint(Some(&startup(0.1)));
        assert_eq!(plain, other);
        assert_eq!(told(&plain, &other), None);
        assert_eq!(plain[0], "`w` = [3, 2] float32, sgd, learning rate 0.1");
        assert!(startup(0.1).fingerprint(None).is_empty());
    }

    #[test]
    fn printing_and_seeds_that_are_filled_in_do_not_count() {
        let rewired = |extra: &str, from: &str, to: &str| {
            let text = program("tmp", "relu", 2, extra).to_string().replace(from, to);
            Program::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
        };
        let plain = program("tmp", "relu", 2, "").fingerprint(None);
        let print = "{Out=['shown']} = print(inputs={In=['drop']}, message = 'x')";
        let printed = rewired(print, "G=['drop']", "G=['shown']").fingerprint(None);
        assert_eq!(told(&plain, &printed), None);
        let seeded = |value: f32| {
            let fill = format!(
                "{{Out=['drop']}} = dropout(inputs={{Seed=['s'], X=['tmp.a']}}, seed = {value})"
            );
            let fill =
                format!("{{Out=['s']}} = fill_constant(inputs={{}}, value = {value:?})\n{fill}");
            program("tmp", "relu", 2, &fill).fingerprint(None)
        };
        assert_eq!(told(&seeded(1.0), &seeded(2.0)), None);
    }

    #[test]
    fn what_differs_by_rank_does_not_count() {
        let split = |rank: i32| {
            let split =
                format!("{{Out=['drop']}} = c_split(inputs={{X=['tmp.a']}}, rank = {rank})");
            program("tmp", "relu", 2, &split).fingerprint(None)
        };
        assert_eq!(told(&split(0), &split(1)), None);
        let first = program("tmp", "relu", 2, "{} = send_v2(inputs={X=['drop']}, peer = 1)");
        let second = program("tmp", "tanh", 4, "{Out=['drop']} = recv_v2(inputs={}, peer = 0)");
        let lines = first.fingerprint(None);
        assert_eq!(lines.len(), 1, "every rank has something to compare");
        assert_eq!(told(&lines, &second.fingerprint(None)), None);
        assert_eq!(told(&program("tmp", "relu", 4, "").fingerprint(None), &lines), None);
    }

    #[test]
    fn shapes_rates_and_activations_do() {
        let here = program("tmp", "relu", 2, "").fingerprint(Some(&startup(0.1)));
        let wide = program("tmp", "relu", 4, "").fingerprint(Some(&startup(0.1)));
        assert_eq!(
            told(&here, &wide).unwrap(),
            "`w` is [3, 4] float32, sgd, learning rate 0.1 on trainer 1, [3, 2] float32, sgd, \
             learning rate 0.1 on server 0"
        );
        let fast = program("tmp", "relu", 2, "").fingerprint(Some(&startup(0.2)));
        assert!(told(&here, &fast).unwrap().contains("learning rate 0.2 on trainer 1"));
        let tanh = program("tmp", "tanh", 2, "").fingerprint(Some(&startup(0.1)));
        let text = told(&here, &tanh).unwrap();
        assert!(text.contains("the number of `relu` ops is 1 op on server 0"), "{text}");
        assert!(text.contains("the number of `tanh` ops is 1 op on trainer 1"), "{text}");
        let set = program("tmp", "relu", 2, "").fingerprint(None);
        assert_eq!(set[0], "`w` = [3, 2] float32, sgd");
    }
}
