//! The page of a run: one file, nothing from a network, readable by day and by night.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::chart::{Line, chart, escape, number};
use super::{Run, Trained};
use crate::run::Event;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What curves are drawn over.
const BATCH: &str = "batch";

/// The page.
pub fn page(run: &Run) -> String {
    let first = run.trainers.first().cloned().unwrap_or_default();
    let trainers = match run.trainers.len() {
        1 => "1 trainer".to_owned(),
        more => format!("{more} trainers"),
    };
    let title = format!("{} · {} · {trainers}", first.model, first.mode);
    let mut body = format!("<h1>{}</h1>", escape(&title));
    body += &summary(run);
    let mut loss = lines(run, |event| match event {
        Event::Step { batch, loss: Some(loss), .. } => Some((*batch as f64, *loss)),
        _ => None,
    });
    loss.extend(tried(run, "loss"));
    body += &chart("Loss", BATCH, &loss);
    for metric in metric_names(run) {
        let mut points = lines(run, |event| match event {
            Event::Step { batch, metrics, .. } => {
                metrics.get(&metric).map(|value| (*batch as f64, *value))
            }
            _ => None,
        });
        points.extend(tried(run, &metric));
        body += &chart(&metric.to_uppercase(), BATCH, &points);
    }
    body += &chart(
        "Samples a second",
        BATCH,
        &lines(run, |event| match event {
            Event::Step { batch, samples_per_second, .. } => {
                Some((*batch as f64, *samples_per_second))
            }
            _ => None,
        }),
    );
    body += &chart(
        "Waiting for data, % of the time",
        BATCH,
        &lines(run, |event| match event {
            Event::Step { batch, seconds, reader_seconds, .. } if *seconds > 0.0 => {
                Some((*batch as f64, 100.0 * reader_seconds / seconds))
            }
            _ => None,
        }),
    );
    body += &epochs(&first);
    body += &configuration(&first);
    html(&title, &body)
}

/// A page around a body, with the style and script of charts.
pub(crate) fn html(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"/>\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<main>{body}</main>\n<script>\n//<![CDATA[\n{SCRIPT}//]]>\n</script>\n</body>\n</html>\n",
        escape(title)
    )
}

fn metric_names(run: &Run) -> BTreeSet<String> {
    let events = run.trainers.iter().flat_map(|trained| &trained.events);
    let shown = events.filter_map(|event| match event {
        Event::Step { metrics, .. } | Event::Valid { metrics, .. } => Some(metrics.keys()),
        _ => None,
    });
    let tested = run.tested.values().map(BTreeMap::keys);
    // The loss has a chart of its own.
    shown.chain(tested).flatten().filter(|name| *name != "loss").cloned().collect()
}

/// A metric on data that is not trained on: after each epoch, and by `infer`.
fn tried(run: &Run, metric: &str) -> Vec<Line> {
    let Some(first) = run.trainers.first() else { return Vec::new() };
    let valid = first.events.iter().filter_map(|event| match event {
        Event::Valid { batch, metrics, .. } => Some((*batch as f64, *metrics.get(metric)?)),
        _ => None,
    });
    let batch_of = |wanted: u64| {
        first.events.iter().find_map(|event| match event {
            Event::Epoch { epoch, batch, .. } if *epoch == wanted => Some(*batch as f64),
            _ => None,
        })
    };
    let tested = run.tested.iter();
    let test = tested.filter_map(|(epoch, values)| Some((batch_of(*epoch)?, *values.get(metric)?)));
    let line = |name: &str, points: Vec<(f64, f64)>| Line { name: name.to_owned(), points };
    let both = [line("validation", valid.collect()), line("infer", test.collect())];
    both.into_iter().filter(|line| !line.points.is_empty()).collect()
}

fn lines(run: &Run, point: impl Fn(&Event) -> Option<(f64, f64)>) -> Vec<Line> {
    let line = |trained: &Trained| Line {
        name: format!("trainer {}", trained.trainer),
        points: trained.events.iter().filter_map(&point).collect(),
    };
    run.trainers.iter().map(line).collect()
}

