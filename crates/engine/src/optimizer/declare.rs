//! How an optimizer is declared: its builder, its slots, its rule and its kernel, each from what is
//! particular to it.

/// An optimizer's builder: its numbers with their defaults, and a setter for each. What stands in
/// parentheses is an argument of the constructor; `names` is a list of parameters.
macro_rules! optimizer {
    (
        $(#[$doc:meta])*
        $name:ident($($given:ident: $given_type:ty),*) {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr;)*
        }
        $(names { $(#[$names_doc:meta])* $names:ident })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            settings: $crate::optimizer::Settings,
            $($given: $given_type,)*
            $($field: $type,)*
            $($names: Vec<String>,)?
        }

        impl $name {
            /// With this learning rate.
            pub fn new(learning_rate: impl Into<$crate::lr::Lr>, $($given: $given_type),*) -> $name {
                $name {
                    settings: $crate::optimizer::Settings::new(learning_rate.into()),
                    $($given,)*
                    $($field: $default,)*
                    $($names: Vec::new(),)?
                }
            }

            $crate::optimizer::settings::settings_setters!();

            $(
                $(#[$field_doc])*
                #[must_use]
                pub fn $field(mut self, value: $type) -> Self {
                    self.$field = value;
                    self
                }
            )*

            $(
                $(#[$names_doc])*
                #[must_use]
                pub fn $names<S: Into<String>>(
                    mut self,
                    names: impl IntoIterator<Item = S>,
                ) -> Self {
                    self.$names = names.into_iter().map(Into::into).collect();
                    self
                }
            )?
        }

        impl $crate::optimizer::Configured for $name {
            fn settings(&self) -> &$crate::optimizer::Settings {
                &self.settings
            }
        }
    };
}

/// Slots of one variable each; those after the semicolon may be empty.
macro_rules! slots {
    [$($slot:literal),* $(; $($maybe:literal),*)?] => {
        &[$($crate::op::Slot::one($slot),)* $($($crate::op::Slot::maybe($maybe),)*)?]
    };
}

/// An update rule: its coefficients, how it is made of them, and its formula, from a parameter
/// element, its gradient and its accumulators to the element and the accumulators after the step.
/// A rule that may keep different accumulators has several formulas.
macro_rules! rule {
    (@type [$($doc:tt)*] $vis:vis $name:ident $new:ident { $($coefficient:ident),* }) => {
        $($doc)*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T> {
            $($coefficient: T,)*
        }

        impl<T: $crate::number::Real> $name<T> {
            /// With these coefficients.
            $vis fn $new($($coefficient: f64),*) -> $name<T> {
                $name { $($coefficient: T::from_f64($coefficient),)* }
            }
        }
    };
    (
        @formula $name:ident { $($coefficient:ident),* }
        $param:ident $grad:ident [$($state:ident),*] $body:block
    ) => {
        impl<T: $crate::number::Real>
            $crate::optimizer::Rule<T, { <[&str]>::len(&[$(stringify!($state)),*]) }> for $name<T>
        {
            #[inline(always)]
            fn element(
                &self,
                $param: T,
                $grad: T,
                [$($state),*]: [T; <[&str]>::len(&[$(stringify!($state)),*])],
            ) -> (T, [T; <[&str]>::len(&[$(stringify!($state)),*])]) {
                let $name { $($coefficient),* } = *self;
                $body
            }
        }
    };
    (
        $(#[$doc:meta])*
        $vis:vis $name:ident::$new:ident $coefficients:tt
        $(|$param:ident, $grad:ident, $state:tt| $body:block)+
    ) => {
        rule!(@type [$(#[$doc])*] $vis $name $new $coefficients);
        $(rule!(@formula $name $coefficients $param $grad $state $body);)+
    };
}

/// The kernel of a rule that needs nothing but its coefficients and the learning rate of a step.
macro_rules! update_kernel {
    ($op:expr, $state:expr, $absent:expr, |$rate:ident| $rule:expr) => {{
        let mut update = $crate::optimizer::apply::Update::new($op, $state)?;
        let kernel: $crate::op::Kernel = Box::new(move |run| {
            let (dtype, $rate) = (update.dtype(run)?, update.learning_rate(run)?);
            $crate::dispatch!(dtype, T in [f32, f64] => {
                update.apply::<T, _>(run, &$rule, $absent)
            }, else => Err($crate::op::not_float("Param", dtype)))
        });
        Ok(kernel)
    }};
}

pub(super) use {optimizer, rule, slots, update_kernel};
