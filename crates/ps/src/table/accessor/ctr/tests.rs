//! Accessors with numbers worked out by hand.

use bireme_engine::accessor::{CtrClass, SparseRuleKind};
use bireme_engine::random::Philox;

use super::super::{Accessor, AccessorConfig};
use super::*;

/// Dimension 2 for the long part; the score is 0.1 for a show and 1 for a click.
fn accessor(class: CtrClass, change: impl FnOnce(&mut CtrConfig)) -> (Accessor, Ctr) {
    let rule = SparseRule {
        kind: SparseRuleKind::Naive,
        learning_rate: 0.5,
        initial_range: 0.01,
        bounds: [-10.0, 10.0],
    };
    let mut config = CtrConfig::unconfigured(class, rule);
    config.embedx_threshold = 2.0;
    change(&mut config);
    let table = TableConfig {
        seed: 3,
        accessor: AccessorConfig::Ctr(config),
        ..TableConfig::new("emb", class.head() + 2)
    };
    let accessor = Accessor::new(&table).unwrap();
    let Accessor::Ctr(ctr) = accessor.clone() else { unreachable!("asked for") };
    (accessor, ctr)
}

fn blank(ctr: &Ctr, key: u64) -> Vec<f32> {
    let mut record = vec![0.0; ctr.record_width()];
    ctr.blank(key, &mut record);
    record
}

fn pulled(ctr: &Ctr, record: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; ctr.width];
    ctr.pull(record, &mut out);
    out
}

#[test]
fn the_long_part_is_made_when_the_key_was_shown_enough() {
    let (_, ctr) = accessor(CtrClass::CtrCommonAccessor, |_| {});
    let mut record = blank(&ctr, 5);
    assert_eq!(record[SLOT], -1.0);
    assert_eq!(pulled(&ctr, &record), [0.0; 5]);
    ctr.push(5, &mut record, &[9.0, 9.0, 0.5, 1.0, 1.0], [10.0, 0.0]);
    // Score 1: no long part yet.
    assert_eq!(pulled(&ctr, &record), [10.0, 0.0, -0.25, 0.0, 0.0]);
    ctr.push(5, &mut record, &[9.0, 9.0, 0.5, 1.0, 1.0], [2.0, 1.0]);
    // Shows 12, clicks 1: 11 * 0.1 + 1 = 2.1. The long part is new: its gradient is not applied.
    let out = pulled(&ctr, &record);
    assert_eq!(out[..3], [12.0, 1.0, -0.5]);
    let mut expected = [0.0; 2];
    Philox::new(3, "emb").fill_uniform(5 * 5 + 3, -0.01, 0.01, &mut expected);
    assert_eq!(out[3..], expected);
    ctr.push(5, &mut record, &[0.0, 0.0, 0.0, 1.0, -2.0], [1.0, 0.0]);
    assert_eq!(pulled(&ctr, &record)[3..], [expected[0] - 0.5, expected[1] + 1.0]);
    assert!((record[DELTA_SCORE] - 2.2).abs() < 1e-6);
}

#[test]
fn the_sparse_accessor_pulls_weights_alone() {
    let (_, ctr) = accessor(CtrClass::SparseAccessor, |config| {
        config.zero_init = false;
        config.embedx_threshold = 0.0;
    });
    let mut record = blank(&ctr, 7);
    let first = pulled(&ctr, &record);
    assert!(first[0] != 0.0 && first[0].abs() <= 0.01 && first[1..] == [0.0, 0.0]);
    ctr.push(7, &mut record, &[1.0, 1.0, 1.0], [1.0, 0.0]);
    let second = pulled(&ctr, &record);
    assert_eq!(second[0], first[0] - 0.5);
    assert!(second[1] != 0.0);
}

#[test]
fn gradients_are_divided_by_shows_where_the_rule_says_so() {
    let adagrad = |config: &mut CtrConfig| {
        config.embed.kind = SparseRuleKind::AdaGrad { initial_g2sum: 3.0 };
        config.embed.learning_rate = 1.0;
    };
    for (show_scale, weight, sum) in [(true, -2.0, 4.0), (false, -8.0, 64.0)] {
        let (_, ctr) = accessor(CtrClass::SparseAccessor, |config| {
            adagrad(config);
            config.show_scale = show_scale;
        });
        let mut record = blank(&ctr, 1);
        ctr.push(1, &mut record, &[8.0, 0.0, 0.0], [4.0, 0.0]);
        assert_eq!((record[ctr.embed], record[ctr.embed_state.start]), (weight, sum));
    }
}

#[test]
fn doubles_count_beyond_the_precision_of_floats() {
    let (_, ctr) = accessor(CtrClass::CtrDoubleAccessor, |_| {});
    let mut record = blank(&ctr, 1);
    set_count(&mut record[ctr.show.clone()], 1e9);
    for _ in 0..10 {
        ctr.push(1, &mut record, &[0.0; 5], [1.0, 0.0]);
    }
    assert_eq!(ctr.shows_and_clicks(&record), [1e9 + 10.0, 0.0]);
}

