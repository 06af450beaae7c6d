//! Every optimizer, as tests compare distributed training with local training.

use bireme_engine::optimizer::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, DecayedAdagrad, Ftrl, Lamb, Lars, Momentum, Optimizer,
    RmsProp, Sgd,
};

/// Every optimizer, with a learning rate that moves the parameters.
///
/// Adaptive optimizers divide by a root of squared gradients: where a gradient is almost zero, the
/// order of a sum decides its sign, and with it a whole step. A larger epsilon than usual makes them
/// smooth there, so that the comparison is about distribution and not about rounding.
pub(crate) fn optimizers() -> Vec<(&'static str, Box<dyn Optimizer>)> {
    const SMOOTH: f32 = 1e-2;
    vec![
        ("sgd", Box::new(Sgd::new(0.1))),
        ("adam", Box::new(Adam::new(0.003).epsilon(SMOOTH))),
        ("lazy adam", Box::new(Adam::new(0.003).lazy_mode(true).epsilon(SMOOTH))),
        ("momentum", Box::new(Momentum::new(0.01, 0.9))),
        ("lars", Box::new(Lars::new(0.1, 0.9))),
        ("adamw", Box::new(AdamW::new(0.003).epsilon(SMOOTH))),
        ("adamax", Box::new(Adamax::new(0.003).epsilon(SMOOTH))),
        ("adagrad", Box::new(Adagrad::new(0.02).epsilon(SMOOTH))),
        ("decayed adagrad", Box::new(DecayedAdagrad::new(0.01).epsilon(SMOOTH))),
        ("adadelta", Box::new(Adadelta::new(0.1).epsilon(SMOOTH))),
        ("rmsprop", Box::new(RmsProp::new(0.003).epsilon(SMOOTH))),
        // Without a penalty, its first step is the rate times the sign of the gradient.
        ("ftrl", Box::new(Ftrl::new(0.05).l2(1.0))),
        ("lamb", Box::new(Lamb::new(0.003).epsilon(SMOOTH))),
    ]
}
