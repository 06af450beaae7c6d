//! Rows of remote tables: pulls of distinct keys from all servers at once, and the routes that the
//! push of a step takes over from its pull.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_comm::{Body, Lane};
use bireme_engine::remote::TableRef;

use super::link::{Ask, Links, unexpected};
use super::route::{Route, Router};
use crate::message::{Answer, Request};
use crate::{Error, Result};

/// Routes kept for pushes to come, of one table: as many as there may be training threads in one
/// process.
const KEPT: usize = 16;

/// What is known of every table.
#[derive(Default)]
pub(crate) struct Tables {
    tables: Mutex<HashMap<String, Arc<Mutex<Table>>>>,
}

/// What is known of one table.
#[derive(Default)]
struct Table {
    router: Router,
    /// Memory for routes.
    free: Vec<Route>,
    /// Routes of pulls, whose pushes may come; the newest last.
    recent: VecDeque<Route>,
}

impl Tables {
    /// Row `ids[s][i]` to row `i` of `outs[s]`.
    pub(crate) fn pull(
        &self,
        links: &Links,
        table: &TableRef,
        ids: &[&[i64]],
        outs: &mut [&mut [f32]],
    ) -> Result<()> {
        check_sizes(table, ids, outs.iter().map(|out| out.len()))?;
        let state = self.table(&table.name);
        let route = lock(&state).route(table, ids)?;
        let bodies = links.ask_each(&asks(links, table, &route)?)?;
        let mut bodies = bodies.as_slice();
        let mut joined = vec![Vec::new(); route.servers()];
        let mut replies = Vec::with_capacity(route.servers());
        for (server, joined) in joined.iter_mut().enumerate() {
            let rows = route.keys(server).len();
            let (mine, others) = bodies.split_at(rows.div_ceil(most_rows(links, table)));
            replies.push(read_rows(table, server, rows, mine, joined)?);
            bodies = others;
        }
        route.scatter(table.width, &replies, outs);
        keep(&state, route);
        Ok(())
    }

    /// Hands the route of these ids to `push`: that of their pull, or a new one.
    pub(crate) fn push(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        push: impl FnOnce(&Route) -> Result<()>,
    ) -> Result<()> {
        let state = self.table(&table.name);
        let route = {
            let mut state = lock(&state);
            match state.recent.iter().rposition(|route| route.is_of(ids)) {
                Some(at) => state.recent.remove(at).expect("the position was just found"),
                None => state.route(table, ids)?,
            }
        };
        let pushed = push(&route);
        lock(&state).free.push(route);
        pushed
    }

    fn table(&self, name: &str) -> Arc<Mutex<Table>> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        match tables.get(name) {
            Some(table) => Arc::clone(table),
            None => Arc::clone(tables.entry(name.to_owned()).or_default()),
        }
    }
}

impl Table {
    fn route(&mut self, table: &TableRef, ids: &[&[i64]]) -> Result<Route> {
        let mut route = self.free.pop().unwrap_or_default();
        self.router.fill(&mut route, table, ids)?;
        Ok(route)
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(state: &Mutex<Table>, route: Route) {
    let mut state = lock(state);
    if state.recent.len() == KEPT {
        let oldest = state.recent.pop_front();
        state.free.extend(oldest);
    }
    state.recent.push_back(route);
}

/// The requests for the rows of a route: server by server, as many for each as the sizes need.
fn asks<'a>(links: &Links, table: &'a TableRef, route: &'a Route) -> Result<Vec<Ask<'a>>> {
    let mut asks = Vec::with_capacity(table.endpoints.len());
    for (at, endpoint) in table.endpoints.iter().enumerate() {
        let server = links.server(endpoint)?;
        for keys in route.keys(at).chunks(most_rows(links, table)) {
            let what = format!("pull of {} rows of `{}`", keys.len(), table.name);
            let request = Request::PullRows { table: &table.names[at], keys };
            asks.push(Ask { server, lane: Lane::Prefetch, what, request });
        }
    }
    Ok(asks)
}

/// How many rows one request may ask for.
fn most_rows(links: &Links, table: &TableRef) -> usize {
    (links.max_bytes / (table.width.max(2) * 4)).max(1)
}

/// The rows in a server's replies; in `joined` when there was more than one.
fn read_rows<'a>(
    table: &TableRef,
    server: usize,
    rows: usize,
    bodies: &'a [Body],
    joined: &'a mut Vec<f32>,
) -> Result<&'a [f32]> {
    let mut values: &[f32] = &[];
    for body in bodies {
        let Answer::Rows { values: part } = Answer::decode(body)? else {
            return Err(unexpected("a pull of rows", &Answer::decode(body)?));
        };
        if bodies.len() > 1 {
            joined.extend_from_slice(part);
        }
        values = part;
    }
    let values = if bodies.len() > 1 { joined.as_slice() } else { values };
    if values.len() != rows * table.width {
        return Err(Error::Request(format!(
            "server {} sent {} numbers for {rows} rows of table `{}`, which has {} columns: were \
             the trainer's and the server's programs made together?",
            table.endpoints[server],
            values.len(),
            table.name,
            table.width
        )));
    }
    Ok(values)
}

/// Checks that every slot has a row for each id.
pub(crate) fn check_sizes(
    table: &TableRef,
    ids: &[&[i64]],
    values: impl ExactSizeIterator<Item = usize>,
) -> Result<()> {
    let slots = values.len();
    let wrong = ids.iter().zip(values).position(|(ids, len)| len != ids.len() * table.width);
    if slots != ids.len() || wrong.is_some() {
        let slot = wrong.unwrap_or(slots.min(ids.len()));
        return Err(Error::Request(format!(
            "slot {slot} of table `{}` has not one row of {} columns for each id",
            table.name, table.width
        )));
    }
    Ok(())
}
