//! Streaming: data that is read while it is trained, with so little memory that rows leave and come
//! back all the time.

use std::collections::VecDeque;
use std::time::Duration;

use bireme_data::{Batches, Samples, Slot, Summary, Training, Values};
use bireme_engine::random::Philox;
use bireme_fleet::gpubox::StreamReport;

use super::*;

/// Bytes of so many rows of a table with so many variables.
fn memory(rows: usize, variables: usize) -> usize {
    rows * (variables * WIDTH * 4 + 64)
}

pub(crate) fn slots(model: &Model) -> Vec<Slot> {
    let global = model.main.global();
    model.feeds.iter().map(|name| Slot::of_var(global.var(name).unwrap()).unwrap()).collect()
}

/// Batches as a dataset hands them out.
pub(crate) struct Given {
    slots: Vec<Slot>,
    left: VecDeque<Batch>,
}

impl Given {
    pub(crate) fn all(model: &Model, batches: &[Batch]) -> Box<dyn Batches> {
        Box::new(Given { slots: slots(model), left: batches.iter().cloned().collect() })
    }
}

impl Batches for Given {
    fn next(&mut self, batch: &mut bireme_data::Batch) -> bireme_data::Result<bool> {
        let Some(tensors) = self.left.pop_front() else { return Ok(false) };
        let rows = tensors[0].rows();
        let mut samples = Samples::of(&self.slots);
        for row in 0..rows {
            for (column, tensor) in samples.columns_mut().iter_mut().zip(&tensors) {
                let width = tensor.numel() / rows;
                let of_row = row * width..(row + 1) * width;
                match column.values_mut() {
                    Values::Ids(ids) => {
                        let values = &tensor.as_slice::<i64>()?[of_row];
                        ids.extend(values.iter().map(|id| *id as u64));
                    }
                    Values::Floats(all) => {
                        all.extend_from_slice(&tensor.as_slice::<f32>()?[of_row])
                    }
                }
            }
            samples.end_row();
        }
        batch.fill(&samples, 0..rows);
        Ok(true)
    }

    fn skip(&mut self, batches: u64) -> bireme_data::Result<u64> {
        Ok(self.left.drain(..batches as usize).count() as u64)
    }
}

impl Job {
    /// Trains batches as they come; with `infer` they are only looked at.
    fn stream(
        &self,
        model: &Model,
        batches: &[Batch],
        infer: bool,
    ) -> bireme_data::Result<Summary> {
        let slots = slots(model);
        let stream = self.fleet.passes().unwrap().stream().unwrap();
        let scope = self.executor.scope().clone();
        let training = Training {
            infer,
            device: self.executor.device().cloned(),
            remote: self.fleet.worker().map(|worker| Arc::clone(worker) as _),
            ..Training::new(self.fleet.main_program().unwrap(), &scope, &slots)
        };
        let streamed = stream.over(Given::all(model, batches), &slots, !infer)?;
        let summary = bireme_data::train(&training, vec![streamed])?;
        if !infer {
            self.fleet.passes().unwrap().trained(summary.batches);
        }
        Ok(summary)
    }

    fn streamed(&self) -> StreamReport {
        self.fleet.passes().unwrap().take_stream_report().unwrap()
    }
}

/// Trains all batches as they come, in portions of so many.
fn streamed(
    model: &Model,
    batches: &[Batch],
    portion: usize,
    record: usize,
    device: Option<&Arc<dyn Device>>,
    budget: Option<usize>,
) -> (Left, StreamReport) {
    let mut job = Job::start(model, device, budget);
    for batches in batches.chunks(portion) {
        job.stream(model, batches, false).unwrap();
    }
    let report = job.streamed();
    let left = job.left(model, record);
    job.fleet.stop_worker().unwrap();
    (left, report)
}

