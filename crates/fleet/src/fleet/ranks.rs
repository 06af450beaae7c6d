//! A rank's part of a collective job.

use std::sync::Arc;

use bireme_collective::{Config, Group};
use bireme_ir::Program;

use super::Fleet;
use crate::collective::Rings;
use crate::settings::check_guarded;
use crate::{Error, Result, Strategy};

impl Fleet {
    /// The programs of this rank, or of a process that is alone.
    pub(super) fn for_ranks(
        &self,
        main: &Program,
        startup: &Program,
        strategy: &Strategy,
    ) -> Result<(Program, Program)> {
        let endpoints = self.role.worker_endpoints();
        if !self.role.is_collective() || endpoints.is_empty() {
            return Ok((main.clone(), startup.clone()));
        }
        let rank = self.role.index() as usize;
        Ok(strategy.collective.rewrite(rank, endpoints, main, startup)?)
    }

    /// Connects this rank to the others, once; `None` for a process that is alone.
    ///
    /// # Errors
    /// When a rank cannot be reached in time.
    pub fn join(&mut self) -> Result<Option<Arc<Rings>>> {
        let endpoints = self.role.worker_endpoints().to_vec();
        let has_ranks = self.role.is_collective() || self.is_gpubox();
        if !has_ranks || endpoints.len() < 2 {
            return Ok(None);
        }
        if let Some(rings) = &self.rings {
            return Ok(Some(Arc::clone(rings)));
        }
        let rank = self.role.index() as usize;
        if let (true, Some(own)) = (self.is_on_network, endpoints.get(rank)) {
            check_guarded(own, &self.settings, &self.environment)?;
        }
        let config = Config { settings: self.settings.clone(), ..Config::new(rank, endpoints) };
        let rings = Arc::new(Rings::new(Group::connect(&config, &self.transport)?));
        if let Some(job) = &self.job {
            rings.compare(&job.fingerprint)?;
        }
        self.rings = Some(Arc::clone(&rings));
        Ok(Some(rings))
    }

    /// The other ranks, between [`Fleet::init_worker`] and [`Fleet::stop_worker`]; `None` for a
    /// process that is alone, or trains with servers and not in GPUBox.
    pub fn rings(&self) -> Option<Arc<Rings>> {
        self.rings.clone()
    }

    /// Lets the other ranks go.
    pub(super) fn leave(&mut self) {
        self.rings = None;
    }

    /// The group of this rank; `None` for a process that is alone or has servers.
    pub(crate) fn group(&self, method: &str) -> Result<Option<Group>> {
        if !self.role.is_collective() || self.role.worker_endpoints().len() < 2 {
            return Ok(None);
        }
        match &self.rings {
            Some(rings) => Ok(Some(rings.group(0))),
            None => Err(Error::Config(format!(
                "`{method}` needs the other ranks: call `init_worker` before"
            ))),
        }
    }
}
