//! `fleetrun --help`, written from the table of flags.

use super::flags::{FLAGS, Flag, Group};

const USAGE: &str = "\
Starts the processes of a training job on this machine, watches them, and ends all of them when
the first one fails.

Usage: {program} [FLAGS] SCRIPT.py [ARGUMENTS]
       {program} [FLAGS] PROGRAM [ARGUMENTS]
       {program} [FLAGS] -m CONFIG.yaml [ARGUMENTS]

A script runs as `python -u SCRIPT.py`, with `import paddle` meaning Bireme; a program (`bireme`,
a shell script, any executable) takes its role from the environment. Everything after the script or
program belongs to it. Flags are written `--worker_num=2`, `--worker-num=2` or `--worker_num 2`.

Examples:
  {program} --nproc_per_node=2 train.py              two processes that train together
  {program} --gpus=0,1,2,3 train.py                  one process for each GPU
  {program} --server_num=1 --worker_num=4 train.py   a parameter server and four trainers
  {program} --server_num=1 --worker_num=2 -m config.yaml
  {program} --ips=10.0.0.1,10.0.0.2 train.py         on both machines: a job of two machines
  {program} --servers=10.0.0.1:6170 --workers=10.0.0.1,10.0.0.2 train.py
  {program} --master=10.0.0.1:6789 --nnodes=2 --nproc_per_node=4 train.py
";

const END: &str = "
  -m CONFIG.yaml   every process runs `bireme train -m CONFIG.yaml`, as what its variables say
  -h, --help       this text
  -V, --version    the version

Exit code: 0 all done, 2 wrong usage, 130 interrupted, else that of the first process that failed
(128 and the number of the signal that killed it).
docs/launcher.md has flags, variables, files and messages in full.
";

/// Flags end and their meaning begins here.
const COLUMN: usize = 34;
/// No line is longer, as far as words allow.
const WIDTH: usize = 100;

/// The whole text.
pub(crate) fn text(program: &str) -> String {
    let mut text = USAGE.replace("{program}", program);
    for group in Group::ALL {
        text += &format!("\n{}:\n", group.title());
        if group == Group::Refused {
            let names: Vec<_> = members(group).map(|flag| format!("--{}", flag.name)).collect();
            text += &wrapped(&names.join(", "), "  ", "  ");
            continue;
        }
        for flag in members(group) {
            let head = format!("  {}", spelling(flag));
            let mut help = flag.help.to_owned();
            if !flag.others.is_empty() {
                let others: Vec<_> = flag.others.iter().map(|name| format!("--{name}")).collect();
                help += &format!("; also {}", others.join(", "));
            }
            let indent = " ".repeat(COLUMN);
            if head.chars().count() + 2 > COLUMN {
                text += &format!("{head}\n{}", wrapped(&help, &indent, &indent));
            } else {
                let padding = COLUMN - head.chars().count();
                text += &wrapped(&help, &format!("{head}{}", " ".repeat(padding)), &indent);
            }
        }
    }
    text + END
}

fn members(group: Group) -> impl Iterator<Item = &'static Flag> {
    FLAGS.iter().filter(move |flag| flag.group == group)
}

/// `--worker_num N`.
pub(crate) fn spelling(flag: &Flag) -> String {
    match flag.value {
        "" => format!("--{}", flag.name),
        value => format!("--{} {value}", flag.name),
    }
}

fn wrapped(text: &str, first: &str, other: &str) -> String {
    let mut lines = first.to_owned();
    let mut column = first.chars().count();
    for word in text.split(' ') {
        let length = word.chars().count();
        if column + length > WIDTH {
            lines = format!("{}\n{other}", lines.trim_end());
            column = other.chars().count();
        }
        lines += word;
        lines.push(' ');
        column += length + 1;
    }
    format!("{}\n", lines.trim_end())
}
