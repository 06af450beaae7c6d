//! "Did you mean": names within a small edit distance of a misspelled one.

/// Names longer than this are nobody's typing mistake; comparing them would only cost time.
const LONGEST: usize = 80;

/// How many names a message offers.
const OFFERED: usize = 3;

/// Up to three `candidates` that are spelled like `name`, the closest first.
///
/// ```
/// let ops = ["relu", "relu6", "sigmoid"];
/// assert_eq!(bireme_ir::nearest("rleu", ops), ["relu"]);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let limit = (name.chars().count() / 3).max(1);
    if name.is_empty() || name.len() > LONGEST {
        return Vec::new();
    }
    let mut found: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(OFFERED).map(|(_, candidate)| candidate.to_owned()).collect()
}

/// The end of a message: "; did you mean `a` or `b`?", or nothing when there is nothing to offer.
pub fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    format!("; did you mean {}?", names.join(" or "))
}

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`, whatever their case.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().flat_map(char::to_lowercase).collect();
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("mul", "mul"), 0);
        assert_eq!(distance("mlu", "mul"), 1);
        assert_eq!(distance("Mul", "mul"), 0);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn offers_the_closest_first_and_nothing_far() {
        let ops = ["elementwise_add", "elementwise_sub", "relu", "elementwise_and"];
        assert_eq!(nearest("elementwise_ad", ops)[0], "elementwise_add");
        assert!(nearest("softmax", ops).is_empty());
        assert!(nearest("", ops).is_empty());
    }

    #[test]
    fn message_ends() {
        assert_eq!(did_you_mean(&[]), "");
        assert_eq!(did_you_mean(&["a".into(), "b".into()]), "; did you mean `a` or `b`?");
    }
}
