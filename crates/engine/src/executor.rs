//! Runs programs against a scope.

use std::borrow::Cow;
use std::sync::Arc;

use bireme_ir::{DType, Program, Var};

use crate::collective::Collective;
use crate::device::{Device, DeviceTensor, MemoryPlan, OnMemory};
use crate::graph::ProgramHandle;
use crate::plan::{FeedShape, Plan, Question, StepTimes, Way, shape_of};
use crate::remote::Remote;
use crate::tensor::{Dims, Tensor};
use crate::{Draws, Error, Place, Result, Scope};

/// More workers than this have no rows to work on, and may be more than the system can start.
pub const MAX_THREADS: usize = 256;

/// Programs whose plans [`Executor::run`] keeps.
const MAX_PLANS: usize = 16;

/// Runs programs: compiles each once, keeps its plan, and keeps persistable variables in a scope.
pub struct Executor {
    scope: Scope,
    threads: usize,
    check_finite: bool,
    hogwild: bool,
    interrupt: Option<Question>,
    remote: Option<Arc<dyn Remote>>,
    collective: Option<Arc<dyn Collective>>,
    device: Option<Arc<dyn Device>>,
    on_memory: Option<OnMemory>,
    draws: Option<Draws>,
    timed: bool,
    kept: Vec<Kept>,
}

/// A program that has been run before.
struct Kept {
    of: Of,
    /// The variables that the step is bound to; kept alive, so that no other scope is taken for it.
    scope: Scope,
    feeds: Vec<String>,
    fetches: Vec<String>,
    step: Step,
}

/// How a program is recognised.
enum Of {
    /// By comparing it, which is done by looking at one pointer when nobody has changed it.
    Program(Program),
    /// By its number and version.
    Handle { id: u64, version: u64 },
}

/// A program compiled for certain feeds and fetches: the fast way to run it many times.
pub struct Step {
    plan: Plan,
    threads: usize,
    /// Declarations of the feeds.
    feeds: Vec<Var>,
    fetched: Vec<Tensor>,
}

/// What a step is fed.
#[derive(Clone, Copy, Debug)]
pub enum Feed<'a> {
    /// A tensor of the host.
    Host(&'a Tensor),
    /// A tensor of a card; it must not change before the step has run.
    Card(&'a DeviceTensor),
}

impl<'a> Feed<'a> {
    fn at_home(&self) -> Result<Cow<'a, Tensor>> {
        match self {
            Feed::Host(feed) => Ok(Cow::Borrowed(feed)),
            Feed::Card(feed) => feed.download().map(Cow::Owned),
        }
    }

    pub(crate) fn shape(&self) -> FeedShape {
        match self {
            Feed::Host(feed) => FeedShape::of(feed),
            Feed::Card(feed) => FeedShape { dtype: feed.dtype(), dims: feed.dims(), lod_level: 0 },
        }
    }
}

impl Executor {
    /// An executor with a scope of its own, on one thread.
    ///
    /// # Errors
    /// When this build cannot run on `place`.
    pub fn new(place: Place) -> Result<Executor> {
        place.check()?;
        Ok(Executor {
            scope: Scope::new(),
            threads: 1,
            check_finite: false,
            hogwild: false,
            interrupt: None,
            remote: None,
            collective: None,
            device: None,
            on_memory: None,
            draws: None,
            timed: false,
            kept: Vec::new(),
        })
    }

    /// An executor with a scope of its own, on a card: ops that have a kernel there run there, the
    /// others on the host, and values are copied between the two where somebody needs them.
    pub fn on(device: Arc<dyn Device>) -> Executor {
        let mut executor = Executor::new(Place::Cpu).expect("there is always a host");
        executor.device = Some(device);
        executor
    }

    /// The card it runs on, if there is one.
    pub fn device(&self) -> Option<&Arc<dyn Device>> {
        self.device.as_ref()
    }

    /// Tells `tell` what a step takes of the card, whenever memory was taken for feeds of a new shape.
    pub fn on_memory(mut self, tell: OnMemory) -> Executor {
        self.on_memory = Some(tell);
        self.kept.clear();
        self
    }

    /// What a step of `program` with `batch` rows would take of the card, without taking it. Variables that have no
    /// value yet are as the program declares them.
    ///
    /// # Errors
    /// As [`Executor::prepare`]; and when this executor is not on a card.
    pub fn memory_plan(
        &self,
        program: &Program,
        feeds: &[&str],
        fetches: &[&str],
        batch: usize,
    ) -> Result<MemoryPlan> {
        let step = self.prepare(program, feeds, fetches)?;
        let shapes = step.feeds.iter().map(|var| shape_of(var, batch));
        step.plan.memory_plan(&shapes.collect::<Result<Vec<_>>>()?)
    }

