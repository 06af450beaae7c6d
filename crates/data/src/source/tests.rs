//! Files as people have them: in folders, compressed, through commands, and broken.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::{Result, Samples, Slot, Values};

fn slots() -> Vec<Slot> {
    vec![Slot::id("a"), Slot::ids("b")]
}

/// `count` lines of `slot:value` text, and what becomes of them.
fn lines(count: u64) -> (String, Samples) {
    let text: String =
        (0..count).map(|i| format!("a:{i} b:{} b:{}\n", i * 7, u64::MAX - i)).collect();
    let mut samples = Samples::of(&slots());
    for i in 0..count {
        let [a, b] = samples.columns_mut() else { panic!("two columns") };
        let (Values::Ids(a), Values::Ids(b)) = (a.values_mut(), b.values_mut()) else {
            panic!("ids")
        };
        a.push(i);
        b.extend([i * 7, u64::MAX - i]);
        samples.end_row();
    }
    (text, samples)
}

fn source(path: &Path) -> Source {
    Source::new(vec![path.to_owned()], Format::slot_value())
}

fn read(source: &Source) -> Result<Samples> {
    let mut samples = Samples::of(&slots());
    let mut reader = Reader::open(source, 0, &slots())?;
    while reader.read(&mut samples, usize::MAX)? {}
    Ok(samples)
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn plain_and_compressed_files_hold_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (text, expected) = lines(30_000);
    let half = text[..text.len() / 2].rfind('\n').unwrap() - 3;
    let members = [gzip(&text[..half]), gzip(&text[half..])].concat();
    let frames =
        [&text[..half], &text[half..]].map(|part| zstd::encode_all(part.as_bytes(), 1).unwrap());
    for (name, bytes) in [
        ("plain", text.as_bytes().to_vec()),
        ("no_end", text.trim_end().as_bytes().to_vec()),
        ("one.gz", gzip(&text)),
        ("members.gz", members),
        ("frames.zst", frames.concat()),
        ("no_ending", gzip(&text)),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        assert_eq!(read(&source(&path)).unwrap(), expected, "{name}");
    }
}

#[test]
fn a_reader_stops_soon_after_the_rows_that_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (text, expected) = lines(60_000);
    let path = folder.path().join("file");
    fs::write(&path, text).unwrap();
    let mut reader = Reader::open(&source(&path), 0, &slots()).unwrap();
    let mut samples = Samples::of(&slots());
    assert!(reader.read(&mut samples, 10).unwrap());
    assert!((10..20_000).contains(&samples.len()));
    assert_eq!(reader.line(), samples.len() as u64 + 1);
    while reader.read(&mut samples, usize::MAX).unwrap() {}
    assert_eq!(samples, expected);
    assert!(!reader.read(&mut samples, usize::MAX).unwrap());
}

#[test]
fn a_line_may_be_longer_than_a_block() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let long: String = (0..100_000).map(|i| format!(" b:{i}")).collect();
    fs::write(&path, format!("a:1 b:1\na:2{long}\na:3 b:3\n")).unwrap();
    let samples = read(&source(&path)).unwrap();
    assert_eq!(samples.len(), 3);
    assert_eq!(samples.columns()[1].range(1).len(), 100_000);
}

#[test]
fn a_broken_file_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = gzip(&lines(1000).0);
    let path = folder.path().join("part.gz");
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = read(&source(&path)).unwrap_err().to_string();
    assert!(error.starts_with("cannot read `") && error.contains("part.gz"), "{error}");
    let error = read(&source(&folder.path().join("none"))).unwrap_err().to_string();
    assert!(error.contains("none") && error.contains("No such file"), "{error}");
}

#[test]
fn all_files_share_the_tolerance_of_bad_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "a:1\na:x\na:2\n").unwrap();
    let mut source = source(&path);
    assert!(read(&source).unwrap_err().to_string().contains("file:2: slot `a`"));
    source.bad_lines = Arc::new(BadLines::tolerate(1));
    assert_eq!(read(&source).unwrap().len(), 2);
    assert_eq!(source.bad_lines.count(), 1);
    assert!(read(&source.clone()).unwrap_err().to_string().contains("that may be skipped"));
}

#[test]
fn files_go_through_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let (text, expected) = lines(5000);
    for (name, bytes) in [("plain", text.replace("b:", "c:").into_bytes()), ("x.gz", gzip(&text))] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let mut source = source(&path);
        source.pipe_command = Some("tr x y | sed 's/c:/b:/g'".into());
        assert_eq!(read(&source).unwrap(), expected, "{name}");
        source.pipe_command = Some("head -n 3".into());
        assert_eq!(read(&source).unwrap().len(), 3);
    }
}

