//! Schedules: the learning rate as a function of the step.

/// The learning rate as a function of the step, which is counted from 0 (by noam: from 1).
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// `rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)`, of transformers.
    Noam {
        /// The width of the model.
        d_model: f32,
        /// For how many steps the rate rises.
        warmup_steps: f32,
        /// A factor on it all.
        rate: f32,
    },
    /// `rate * decay_rate^(step / decay_steps)`.
    Exponential {
        /// The rate at first.
        rate: f32,
        /// In how many steps it falls by `decay_rate`.
        decay_steps: f32,
        /// What is left of it then.
        decay_rate: f32,
        /// Whether it falls once every `decay_steps`, not a little every step.
        staircase: bool,
    },
    /// `rate * e^(-decay_rate * step / decay_steps)`.
    NaturalExp {
        /// The rate at first.
        rate: f32,
        /// The unit of time, in steps.
        decay_steps: f32,
        /// How fast it falls in that time.
        decay_rate: f32,
        /// Whether it falls once every `decay_steps`, not a little every step.
        staircase: bool,
    },
    /// `rate / (1 + decay_rate * step / decay_steps)`.
    InverseTime {
        /// The rate at first.
        rate: f32,
        /// The unit of time, in steps.
        decay_steps: f32,
        /// How fast it falls in that time.
        decay_rate: f32,
        /// Whether it falls once every `decay_steps`, not a little every step.
        staircase: bool,
    },
    /// `(rate - end) * (1 - step / decay_steps)^power + end`.
    Polynomial {
        /// The rate at first.
        rate: f32,
        /// After how many steps it is at its end.
        decay_steps: f32,
        /// The rate at the end.
        end: f32,
        /// The shape of the fall; 1 is a straight line.
        power: f32,
        /// Whether it starts again at the end, with a time to fall that grows by `decay_steps`
        /// each cycle; if not, it stays at the end.
        cycle: bool,
    },
    /// `values[i]` as long as the step is below `boundaries[i]`, at last the last value.
    Piecewise {
        /// Where the rate changes, rising.
        boundaries: Vec<i64>,
        /// The rates between; one more than boundaries.
        values: Vec<f32>,
    },
    /// `rate / 2 * (cos(pi * epoch / epochs) + 1)`, where the epoch is `step / step_each_epoch`
    /// rounded down.
    Cosine {
        /// The rate at first.
        rate: f32,
        /// Steps in an epoch.
        step_each_epoch: f32,
        /// After how many epochs the rate is zero.
        epochs: f32,
    },
    /// A straight line from `start` to `end` over the first steps, then another schedule, which
    /// counts its steps from there.
    LinearWarmup {
        /// For how many steps.
        warmup_steps: f32,
        /// The rate at first.
        start: f32,
        /// The rate the line leads to.
        end: f32,
        /// What follows.
        then: Box<super::Lr>,
    },
}

impl Schedule {
    /// The number of the first step.
    pub fn first_step(&self) -> u64 {
        u64::from(matches!(self, Schedule::Noam { .. }))
    }

    /// The rate at `step`: the formula that the ops of a program compute. A rate that a variable
    /// holds is known to the program alone, and not a number here.
    pub fn at(&self, step: u64) -> f64 {
        self.at_time(step as f64)
    }

    fn at_time(&self, step: f64) -> f64 {
        let wide = f64::from;
        let time = |steps: f32, staircase: bool| {
            let time = step / wide(steps);
            if staircase { time.floor() } else { time }
        };
        match self {
            Schedule::Noam { d_model, warmup_steps, rate } => {
                let rising = step * wide(*warmup_steps).powf(-1.5);
                wide(*rate) * wide(*d_model).powf(-0.5) * step.powf(-0.5).min(rising)
            }
            Schedule::Exponential { rate, decay_steps, decay_rate, staircase } => {
                wide(*rate) * wide(*decay_rate).powf(time(*decay_steps, *staircase))
            }
            Schedule::NaturalExp { rate, decay_steps, decay_rate, staircase } => {
                wide(*rate) * (-wide(*decay_rate) * time(*decay_steps, *staircase)).exp()
            }
            Schedule::InverseTime { rate, decay_steps, decay_rate, staircase } => {
                wide(*rate) / (1.0 + wide(*decay_rate) * time(*decay_steps, *staircase))
            }
            Schedule::Polynomial { rate, decay_steps, end, power, cycle } => {
                let steps = wide(*decay_steps);
                let left = if *cycle {
                    1.0 - step / (steps * (step / steps).ceil().max(1.0))
                } else {
                    1.0 - step.min(steps) / steps
                };
                (wide(*rate) - wide(*end)) * left.powf(wide(*power)) + wide(*end)
            }
            Schedule::Piecewise { boundaries, values } => {
                let past = boundaries.iter().filter(|boundary| step >= **boundary as f64).count();
                values.get(past).or(values.last()).map_or(0.0, |rate| wide(*rate))
            }
            Schedule::Cosine { rate, step_each_epoch, epochs } => {
                let angle = time(*step_each_epoch, true) * std::f64::consts::PI / wide(*epochs);
                wide(*rate) / 2.0 * (angle.cos() + 1.0)
            }
            Schedule::LinearWarmup { warmup_steps, start, end, then } => {
                let steps = wide(*warmup_steps);
                if step < steps {
                    return wide(*start) + (wide(*end) - wide(*start)) * step / steps;
                }
                match &**then {
                    super::Lr::Constant(rate) => wide(*rate),
                    super::Lr::Schedule(schedule) => schedule.at_time(step - steps),
                    super::Lr::Variable(_) => f64::NAN,
                }
            }
        }
    }
}
