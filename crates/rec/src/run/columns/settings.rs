//! The group `data:` of a configuration, as settings of a table.

use bireme_data::table::{
    ALL_INDICES, Bins, Csv, Feature, Fill, Header, Label, Layout, Number, Rule, Scale, Settings,
    Words,
};

use crate::config::{Config, Node, Value};
use crate::{Error, Result};

const FORMAT: &str = "data.format";

/// The settings that a configuration has; none if it says nothing about columns.
///
/// # Errors
/// When a key is missing, or says what no column can be.
pub(super) fn of(config: &Config) -> Result<Option<Settings>> {
    let mut keys = config.values().filter(|(key, _)| key.starts_with("data."));
    let Some((key, _)) = keys.next() else { return Ok(None) };
    if !config.has(FORMAT) {
        let problem = format!("needs `{FORMAT}`: csv, tsv, libsvm or libffm");
        return Err(config.refuse(key, problem));
    }
    for key in ["data.sparse", "data.bins", "data.multi", "data.dense"] {
        let inside = format!("{key}.");
        if config.has(key)
            && let Some((other, _)) = config.values().find(|(other, _)| other.starts_with(&inside))
        {
            let problem = format!("is a list, and `{other}` is of a group: write one of them");
            return Err(config.refuse(key, problem));
        }
    }
    let layout = layout(config)?;
    let is_pairs = matches!(layout, Layout::LibSvm | Layout::LibFfm);
    let features = features(config, is_pairs)?;
    if !features.iter().any(|feature| feature.rule.is_sparse()) {
        return Err(config.refuse(
            "data.sparse",
            "names no column, and models need ids: name one, or cut numbers into ranges with \
             `data.bins`",
        ));
    }
    let buckets = config.count("data.hash_buckets") as u64;
    if buckets == 0 {
        return Err(config.refuse("data.hash_buckets", "must be at least 1"));
    }
    let settings = Settings {
        layout,
        label: label(config)?,
        weight: Some(config.text("data.weight")).filter(|weight| !weight.is_empty()),
        features,
        missing: config.texts("data.missing"),
        hash_buckets: buckets,
    };
    check_names(config, &settings)?;
    check_neighbours(config, &settings)?;
    Ok(Some(settings))
}

fn layout(config: &Config) -> Result<Layout> {
    let format = config.text(FORMAT);
    let csv = match format.as_str() {
        "csv" => ',',
        "tsv" => '\t',
        "libsvm" => return without_csv(config, Layout::LibSvm),
        "libffm" => return without_csv(config, Layout::LibFfm),
        "parquet" => {
            let problem = "is parquet, whose columns are read as slots, by a build with the feature \
                           `parquet` and without `data`: write csv, or see docs/data_files.md";
            return Err(config.refuse(FORMAT, problem));
        }
        other => {
            let problem = format!("is `{other}`: use csv, tsv, libsvm or libffm");
            return Err(config.refuse(FORMAT, problem));
        }
    };
    let sign = |key: &str| -> Result<Option<char>> {
        let text = config.text(key);
        let mut signs = text.chars();
        match (signs.next(), signs.next()) {
            (None, _) => Ok(None),
            (Some(sign), None) if sign.is_ascii() => Ok(Some(sign)),
            _ => Err(config.refuse(key, format!("is `{text}`, not one character of ASCII"))),
        }
    };
    let separator = match sign("data.separator")? {
        Some(separator) => separator,
        None => csv,
    };
    Ok(Layout::Csv(Csv {
        separator,
        quote: sign("data.quote")?,
        header: header(config)?,
        comment: Some(config.text("data.comment")).filter(|comment| !comment.is_empty()),
    }))
}

/// A layout that has nothing to choose.
fn without_csv(config: &Config, layout: Layout) -> Result<Layout> {
    let keys = ["data.separator", "data.quote", "data.header", "data.comment"];
    match keys.into_iter().find(|key| config.has(key)) {
        None => Ok(layout),
        Some(key) => {
            let format = config.text(FORMAT);
            Err(config.refuse(key, format!("is about csv and tsv, and the format is {format}")))
        }
    }
}

