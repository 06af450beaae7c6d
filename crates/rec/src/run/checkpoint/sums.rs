//! Checksums of a checkpoint, CRC-32C as in the checkpoints of servers: every file is listed with
//! its size and checksum, and the first line of the list's own file is a checksum of the rest.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use bireme_fleet::ps::checkpoint::{MANIFEST, is_checkpoint, read_manifest, verify};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct FileSum {
    /// Its path in the folder of the checkpoint.
    name: String,
    bytes: u64,
    /// Eight hexadecimal digits.
    crc32c: String,
}

/// The beginning of a text that has a checksum.
const FIRST: &str = "{\n  \"crc32c\": \"";

/// `text`, a pretty JSON object, with a checksum of the rest as its first line.
pub(super) fn sealed(text: &str) -> String {
    let rest = format!("{}\n", text.strip_prefix("{\n").unwrap_or(text));
    format!("{FIRST}{:08x}\",\n{rest}", crc32c::crc32c(rest.as_bytes()))
}

/// What is wrong with a text that [`sealed`] has written. Without the line it was changed by hand on
/// purpose, and is taken as it is.
pub(super) fn broken_seal(text: &str) -> Option<&'static str> {
    let (sum, rest) = text.strip_prefix(FIRST)?.split_once("\",\n").unwrap_or_default();
    let fits = sum == format!("{:08x}", crc32c::crc32c(rest.as_bytes()));
    (!fits)
        .then_some("its checksum does not fit (remove the line `crc32c` if you changed the file)")
}

/// The files in a folder of a checkpoint. What servers wrote has a manifest with the checksums of
/// its files, so only the manifest is listed.
///
/// # Errors
/// When one cannot be read.
pub(super) fn of_folder(checkpoint: &Path, name: &str) -> Result<Vec<FileSum>> {
    let folder = checkpoint.join(name);
    let mut sums = Vec::new();
    if is_checkpoint(&folder) {
        sums.push(of_file(checkpoint, &format!("{name}/{MANIFEST}"))?);
        return Ok(sums);
    }
    let failed = |error| Error::file(&folder, error);
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let file = entry.file_name();
        let Some(file) = file.to_str() else {
            return Err(Error::file(entry.path(), "its name is no text"));
        };
        let inside = format!("{name}/{file}");
        match entry.file_type().map_err(failed)?.is_dir() {
            true => sums.extend(of_folder(checkpoint, &inside)?),
            false => sums.push(of_file(checkpoint, &inside)?),
        }
    }
    sums.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sums)
}

fn of_file(checkpoint: &Path, name: &str) -> Result<FileSum> {
    let path = checkpoint.join(name);
    let (bytes, crc) = sum(&path).map_err(|error| Error::file(&path, error))?;
    Ok(FileSum { name: name.to_owned(), bytes, crc32c: format!("{crc:08x}") })
}

/// Size and checksum of a file, which is read in pieces.
fn sum(path: &Path) -> std::io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut bytes, mut crc) = (0, 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, crc)),
            read => {
                bytes += read as u64;
                crc = crc32c::crc32c_append(crc, &buffer[..read]);
            }
        }
    }
}

/// The first damage in the listed files, and in those that a manifest of `servers_folder` lists:
/// which file, and what is wrong with it.
///
/// # Errors
/// When a file that is there cannot be read.
pub(super) fn damage(
    checkpoint: &Path,
    files: &[FileSum],
    servers_folder: &str,
) -> Result<Option<String>> {
    for FileSum { name, bytes, crc32c } in files {
        let path = checkpoint.join(name);
        let (found, crc) = match sum(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Some(format!("`{name}` is missing")));
            }
            Err(error) => return Err(Error::file(&path, error)),
        };
        if found != *bytes {
            return Ok(Some(format!("`{name}` has {found} bytes, not the {bytes} of its save")));
        }
        let crc = format!("{crc:08x}");
        if crc != *crc32c {
            return Ok(Some(format!("`{name}` has the checksum {crc}, not {crc32c}")));
        }
    }
    let folder = checkpoint.join(servers_folder);
    if !is_checkpoint(&folder) {
        return Ok(None);
    }
    Ok(match read_manifest(&folder) {
        Ok(manifest) => verify(&folder, &manifest)
            .into_iter()
            .find_map(|(_, checked)| checked.err().map(|error| error.to_string())),
        Err(error) => Some(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flipped_bit_of_a_sealed_text_changes_what_it_says() {
        let text = sealed("{\n  \"a\": 1,\n  \"b\": \"x\"\n}");
        let meaning = |text: &str| -> Option<serde_json::Value> {
            if broken_seal(text).is_some() {
                return None;
            }
            let value: serde_json::Value = serde_json::from_str(text).ok()?;
            Some(serde_json::json!([value.get("a")?, value.get("b")?]))
        };
        let whole = meaning(&text).unwrap();
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Ok(flipped) = String::from_utf8(bytes) else { continue };
            assert!(meaning(&flipped).is_none_or(|found| found == whole), "bit {bit}: {flipped}");
        }
        assert!((0..text.len() - 1).all(|cut| meaning(&text[..cut]).is_none()));
    }

    #[test]
    fn every_flip_and_cut_of_a_listed_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = folder.path();
        fs::create_dir_all(checkpoint.join("parameters/deep")).unwrap();
        fs::write(checkpoint.join("parameters/w"), [7; 40]).unwrap();
        fs::write(checkpoint.join("parameters/deep/b"), [1; 8]).unwrap();
        let sums = of_folder(checkpoint, "parameters").unwrap();
        let names: Vec<&str> = sums.iter().map(|sum| sum.name.as_str()).collect();
        assert_eq!(names, ["parameters/deep/b", "parameters/w"]);
        let damage = || damage(checkpoint, &sums, "parameters").unwrap();
        assert_eq!(damage(), None);
        let path = checkpoint.join("parameters/w");
        for bit in 0..320 {
            let mut bytes = [7; 40];
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, bytes).unwrap();
            assert!(damage().unwrap().starts_with("`parameters/w` has the checksum"), "bit {bit}");
        }
        fs::write(&path, [7; 39]).unwrap();
        assert_eq!(damage().unwrap(), "`parameters/w` has 39 bytes, not the 40 of its save");
        fs::remove_file(&path).unwrap();
        assert_eq!(damage().unwrap(), "`parameters/w` is missing");
    }
}