fn summary(run: &Run) -> String {
    let all: Vec<(u64, f64)> = run.trainers.iter().map(trained_so_far).collect();
    let samples: u64 = all.iter().map(|(samples, _)| samples).sum();
    let seconds = all.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let resumed = run.trainers.iter().map(|trained| trained.resumed).max().unwrap_or(0);
    let state = match run.trainers.iter().all(|trained| trained.ended) {
        true => "complete",
        false => "not complete",
    };
    let mut text = format!(
        "<p class=\"summary\">Training is <b>{state}</b>; {} samples in {} s, <b>{}</b> a second.",
        number(samples as f64),
        number(seconds),
        number(samples as f64 / seconds.max(1e-9))
    );
    if resumed > 0 {
        let times = if resumed == 1 { "once".to_owned() } else { format!("{resumed} times") };
        let _ = write!(text, " It went on from a checkpoint {times}.");
    }
    text + "</p>"
}

/// Samples of one trainer and how long they took: whole epochs, and the steps since the last one.
fn trained_so_far(trained: &Trained) -> (u64, f64) {
    let (mut whole, mut open) = ((0, 0.0), (0, 0.0));
    for event in &trained.events {
        match event {
            Event::Step { samples, seconds, .. } => open = (open.0 + samples, open.1 + seconds),
            Event::Epoch { samples, seconds, .. } => {
                whole = (whole.0 + samples, whole.1 + seconds);
                open = (0, 0.0);
            }
            _ => {}
        }
    }
    (whole.0 + open.0, whole.1 + open.1)
}

fn epochs(trained: &Trained) -> String {
    let mut rows = String::new();
    let text = |metrics: &BTreeMap<String, f64>| {
        let one = |(name, value): (&String, &f64)| format!("{} {value:.6}", escape(name));
        metrics.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let valid: BTreeMap<u64, &BTreeMap<String, f64>> =
        trained.events.iter().filter_map(valid).collect();
    let cell = |values: Option<String>| match valid.is_empty() {
        true => String::new(),
        false => format!("<td>{}</td>", values.unwrap_or_default()),
    };
    for event in &trained.events {
        let Event::Epoch { epoch, metrics, samples, seconds, .. } = event else { continue };
        let _ = write!(
            rows,
            "<tr><td>{epoch}</td><td>{}</td>{}<td>{samples}</td><td>{seconds:.2}</td></tr>",
            text(metrics),
            cell(valid.get(epoch).map(|metrics| text(metrics)))
        );
    }
    let head = if valid.is_empty() { "" } else { "<th>validation</th>" };
    match rows.is_empty() {
        true => String::new(),
        false => format!(
            "<h2>Epochs</h2><table id=\"epochs\"><thead><tr><th>epoch</th><th>all trainers</th>{head}\
             <th>samples of trainer {}</th><th>seconds</th></tr></thead><tbody>{rows}</tbody></table>",
            trained.trainer
        ),
    }
}

fn valid(event: &Event) -> Option<(u64, &BTreeMap<String, f64>)> {
    match event {
        Event::Valid { epoch, metrics, .. } => Some((*epoch, metrics)),
        _ => None,
    }
}

fn configuration(trained: &Trained) -> String {
    let mut rows = String::new();
    for (key, value) in &trained.config {
        let _ = write!(rows, "<tr><td>{}</td><td>{}</td></tr>", escape(key), escape(value));
    }
    format!(
        "<details><summary>Configuration</summary><table><tbody>{rows}</tbody></table></details>"
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{start, step};
    use super::super::trained;
    use super::*;
    use std::path::Path;

    /// The page is XML too, so that what browsers repair is not left to them: every tag is closed
    /// in its order, and attributes are quoted.
    fn check_well_formed(page: &str) {
        let mut open: Vec<String> = Vec::new();
        let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
        while let Some(start) = rest.find('<') {
            let text = &rest[..start];
            assert!(!text.contains('>') || open.last().is_some_and(|tag| tag == "style"), "{text}");
            let end = start + rest[start..].find('>').unwrap();
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
            } else if !tag.ends_with('/') {
                let name = tag.split_whitespace().next().unwrap().to_owned();
                assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
                if name == "script" {
                    rest = &rest[rest.find("</script>").unwrap()..];
                }
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn the_page_has_the_curves_and_is_well_formed() {
        let log =
            [start(0).replace("3\"", "<3> & \\\"x\\\"\""), step(2, 0.7), step(4, 0.6)].join("\n");
        let run =
            Run { trainers: vec![trained(Path::new("log"), &log).unwrap()], ..Run::default() };
        let page = page(&run);
        check_well_formed(&page);
        for text in [
            "<h2>Loss</h2>",
            "<h2>AUC</h2>",
            "<h2>Samples a second</h2>",
            "not complete",
            "&lt;3&gt; &amp;",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("http"), "nothing from a network");
        assert_eq!(page.matches("<polyline").count(), 4);
    }
}