    /// Splits each batch over this many threads, 256 at most. The results depend on the number of threads only
    /// in the last digits (the order of sums), and not at all on timing.
    pub fn threads(mut self, threads: usize) -> Executor {
        self.threads = threads.clamp(1, MAX_THREADS);
        self.kept.clear();
        self
    }

    /// Stops at the first op that produces NaN or infinity, naming the op and the step.
    pub fn check_finite(mut self, check: bool) -> Executor {
        self.set_check_finite(check);
        self
    }

    /// As [`Executor::check_finite`], for an executor in use.
    pub fn set_check_finite(&mut self, check: bool) {
        if self.check_finite != check {
            self.check_finite = check;
            self.kept.clear();
        }
    }

    /// Asks `question` between ops, on the thread that runs the step, at most every few
    /// milliseconds. When it says yes the step ends with [`Error::Interrupted`], and may be run
    /// again; parameters that it had updated by then stay so.
    pub fn interrupt(mut self, question: Arc<dyn Fn() -> bool + Send + Sync>) -> Executor {
        self.interrupt = Some(question);
        self.kept.clear();
        self
    }

    /// Lets `remote` answer the ops that talk to parameter servers.
    pub fn remote(mut self, remote: Arc<dyn Remote>) -> Executor {
        self.connect(Some(remote));
        self
    }

    /// As [`Executor::remote`], for an executor in use; `None` takes the connection away.
    pub fn connect(&mut self, remote: Option<Arc<dyn Remote>>) {
        self.remote = remote;
        self.kept.clear();
    }

    /// Lets `collective` answer the ops that talk to the other ranks of a job.
    pub fn collective(mut self, collective: Arc<dyn Collective>) -> Executor {
        self.join(Some(collective));
        self
    }

    /// As [`Executor::collective`], for an executor in use; `None` takes the other ranks away.
    pub fn join(&mut self, collective: Option<Arc<dyn Collective>>) {
        self.collective = collective;
        self.kept.clear();
    }

    /// Lets prepared steps go on with the random numbers of others; without it, each starts anew.
    pub fn draws(mut self, draws: Draws) -> Executor {
        self.draws = Some(draws);
        self.kept.clear();
        self
    }

    /// Adds up where the time of prepared steps goes ([`Step::times`]), which costs them a little.
    pub fn timed(mut self, timed: bool) -> Executor {
        self.timed = timed;
        self.kept.clear();
        self
    }

    /// Uses the variables of `scope`. Executors on several threads may share one: their steps take
    /// turns, or run at one time ([`Executor::hogwild`]).
    pub fn with_scope(mut self, scope: Scope) -> Executor {
        self.scope = scope;
        self.kept.clear();
        self
    }

    /// Lets steps run at the same time as those of other executors that share the scope and are set
    /// so too: training threads that update its parameters without locks, as Hogwild does. Each
    /// element that a step reads is one that some thread wrote; what two threads add to an element
    /// at one time may count once. A step works on copies of what it reads densely (weights), made
    /// when it begins, and on rows of tables where they are. The copies are ahead of the variables, by
    /// what an optimizer's momentum will do in one update for each step beside; and what others did
    /// to the variables meanwhile is taken out of dense gradients, so that it is not done twice. A
    /// program that keeps selected rows, or whose variables change their shape from step to step,
    /// still takes turns.
    pub fn hogwild(mut self, hogwild: bool) -> Executor {
        self.hogwild = hogwild;
        self.kept.clear();
        self
    }

    /// The scope.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Runs `program` once. Plans are kept, so running the same program again is quick; a loop
    /// that counts microseconds uses [`Executor::prepare`].
    ///
    /// # Errors
    /// When a feed is missing or does not fit, a variable has no value, or an op fails.
    pub fn run(
        &mut self,
        program: &Program,
        feeds: &[(&str, &Tensor)],
        fetches: &[&str],
    ) -> Result<Vec<Tensor>> {
        let names: Vec<&str> = feeds.iter().map(|(name, _)| *name).collect();
        let tensors: Vec<&Tensor> = feeds.iter().map(|(_, tensor)| *tensor).collect();
        let same = |kept: &Kept| {
            kept.suits(&self.scope, &names, fetches)
                && matches!(&kept.of, Of::Program(other) if *other == *program)
        };
        let at = match self.kept.iter().position(same) {
            Some(at) => at,
            None => {
                // Other fetches of the same program: the next steps, not the first ones again.
                let is_it = |kept: &&Kept| {
                    kept.scope.is_same(&self.scope)
                        && matches!(&kept.of, Of::Program(other) if *other == *program)
                };
                let draws = self.kept.iter().find(is_it).map(|kept| kept.step.plan.draws().clone());
                let mut step = self.prepare(program, &names, fetches)?;
                if let Some(draws) = draws {
                    step.plan.draw_from(draws);
                }
                let of = Of::Program(program.clone());
                let scope = self.scope.clone();
                self.keep(of, scope, &names, fetches, step)
            }
        };
        let step = &mut self.kept[at].step;
        step.run(&tensors)?;
        Ok(step.fetched.clone())
    }

