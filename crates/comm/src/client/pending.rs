//! A request whose reply is on its way.

use std::sync::Arc;
use std::time::Duration;

use super::link::{Link, Until};
use crate::{Body, Result};

/// A request that was started; dropping it does not take the request back.
pub struct Pending {
    link: Arc<Link>,
    number: u64,
    what: String,
    taken: bool,
}

impl Pending {
    pub(super) fn new(link: Arc<Link>, number: u64, what: &str) -> Pending {
        Pending { link, number, what: what.to_string(), taken: false }
    }

    /// Waits for the reply, until the deadline that began with the request.
    pub fn wait(mut self) -> Result<Body> {
        self.taken = true;
        let reply = self.link.wait(self.number, &self.what, None, Until::Deadline)?;
        Ok(reply.expect("waited to the end"))
    }

    /// Waits for the reply as long as the server shows signs of life: for requests that take as long
    /// as there is data, such as a checkpoint.
    pub fn wait_until_lost(mut self) -> Result<Body> {
        self.taken = true;
        let reply = self.link.wait(self.number, &self.what, None, Until::Lost)?;
        Ok(reply.expect("waited to the end"))
    }

    /// Waits for the reply no longer than `patience`; none if it is not there by then.
    /// After a result other than none there is nothing left to wait for: that is an error.
    pub fn wait_for(&mut self, patience: Duration) -> Result<Option<Body>> {
        if self.taken {
            return Err(crate::Error::Protocol {
                peer: "this process".into(),
                problem: format!("a second wait for the one reply of {}", self.what),
            });
        }
        let reply = self.link.wait(self.number, &self.what, None, Until::Within(patience));
        self.taken = !matches!(reply, Ok(None));
        reply
    }

    /// Whether [`Pending::wait`] would return at once.
    pub fn is_ready(&self) -> bool {
        self.taken || self.link.is_ready(self.number)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.taken {
            self.link.abandon(self.number);
        }
    }
}