fn header(config: &Config) -> Result<Header> {
    let key = "data.header";
    match config.node(key).map(|node| &node.value) {
        None | Some(Value::Bool(true)) => Ok(Header::Line),
        Some(Value::Bool(false)) => Ok(Header::Numbers),
        Some(Value::List(_)) => Ok(Header::Names(config.texts(key))),
        Some(Value::Text(text)) if text.starts_with('[') => Ok(Header::Names(config.texts(key))),
        Some(_) => Err(config.refuse(key, "must be `True`, `False` or the list of all columns")),
    }
}

fn label(config: &Config) -> Result<Label> {
    let [positive, negative] = ["data.positive", "data.negative"].map(|key| config.texts(key));
    if positive.is_empty() != negative.is_empty() {
        let (given, missing) = match positive.is_empty() {
            true => ("data.negative", "data.positive"),
            false => ("data.positive", "data.negative"),
        };
        let problem = format!("needs `{missing}` too, so that an unknown label is an error");
        return Err(config.refuse(given, problem));
    }
    if let Some(both) = positive.iter().find(|word| negative.contains(word)) {
        let problem = format!("has `{both}`, which `data.negative` has too");
        return Err(config.refuse("data.positive", problem));
    }
    Ok(Label { column: config.text("data.label"), positive, negative })
}

/// Columns of ids, then ranges, then lists of ids, then numbers: in the order of the file where it
/// has a list, else by name.
fn features(config: &Config, is_pairs: bool) -> Result<Vec<Feature>> {
    // Wrong ones are wrong even where no column takes them.
    words(config, "data.ids", None)?;
    number(config, None, is_pairs)?;
    let mut features = Vec::new();
    let mut add = |column: String, rule: Rule| features.push(Feature { column, rule });
    for (column, node) in entries(config, "data.sparse") {
        add(column, Rule::Word(words(config, "data.sparse", node)?));
    }
    for (column, node) in entries(config, "data.bins") {
        add(column, Rule::Bins(bins(config, node)?));
    }
    for (column, node) in entries(config, "data.multi") {
        let separator = match (node.map(|node| &node.value), is_pairs) {
            // An index is a word by itself.
            (None | Some(Value::Null), true) => ' ',
            (Some(Value::Text(text)), false) if text.len() == 1 => char::from(text.as_bytes()[0]),
            _ => {
                let wanted = match is_pairs {
                    true => "in libsvm and libffm a list of columns",
                    false => "the sign between ids for each column, as `genres: \"|\"`",
                };
                let key = match node {
                    Some(_) => format!("data.multi.{column}"),
                    None => "data.multi".to_owned(),
                };
                return Err(config.refuse(&key, format!("must be {wanted}")));
            }
        };
        add(column, Rule::List(separator, words(config, "data.multi", None)?));
    }
    for (column, node) in entries(config, "data.dense") {
        add(column, Rule::Number(number(config, node, is_pairs)?));
    }
    Ok(features)
}

/// The columns of a key: of a list, or the names of a group with what is said of each.
fn entries<'a>(config: &'a Config, key: &str) -> Vec<(String, Option<&'a Node>)> {
    if config.has(key) {
        return config.texts(key).into_iter().map(|column| (column, None)).collect();
    }
    let prefix = format!("{key}.");
    let own = config.values().filter_map(|(name, node)| Some((name.strip_prefix(&prefix)?, node)));
    own.map(|(column, node)| (column.to_owned(), Some(node))).collect()
}

fn words(config: &Config, key: &str, node: Option<&Node>) -> Result<Words> {
    let (name, at) = match node.filter(|node| node.value != Value::Null) {
        Some(node) => (node.value.to_string(), Some(node)),
        None => (config.text("data.ids"), None),
    };
    let min_count = config.count("data.min_count").max(1) as u64;
    match name.as_str() {
        "hash" => Ok(Words::Hash),
        "vocabulary" => Ok(Words::Vocabulary { min_count }),
        _ => {
            let problem = format!("is `{name}`: ids are by `hash` or by `vocabulary`");
            Err(refuse(config, if at.is_some() { key } else { "data.ids" }, at, &problem))
        }
    }
}

