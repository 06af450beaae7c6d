//! A chart of lines as SVG.

use std::fmt::Write;

/// Measures of a chart, in the units of its view box.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 30.0;

/// More points than this cannot be told apart.
const MAX_POINTS: usize = 1500;

/// Lines of so many points or fewer show each of them.
const MARKED: usize = 60;

/// A line of a chart.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart over units (batches, epochs) with its title and legend as HTML; nothing when it would be
/// empty.
pub(crate) fn chart(title: &str, unit: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    if points().next().is_none() {
        return String::new();
    }
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        if low < high { (low, high) } else { (low - 0.5, high + 0.5) }
    };
    let (x, y) = (range(&mut points().map(|p| p.0)), range(&mut points().map(|p| p.1)));
    let pad = (y.1 - y.0) * 0.05;
    let y = (if y.0 >= 0.0 { (y.0 - pad).max(0.0) } else { y.0 - pad }, y.1 + pad);
    let at_x = |value: f64| LEFT + (value - x.0) / (x.1 - x.0) * (WIDTH - LEFT - RIGHT);
    let at_y = |value: f64| HEIGHT - BOTTOM - (value - y.0) / (y.1 - y.0) * (HEIGHT - TOP - BOTTOM);
    let mut svg = String::new();
    for tick in ticks(y) {
        let (at, text) = (at_y(tick), label(tick, y));
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{:.1}" y1="{at:.1}" y2="{at:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{text}</text>"#,
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        );
    }
    for tick in ticks(x) {
        let text = label(tick, x);
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{text}</text>"#,
            at_x(tick),
            HEIGHT - 10.0
        );
    }
    let _ = write!(
        svg,
        r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{unit}</text>"#,
        LEFT - 6.0,
        HEIGHT - 10.0
    );
    let mut legend = String::new();
    for (index, line) in lines.iter().enumerate() {
        svg += &drawn(line, index % 8, at_x, at_y);
        let name = escape(&line.name);
        let last = line.points.last().map_or_else(String::new, |(_, y)| number(*y));
        let _ = write!(legend, r#"<span class="c{}">{name} <b>{last}</b></span> "#, index % 8);
    }
    format!(
        r#"<section class="chart" data-unit="{unit}" data-x="{},{}" data-y="{},{}"><h2>{}</h2><p class="legend">{legend}</p><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">{svg}<line class="cursor" x1="0" x2="0" y1="{TOP}" y2="{}"/></svg><p class="at"></p></section>"#,
        x.0,
        x.1,
        y.0,
        y.1,
        escape(title),
        escape(title),
        HEIGHT - BOTTOM
    )
}

/// A line in one of the colours, with a mark on each point where there are few: one alone is no line.
fn drawn(
    line: &Line,
    color: usize,
    at_x: impl Fn(f64) -> f64,
    at_y: impl Fn(f64) -> f64,
) -> String {
    let place = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", at_x(*x), at_y(*y));
    let places: Vec<String> = thin(&line.points).iter().map(place).collect();
    let mut svg = format!(
        r#"<polyline class="c{color}" points="{}"><title>{}</title></polyline>"#,
        places.join(" "),
        escape(&line.name)
    );
    for (x, y) in line.points.iter().filter(|_| line.points.len() <= MARKED) {
        let (x, y) = (at_x(*x), at_y(*y));
        let _ = write!(svg, r#"<circle class="c{color}" cx="{x:.1}" cy="{y:.1}" r="2.5"/>"#);
    }
    svg
}

/// Points that stand for all: a mean of each stretch.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let each = points.len().div_ceil(MAX_POINTS).max(1);
    points
        .chunks(each)
        .map(|chunk| {
            let sum = chunk.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
            (sum.0 / chunk.len() as f64, sum.1 / chunk.len() as f64)
        })
        .collect()
}

/// The round number between two ticks of a range, of which it has five or so.
fn tick_step((low, high): (f64, f64)) -> f64 {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power);
    step.into_iter().find(|step| *step >= rough).unwrap_or(power * 10.0)
}

/// Round numbers in a range.
fn ticks((low, high): (f64, f64)) -> Vec<f64> {
    let step = tick_step((low, high));
    let first = (low / step).ceil();
    (0..12)
        .map(|index| (first + f64::from(index)) * step)
        .take_while(|tick| *tick <= high)
        .collect()
}

/// A tick of a range, in as many digits as tell it from the next.
fn label(tick: f64, range: (f64, f64)) -> String {
    let step = tick_step(range);
    let in_units = |unit: f64, name: &str| {
        let decimals = (-(step / unit).log10().floor()).max(0.0) as usize;
        format!("{:.decimals$}{name}", tick / unit)
    };
    match tick.abs() {
        size if size >= 10_000_000.0 => in_units(1e6, "M"),
        size if size >= 10_000.0 => in_units(1e3, "k"),
        _ => number(tick),
    }
}

/// A number in as few digits as it needs.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 10_000_000.0 => format!("{:.0}M", value / 1e6),
        _ if size >= 10_000.0 => format!("{:.0}k", value / 1e3),
        _ if size >= 100.0 || value == value.trunc() => format!("{value:.0}"),
        _ => {
            let text = format!("{value:.4}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// Text that is no markup.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks((0.0, 1.0)).len(), 6);
        assert_eq!(ticks((0.0, 10.0)), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(number(123_456.0), "123k");
        assert_eq!(number(0.25), "0.25");
        let labels =
            |range| ticks(range).iter().map(|tick| label(*tick, range)).collect::<Vec<_>>();
        assert_eq!(labels((9_500.0, 11_500.0)), ["9500", "10.0k", "10.5k", "11.0k", "11.5k"]);
        assert_eq!(labels((0.0, 50_000.0)), ["0", "10k", "20k", "30k", "40k", "50k"]);
        assert_eq!(labels((2e7, 2.1e7))[..2], ["20.0M", "20.2M"]);
        assert_eq!(escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }

    #[test]
    fn a_long_line_is_thinned() {
        let points: Vec<_> = (0..10_000).map(|i| (f64::from(i), 1.0)).collect();
        assert!(thin(&points).len() <= MAX_POINTS);
        assert_eq!(chart("empty", "batch", &[]), "");
    }
}