#[test]
fn a_day_decays_counts_and_drops_rows() {
    let (_, ctr) = accessor(CtrClass::CtrCommonAccessor, |config| {
        config.show_click_decay_rate = 0.5;
        config.delete_threshold = 0.8;
        config.delete_after_unseen_days = 1.0;
    });
    let mut record = blank(&ctr, 1);
    ctr.push(1, &mut record, &[0.0; 5], [4.0, 2.0]);
    // 2 shows and 1 click are left: score 1.1.
    assert!(ctr.shrink(&mut record));
    assert_eq!(ctr.shows_and_clicks(&record), [2.0, 1.0]);
    // Half of it is below 0.8.
    assert!(!ctr.shrink(&mut record.clone()));
    ctr.push(1, &mut record, &[0.0; 5], [100.0, 50.0]);
    for unseen in [1.0, 2.0] {
        ctr.mark_saved(SaveMode::FullAging, &mut record);
        assert_eq!(record[UNSEEN_DAYS], unseen);
        assert_eq!(ctr.shrink(&mut record), unseen <= 1.0);
    }
}

#[test]
fn saves_take_rows_by_score() {
    let (_, ctr) = accessor(CtrClass::CtrCommonAccessor, |config| {
        config.base_threshold = 1.5;
        config.delta_threshold = 0.25;
        config.delta_keep_days = 1.0;
    });
    let mut record = blank(&ctr, 1);
    ctr.push(1, &mut record, &[0.0; 5], [10.0, 0.0]);
    let taken = |record: &[f32]| {
        [SaveMode::Full, SaveMode::Delta, SaveMode::Base, SaveMode::FullAging]
            .map(|mode| ctr.saves(mode, record, false))
    };
    assert_eq!(taken(&record), [true, false, false, true], "score 1 is below the base");
    ctr.push(1, &mut record, &[0.0; 5], [10.0, 0.0]);
    assert_eq!(taken(&record), [true; 4]);
    ctr.mark_saved(SaveMode::Delta, &mut record);
    assert_eq!(taken(&record), [true, false, true, true], "nothing new since");
    ctr.undo_save(SaveMode::Delta, &mut record);
    assert_eq!(taken(&record), [true; 4], "the save failed");
    ctr.mark_saved(SaveMode::FullAging, &mut record);
    ctr.mark_saved(SaveMode::FullAging, &mut record);
    assert_eq!(taken(&record), [true, false, false, true], "unseen for two days");
    ctr.undo_save(SaveMode::FullAging, &mut record);
    assert_eq!(taken(&record), [true; 4], "one of them was none");
}

#[test]
fn text_has_paddles_order_and_comes_back() {
    let orders: [(CtrClass, &[f32]); 4] = [
        (CtrClass::CtrCommonAccessor, &[-1.0, 0.0, 2.1, 12.0, 1.0, -0.5]),
        (CtrClass::SparseAccessor, &[-1.0, 0.0, 2.1, 12.0, 1.0, -0.5]),
        (CtrClass::CtrDoubleAccessor, &[0.0, 2.1, 12.0, 1.0, -0.5, -1.0]),
        (CtrClass::CtrDymfAccessor, &[0.0, 2.1, 12.0, 1.0, -0.5, -1.0, 2.0]),
    ];
    for (class, head) in orders {
        let (accessor, ctr) = accessor(class, |config| {
            config.embedx.kind = SparseRuleKind::StdAdaGrad { initial_g2sum: 3.0 };
        });
        let mut record = blank(&ctr, 5);
        let mut grads = vec![0.0; ctr.width];
        grads[class.head() - 1] = 1.0;
        let mut numbers = Vec::new();
        accessor.write_text(&record, &mut numbers);
        let short = numbers.len();
        ctr.push(5, &mut record, &grads, [12.0, 1.0]);
        numbers.clear();
        accessor.write_text(&record, &mut numbers);
        assert_eq!(numbers[..head.len()], *head, "{class:?}");
        assert_eq!(numbers.len(), short + 4);
        let long_weights = if class.head() == 3 && class != CtrClass::CtrCommonAccessor {
            &numbers[short + 2..]
        } else {
            &numbers[short..short + 2]
        };
        assert_eq!(*long_weights, record[ctr.embedx.clone()]);
        let mut again = blank(&ctr, 5);
        accessor.read_text(&numbers, &mut again).unwrap();
        assert_eq!(again, record);
        let error = accessor.read_text(&numbers[1..], &mut again).unwrap_err();
        assert!(error.contains("numbers, but this table's have"), "{error}");
    }
}

#[test]
fn values_from_elsewhere_make_the_long_part() {
    for class in [CtrClass::CtrCommonAccessor, CtrClass::SparseAccessor] {
        let (_, ctr) = accessor(class, |_| {});
        let values: Vec<f32> = (1..=ctr.width).map(|x| x as f32).collect();
        let mut record = blank(&ctr, 1);
        ctr.set(&mut record, &values);
        assert_eq!(pulled(&ctr, &record), values);
        ctr.add(&mut record, &vec![1.0; ctr.width]);
        let last = values.len() - 1;
        assert_eq!(pulled(&ctr, &record)[last], values[last] + 1.0);
        if class.head() == 3 {
            assert_eq!(pulled(&ctr, &record)[..2], values[..2], "shows are not added to");
        }
    }
}

#[test]
fn a_count_filter_reads_zeros_until_there_were_enough_shows() {
    let (_, mut ctr) = accessor(CtrClass::SparseAccessor, |_| {});
    ctr.shared.least_shows = Some(3);
    let mut record = blank(&ctr, 1);
    ctr.push(1, &mut record, &[1.0; 3], [2.0, 0.0]);
    assert_eq!((pulled(&ctr, &record), record[ctr.embed]), (vec![0.0; 3], 0.0));
    ctr.push(1, &mut record, &[1.0; 3], [1.0, 0.0]);
    assert_eq!(pulled(&ctr, &record)[0], -0.5);
}