#[test]
fn every_rule_equals_sync_training_whatever_the_memory() {
    let batches = ctr_batches(14, 8);
    for (optimizer, states) in optimizers() {
        for table in [Table::Keyed, Table::Sliced] {
            let model = ctr_dnn(table, optimizer.as_ref()).unwrap();
            let keyed = ctr_dnn(Table::Keyed, optimizer.as_ref()).unwrap();
            let expected = on_servers(&keyed, &batches, states * WIDTH);
            let record = states * WIDTH;
            let (roomy, report) = streamed(&model, &batches, 14, record, None, None);
            roomy.close(&expected);
            assert_eq!((report.batches, report.evicted), (14, 0), "{report}");
            assert_eq!(report.ids, 14 * 24);
            // A batch has 24 ids at most; 25 rows are those of one batch and of padding.
            for rows in [25, 31, 60] {
                let budget = Some(memory(rows, states));
                let (narrow, report) = streamed(&model, &batches, 5, record, None, budget);
                assert_eq!(narrow, roomy, "{rows} rows: where they lie changes nothing");
                assert!(report.evicted > 0 && report.new > report.evicted, "{report}");
                assert!(report.bytes <= memory(rows, states) as u64, "{report}");
            }
        }
    }
}

#[test]
fn an_emulated_card_equals_cpus_and_itself_whatever_the_memory() {
    let Some(card) = card() else { return };
    let batches = ctr_batches(12, 8);
    let sgd = Sgd::new(0.2);
    let adagrad = Adagrad::new(0.1).initial_accumulator_value(0.1);
    // Adam divides a gradient by its size: of one that is nearly nothing, rounding decides the sign.
    let adam = Adam::new(0.01).epsilon(1e-3);
    let all: [(Box<dyn Optimizer>, usize); 3] =
        [(Box::new(sgd), 1), (Box::new(adagrad), 2), (Box::new(adam), 3)];
    for (optimizer, states) in all {
        let model = ctr_dnn(Table::Keyed, optimizer.as_ref()).unwrap();
        let expected = on_servers(&model, &batches, states * WIDTH);
        let on_card = |rows| {
            let budget = Some(memory(rows, states));
            streamed(&model, &batches, 12, states * WIDTH, Some(&card), budget)
        };
        let (roomy, report) = on_card(1000);
        roomy.close(&expected);
        assert_eq!(report.evicted, 0, "{report}");
        for rows in [25, 40] {
            let (narrow, report) = on_card(rows);
            assert!(report.evicted > 20, "{report}");
            assert_eq!(narrow, roomy, "{rows} rows on a card");
            assert_eq!(on_card(rows).0, narrow, "two runs on a card are the same to the bit");
        }
    }
}

#[test]
fn a_batch_that_alone_needs_too_much_memory_says_so() {
    let model = ctr_dnn(Table::Keyed, &Adam::new(0.01)).unwrap();
    let batches = ctr_batches(3, 8);
    let job = Job::start(&model, None, Some(memory(10, 3)));
    let error = job.stream(&model, &batches, false).unwrap_err().to_string();
    assert!(error.contains("the rows of a single batch take"), "{error}");
    assert!(error.contains("BIREME_GPUBOX_MEMORY"), "{error}");
}

#[test]
fn records_that_no_training_could_go_on_from_are_refused() {
    let model = ctr_dnn(Table::Keyed, &Sgd::new(f32::INFINITY)).unwrap();
    let batches = ctr_batches(12, 8);
    let job = Job::start(&model, None, Some(memory(26, 1)));
    let error = job.stream(&model, &batches, false).unwrap_err().to_string();
    assert!(error.contains("has NaN or infinity after step"), "{error}");
    let error = job.fleet.flush().unwrap_err().to_string();
    assert!(error.contains("rows of the stream are lost: load the last save"), "{error}");
    // A job that loads what was saved begins anew.
    job.fleet.passes().unwrap().refresh().unwrap();
    job.fleet.passes().unwrap().stream().unwrap();
}

#[test]
fn looking_at_data_changes_nothing() {
    let model = ctr_dnn(Table::Keyed, &Adam::new(0.01)).unwrap();
    let batches = ctr_batches(9, 8);
    let (expected, _) = streamed(&model, &batches, 9, 12, None, None);
    let mut job = Job::start(&model, None, Some(memory(30, 3)));
    for part in batches.chunks(3) {
        job.stream(&model, part, true).unwrap();
        job.stream(&model, part, false).unwrap();
    }
    assert_eq!(job.left(&model, 12), expected);
    job.fleet.stop_worker().unwrap();
}

