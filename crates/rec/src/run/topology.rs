//! Who trains together: this process alone, trainers with servers, or ranks.

use bireme_fleet::{Environment, Mode, RoleMaker, Strategy};

use crate::config::{Config, Node, Value};
use crate::{Error, Result};

const SYNC_MODE: &str = "runner.sync_mode";
const GPUBOX: &str = "gpubox";
const SHARDS: &str = "shard_num";

/// Who trains together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    Alone,
    Servers(Mode),
    Ranks,
    /// Trainers that hold the rows of a pass; the tables are those of a server, which may be in the process of
    /// the first.
    GpuBox {
        /// Whether there is one trainer, and no server.
        alone: bool,
    },
}

impl Topology {
    /// What the environment of a launcher and the configuration say.
    ///
    /// # Errors
    /// When they contradict each other, or the mode does not exist.
    pub(super) fn of(config: &Config, environment: &Environment) -> Result<Topology> {
        if config.text(SYNC_MODE).eq_ignore_ascii_case(GPUBOX) {
            let others = environment.trainers.is_some_and(|trainers| trainers > 1);
            return Ok(Topology::GpuBox { alone: !others && !has_servers(environment) });
        }
        let mode = mode(config)?;
        if has_servers(environment) {
            return Ok(Topology::Servers(mode));
        }
        let others = environment.trainers.is_some_and(|trainers| trainers > 1);
        match (others, config.switch("runner.use_fleet")) {
            (true, true) => Ok(Topology::Ranks),
            (true, false) => Err(Error::Settings(
                "a launcher has started several processes, but `runner.use_fleet` is False, and \
                 each would train for itself: set it to True (`-o runner.use_fleet=true`)"
                    .to_owned(),
            )),
            (false, _) => Ok(Topology::Alone),
        }
    }

    /// The role of this process.
    ///
    /// # Errors
    /// When the environment does not say it.
    pub(super) fn role(self, environment: &Environment) -> Result<RoleMaker> {
        Ok(match self {
            Topology::Alone | Topology::GpuBox { alone: true } => RoleMaker::alone(),
            Topology::GpuBox { .. } if !has_servers(environment) => {
                RoleMaker::collective(environment)?
            }
            Topology::Servers(_) | Topology::GpuBox { .. } => {
                RoleMaker::from_environment(environment)?
            }
            Topology::Ranks => RoleMaker::collective(environment)?,
        })
    }

    /// How the job is distributed.
    ///
    /// # Errors
    /// When tables disagree about the number of shards, which is that of all.
    pub(super) fn strategy(self, config: &Config) -> Result<Strategy> {
        let count = |key| u32::try_from(config.count(key)).unwrap_or(u32::MAX);
        let mut strategy = match self {
            Topology::Alone | Topology::Ranks => return Ok(Strategy::default()),
            Topology::GpuBox { .. } => Strategy::gpubox(),
            Topology::Servers(mode) => Strategy::new(mode),
        };
        if strategy.mode == Mode::Geo {
            strategy.geo_steps = count("runner.geo_step");
        }
        strategy.staleness = count("runner.staleness");
        for (table, accessor) in tables(config) {
            strategy = strategy.table(&table, &accessor.to_string());
        }
        if let Some(shards) = shards(config)? {
            strategy.transpiler.shard_num = shards;
        }
        Ok(strategy)
    }

    /// Whether all trainers make their steps together.
    pub(super) fn is_in_step(self) -> bool {
        match self {
            Topology::Alone | Topology::GpuBox { alone: true } => false,
            Topology::Ranks | Topology::GpuBox { alone: false } => true,
            Topology::Servers(mode) => mode.waits_for_all(),
        }
    }

    /// Whether there are servers.
    pub(super) fn has_servers(self) -> bool {
        matches!(self, Topology::Servers(_) | Topology::GpuBox { .. })
    }

    /// Whether the trainer holds the rows of a pass.
    pub(super) fn is_gpubox(self) -> bool {
        matches!(self, Topology::GpuBox { .. })
    }