    /// The program of a handle, compiled for these feeds and fetches and bound to `scope`: kept
    /// from an earlier call when the program has not been edited since. A call that finds it looks
    /// at no op, so that a caller may ask for every step.
    ///
    /// # Errors
    /// As [`Executor::prepare`].
    pub fn step(
        &mut self,
        program: &ProgramHandle,
        scope: &Scope,
        feeds: &[&str],
        fetches: &[&str],
    ) -> Result<&mut Step> {
        let (id, version) = (program.id(), program.version());
        let same = |kept: &Kept| {
            matches!(kept.of, Of::Handle { id: i, version: v } if (i, v) == (id, version))
                && kept.suits(scope, feeds, fetches)
        };
        let at = match self.kept.iter().position(same) {
            Some(at) => at,
            None => {
                let old = |kept: &Kept| matches!(kept.of, Of::Handle { id: i, version: v } if i == id && v != version);
                self.kept.retain(|kept| !old(kept));
                let mut step = program.read(|p| self.prepare_in(p, scope, feeds, fetches, &[]))?;
                if self.draws.is_none() {
                    step.plan.draw_from(scope.draws(program.sequence(), 0));
                }
                self.keep(Of::Handle { id, version }, scope.clone(), feeds, fetches, step)
            }
        };
        Ok(&mut self.kept[at].step)
    }

    /// Compiles `program` for these feeds and fetches.
    ///
    /// # Errors
    /// When an op does not exist, a feed is not declared, or nothing computes a fetch.
    pub fn prepare(&self, program: &Program, feeds: &[&str], fetches: &[&str]) -> Result<Step> {
        self.prepare_private(program, feeds, fetches, &[])
    }

    /// As [`Executor::prepare`], but persistable variables named in `private` (metrics, counters)
    /// belong to this step alone, starting with what they hold in the scope now: for training
    /// threads that share everything else.
    ///
    /// # Errors
    /// As [`Executor::prepare`].
    pub fn prepare_private(
        &self,
        program: &Program,
        feeds: &[&str],
        fetches: &[&str],
        private: &[&str],
    ) -> Result<Step> {
        self.prepare_in(program, &self.scope, feeds, fetches, private)
    }

    fn prepare_in(
        &self,
        program: &Program,
        scope: &Scope,
        feeds: &[&str],
        fetches: &[&str],
        private: &[&str],
    ) -> Result<Step> {
        let way = Way {
            check_finite: self.check_finite,
            device: self.device.as_deref(),
            threads: self.threads,
            collective: self.collective.as_deref(),
        };
        let mut plan = Plan::new(program, feeds, fetches, scope, private, way)?;
        if self.hogwild {
            plan.run_beside_others();
        }
        if let Some(question) = &self.interrupt {
            plan.ask_between_ops(Arc::clone(question));
        }
        if let Some(remote) = &self.remote {
            plan.connect(Arc::clone(remote));
        }
        if let Some(collective) = &self.collective {
            plan.join(Arc::clone(collective));
        }
        if let Some(device) = &self.device {
            plan.run_on(Arc::clone(device));
        }
        if let Some(tell) = &self.on_memory {
            plan.tell_memory(Arc::clone(tell));
        }
        if let Some(draws) = &self.draws {
            plan.draw_from(draws.clone());
        }
        if self.timed {
            plan.time();
        }
        let declared = |name: &&str| program.global().var(name).cloned().expect("checked above");
        Ok(Step {
            plan,
            threads: self.threads,
            feeds: feeds.iter().map(declared).collect(),
            fetched: fetches.iter().map(|_| Tensor::empty(bireme_ir::DType::F32)).collect(),
        })
    }

    fn keep(
        &mut self,
        of: Of,
        scope: Scope,
        feeds: &[&str],
        fetches: &[&str],
        step: Step,
    ) -> usize {
        if self.kept.len() >= MAX_PLANS {
            self.kept.remove(0);
        }
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        self.kept.push(Kept { of, scope, feeds: owned(feeds), fetches: owned(fetches), step });
        self.kept.len() - 1
    }
}

