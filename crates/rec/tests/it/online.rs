//! Streams of days and passes.

use std::path::Path;

use bireme_rec::run::Event;
use bireme_rec::zoo;

use crate::job::Setup;

const KEYS: &str = "  train_batch_size: 50\n  print_interval: 5\n  sync_mode: async\n  start_day: 20190731\n  \
                    end_day: 20190801\n  split_interval: 360\n  split_per_pass: 2\n  \
                    checkpoint_per_pass: 1\n  save_delta_frequency: 2\n  train_thread_num: 1\n  \
                    infer_thread_num: 1\n  preload_thread_num: 1\n  data_donefile: DONE\n  \
                    prefetch: True\n";

/// Two days of two passes of two folders.
pub(crate) fn write_days(root: &Path) {
    let dnn = zoo::find("dnn").unwrap();
    let mut seed = 0;
    for day in ["20190731", "20190801"] {
        for folder in ["0000", "0600", "1200", "1800"] {
            let folder = root.join(day).join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            seed += 1;
            let mut text = Vec::new();
            (dnn.generate)(&mut text, 300, seed).unwrap();
            std::fs::write(folder.join("part-0"), text).unwrap();
            std::fs::write(folder.join("DONE"), "").unwrap();
        }
    }
}

#[test]
fn days_are_trained_pass_by_pass_and_go_on_after_the_last_checkpoint() {
    let setup = Setup::new(1, 1, KEYS);
    std::fs::remove_dir_all(setup.folder().join("data")).unwrap();
    write_days(&setup.folder().join("data"));
    let mut processes = setup.start_cluster(2, false);
    // Killed in the second day, after the checkpoint of the first.
    let day =
        |line: &str| line.contains("Day:20190801, Pass: 1, Infer Global Metric: global AUC=0.");
    assert!(processes[0].until(day).is_some(), "{:?}", processes[0].said());
    processes[0].kill();
    let said = processes[0].said().join("\n");
    assert!(!said.contains("20190731, Pass: 1, Infer"), "there was no model before it\n{said}");
    for line in [
        "Day:20190731, Pass: 2, Infer Global Metric: global AUC=0.",
        "Day:20190731, Pass: 1, Train Global Metric: global AUC=0.",
        "finished train epoch 2 time cost:",
        "shrink table",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    drop(processes);
    let models = setup.folder().join("models");
    for path in ["20190731/1", "20190731/delta_2", "20190801/base", "20190801/0"] {
        assert!(models.join(path).is_dir(), "{path}");
    }
    let mut processes = setup.start_cluster(2, true);
    let results: Vec<_> = processes.iter_mut().map(|process| process.finish()).collect();
    assert_eq!(results[0].len(), 2, "the passes of the second day");
    assert!(results[0][1].metrics["auc"] > 0.55, "{results:?}");
    let done = std::fs::read_to_string(models.join("donefile.txt")).unwrap();
    let last: Vec<&str> = done.lines().last().unwrap().split('\t').collect();
    assert_eq!((last[0], last[3]), ("20190802", "-1"));
    // The event log has each pass once, though the second day was begun twice.
    let run = bireme_rec::report::read(&models).unwrap();
    for trained in &run.trainers {
        assert!(trained.ended && trained.resumed == 1, "{trained:?}");
        let epoch = |event: &Event| match event {
            Event::Epoch { epoch, .. } => Some(*epoch),
            _ => None,
        };
        let epochs: Vec<u64> = trained.events.iter().filter_map(epoch).collect();
        assert_eq!(epochs, [0, 1, 2, 3]);
        assert!(trained.events.iter().any(|event| matches!(event, Event::Step { .. })));
    }
    assert!(bireme_rec::report::page(&run).contains("<h2>Loss</h2>"));
}
