//! `fleetrun` from its first word to its exit code: arguments, plan, tables, processes.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::addresses::Machine;
use crate::arguments::{self, Flavor, Level, Options, Request, Usage, Variables};
use crate::job::Mode;
use crate::log::Log;
use crate::meeting;
use crate::plan::{self, Draft, Facts, Note, Plan};
use crate::ports::Reservations;
use crate::processes;
use crate::program;
use crate::show;

/// Who runs the launcher: an executable, or the Python package.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// How the user calls it: `fleetrun`.
    pub program: String,
    /// What runs a Python script, given after it; empty where it has to be found.
    pub python: Vec<OsString>,
    /// What runs the `bireme` command; empty where it lies beside this executable.
    pub bireme: Vec<OsString>,
    /// Whose defaults hold.
    pub flavor: Flavor,
    /// Whether worker 0 shows the progress of a command that the user takes for one: its lines go to
    /// stderr, without its name.
    pub one_display: bool,
}

impl Host {
    /// The command `bireme`, also where it is not on the path.
    pub(crate) fn bireme(&self) -> Result<Vec<OsString>> {
        if !self.bireme.is_empty() {
            return Ok(self.bireme.clone());
        }
        let own = env::current_exe().context("cannot find the executable of this launcher")?;
        let beside = own.with_file_name("bireme");
        let found = if beside.is_file() { beside.into_os_string() } else { "bireme".into() };
        Ok(vec![found])
    }
}

/// Runs the command line `args` (without its first word); returns the exit code.
pub fn run(args: &[OsString], host: &Host) -> u8 {
    match launch(args, host) {
        Ok(code) => code,
        Err(error) => {
            let wrong = error.downcast_ref::<Usage>().is_some();
            let mut text = format!("error: {}\n", in_words(&error));
            if wrong {
                text += &format!("\nFor the flags, try `{} --help`.\n", host.program);
            }
            // Nowhere to report a failure to.
            io::stderr().write_all(text.as_bytes()).ok();
            if wrong { 2 } else { 1 }
        }
    }
}

/// An error and its causes, as `{error:#}` has them, without causes that the text before names
/// already.
pub fn in_words(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn launch(args: &[OsString], host: &Host) -> Result<u8> {
    let variables: Variables =
        env::vars_os().map(|(name, value)| (lossy(&name), lossy(&value))).collect();
    let options = match arguments::parse(args, &variables, host.flavor, &host.program)? {
        Request::Help(text) => {
            print(&text);
            return Ok(0);
        }
        Request::Version => {
            print(&format!("{} {}\n", host.program, env!("CARGO_PKG_VERSION")));
            return Ok(0);
        }
        Request::Launch(options) => *options,
    };
    let log = Log::new(options.log_level);
    let command = program::command(&options.program, host, &variables)?;
    let facts = facts(&options, variables)?;
    if options.print_config && options.log_level <= Level::Info {
        print(&show::configuration(&options));
    }
    for warning in &options.given.warnings {
        log.say(Level::Warning, warning);
    }
    let mut ports = Reservations::new();
    let address = meeting::address(&options, &facts)?;
    let planned = plan::plan(&options, &facts, address.as_deref(), command.clone(), &mut ports)?;
    let (draft, peers) = match planned {
        Plan::Whole(draft) if draft.job.nodes.len() == 1 => (draft, None),
        Plan::Whole(mut draft) => {
            let membership = meeting::listed(&options, &facts, &draft.job, log)?;
            draft.share_secret(membership.secret());
            (draft, Some(membership))
        }
        Plan::Part { mode, seats } => {
            let address = address.unwrap_or_default();
            let membership = meeting::counted(&options, &facts, mode, &address, seats, log)?;
            let (cards, own) = (membership.roster(), membership.node());
            let mut draft = plan::met(&options, &facts, mode, cards, own, command)?;
            // One that is alone after all has its own.
            if draft.job.nodes.len() > 1 {
                draft.share_secret(membership.secret());
            }
            (draft, Some(membership))
        }
    };
    announce(&draft, log)?;
    let mut screen = processes::screen(&options);
    if host.one_display {
        screen = screen.one_display();
    }
    let code = processes::run(&draft.job, &options, screen, &facts.variables, peers)?;
    drop(ports);
    Ok(code)
}

fn lossy(text: &std::ffi::OsStr) -> String {
    text.to_string_lossy().into_owned()
}

fn print(text: &str) {
    let mut out = io::stdout().lock();
    // That nobody reads it is no reason to stop.
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).ok();
}

/// Everything that a plan has to know of this machine.
fn facts(options: &Options, variables: Variables) -> Result<Facts> {
    Ok(Facts {
        machine: Machine::detect(options.host.as_deref()),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        gpus: match plan::is_emulated(&variables) {
            true => plan::emulated_cards(&variables),
            false => gpus(Path::new("/dev")),
        },
        folder: env::current_dir().context("the current folder is gone")?,
        secret: secret()?,
        variables,
    })
}

/// GPUs of the machine, by their device files.
fn gpus(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let names = entries.flatten().map(|entry| entry.file_name());
    let number = |name: &OsString| {
        let digits = name.to_str().and_then(|name| name.strip_prefix("nvidia"));
        digits.is_some_and(|text| text.parse::<u16>().is_ok())
    };
    names.filter(number).count()
}

/// What the processes of a job prove to each other that they know.
fn secret() -> Result<String> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.context("cannot read random bytes for the job's secret from /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Says how the job was understood and what it looks like here, and writes `endpoints.log`.
fn announce(draft: &Draft, log: Log) -> Result<()> {
    let Draft { job, notes } = draft;
    for note in notes {
        match note {
            Note::Info(text) => log.say(Level::Info, text),
            Note::Warning(text) => log.say(Level::Warning, text),
        }
    }
    for message in show::start(job) {
        log.say(Level::Info, &message);
    }
    if job.mode == Mode::Collective {
        let folder = &job.log_dir;
        show::write_endpoints(job, folder).with_context(|| {
            format!("cannot write logs to `{}`: choose a folder with `--log_dir`", folder.display())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_once() {
        let taken = || io::Error::from(io::ErrorKind::AddrInUse);
        let named = bireme_comm::Error::Io { what: "cannot listen".into(), source: taken() };
        let error = anyhow::Error::new(named).context("cannot start");
        assert_eq!(in_words(&error), format!("cannot start: cannot listen: {}", taken()));
        let error = anyhow::Error::new(taken()).context("cannot listen");
        assert_eq!(in_words(&error), format!("cannot listen: {}", taken()));
    }
}
