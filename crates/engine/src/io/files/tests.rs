//! What is on disk after a save that worked, and after one that did not.

use std::io;

use super::*;

/// Every path under `folder`, sorted.
fn listing(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            names.extend(listing(&entry.path()).iter().map(|inner| format!("{name}/{inner}")));
        }
        names.push(name);
    }
    names.sort();
    names
}

fn text(text: &str) -> impl FnOnce(&mut dyn Write) -> io::Result<()> {
    move |out| out.write_all(text.as_bytes())
}

fn fails(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"half")?;
    Err(io::Error::other("the disk is full"))
}

#[test]
fn a_new_folder_appears_with_all_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("a/b");
    let mut set = FileSet::begin(&folder).unwrap();
    set.write("x", text("1")).unwrap();
    set.write("sub/y", text("2")).unwrap();
    assert!(!folder.exists());
    set.commit().unwrap();
    assert_eq!(listing(dir.path()), ["a", "a/b", "a/b/sub", "a/b/sub/y", "a/b/x"]);
    assert_eq!(fs::read_to_string(folder.join("sub/y")).unwrap(), "2");
}

#[test]
fn files_are_replaced_only_by_complete_sets() {
    let dir = tempfile::tempdir().unwrap();
    write_file(dir.path().join("x"), text("old")).unwrap();
    let mut set = FileSet::begin(dir.path()).unwrap();
    set.write("x", text("new")).unwrap();
    let error = set.write("sub/y", fails).unwrap_err().to_string();
    assert!(error.contains("sub/y") && error.contains("the disk is full"), "{error}");
    drop(set);
    assert_eq!(listing(dir.path()), ["x"]);
    assert_eq!(fs::read_to_string(dir.path().join("x")).unwrap(), "old");
    write_file(dir.path().join("x"), text("new")).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("x")).unwrap(), "new");
    assert_eq!(listing(dir.path()), ["x"]);
}

#[test]
fn a_failed_save_leaves_no_folders() {
    let dir = tempfile::tempdir().unwrap();
    let mut set = FileSet::begin(dir.path().join("a/b/c")).unwrap();
    set.write("x", text("1")).unwrap();
    set.write("sub/y", fails).unwrap_err();
    drop(set);
    assert!(listing(dir.path()).is_empty());
}

#[test]
fn a_folder_made_meanwhile_gets_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("a");
    let mut set = FileSet::begin(&folder).unwrap();
    set.write("x", text("1")).unwrap();
    write_file(folder.join("other"), text("2")).unwrap();
    set.commit().unwrap();
    assert_eq!(listing(dir.path()), ["a", "a/other", "a/x"]);
}

#[test]
fn an_unwritable_folder_is_an_error_at_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for folder in ["file", "file/child", "file/child/deeper"] {
        let path = dir.path().join(folder);
        let error = FileSet::begin(&path).err().expect(folder).to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert!(error.contains("choose a folder that can be written"), "{error}");
    }
    assert_eq!(listing(dir.path()), ["file"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_of_the_system_is_an_error_at_once() {
    // Not even the superuser makes files here.
    for folder in ["/proc", "/proc/models/new"] {
        let error = FileSet::begin(folder).err().expect(folder).to_string();
        assert!(error.starts_with(&format!("`{folder}`: cannot save there")), "{error}");
    }
}

#[test]
fn names_stay_inside_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let mut set = FileSet::begin(dir.path().join("a")).unwrap();
    for name in ["../x", "/x", "", "..", "sub/../../x"] {
        let error = set.write(name, text("1")).unwrap_err().to_string();
        assert!(error.contains("is not a name for a file"), "{error}");
    }
    assert!(write_file(dir.path().join(".."), text("1")).is_err());
}

#[test]
fn old_files_come_back_when_one_cannot_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (name, contents) in [("a", "old a"), ("c", "old c"), ("new a", "1"), ("new b", "2")] {
        fs::write(at(name), contents).unwrap();
    }
    // The third source is missing, so the third rename fails.
    let moves = [("new a", "a"), ("new b", "b"), ("gone", "c")].map(|(x, y)| (at(x), at(y)));
    let error = replace::files(&moves).unwrap_err();
    assert!(error.to_string().starts_with("`c`: "), "{error}");
    assert_eq!(listing(dir.path()), ["a", "c"]);
    assert_eq!(fs::read_to_string(at("a")).unwrap(), "old a");
    assert_eq!(fs::read_to_string(at("c")).unwrap(), "old c");
}

#[test]
fn a_folder_in_the_place_of_a_file_is_found_before_anything_changes() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "old").unwrap();
    fs::create_dir(dir.path().join("b")).unwrap();
    let mut set = FileSet::begin(dir.path()).unwrap();
    set.write("a", text("new")).unwrap();
    set.write("b", text("new")).unwrap();
    let error = set.commit().unwrap_err().to_string();
    assert!(error.contains("`b`: is a directory"), "{error}");
    assert_eq!(listing(dir.path()), ["a", "b"]);
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "old");
}

#[test]
fn every_folder_with_a_new_entry_is_flushed() {
    let set = |aside: Option<&str>, made: &[&str]| FileSet {
        folder: PathBuf::from("model"),
        aside: aside.map(PathBuf::from),
        files: vec![("t".into(), "x".into()), ("u".into(), "sub/y".into())],
        made: made.iter().map(PathBuf::from).collect(),
        committed: true,
    };
    let folders = |names: &[&str]| names.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
    assert_eq!(set(None, &[]).changed_folders(), folders(&["model", "model/sub"]));
    let new = set(Some(".model"), &[".model"]).changed_folders();
    assert_eq!(new, folders(&[".", "model", "model/sub"]));
}
