//! How a list of files is divided among trainers.

/// The share of `files` that trainer `index` of `count` has: consecutive ones, one more for the
/// first trainers where they do not come out even, none where there are more trainers than files.
///
/// ```
/// let files = ["a", "b", "c", "d", "e"];
/// assert_eq!(bireme_fleet::split_files(&files, 0, 2), ["a", "b", "c"]);
/// assert_eq!(bireme_fleet::split_files(&files, 1, 2), ["d", "e"]);
/// ```
///
/// # Panics
/// When `index` is not below `count`.
pub fn split_files<T>(files: &[T], index: usize, count: usize) -> &[T] {
    assert!(index < count, "trainer {index} of {count} does not exist");
    let (each, extra) = (files.len() / count, files.len() % count);
    let first = each * index + extra.min(index);
    &files[first..first + each + usize::from(index < extra)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_in_one_share() {
        for (files, trainers) in [(0, 1), (1, 3), (5, 2), (7, 7), (20, 6)] {
            let all: Vec<usize> = (0..files).collect();
            let shares: Vec<&[usize]> =
                (0..trainers).map(|index| split_files(&all, index, trainers)).collect();
            assert_eq!(shares.concat(), all);
            let sizes = shares.iter().map(|share| share.len());
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }
}
