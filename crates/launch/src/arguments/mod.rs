//! The command line of `fleetrun`, first as written, then as [`Options`].
//!
//! Written by hand rather than with a parser library: `--worker_num` and `--worker-num` are one
//! flag, variables of the environment come before flags as in Paddle, and everything after the
//! script belongs to the script, whatever it looks like.

mod flags;
mod help;
mod options;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use bireme_fleet::environment::variables as v;

pub use options::{Endpoint, Level, Options, RunMode, join};

use flags::{FLAGS, Flag, Group};

/// The variables of a process, by name.
pub type Variables = BTreeMap<String, String>;

/// What a command line asks for.
#[derive(Debug)]
pub enum Request {
    /// The text to print.
    Help(String),
    /// The version.
    Version,
    /// A job.
    Launch(Box<Options>),
}

/// Which of Paddle's launchers the command line was written for: they differ in defaults only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavor {
    /// `fleetrun` and `paddle.distributed.launch`.
    #[default]
    Fleetrun,
    /// `paddle.distributed.launch_ps` of Paddle 1.x: two servers and two workers, logs in `logs`.
    LaunchPs,
}

/// A command line that makes no sense; exit code 2.
#[derive(Debug, PartialEq, Eq)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An `Err` with a [`Usage`].
macro_rules! usage {
    ($($text:tt)*) => {
        Err($crate::arguments::Usage(format!($($text)*)))
    };
}
pub(crate) use usage;

/// Flags as written: values by the flag's first name.
#[derive(Debug, Default)]
pub(crate) struct Given {
    values: BTreeMap<&'static str, Value>,
    /// Variables that took the place of a flag with another value: lines to print.
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug)]
struct Value {
    text: String,
    /// How it was written, for messages: `--worker-num` or `PADDLE_TRAINER_NUM`.
    source: String,
}

impl Given {
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.text.as_str())
    }

    /// How a flag with its value was written: `--worker_num=2`.
    pub(crate) fn written(&self, name: &str) -> String {
        match self.values.get(name) {
            Some(Value { text, source }) => format!("{source}={text}"),
            None => format!("--{name}"),
        }
    }

    /// Names and values, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(name, value)| (*name, value.text.as_str()))
    }
}

/// What is to run: the script or program, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// As written.
    pub name: OsString,
    /// Everything after it.
    pub arguments: Vec<OsString>,
}

/// Reads a command line without its first word, `program` as the user calls it.
///
/// # Errors
/// When it makes no sense.
pub fn parse(
    arguments: &[OsString],
    variables: &Variables,
    flavor: Flavor,
    program: &str,
) -> Result<Request, Usage> {
    let mut given = Given::default();
    let mut rest = arguments.iter();
    let (name, mut arguments) = loop {
        let Some(word) = rest.next() else {
            return usage!("no script was given: {program} [FLAGS] SCRIPT.py [ARGUMENTS]");
        };
        let Some(text) = word.to_str().filter(|text| text.len() > 1 && text.starts_with('-'))
        else {
            break (word.clone(), Vec::new());
        };
        match text {
            "-h" | "--help" => return Ok(Request::Help(help::text(program))),
            "-V" | "--version" => return Ok(Request::Version),
            "-m" => break module(rest.next().map(OsString::as_os_str))?,
            "--" => match rest.next() {
                Some(script) => break (script.clone(), Vec::new()),
                None => continue,
            },
            _ => take(text, &mut rest, &mut given)?,
        }
    };
    override_by(variables, &mut given);
    refuse(&given)?;
    arguments.extend(rest.cloned());
    let program = Program { name, arguments };
    Ok(Request::Launch(Box::new(Options::new(given, program, variables, flavor)?)))
}

/// `-m config.yaml`: every process runs `bireme train -m config.yaml`, as what its variables say.
fn module(value: Option<&OsStr>) -> Result<(OsString, Vec<OsString>), Usage> {
    let name = value.map(OsStr::to_string_lossy).unwrap_or_default();
    match (name.rsplit_once('.'), value) {
        (Some((_, "yaml" | "yml")), Some(file)) => {
            Ok(("bireme".into(), vec!["train".into(), "-m".into(), file.to_owned()]))
        }
        _ => usage!(
            "`-m` is for a YAML file of a training (`-m config.yaml`); to run a Python module \
             write `fleetrun … python -m bireme -m {name}`",
            name = if name.is_empty() { "MODULE" } else { &name }
        ),
    }
}