    /// A word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Topology::Alone => "local",
            Topology::Ranks => "collective",
            Topology::Servers(mode) => mode.name(),
            Topology::GpuBox { .. } => GPUBOX,
        }
    }
}

/// Whether a launcher speaks of servers. `TRAINING_ROLE=TRAINER` alone does not say it: ranks of a
/// job without servers have that role too, and a list of their endpoints.
fn has_servers(environment: &Environment) -> bool {
    let old = &environment.old;
    let listed = environment.servers.as_ref().is_some_and(|servers| !servers.is_empty());
    match environment.training_role.as_deref() {
        _ if listed || old.servers.is_some() || old.server_ips.is_some() => true,
        None => false,
        Some("TRAINER") => {
            environment.trainer_endpoints.is_empty() && environment.trainers.is_none_or(|n| n < 2)
        }
        Some(_) => true,
    }
}

/// The mode that a configuration names.
fn mode(config: &Config) -> Result<Mode> {
    let strategy = "hyper_parameters.optimizer.strategy";
    let key = match !config.has(SYNC_MODE) && config.has(strategy) {
        true => strategy,
        false => SYNC_MODE,
    };
    let name = config.text(key);
    match name.to_ascii_lowercase().as_str() {
        "" | "none" => Ok(Mode::Async),
        "gpubox" => Err(config.refuse(key, "is `gpubox`: set `runner.sync_mode` to that")),
        "heter" => Err(config.refuse(
            key,
            format!("is `{name}`, which needs GPUs: use sync, async, half_async, geo or hybrid"),
        )),
        lower => Mode::from_name(lower).ok_or_else(|| {
            let problem = "which is no mode: use sync, async, half_async, geo or hybrid";
            config.refuse(key, format!("is `{name}`, {problem}"))
        }),
    }
}

/// The number of shards that `table_parameters.NAME.shard_num` give, which is that of all tables.
fn shards(config: &Config) -> Result<Option<i64>> {
    let mut all: Option<(&str, i64)> = None;
    for (key, node) in config.values() {
        if table_key(key) != Some(SHARDS) {
            continue;
        }
        let Value::Int(shards @ 1..) = node.value else {
            return Err(config.refuse(key, "must be a whole number of at least 1"));
        };
        match all {
            Some((first, other)) if other != shards => {
                let problem = format!("is {shards}, and `{first}` is {other}: give all tables one");
                return Err(config.refuse(key, problem));
            }
            _ => all = Some((key, shards)),
        }
    }
    Ok(all.map(|(_, shards)| shards))
}

/// Settings of tables that nothing reads, in words.
pub(super) fn unread_tables(config: &Config) -> Vec<String> {
    let unread = |key: &str| {
        let rest = table_key(key)?;
        (rest != SHARDS && !rest.starts_with("accessor.")).then(|| {
            let place = config.node(key).map(|node| node.place.to_string()).unwrap_or_default();
            format!("{place}: `{key}` has no effect: of a table, `accessor` and `{SHARDS}` count")
        })
    };
    config.values().filter_map(|(key, _)| unread(key)).collect()
}

/// What stands behind the name of a table in a key.
fn table_key(key: &str) -> Option<&str> {
    Some(key.strip_prefix("table_parameters.")?.split_once('.')?.1)
}

/// The accessors of `table_parameters.NAME.accessor.*` as JSON, by the table's name.
fn tables(config: &Config) -> Vec<(String, serde_json::Value)> {
    let mut tables: Vec<(String, serde_json::Value)> = Vec::new();
    for (key, node) in config.values() {
        let Some(rest) = key.strip_prefix("table_parameters.") else { continue };
        let mut parts = rest.split('.');
        let (Some(table), Some("accessor")) = (parts.next(), parts.next()) else { continue };
        let at = tables.iter().position(|(name, _)| name == table).unwrap_or_else(|| {
            tables.push((table.to_owned(), serde_json::Value::Object(serde_json::Map::new())));
            tables.len() - 1
        });
        let mut place = &mut tables[at].1;
        for part in parts {
            if !place.is_object() {
                *place = serde_json::Value::Object(serde_json::Map::new());
            }
            place = &mut place[part];
        }
        *place = json(node);
    }
    tables
}

fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(items) => items
            .iter()
            .map(|(key, node)| (key.clone(), json(node)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(Path::new("a.yaml"), text, &[]).unwrap()
    }

    #[test]
    fn environment_and_configuration_decide() {
        let ranks = Environment::of([("PADDLE_TRAINERS_NUM", "2")]).unwrap();
        let servers = Environment::of([("TRAINING_ROLE", "TRAINER")]).unwrap();
        let sync = config("runner: {sync_mode: sync, use_fleet: True}");
        assert_eq!(Topology::of(&sync, &Environment::default()).unwrap(), Topology::Alone);
        assert_eq!(Topology::of(&sync, &ranks).unwrap(), Topology::Ranks);
        assert_eq!(Topology::of(&sync, &servers).unwrap(), Topology::Servers(Mode::Sync));
        // As our launcher sets them.
        let launched = |trainers: &str, servers: &str| {
            let endpoints = [("PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:1,127.0.0.1:2")];
            let mut all = vec![("TRAINING_ROLE", "TRAINER"), ("PADDLE_TRAINERS_NUM", trainers)];
            all.extend(endpoints);
            all.extend([("PADDLE_PSERVERS_IP_PORT_LIST", servers)]);
            Environment::of(all.into_iter().filter(|(_, value)| !value.is_empty())).unwrap()
        };
        let of = |environment| Topology::of(&sync, &environment).unwrap();
        assert_eq!(of(launched("2", "")), Topology::Ranks);
        assert_eq!(of(launched("1", "")), Topology::Alone);
        assert_eq!(of(launched("2", "127.0.0.1:9")), Topology::Servers(Mode::Sync));
        let plain = config("runner: {epochs: 1}");
        assert_eq!(Topology::of(&plain, &servers).unwrap(), Topology::Servers(Mode::Async));
        assert!(Topology::of(&plain, &ranks).unwrap_err().to_string().contains("use_fleet"));
        let gpus = config("runner: {sync_mode: gpubox}");
        let of = |environment: &Environment| Topology::of(&gpus, environment);
        assert_eq!(of(&servers).unwrap(), Topology::GpuBox { alone: false });
        assert_eq!(of(&Environment::default()).unwrap(), Topology::GpuBox { alone: true });
        assert_eq!(of(&launched("1", "")).unwrap(), Topology::GpuBox { alone: true });
        let several = launched("2", "");
        assert_eq!(of(&several).unwrap(), Topology::GpuBox { alone: false });
        let role = of(&several).unwrap().role(&several).unwrap();
        assert_eq!((role.worker_num(), role.server_endpoints().len()), (2, 0));
    }

    #[test]
    fn settings_of_tables_become_json() {
        let config = config(
            "runner: {sync_mode: sync}\ntable_parameters:\n  embedding:\n    shard_num: 3\n    \
             accessor:\n      fea_dim: 9\n      embed_sgd_param:\n        name: adagrad\n",
        );
        let [(name, json)] = &tables(&config)[..] else { panic!("one table") };
        assert_eq!(name, "embedding");
        assert_eq!(json.to_string(), r#"{"embed_sgd_param":{"name":"adagrad"},"fea_dim":9}"#);
        let strategy = Topology::Servers(Mode::Sync).strategy(&config).unwrap();
        assert_eq!(strategy.transpiler.shard_num, 3);
    }

    #[test]
    fn settings_of_tables_that_do_not_count_are_said() {
        let tables = |text: &str| config(&format!("table_parameters: {{{text}}}\n"));
        let unread = unread_tables(&tables("a: {table_class: MemorySparseTable, shard_num: 5}"));
        assert_eq!(unread.len(), 1, "{unread:?}");
        assert!(unread[0].contains("`table_parameters.a.table_class` has no effect"), "{unread:?}");
        for (wrong, words) in [
            ("a: {shard_num: 5}, b: {shard_num: 6}", "`table_parameters.a.shard_num` is 5"),
            ("a: {shard_num: 0}", "at least 1"),
        ] {
            let error = Topology::Servers(Mode::Sync).strategy(&tables(wrong)).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
