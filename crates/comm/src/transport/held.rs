//! An endpoint that is bound before anybody knows who will listen on it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Bound, Stream, Transport};
use crate::Result;

/// A transport on which an endpoint is bound already: whoever listens on that gets it, and no other
/// process can have taken it meanwhile.
pub struct Held {
    transport: Arc<dyn Transport>,
    endpoint: String,
    bound: Mutex<Option<Bound>>,
}

impl Held {
    /// Binds an endpoint; port 0 means any free one.
    ///
    /// # Errors
    /// When it cannot be bound.
    pub fn bind(transport: Arc<dyn Transport>, endpoint: &str) -> Result<Held> {
        let bound = transport.listen(endpoint)?;
        Ok(Held { transport, endpoint: bound.endpoint.clone(), bound: Mutex::new(Some(bound)) })
    }

    /// The endpoint with its real port.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

impl Transport for Held {
    fn listen(&self, endpoint: &str) -> Result<Bound> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        match bound.take_if(|bound| bound.endpoint == endpoint) {
            Some(bound) => Ok(bound),
            None => self.transport.listen(endpoint),
        }
    }

    fn connect(&self, endpoint: &str, timeout: Duration) -> Result<Box<dyn Stream>> {
        self.transport.connect(endpoint, timeout)
    }

    fn connect_far(&self, endpoint: &str, timeout: Duration) -> Result<Box<dyn Stream>> {
        self.transport.connect_far(endpoint, timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Network, Path};

    #[test]
    fn nobody_takes_a_port_that_is_held() {
        let network: Arc<dyn Transport> = Arc::new(Network::new(Path::Tcp));
        let held = Held::bind(network.clone(), "127.0.0.1:0").unwrap();
        assert!(network.listen(held.endpoint()).is_err());
        // Who is early waits until somebody listens.
        let early = network.connect(held.endpoint(), Duration::from_secs(5)).unwrap();
        let bound = held.listen(held.endpoint()).unwrap();
        assert_eq!(bound.endpoint, held.endpoint());
        bound.listeners[0].accept().unwrap();
        drop((early, bound));
        assert!(held.listen("127.0.0.1:0").is_ok());
    }
}