fn bins(config: &Config, node: Option<&Node>) -> Result<Bins> {
    let wrong = || {
        let problem = "must be a number of ranges from 2 on (`age: 10`), or the numbers between them \
                       (`age: [18, 30, 45]`)";
        refuse(config, "data.bins", node, problem)
    };
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    match node.map(|node| &node.value) {
        Some(Value::Int(ranges @ 2..=1_000_000)) => Ok(Bins::Quantiles(*ranges as usize)),
        Some(Value::List(items)) if !items.is_empty() => {
            let edges =
                items.iter().map(|item| number(&item.value).filter(|edge| edge.is_finite()));
            let edges = edges.collect::<Option<Vec<f64>>>().ok_or_else(wrong)?;
            match edges.windows(2).all(|pair| pair[0] < pair[1]) {
                true => Ok(Bins::Edges(edges)),
                false => Err(refuse(config, "data.bins", node, "must be a list that rises")),
            }
        }
        _ => Err(wrong()),
    }
}

fn number(config: &Config, node: Option<&Node>, is_pairs: bool) -> Result<Number> {
    let key = "data.normalize";
    let (name, at) = match node.filter(|node| node.value != Value::Null) {
        Some(node) => (node.value.to_string(), Some(node)),
        None => (config.text(key), None),
    };
    let scale = match name.as_str() {
        "standard" => Scale::Standard,
        "minmax" => Scale::MinMax,
        "log" => Scale::Log,
        "none" => Scale::None,
        _ => {
            let problem = format!("is `{name}`: use standard, minmax, log or none");
            return Err(refuse(
                config,
                if at.is_some() { "data.dense" } else { key },
                at,
                &problem,
            ));
        }
    };
    let fill = match config.node("data.fill").map(|node| &node.value) {
        // What such a line leaves out is zero.
        None if is_pairs => Fill::Value(0.0),
        None => Fill::Mean,
        Some(Value::Text(text)) if text == "mean" => Fill::Mean,
        Some(Value::Int(number)) => Fill::Value(*number as f64),
        Some(Value::Float(number)) if number.is_finite() => Fill::Value(*number),
        Some(_) => return Err(config.refuse("data.fill", "must be `mean` or a number")),
    };
    Ok(Number { scale, fill })
}

/// An error about what is said of a column, or about the key.
fn refuse(config: &Config, key: &str, node: Option<&Node>, problem: &str) -> Error {
    match node {
        Some(node) => {
            let problem = format!("a column of `{key}` {problem}");
            Error::Config { place: node.place.clone(), problem }
        }
        None => config.refuse(key, problem),
    }
}

/// Refuses columns that are there twice in the same way, and labels among the features.
fn check_names(config: &Config, settings: &Settings) -> Result<()> {
    for (at, feature) in settings.features.iter().enumerate() {
        let key = match feature.rule {
            Rule::Word(_) => "data.sparse",
            Rule::Bins(_) => "data.bins",
            Rule::List(..) => "data.multi",
            Rule::Number(_) => "data.dense",
        };
        let column = &feature.column;
        let kind = |rule: &Rule| std::mem::discriminant(rule);
        let same =
            |other: &&Feature| other.column == *column && kind(&other.rule) == kind(&feature.rule);
        if settings.features[..at].iter().any(|other| same(&other)) {
            return Err(config.refuse(key, format!("names the column `{column}` twice")));
        }
        if *column == settings.label.column || Some(column) == settings.weight.as_ref() {
            let what = if *column == settings.label.column { "label" } else { "weight" };
            let problem = format!("names the column `{column}`, which is the {what}");
            return Err(config.refuse(key, problem));
        }
        if settings.layout == Layout::LibSvm
            && column == ALL_INDICES
            && !matches!(feature.rule, Rule::List(..))
        {
            let problem = format!(
                "names `{ALL_INDICES}`, all indices of a line: put it under \
                                   `data.multi`"
            );
            return Err(config.refuse(key, problem));
        }
    }
    Ok(())
}

/// Refuses what other keys say of lines that are no table.
fn check_neighbours(config: &Config, settings: &Settings) -> Result<()> {
    let keys =
        ["runner.pipe_command", "runner.slot_names", "runner.parse_ins_id", "runner.parse_content"];
    if let Some(key) = keys.into_iter().find(|key| config.has(key) && !config.text(key).is_empty())
    {
        return Err(config
            .refuse(key, "is about lines of slots, and `data` describes columns: leave one out"));
    }
    if config.has("runner.start_day") && settings.must_learn() {
        return Err(config.refuse(
            "runner.start_day",
            "trains data that is not there yet, so nothing can be learned of its columns first: \
             set `data.ids` to hash, `data.normalize` to none, `data.fill` to a number, and give \
             the edges of `data.bins`",
        ));
    }
    Ok(())
}
