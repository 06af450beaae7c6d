//! What the launcher prints before processes run: the tables and lines that users of Paddle know.
//!
//! Texts are made here and printed elsewhere, so that a test reads what a user does.

use std::fs;
use std::io;
use std::path::Path;

use bireme_fleet::environment::variables::{self as v, Variable};

use crate::arguments::Options;
use crate::job::{Job, Mode, Process, Role};

/// Flags that are always shown, whether they were given or not, with what stands for nothing.
const ALWAYS: [(&str, &str); 7] = [
    ("gpus", "None"),
    ("ips", "127.0.0.1"),
    ("log_dir", "log"),
    ("server_num", "None"),
    ("servers", ""),
    ("worker_num", "None"),
    ("workers", ""),
];

/// Variables that are no part of the table: a secret, and what Paddle does not show either.
const HIDDEN: [Variable; 16] = [
    v::JOB_SECRET,
    v::DEVICE,
    v::OMP_NUM_THREADS,
    v::ROLE,
    v::NNODES,
    v::LOG_DIR,
    v::POD_NAME,
    v::JOB_ID,
    v::MASTER,
    v::GLOBAL_SIZE,
    v::GLOBAL_RANK,
    v::LOCAL_SIZE,
    v::LOCAL_RANK,
    v::BACKEND,
    v::GLOO_FS_NAME,
    v::GLOO_FS_UGI,
];

/// The same, in a collective job.
const HIDDEN_COLLECTIVE: [Variable; 4] =
    [v::WITH_GLOO, v::GLOO_RENDEZVOUS, v::GLOO_FS_PATH, v::TRAINING_ROLE];

/// The arguments, sorted by name.
pub fn configuration(options: &Options) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for (name, nothing) in ALWAYS {
        if !options.has(name) {
            lines.push((name, nothing.to_owned()));
        }
    }
    lines.extend(options.given.iter().map(|(name, text)| (name, text.to_owned())));
    let program = &options.program;
    let arguments: Vec<_> =
        program.arguments.iter().map(|text| text.to_string_lossy().into_owned()).collect();
    lines.push(("training_script", program.name.to_string_lossy().into_owned()));
    lines.push(("training_script_args", python_list(&arguments)));
    lines.sort();
    let mut text = "-----------  Configuration Arguments -----------\n".to_owned();
    for (name, value) in lines {
        text += format!("{name}: {value}").trim_end();
        text.push('\n');
    }
    text + "------------------------------------------------\n"
}

/// A list of strings as Python prints it.
pub(crate) fn python_list(texts: &[String]) -> String {
    let quote = |text: &String| match (text.contains('\''), text.contains('"')) {
        (true, false) => format!("\"{text}\""),
        _ => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
    };
    let quoted: Vec<_> = texts.iter().map(quote).collect();
    format!("[{}]", quoted.join(", "))
}

/// Messages about this machine's processes, in order: a table for the first of each role, and
/// where the logs are.
pub fn start(job: &Job) -> Vec<String> {
    let mut messages = Vec::new();
    for role in [Role::Server, Role::Worker, Role::HeterWorker] {
        let count = job.local().filter(|process| process.role == role).count();
        let Some(first) = job.local().find(|process| process.role == role) else { continue };
        let who = match (job.mode, role) {
            (Mode::Collective, _) => "Local",
            (_, Role::Server) => "Local server",
            (_, Role::Worker) => "Local worker",
            (_, Role::HeterWorker) => "Local heter_worker",
        };
        messages.push(format!(
            "{who} start {count} processes. First process distributed environment info (Only For \
             Debug): \n{}",
            table(first, job.mode)
        ));
    }
    let log = job.log_dir.display();
    messages.push(match job.mode {
        Mode::Collective => format!(
            "details about PADDLE_TRAINER_ENDPOINTS can be found in {log}/endpoints.log, and \
             detail running logs maybe found in {log}/workerlog.0"
        ),
        _ => format!(
            "Please check servers, workers and heter_worker logs in {log}/workerlog.*, \
             {log}/serverlog.* and {log}/heterlog.*"
        ),
    });
    messages
}

/// The variables of a process in Paddle's frame.
pub fn table(process: &Process, mode: Mode) -> String {
    const VALUE: usize = 45;
    let hidden = |name: &str| {
        let collective = if mode == Mode::Collective { &HIDDEN_COLLECTIVE[..] } else { &[] };
        if process.role == Role::Server && name == v::STAGE_TRAINERS_NUM.name {
            return true;
        }
        HIDDEN.iter().chain(collective).any(|variable| variable.name == name)
    };
    let shown: Vec<_> = process.variables.iter().filter(|(name, _)| !hidden(name)).collect();
    let width = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(40);
    let border = format!("    +{}+\n", "=".repeat(width + 2 + VALUE));
    let mut text = border.clone();
    text += &format!("    |{:>width$}  {:^VALUE$}|\n", "Distributed Envs", "Value");
    text += &format!("    +{}+\n", "-".repeat(width + 2 + VALUE));
    for (name, value) in shown {
        let length = value.chars().count();
        let value = match length >= VALUE {
            true => format!("... {}", value.chars().skip(length - 41).collect::<String>()),
            false => value.clone(),
        };
        text += &format!("    |{name:>width$}  {}|\n", centred(&value, VALUE));
    }
    text + &border
}

/// As Python centres: what cannot be split evenly goes to the right.
fn centred(text: &str, width: usize) -> String {
    format!("{text:^width$}")
}

/// Writes `endpoints.log` of a collective job.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write_endpoints(job: &Job, folder: &Path) -> io::Result<()> {
    let mut text = "PADDLE_TRAINER_ENDPOINTS: \n".to_owned();
    let workers = job.processes.iter().filter(|process| process.role == Role::Worker);
    let endpoints: Vec<_> = workers.map(|process| process.endpoint.as_str()).collect();
    text += &endpoints.join("\n");
    fs::create_dir_all(folder)?;
    fs::write(folder.join("endpoints.log"), text)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_table_is_paddles() {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let process = Process {
            role: Role::Server,
            rank: 0,
            local_rank: 0,
            node: 0,
            endpoint: "127.0.0.1:51619".into(),
            variables: vec![
                variable("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:51619"),
                variable(
                    "PADDLE_TRAINER_ENDPOINTS",
                    "127.0.0.1:54025,127.0.0.1:39351,127.0.0.1:39352",
                ),
                variable("TRAINING_ROLE", "PSERVER"),
                variable("BIREME_JOB_SECRET", "hush"),
                variable("PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST", ""),
            ],
            removed: Vec::new(),
        };
        // The frame, the widths and the values are those that Paddle 2.6.2 prints.
        expect![[r#"
            a table
                +=========================================================================================+
                |                          Distributed Envs                      Value                    |
                +-----------------------------------------------------------------------------------------+
                |              PADDLE_PSERVERS_IP_PORT_LIST                 127.0.0.1:51619               |
                |                  PADDLE_TRAINER_ENDPOINTS  ... 0.1:54025,127.0.0.1:39351,127.0.0.1:39352|
                |                             TRAINING_ROLE                     PSERVER                   |
                |PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST                                               |
                +=========================================================================================+
        "#]]
        .assert_eq(&format!("a table\n{}", table(&process, Mode::Servers)));
    }

    #[test]
    fn arguments_are_shown_as_python_shows_them() {
        let list = python_list(&["-m".into(), "it's".into(), "a\"'b".into()]);
        assert_eq!(list, r#"['-m', "it's", 'a"\'b']"#);
    }
}