#[test]
fn a_command_that_fails_is_an_error_with_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "a:1\n").unwrap();
    let mut source = source(&path);
    source.pipe_command = Some("cat; echo 'no module named x' >&2; exit 3".into());
    let error = read(&source).unwrap_err().to_string();
    assert!(error.contains("failed with exit code 3"), "{error}");
    assert!(error.ends_with("and said last:\n  no module named x"), "{error}");
    source.pipe_command = Some("kill -9 $$".into());
    let error = read(&source).unwrap_err().to_string();
    assert!(error.contains("was ended (signal: 9"), "{error}");
}

/// The command and its children hold the writing end of a pipe: it closes when all are gone.
#[test]
fn a_reader_that_is_dropped_ends_the_command_and_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let (path, fifo) = (folder.path().join("file"), folder.path().join("fifo"));
    fs::write(&path, "a:1\n").unwrap();
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let mut source = source(&path);
    source.pipe_command = Some(format!("exec 9>'{}'; (yes a:1; true) | cat", fifo.display()));
    let mut reader = Reader::open(&source, 0, &slots()).unwrap();
    let mut alive = fs::File::open(&fifo).unwrap();
    let mut samples = Samples::of(&slots());
    assert!(reader.read(&mut samples, 1).unwrap());
    let started = Instant::now();
    drop(reader);
    assert_eq!(alive.read(&mut [0]).unwrap(), 0);
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn folders_and_patterns_stand_for_their_files_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("day/sub")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for name in ["day/part-2", "day/part-1", "day/sub/part-0", "day/.hidden", "a[1]"] {
        fs::write(root.join(name), "").unwrap();
    }
    let expand = |patterns: &[&str]| {
        let paths: Vec<_> = patterns.iter().map(|pattern| root.join(pattern)).collect();
        let strip = |path: PathBuf| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        super::expand(&paths).map(|files| files.into_iter().map(strip).collect::<Vec<_>>())
    };
    assert_eq!(expand(&["day"]).unwrap(), ["day/part-1", "day/part-2", "day/sub/part-0"]);
    assert_eq!(expand(&["day/p*", "a[1]"]).unwrap(), ["day/part-1", "day/part-2", "a[1]"]);
    assert_eq!(expand(&["**/part-[02]"]).unwrap(), ["day/part-2", "day/sub/part-0"]);
    for (pattern, words) in [
        ("none", "there is no such file or folder"),
        ("day/x*", "no file matches the pattern"),
        ("empty", "it holds no files"),
        ("day/[", "the pattern is wrong"),
    ] {
        let error = expand(&[pattern]).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(pattern), "{error}");
    }
}

#[test]
fn what_is_written_appears_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (text, expected) = lines(3000);
    for name in ["plain", "a.gz", "a.zst"] {
        let path = folder.path().join("new").join(name);
        let mut output = Output::create(&path).unwrap();
        output.write(text.as_bytes()).unwrap();
        assert!(!path.exists());
        output.finish().unwrap();
        assert_eq!(read(&source(&path)).unwrap(), expected, "{name}");
        drop(Output::create(&path).unwrap());
        assert_eq!(read(&source(&path)).unwrap(), expected, "an unfinished one changes nothing");
    }
    assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 3, "nothing is left over");
    let (start, lines) = (preview(&folder.path().join("new/a.gz"), None).unwrap(), text.as_bytes());
    assert_eq!(start, lines);
    let piped = preview(&folder.path().join("new/plain"), Some("yes a:1")).unwrap();
    assert!(piped.len() > 1000 && piped.ends_with(b"a:1\n"));
}

#[test]
fn processes_that_share_a_file_read_every_line_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part-0");
    let lines: String = (0..70_001).map(|id| format!("id:{id}\n")).collect();
    std::fs::write(&path, lines.trim_end()).unwrap();
    let slots = [Slot::id("id")];
    let mut ids = Vec::new();
    for rank in 0..3 {
        let share = Some(LineShare { rank, of: 3 });
        let source = Source { share, ..Source::new(vec![path.clone()], Format::slot_value()) };
        let mut samples = Samples::of(&slots);
        let mut reader = Reader::open(&source, 0, &slots).unwrap();
        assert!(!reader.read(&mut samples, usize::MAX).unwrap());
        assert_eq!(reader.line(), 70_002);
        assert!(samples.len().abs_diff(70_001 / 3) <= 16, "{}", samples.len());
        let Values::Ids(own) = samples.columns()[0].values() else { panic!("ids") };
        ids.extend_from_slice(own);
    }
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..70_001));
}
