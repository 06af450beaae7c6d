//! What a server's program says about the server: the attributes of its `listen_and_serv`.

use std::collections::BTreeMap;

use bireme_ir::{Attr, Op, Program};

use crate::{Error, Mode, Result};

/// What a server must know before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Where it listens, as `ip:port`.
    pub endpoint: String,
    /// All servers in order.
    pub endpoints: Vec<String>,
    /// Its place among them.
    pub server: u32,
    /// Trainers in all, heter workers among them.
    pub trainers: u32,
    /// How many of them, the last ones, are heter workers: they look nothing up in tables.
    pub heter_workers: u32,
    /// How they keep time.
    pub mode: Mode,
    /// Blocks that update parameters.
    pub optimize_blocks: Vec<usize>,
    /// The block that computes learning rates.
    pub rate_block: Option<usize>,
    /// Counters of the learning-rate block that trainers add to (async modes).
    pub counters: Vec<String>,
    /// Variables that trainers set: learning rates that they compute.
    pub assigned: Vec<String>,
    /// Variables that trainers send.
    pub received: Vec<String>,
    /// Parameters whose gradients are rows: row-sliced tables.
    pub row_params: Vec<String>,
    /// Keyed tables and their blocks.
    pub tables: Vec<(String, usize)>,
    /// DC-ASGD's coefficient, where gradients are compensated for delay.
    pub delay: Option<f32>,
    /// Where pieces lie in their variables; a piece that is not here is a whole variable.
    pub pieces: BTreeMap<String, PieceOf>,
    /// The fingerprint of the program that was split; empty where it is not known.
    pub program: Vec<String>,
}

/// Where a piece lies in its variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceOf {
    /// The whole variable.
    pub variable: String,
    /// The first element of the piece, row by row.
    pub start: usize,
    /// The shape of the whole variable.
    pub shape: Vec<usize>,
}

impl ServerConfig {
    /// Reads the program's `listen_and_serv`.
    ///
    /// # Errors
    /// When there is none, or its attributes do not fit the program.
    pub fn from_program(program: &Program) -> Result<ServerConfig> {
        let mut serve = program.global().ops.iter().filter(|op| op.kind == "listen_and_serv");
        let (Some(op), None) = (serve.next(), serve.next()) else {
            return Err(Error::Config(
                "this is not a server's program: it must have one `listen_and_serv` in its first \
                 block, as `get_pserver_program()` makes it"
                    .to_owned(),
            ));
        };
        let attrs = Attrs(op);
        let trainers = attrs.count("Fanin", 1)?;
        let heter_workers = u32::try_from(attrs.int("heter_workers", 0)?)
            .ok()
            .filter(|workers| *workers < trainers)
            .ok_or_else(|| attrs.wrong("heter_workers", "there must be trainers beside them"))?;
        let code = attrs.int("distributed_mode", 0)?;
        let mode = Mode::from_code(code)
            .ok_or_else(|| attrs.wrong("distributed_mode", &format!("there is no mode {code}")))?;
        let endpoint = attrs.text("endpoint", "127.0.0.1:6164")?;
        let endpoints = match attrs.texts("endpoints")? {
            all if all.is_empty() => vec![endpoint.clone()],
            all => all,
        };
        let server = match attrs.int("pserver_id", -1)? {
            -1 => endpoints.iter().position(|known| *known == endpoint).unwrap_or(0) as u32,
            id => u32::try_from(id).map_err(|_| attrs.wrong("pserver_id", "it is negative"))?,
        };
        let rate_block = match attrs.int("lr_decay_block_id", -1)? {
            -1 => None,
            block => Some(attrs.block("lr_decay_block_id", block, program)?),
        };
        let delay =
            attrs.flag("dc_asgd")?.then(|| attrs.real("dc_asgd_lambda", 1.0)).transpose()?;
        if delay.is_some() && !mode.applies_at_once() {
            return Err(attrs.wrong("dc_asgd", "gradients are late only in async modes"));
        }
        Ok(ServerConfig {
            endpoint,
            endpoints,
            server,
            trainers,
            heter_workers,
            mode,
            optimize_blocks: attrs.blocks("optimize_blocks", program)?,
            rate_block,
            counters: attrs.texts("lr_counters")?,
            assigned: attrs.texts("assigned_vars")?,
            received: op.inputs_of("X").to_vec(),
            row_params: attrs.pairs("sparse_grad_to_param")?.into_iter().map(|p| p.1).collect(),
            tables: attrs.tables(program)?,
            delay,
            pieces: attrs.pieces()?,
            program: attrs.texts("fingerprint")?,
        })
    }