/// Reads one flag, and its value if it is the next word.
fn take<'a>(
    text: &str,
    rest: &mut impl Iterator<Item = &'a OsString>,
    given: &mut Given,
) -> Result<(), Usage> {
    let (written, value) = match text.split_once('=') {
        Some((written, value)) => (written, Some(value.to_owned())),
        None => (text, None),
    };
    let name = written.trim_start_matches('-').replace('-', "_");
    let known = written.starts_with("--").then(|| flags::find(&name)).flatten();
    let Some(flag) = known else { return unknown(written, &name) };
    let value = match (flag.value, value) {
        ("", None) => "true".to_owned(),
        ("", Some(value)) => return usage!("`{written}` takes no value, but has `{value}`"),
        (_, Some(value)) => value,
        (_, None) => match rest.next().map(|word| word.to_str()) {
            Some(Some(value)) => value.to_owned(),
            Some(None) => return usage!("the value of `{written}` is not text"),
            None => return usage!("`{written}` needs a value: `{}`", help::spelling(flag)),
        },
    };
    if let Some(before) = given.values.get(flag.name)
        && before.text != value
    {
        return usage!(
            "`{}={}` and `{written}={value}` contradict each other: leave one out",
            before.source,
            before.text
        );
    }
    given.values.insert(flag.name, Value { text: value, source: written.to_owned() });
    Ok(())
}

fn unknown(written: &str, name: &str) -> Result<(), Usage> {
    match flags::nearest(name) {
        Some(near) => usage!("unknown flag `{written}`: did you mean `--{near}`?"),
        None => usage!(
            "unknown flag `{written}`: flags of the script come after the script; `--help` lists \
             those of the launcher"
        ),
    }
}

/// A variable comes before the flag that it stands for, as in Paddle; that it does is said.
fn override_by(variables: &Variables, given: &mut Given) {
    for flag in FLAGS {
        let Some(variable) = flag.variable else { continue };
        let Some(value) = variables.get(variable.name).map(|text| text.trim()) else { continue };
        // The launcher sets this one for its processes; a flag is the better source.
        if value.is_empty() || (variable.name == v::WITH_GLOO.name && written(given, flag)) {
            continue;
        }
        if let Some(before) = given.values.get(flag.name)
            && before.text != value
        {
            given.warnings.push(format!(
                "the variable {}={value} comes before {}={}; unset it if that is not meant",
                variable.name, before.source, before.text
            ));
        }
        let value = Value { text: value.to_owned(), source: variable.name.to_owned() };
        given.values.insert(flag.name, value);
    }
}

fn written(given: &Given, flag: &Flag) -> bool {
    given.values.contains_key(flag.name)
}

/// Flags that ask for what this version does not have.
fn refuse(given: &Given) -> Result<(), Usage> {
    for flag in FLAGS.iter().filter(|flag| flag.group == Group::Refused) {
        if let Some(value) = given.values.get(flag.name) {
            return usage!("`{}` is not available: {}", value.source, flag.help);
        }
    }
    Ok(())
}

/// The flags as a table of Markdown, for the reference.
#[cfg(test)]
pub(crate) fn reference() -> String {
    let mut text = String::new();
    for group in Group::ALL {
        text += &format!("\n### {}\n\n", group.title());
        let refused = group == Group::Refused;
        text += match refused {
            true => "| flag | what to do |\n|---|---|\n",
            false => "| flag | variable | meaning |\n|---|---|---|\n",
        };
        for flag in FLAGS.iter().filter(|flag| flag.group == group) {
            let mut names: Vec<_> = vec![format!("`{}`", help::spelling(flag).replace('|', "\\|"))];
            names.extend(flag.others.iter().map(|other| format!("`--{other}`")));
            let variable = flag.variable.map(|v| format!("`{}`", v.name)).unwrap_or_default();
            let middle = if refused { String::new() } else { format!("{variable} | ") };
            text += &format!("| {} | {middle}{} |\n", names.join(", "), flag.help);
        }
    }
    text
}

#[cfg(test)]
mod tests;
