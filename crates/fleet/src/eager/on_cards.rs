//! Reductions of eager tensors whose cards exchange among themselves: nothing waits, and nothing comes to the host.

use std::sync::Arc;

use bireme_engine::collective::Reduction as OnCard;
use bireme_engine::device::{Address, DeviceTensor, DeviceValue, Elements, Exchange};
use bireme_engine::eager::{EagerTensor, Held};
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Place, Result, Value};

use super::tensors::Reduction;

/// This rank's card among those of all.
#[derive(Clone)]
pub struct OnCards {
    exchange: Arc<dyn Exchange>,
    place: Place,
}

impl OnCards {
    /// The card at `place`, and its way to the others.
    pub fn new(exchange: Arc<dyn Exchange>, place: Place) -> OnCards {
        OnCards { exchange, place }
    }

    /// Whether tensors like this one go from card to card: on every rank alike, if it has the same.
    pub fn takes(&self, tensor: &EagerTensor) -> bool {
        tensor.place() == self.place && self.exchange.takes(tensor.dtype())
    }

    /// The tensor becomes the reduction of those of all ranks; says no, and does nothing, where it does not go from
    /// card to card.
    ///
    /// # Errors
    /// When the card takes no more work, or a rank was lost.
    pub fn all_reduce(&self, tensor: &EagerTensor, reduction: Reduction) -> Result<bool> {
        let exchange = &self.exchange;
        let how = match reduction {
            Reduction::Average if !is_float(tensor.dtype()) => return Ok(false),
            Reduction::Average => {
                return self.replace(tensor, |from, to, of| exchange.average(from, to, of));
            }
            Reduction::Sum => OnCard::Sum,
            Reduction::Product => OnCard::Prod,
            Reduction::Min => OnCard::Min,
            Reduction::Max => OnCard::Max,
        };
        self.replace(tensor, |from, to, of| exchange.all_reduce(from, to, of, how))
    }

    /// The tensor of rank `root` becomes the reduction of those of all, `own` being this rank; those of others stay as
    /// they are. Otherwise as [`OnCards::all_reduce`].
    ///
    /// # Errors
    /// As there.
    pub fn reduce(
        &self,
        tensor: &EagerTensor,
        reduction: Reduction,
        root: usize,
        own: usize,
    ) -> Result<bool> {
        let how = match reduction {
            // What cards have no way to average for one alone, they average for all.
            Reduction::Average => return Ok(false),
            Reduction::Sum => OnCard::Sum,
            Reduction::Product => OnCard::Prod,
            Reduction::Min => OnCard::Min,
            Reduction::Max => OnCard::Max,
        };
        let before = tensor.held();
        let done =
            self.replace(tensor, |from, to, of| self.exchange.reduce(from, to, of, how, root))?;
        if done && own != root {
            tensor.replace_value(before);
        }
        Ok(done)
    }

    /// The tensor becomes that of rank `root`, as [`OnCards::all_reduce`].
    ///
    /// # Errors
    /// As there.
    pub fn broadcast(&self, tensor: &EagerTensor, root: usize) -> Result<bool> {
        self.replace(tensor, |from, to, of| self.exchange.broadcast(from, to, of, root))
    }

    fn replace(
        &self,
        tensor: &EagerTensor,
        ask: impl FnOnce(Address, Address, Elements) -> Result<()>,
    ) -> Result<bool> {
        let mut held = tensor.held();
        let Some(card) = held.home().filter(|_| self.takes(tensor)).cloned() else {
            return Ok(false);
        };
        if held.is_rows() {
            // Rows of a gradient that is dense on other ranks.
            let rows = tensor.value()?;
            let dense = match &*rows {
                Value::Rows(rows) => rows.to_dense()?,
                Value::Tensor(tensor) => Tensor::clone(tensor),
            };
            held = Arc::new(Held::at(dense, Some(Arc::clone(&card))));
        }
        let DeviceValue::Tensor(from) = held.card(&card)? else { return Ok(false) };
        let to = DeviceTensor::new(card.device().as_ref(), from.dtype(), from.dims())?;
        let of = Elements { dtype: from.dtype(), count: from.dims().numel() };
        // All work of the card is in one order: what is read may be given back at once.
        ask(from.address(), to.address(), of)?;
        tensor.replace_value(Held::on_card(&card, DeviceValue::Tensor(to)));
        Ok(true)
    }
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
}