    /// What the server calls itself in messages: `server 0 (127.0.0.1:6174)`.
    pub fn name(&self) -> String {
        format!("server {} ({})", self.server, self.endpoint)
    }
}

/// Attributes of one op, with words for what is wrong with them.
struct Attrs<'a>(&'a Op);

impl Attrs<'_> {
    fn wrong(&self, name: &str, problem: &str) -> Error {
        Error::Config(format!("attribute `{name}` of `{}`: {problem}", self.0.kind))
    }

    fn int(&self, name: &str, default: i32) -> Result<i32> {
        match self.0.attrs.get(name) {
            None => Ok(default),
            Some(Attr::Int(value)) => Ok(*value),
            Some(Attr::Long(value)) => {
                i32::try_from(*value).map_err(|_| self.wrong(name, "it is too large"))
            }
            Some(_) => Err(self.wrong(name, "it must be an integer")),
        }
    }

    fn count(&self, name: &str, default: i32) -> Result<u32> {
        let count = self.int(name, default)?;
        let count = u32::try_from(count).ok().filter(|count| *count > 0);
        count.ok_or_else(|| self.wrong(name, "it must be at least 1"))
    }

    fn real(&self, name: &str, default: f32) -> Result<f32> {
        match self.0.attrs.get(name) {
            None => Ok(default),
            Some(Attr::Float(value)) if value.is_finite() => Ok(*value),
            Some(_) => Err(self.wrong(name, "it must be a finite float")),
        }
    }

    fn flag(&self, name: &str) -> Result<bool> {
        match self.0.attrs.get(name) {
            None => Ok(false),
            Some(Attr::Bool(value)) => Ok(*value),
            Some(_) => Err(self.wrong(name, "it must be a bool")),
        }
    }

    fn text(&self, name: &str, default: &str) -> Result<String> {
        match self.0.attrs.get(name) {
            None => Ok(default.to_owned()),
            Some(Attr::String(value)) => Ok(value.clone()),
            Some(_) => Err(self.wrong(name, "it must be a string")),
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<String>> {
        match self.0.attrs.get(name) {
            None => Ok(Vec::new()),
            Some(Attr::Strings(values)) => Ok(values.clone()),
            // How an empty list looks when nobody says of what.
            Some(Attr::Ints(values)) if values.is_empty() => Ok(Vec::new()),
            Some(_) => Err(self.wrong(name, "it must be a list of strings")),
        }
    }

    /// `first:second`, split at the last colon.
    fn pairs(&self, name: &str) -> Result<Vec<(String, String)>> {
        let pair = |text: &String| match text.rsplit_once(':') {
            Some((first, second)) => Ok((first.to_owned(), second.to_owned())),
            None => Err(self.wrong(name, &format!("`{text}` has no colon"))),
        };
        self.texts(name)?.iter().map(pair).collect()
    }

    fn block(&self, name: &str, index: i32, program: &Program) -> Result<usize> {
        let block = usize::try_from(index).ok().filter(|at| *at > 0 && *at < program.blocks.len());
        block.ok_or_else(|| self.wrong(name, &format!("the program has no block {index}")))
    }

    fn blocks(&self, name: &str, program: &Program) -> Result<Vec<usize>> {
        let blocks = match self.0.attrs.get(name) {
            None => &[],
            Some(Attr::Blocks(blocks) | Attr::Ints(blocks)) => blocks.as_slice(),
            Some(_) => return Err(self.wrong(name, "it must be a list of blocks")),
        };
        blocks.iter().map(|block| self.block(name, *block, program)).collect()
    }

    fn tables(&self, program: &Program) -> Result<Vec<(String, usize)>> {
        let name = "sparse_tables";
        let read = |(table, block): (String, String)| {
            let block = block.parse().map_err(|_| self.wrong(name, "a block is no number"))?;
            Ok((table, self.block(name, block, program)?))
        };
        self.pairs(name)?.into_iter().map(read).collect()
    }

    /// `piece:variable:start:shape`, the shape as `1000x8`.
    fn pieces(&self) -> Result<BTreeMap<String, PieceOf>> {
        let name = "param_pieces";
        let read = |text: &String| {
            let mut parts = text.rsplitn(4, ':');
            let (shape, start) = (parts.next()?, parts.next()?);
            let (variable, piece) = (parts.next()?.to_owned(), parts.next()?.to_owned());
            let shape = shape.split('x').map(|dim| dim.parse().ok()).collect::<Option<_>>()?;
            Some((piece, PieceOf { variable, start: start.parse().ok()?, shape }))
        };
        let read = |text: &String| {
            let problem = || format!("`{text}` is not of the form piece:variable:start:shape");
            read(text).ok_or_else(|| self.wrong(name, &problem()))
        };
        self.texts(name)?.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(attrs: &str) -> Program {
        let text = format!(
            "random_seed 0
{{ // block 0
    {{}} = listen_and_serv(inputs={{X=['g']}}, {attrs})
}}
{{ // block 1
    {{Out=['g']}} = scale(inputs={{X=['g']}}, scale = 0.5)
}}"
        );
        Program::parse(&text).unwrap()
    }

    #[test]
    fn attributes_are_read() {
        let program = program(
            "endpoint = '127.0.0.1:2', endpoints = ['127.0.0.1:1', '127.0.0.1:2'], Fanin = 2, \
             distributed_mode = 1, optimize_blocks = blocks[1], dc_asgd = True, \
             dc_asgd_lambda = 0.5, sparse_grad_to_param = ['g:w'], sparse_tables = ['t:1'], \
             param_pieces = ['w.block1:w:16:8x4']",
        );
        let config = ServerConfig::from_program(&program).unwrap();
        assert_eq!((config.server, config.trainers, config.mode), (1, 2, Mode::Async));
        assert_eq!(config.optimize_blocks, [1]);
        assert_eq!((config.rate_block, config.delay), (None, Some(0.5)));
        assert_eq!((config.row_params, config.received), (vec!["w".to_owned()], vec!["g".into()]));
        assert_eq!(config.tables, [("t".to_owned(), 1)]);
        let piece = PieceOf { variable: "w".to_owned(), start: 16, shape: vec![8, 4] };
        assert_eq!(config.pieces["w.block1"], piece);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (attrs, word) in [
            ("Fanin = 0", "Fanin"),
            ("distributed_mode = 9", "no mode 9"),
            ("optimize_blocks = blocks[2]", "no block 2"),
            ("sparse_tables = ['t']", "no colon"),
            ("dc_asgd = True", "async"),
            ("endpoint = 3", "must be a string"),
            ("param_pieces = ['w:1']", "piece:variable"),
        ] {
            let error = ServerConfig::from_program(&program(attrs)).unwrap_err().to_string();
            assert!(error.contains(word), "{attrs}: {error}");
        }
        let error = ServerConfig::from_program(&Program::new()).unwrap_err().to_string();
        assert!(error.contains("listen_and_serv"), "{error}");
    }
}
