//! What every optimizer can be told: learning rate, regulariser, clipping, and which parameters.

use bireme_ir::Regularizer;

use crate::clip::GradClip;
use crate::lr::Lr;

/// The settings that all optimizers share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The learning rate.
    pub learning_rate: Lr,
    /// The penalty on parameters that have none of their own.
    pub regularization: Option<Regularizer>,
    /// How gradients are clipped.
    pub grad_clip: Option<GradClip>,
    /// The parameters to train; all trainable ones when not given.
    pub parameter_list: Option<Vec<String>>,
    /// Variables that no gradient passes through.
    pub no_grad: Vec<String>,
    /// Whether parameters of 16 bits get master copies of 32.
    pub multi_precision: bool,
}

impl Settings {
    pub(super) fn new(learning_rate: Lr) -> Settings {
        Settings {
            learning_rate,
            regularization: None,
            grad_clip: None,
            parameter_list: None,
            no_grad: Vec::new(),
            multi_precision: false,
        }
    }
}

/// The setters of [`Settings`], for an optimizer that keeps them in its field `settings`.
macro_rules! settings_setters {
    () => {
        /// Sets the learning rate: a number or a schedule.
        #[must_use]
        pub fn learning_rate(mut self, learning_rate: impl Into<crate::lr::Lr>) -> Self {
            self.settings.learning_rate = learning_rate.into();
            self
        }

        /// Sets the penalty on parameters that have none of their own.
        #[must_use]
        pub fn regularization(mut self, regularizer: bireme_ir::Regularizer) -> Self {
            self.settings.regularization = Some(regularizer);
            self
        }

        /// Sets how gradients are clipped before they are used.
        #[must_use]
        pub fn grad_clip(mut self, clip: crate::clip::GradClip) -> Self {
            self.settings.grad_clip = Some(clip);
            self
        }

        /// Trains only these parameters.
        #[must_use]
        pub fn parameter_list<S: Into<String>>(
            mut self,
            names: impl IntoIterator<Item = S>,
        ) -> Self {
            self.settings.parameter_list = Some(names.into_iter().map(Into::into).collect());
            self
        }

        /// Keeps master copies of 32 bits of parameters that have 16.
        #[must_use]
        pub fn multi_precision(mut self, keep: bool) -> Self {
            self.settings.multi_precision = keep;
            self
        }

        /// Lets no gradient pass through these variables.
        #[must_use]
        pub fn no_grad<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
            self.settings.no_grad = names.into_iter().map(Into::into).collect();
            self
        }
    };
}

pub(super) use settings_setters;
