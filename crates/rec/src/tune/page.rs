//! The page of a search: the curves of its best trials, and a table of all.

use std::fmt::Write;

use super::record::{Ended, Records, Search};
use crate::report::{Line, chart, escape, html};

/// Curves that can be told apart.
const CURVES: usize = 8;

/// The page.
pub fn page(search: &Search, records: &Records, more_is_better: bool) -> String {
    let sorted = records.sorted(more_is_better);
    let title = format!("{} trials by {}", sorted.len(), search.metric);
    let line = |ended: &&Ended| Line {
        name: format!("trial {}", ended.trial),
        points: ended.curve.iter().map(|(epoch, value)| (*epoch as f64, *value)).collect(),
    };
    let best: Vec<Line> =
        sorted.iter().filter(|ended| ended.best.is_some()).take(CURVES).map(line).collect();
    let mut body = format!("<h1>{}</h1>", escape(&title));
    body += &chart(&format!("{} of the best trials", search.metric), "epoch", &best);
    body += &table(search, &sorted);
    html(&title, &body)
}

fn table(search: &Search, sorted: &[&Ended]) -> String {
    let keys: Vec<&String> = match sorted.first() {
        Some(first) => first.values.iter().map(|(key, _)| key).collect(),
        None => Vec::new(),
    };
    let heads: String = keys.iter().map(|key| format!("<th>{}</th>", escape(key))).collect();
    let mut text = format!(
        "<h2>Trials</h2><table id=\"trials\"><thead><tr><th>trial</th><th>{}</th><th>epoch</th>\
         {heads}<th>seconds</th></tr></thead><tbody>",
        escape(&search.metric)
    );
    for ended in sorted {
        let value = match ended.best {
            Some(best) => format!("{best:.6}"),
            None => escape(&ended.problem),
        };
        let cells: String =
            ended.values.iter().map(|(_, value)| format!("<td>{}</td>", escape(value))).collect();
        // Writing to text cannot fail.
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{value}</td><td>{}</td>{cells}<td>{:.1}</td></tr>",
            ended.trial, ended.epoch, ended.seconds
        );
    }
    text + "</tbody></table>"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_page_has_curves_and_a_row_for_each_trial() {
        let folder = tempfile::tempdir().unwrap();
        let search = Search { seed: 1, metric: "auc".to_owned(), ranges: BTreeMap::new() };
        let mut records = Records::open(folder.path(), &search).unwrap();
        let values = vec![("hyper_parameters.x".to_owned(), "<3>".to_owned())];
        records
            .add(Ended {
                trial: 0,
                values: values.clone(),
                best: Some(0.75),
                epoch: 1,
                curve: vec![(0, 0.7), (1, 0.75)],
                seconds: 2.0,
                problem: String::new(),
            })
            .unwrap();
        records.add(Ended::failed((1, values), "no data".to_owned(), 0.5)).unwrap();
        let page = page(&search, &records, true);
        for text in
            ["auc of the best trials", "<td>0.750000</td>", "&lt;3&gt;", "no data", ">epoch<"]
        {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("http"), "nothing from a network");
    }
}
