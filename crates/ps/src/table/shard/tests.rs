//! A shard against a map, while its index grows.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::batch::shard_of;
use super::super::index::LINE;
use super::*;

/// Records of one number, which starts as the key's lowest bits.
struct Low;

impl Maker for Low {
    fn admits(&self, key: u64) -> bool {
        !key.is_multiple_of(11)
    }

    fn fill(&self, key: u64, record: &mut [f32]) {
        assert_eq!(record, [0.0]);
        record[0] = (key % 1024) as f32;
    }
}

/// What happens to a shard.
#[derive(Clone, Debug)]
enum Action {
    /// Makes the rows of so many keys from here on.
    Make(u64, u64),
    /// Looks up, without making any.
    Look(u64, u64),
    /// Adds 1, and makes what is missing.
    Change(u64, u64),
    /// Drops the rows whose number leaves this rest by 3.
    Drop(u64),
    /// Takes what changed.
    Save,
    /// What was taken counts as saved.
    Commit,
    /// What was taken counts as changed again.
    Abandon,
    Clear,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let range = || (0u64..6000, 0u64..3000);
    let action = prop_oneof![
        6 => range().prop_map(|(first, count)| Action::Make(first, count)),
        4 => range().prop_map(|(first, count)| Action::Look(first, count)),
        4 => range().prop_map(|(first, count)| Action::Change(first, count)),
        2 => (0u64..3).prop_map(Action::Drop),
        2 => Just(Action::Save),
        1 => Just(Action::Commit),
        2 => Just(Action::Abandon),
        1 => Just(Action::Clear),
    ];
    prop::collection::vec(action, 1..16)
}

fn items(first: u64, count: u64) -> Vec<Item> {
    // In an order of their own, some of them twice.
    let numbers = (0..count).map(|i| first + i * 7919 % count.max(1)).chain([first, first]);
    (0..)
        .zip(numbers)
        .map(|(position, key)| Item { key, hash: index_hash(hash(key)), position })
        .collect()
}

fn shard(phase: f64) -> Shard {
    let prefault = Arc::default();
    let [index, records] = [LINE, 4].map(|stride| Arc::new(Arena::new(stride, &prefault)));
    Shard::new(&index, &records, 1, phase)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A shard is a map from keys to records, at every point of its growth.
    #[test]
    fn a_shard_is_a_map(phase in 0.0..1.0, actions in actions()) {
        let mut shard = shard(phase);
        let mut model: BTreeMap<u64, (f32, bool)> = BTreeMap::new();
        let mut saving: BTreeSet<u64> = BTreeSet::new();
        for action in actions {
            match action {
                Action::Make(first, count) | Action::Look(first, count) => {
                    let makes = matches!(action, Action::Make(..));
                    let missing = if makes { Missing::Make(&Low) } else { Missing::Skip };
                    shard.each::<false>(&items(first, count), &missing, 1, |item, record| {
                        let new = ((item.key % 1024) as f32, true);
                        if makes && Low.admits(item.key) {
                            model.entry(item.key).or_insert(new);
                        }
                        let known = model.get(&item.key).map(|(number, _)| *number);
                        assert_eq!(record.map(|record| record[0]), known, "{}", item.key);
                    }).unwrap();
                }
                Action::Change(first, count) => {
                    let missing = Missing::Make(&Low);
                    shard.each::<true>(&items(first, count), &missing, 1, |item, record| {
                        let Some(record) = record else {
                            return assert!(!Low.admits(item.key));
                        };
                        record[0] += 1.0;
                        let new = ((item.key % 1024) as f32, true);
                        let known = model.entry(item.key).or_insert(new);
                        *known = (known.0 + 1.0, true);
                    }).unwrap();
                }
                Action::Drop(rest) => {
                    let gone = shard.retain(|_, record| record[0] as u64 % 3 != rest);
                    let before = model.len();
                    model.retain(|_, (number, _)| *number as u64 % 3 != rest);
                    saving.retain(|key| model.contains_key(key));
                    prop_assert_eq!(gone, before - model.len());
                }
                Action::Save => {
                    let mut seen = 0;
                    shard.save(SaveMode::Delta, 0..usize::MAX, |key, _, changed| {
                        seen += 1;
                        assert_eq!(model[&key].1, changed);
                        (false, changed)
                    });
                    prop_assert_eq!(seen, model.len());
                    for (key, (_, changed)) in &mut model {
                        if std::mem::take(changed) {
                            saving.insert(*key);
                        }
                    }
                }
                Action::Commit => {
                    shard.commit_save();
                    saving.clear();
                }
                Action::Abandon => {
                    shard.abandon_save(|mode, _| mode == SaveMode::Delta);
                    for key in std::mem::take(&mut saving) {
                        model.get_mut(&key).unwrap().1 = true;
                    }
                }
                Action::Clear => {
                    shard.clear();
                    model.clear();
                    saving.clear();
                }
            }
            let rows: BTreeMap<u64, (f32, bool)> =
                shard.rows().map(|(key, record, changed)| (key, (record[0], changed))).collect();
            prop_assert_eq!(shard.len(), rows.len());
            prop_assert_eq!(&rows, &model);
        }
    }
}

/// Keys of one shard of a table spread over its index like any others.
#[test]
fn keys_of_one_shard_are_found() {
    let mut shard = shard(0.5);
    let keys = (0..3_000_000u64).filter(|key| shard_of(hash(*key)) == 5);
    let items: Vec<Item> = (0..)
        .zip(keys)
        .map(|(position, key)| Item { key, hash: index_hash(hash(key)), position })
        .collect();
    let everyone = Missing::Make(&Low);
    shard.each::<false>(&items, &everyone, 1, |_, _| ()).unwrap();
    let mut found = 0;
    shard
        .each::<false>(&items, &Missing::Skip, 1, |_, record| {
            found += usize::from(record.is_some())
        })
        .unwrap();
    assert_eq!(found, shard.len());
    assert!((15_000..30_000).contains(&found), "{found}");
}