impl Kept {
    fn suits(&self, scope: &Scope, feeds: &[&str], fetches: &[&str]) -> bool {
        self.scope.is_same(scope) && self.feeds == feeds && self.fetches == fetches
    }
}

impl Step {
    /// Runs once, with tensors in the order of the feeds' names.
    ///
    /// # Errors
    /// When a feed is missing or does not fit, a variable has no value, or an op fails.
    pub fn run(&mut self, feeds: &[&Tensor]) -> Result<()> {
        if self.plan.device().is_some() {
            let feeds: Vec<Feed<'_>> = feeds.iter().map(|feed| Feed::Host(feed)).collect();
            return self.run_fed(&feeds);
        }
        self.check_feeds(feeds, |feed| (feed.dtype(), feed.dims()))?;
        self.plan.run(feeds, self.threads, &mut self.fetched)
    }

    /// As [`Step::run`], with tensors of which some may be on a card: a step on that card uses them
    /// where they are.
    ///
    /// # Errors
    /// As [`Step::run`].
    pub fn run_fed(&mut self, feeds: &[Feed<'_>]) -> Result<()> {
        self.check_feeds(feeds, |feed| match feed {
            Feed::Host(feed) => (feed.dtype(), feed.dims()),
            Feed::Card(feed) => (feed.dtype(), feed.dims()),
        })?;
        if let Some(device) = self.plan.device().cloned() {
            return self.plan.run_on_card(&device, feeds, &mut self.fetched);
        }
        let home = feeds.iter().map(Feed::at_home).collect::<Result<Vec<_>>>()?;
        let home: Vec<&Tensor> = home.iter().map(|feed| &**feed).collect();
        self.plan.run(&home, self.threads, &mut self.fetched)
    }

    fn check_feeds<F>(&self, feeds: &[F], shape: impl Fn(&F) -> (DType, Dims)) -> Result<()> {
        if feeds.len() != self.feeds.len() {
            let missing = self.feeds.get(feeds.len()).map_or("", |var| &var.name);
            return Err(Error::Feed {
                var: missing.to_owned(),
                problem: format!("{} feeds expected, {} given", self.feeds.len(), feeds.len()),
            });
        }
        self.feeds.iter().zip(feeds).try_for_each(|(var, feed)| check_feed(var, shape(feed)))
    }

    /// What the last run fetched, by position.
    pub fn fetched(&self, fetch: usize) -> &Tensor {
        &self.fetched[fetch]
    }

    /// What the last run fetched, handed over: the next run makes a new tensor for it.
    pub fn take_fetched(&mut self, fetch: usize) -> Tensor {
        let empty = Tensor::empty(bireme_ir::DType::F32);
        std::mem::replace(&mut self.fetched[fetch], empty)
    }

    /// Declarations of the feeds, in their order.
    pub fn feeds(&self) -> &[Var] {
        &self.feeds
    }

    /// Where the time of its runs on the host went, if its executor was [`Executor::timed`].
    pub fn times(&self) -> Option<StepTimes> {
        self.plan.times()
    }

    /// A copy of a persistable variable as this step sees it; private ones can be read only here.
    pub fn persistable(&self, name: &str) -> Option<Tensor> {
        self.plan.persistable(name)
    }
}

fn check_feed(var: &Var, (dtype, dims): (DType, Dims)) -> Result<()> {
    let fits = dims.len() == var.shape.len()
        && var.shape.iter().zip(dims.iter()).all(|(want, have)| *want < 0 || *want == *have as i64);
    if fits && dtype == var.dtype {
        return Ok(());
    }
    Err(Error::Feed {
        var: var.name.clone(),
        problem: format!(
            "expected {} of shape {:?} (-1: any), given {dtype} of shape {dims}",
            var.dtype, var.shape
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bireme_ir::{DType, Op};

    #[test]
    fn steps_of_a_handle_are_kept_until_it_is_edited() {
        let program = ProgramHandle::default();
        program.edit(|program| {
            let block = program.global_mut();
            let x = block.add_var(Var::tensor("x", DType::F32, [-1]));
            x.need_check_feed = true;
            block.add_var(Var::tensor("y", DType::F32, [-1]));
            block.ops.push(Op::new("relu").input("X", ["x"]).output("Out", ["y"]));
        });
        let (mut executor, scope) = (Executor::new(Place::Cpu).unwrap(), Scope::new());
        let mut run = |x: f32| {
            let step = executor.step(&program, &scope, &["x"], &["y"]).unwrap();
            step.run(&[&Tensor::scalar(x)]).unwrap();
            (step.take_fetched(0).to_f64_vec(), executor.kept.len())
        };
        assert_eq!(run(-2.0), (vec![0.0], 1));
        assert_eq!(run(2.0), (vec![2.0], 1));
        program.edit(|program| program.global_mut().ops[0].kind = "square".to_owned());
        assert_eq!(run(-2.0), (vec![4.0], 1));
        let other = Scope::new();
        executor.step(&program, &other, &["x"], &["y"]).unwrap();
        assert_eq!(executor.kept.len(), 2);
    }

    /// A program whose `y` is a random mask.
    fn dropout() -> ProgramHandle {
        let program = ProgramHandle::default();
        program.edit(|program| {
            let block = program.global_mut();
            block.add_var(Var::tensor("x", DType::F32, [-1])).need_check_feed = true;
            block.add_var(Var::tensor("y", DType::F32, [-1]));
            block.add_var(Var::tensor("mask", DType::U8, [-1]));
            let op = Op::new("dropout").input("X", ["x"]).output("Out", ["y"]);
            block.ops.push(op.output("Mask", ["mask"]).attr("dropout_prob", 0.5f32));
        });
        program.reseed(5);
        program
    }

    #[test]
    fn random_numbers_go_on_in_the_plans_of_a_program() {
        let (program, scope) = (dropout(), Scope::new());
        let x = Tensor::from_slice([64], &[1f32; 64]).unwrap();
        let draw = |executor: &mut Executor, scope: &Scope, fetches: &[&str]| {
            let step = executor.step(&program, scope, &["x"], fetches).unwrap();
            step.run(&[&x]).unwrap();
            step.take_fetched(0).to_f64_vec()
        };
        let sequence = |scope: &Scope| {
            let mut one = Executor::new(Place::Cpu).unwrap();
            let mut masks = vec![
                draw(&mut one, scope, &["y"]),
                draw(&mut one, scope, &["y", "mask"]),
                draw(&mut Executor::new(Place::Cpu).unwrap(), scope, &["y"]),
            ];
            program.edit(|program| {
                program.global_mut().add_var(Var::tensor("z", DType::F32, [1]));
            });
            masks.push(draw(&mut one, scope, &["y"]));
            masks
        };
        let masks = sequence(&scope);
        for (at, mask) in masks.iter().enumerate() {
            assert!(!masks[..at].contains(mask), "step {at} repeats another's numbers");
        }
        assert_eq!(sequence(&Scope::new()), masks, "another model starts anew");
        assert_ne!(sequence(&scope), masks);
        program.reseed(5);
        assert_eq!(sequence(&scope), masks, "and so does one with a new seed");
    }

    #[test]
    fn steps_draw_from_what_the_executor_was_given() {
        let (draws, x) = (Draws::of_thread(1), Tensor::from_slice([4], &[1f32; 4]).unwrap());
        let mut executor = Executor::new(Place::Cpu).unwrap().draws(draws.clone());
        let step = executor.step(&dropout(), &Scope::new(), &["x"], &["y"]);
        step.unwrap().run(&[&x]).unwrap();
        assert_eq!(draws.next(), (1 << 48) + 1, "one step has drawn");
    }

    #[test]
    fn random_numbers_go_on_in_runs_of_a_program() {
        let program = dropout().program();
        let x = Tensor::from_slice([64], &[1f32; 64]).unwrap();
        let mut executor = Executor::new(Place::Cpu).unwrap();
        let mut run = |fetches: &[&str]| {
            executor.run(&program, &[("x", &x)], fetches).unwrap()[0].to_f64_vec()
        };
        assert_ne!(run(&["y"]), run(&["y", "mask"]));
    }

    #[test]
    fn a_program_is_known_by_what_it_says_now() {
        let mut program = dropout().program();
        program.global_mut().ops[0] = Op::new("relu").input("X", ["x"]).output("Out", ["y"]);
        let mut executor = Executor::new(Place::Cpu).unwrap();
        let mut run = |program: &Program| {
            let fetched = executor.run(program, &[("x", &Tensor::scalar(-2f32))], &["y"]).unwrap();
            (fetched[0].to_f64_vec(), executor.kept.len())
        };
        assert_eq!(run(&program), (vec![0.0], 1));
        let mut copy = program.clone();
        assert_eq!(run(&copy), (vec![0.0], 1));
        copy.global_mut().ops[0].kind = "square".to_owned();
        assert_eq!(run(&copy), (vec![4.0], 2));
        assert_eq!(run(&program), (vec![0.0], 2));
        program.global_mut().ops[0].kind = "square".to_owned();
        assert_eq!(run(&program), (vec![4.0], 2));
    }
}