#[test]
fn passes_and_streams_follow_one_another() {
    let model = ctr_dnn(Table::Keyed, &Adam::new(0.01)).unwrap();
    let batches = ctr_batches(12, 8);
    let (expected, _) = streamed(&model, &batches, 12, 12, None, None);
    let mut job = Job::start(&model, None, Some(memory(100, 3)));
    job.pass(&model, &batches[..3], None);
    job.stream(&model, &batches[3..6], false).unwrap();
    job.pass(&model, &batches[6..9], None);
    job.stream(&model, &batches[9..], false).unwrap();
    assert_eq!(job.left(&model, 12), expected);
    job.fleet.stop_worker().unwrap();
}

#[test]
fn a_training_that_is_given_up_loses_nothing() {
    let model = ctr_dnn(Table::Keyed, &Adam::new(0.01)).unwrap();
    let batches = ctr_batches(12, 8);
    let slots = slots(&model);
    let expected = {
        let (left, _) = streamed(&model, &batches[..7], 7, 12, None, None);
        left
    };
    // Somebody trains some batches and then stops, while others were made ready.
    for given_up_after in 0..7 {
        let mut job = Job::start(&model, None, Some(memory(27, 3)));
        let stream = job.fleet.passes().unwrap().stream().unwrap();
        let mut all = stream.over(Given::all(&model, &batches), &slots, true).unwrap();
        let program = job.fleet.main_program().unwrap();
        let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
        let mut step = job.executor.prepare(program, &feeds, &[&model.loss]).unwrap();
        let mut batch = bireme_data::Batch::of(&slots);
        for _ in 0..given_up_after {
            assert!(all.next(&mut batch).unwrap());
            step.run(&batch.tensors()).unwrap();
        }
        drop(all);
        drop(step);
        job.fleet.passes().unwrap().trained(given_up_after as u64);
        job.stream(&model, &batches[given_up_after..7], false).unwrap();
        assert_eq!(job.left(&model, 12), expected, "given up after {given_up_after}");
        job.fleet.stop_worker().unwrap();
    }
}

#[test]
fn a_job_goes_on_from_its_last_save_after_a_kill_anywhere() {
    let model = ctr_dnn(Table::Keyed, &Adam::new(0.01)).unwrap();
    let batches = ctr_batches(15, 8);
    let (expected, _) = streamed(&model, &batches, 15, 12, None, None);
    let folder = tempfile::tempdir().unwrap();
    let random = Philox::new(11, "where jobs die");
    for round in 0..6 {
        let saved_after = 1 + (random.u64(2 * round) % 8) as usize;
        let dies_after = (random.u64(2 * round + 1) % 6) as usize;
        let saved = folder.path().join(round.to_string());
        let budget = Some(memory(25 + 3 * round as usize, 3));
        let job = Job::start(&model, None, budget);
        job.stream(&model, &batches[..saved_after], false).unwrap();
        save(&job, &saved);
        // What left since lies on its servers, which die with it.
        job.stream(&model, &batches[saved_after..saved_after + dies_after], false).unwrap();
        drop(job);
        let mut job = Job::start(&model, None, budget);
        job.fleet.load_model(&saved, SaveMode::Full).unwrap();
        job.stream(&model, &batches[saved_after..], false).unwrap();
        assert_eq!(job.left(&model, 12), expected, "saved {saved_after}, died {dies_after} later");
        job.fleet.stop_worker().unwrap();
    }
}

#[test]
fn a_stream_says_now_and_then_what_it_was() {
    let model = ctr_dnn(Table::Keyed, &Sgd::new(0.1)).unwrap();
    let (batches, slots) = (ctr_batches(5, 8), slots(&model));
    let job = Job::start(&model, None, Some(memory(30, 1)));
    let said = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&said);
    let tell =
        Arc::new(move |report: &StreamReport| lines.lock().unwrap().push(report.to_string()));
    let stream = job.fleet.passes().unwrap().stream().unwrap().telling(Duration::ZERO, tell);
    let mut all = stream.over(Given::all(&model, &batches), &slots, true).unwrap();
    let again = stream.over(Given::all(&model, &batches), &slots, true);
    let error = again.err().unwrap().to_string();
    assert!(error.contains("is being trained already"), "{error}");
    let mut batch = bireme_data::Batch::of(&slots);
    while all.next(&mut batch).unwrap() {}
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 6);
    assert!(said[5].starts_with("stream: 5 batches, 120 keys, "), "{}", said[5]);
    assert!(said[5].contains(" evicted, hit rate ") && said[5].contains("seconds: wait"));
}
