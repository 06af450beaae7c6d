//! Servers and tables that keep everything in plain maps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use bireme_engine::tensor::Tensor;
use bireme_ir::DType;

use super::super::*;
use crate::Result;

/// A table of two parts.
pub(super) struct MemoryTable {
    pub(super) layout: TableLayout,
    pub(super) parts: [Mutex<BTreeMap<u64, Vec<f32>>>; 2],
    pub(super) changed: Mutex<BTreeSet<u64>>,
    /// What the last save took of it.
    saving: Mutex<BTreeSet<u64>>,
}

impl MemoryTable {
    pub(super) const WIDTH: usize = 3;
    /// Weight, moment, show.
    pub(super) const RECORD: usize = 7;

    pub(super) fn new(shards: u64) -> MemoryTable {
        let column = |name: &str, width, kind| Column { name: name.to_owned(), width, kind };
        let layout = TableLayout {
            name: "emb".to_owned(),
            width: MemoryTable::WIDTH,
            columns: vec![
                column("weight", MemoryTable::WIDTH, ColumnKind::Weight),
                column("moment", MemoryTable::WIDTH, ColumnKind::State),
                column("show", 1, ColumnKind::Show),
            ],
            shards,
            config: serde_json::json!({"rule": "test"}),
        };
        let parts = Default::default();
        let (changed, saving) = Default::default();
        MemoryTable { layout, parts, changed, saving }
    }

    pub(super) fn rows(&self) -> BTreeMap<u64, Vec<f32>> {
        self.parts.iter().flat_map(|part| part.lock().unwrap().clone()).collect()
    }

    fn part(&self, key: u64) -> MutexGuard<'_, BTreeMap<u64, Vec<f32>>> {
        self.parts[(key / 7 % 2) as usize].lock().unwrap()
    }
}

impl Rows for MemoryTable {
    fn layout(&self) -> TableLayout {
        self.layout.clone()
    }

    fn parts(&self) -> usize {
        2
    }

    fn len(&self) -> usize {
        self.rows().len()
    }

    fn read_part(&self, part: usize, mode: SaveMode, look: &mut RowVisitor<'_>) -> Result<()> {
        let rows = self.parts[part].lock().unwrap();
        let mut changed = self.changed.lock().unwrap();
        for (key, record) in rows.iter() {
            let was_changed = changed.remove(key);
            if was_changed {
                self.saving.lock().unwrap().insert(*key);
            }
            if was_changed || mode != SaveMode::Delta {
                look(&[*key], record)?;
            }
        }
        Ok(())
    }

    fn take_removed(&self, _: SaveMode) -> Vec<u64> {
        Vec::new()
    }

    fn remove(&self, keys: &[u64]) -> Result<()> {
        keys.iter().for_each(|key| drop(self.part(*key).remove(key)));
        Ok(())
    }

    fn picks(&self) -> Picks {
        Picks::Changed
    }

    fn commit_save(&self) {
        self.saving.lock().unwrap().clear();
    }

    fn abandon_save(&self) {
        self.changed.lock().unwrap().append(&mut self.saving.lock().unwrap());
    }

    fn blank(&self, key: u64, record: &mut [f32]) {
        record.fill(key as f32);
    }

    fn restore(&self, keys: &[u64], records: &[f32]) -> Result<()> {
        let record = self.layout.record_width();
        assert_eq!(records.len(), keys.len() * record);
        for (key, record) in keys.iter().zip(records.chunks_exact(record)) {
            self.part(*key).insert(*key, record.to_vec());
            self.changed.lock().unwrap().insert(*key);
        }
        Ok(())
    }

    fn mark_loaded(&self) {
        self.changed.lock().unwrap().clear();
    }

    fn clear(&self) {
        self.parts.iter().for_each(|part| part.lock().unwrap().clear());
    }
}

/// A server that holds pieces of a model.
pub(super) struct Server {
    pub(super) index: ServerIndex,
    pub(super) pieces: Vec<Piece>,
    pub(super) values: Mutex<BTreeMap<String, Vec<Tensor>>>,
    pub(super) table: Arc<MemoryTable>,
    step: AtomicU64,
}

impl Server {
    pub(super) fn keys(&self) -> Vec<u64> {
        self.table.rows().into_keys().collect()
    }

    /// Gives every number here the same value, a lock at a time.
    pub(super) fn set_everything(&self, number: f32) {
        for tensors in self.values.lock().unwrap().values_mut() {
            for tensor in tensors {
                tensor.as_mut_slice::<f32>().unwrap().fill(number);
            }
        }
        for part in &self.table.parts {
            part.lock().unwrap().values_mut().for_each(|record| record.fill(number));
        }
    }

    /// What is under one lock has one value.
    pub(super) fn check_one_instant(&self) {
        for part in &self.table.parts {
            let numbers: Vec<f32> = part
                .lock()
                .unwrap()
                .values()
                .filter(|row| row[0] != 0.0)
                .flatten()
                .copied()
                .collect();
            assert!(numbers.iter().all(|number| *number == numbers[0]));
        }
        for tensors in self.values.lock().unwrap().values() {
            let slices = tensors.iter().map(|tensor| tensor.as_slice::<f32>().unwrap());
            let mut numbers: Vec<f32> = slices.flatten().copied().collect();
            numbers.dedup();
            assert!(
                numbers.len() == 1 || numbers.contains(&0.0) || numbers[0] < 1.0,
                "{numbers:?}"
            );
        }
    }
}

impl Holdings for Server {
    fn step(&self) -> u64 {
        self.step.load(Ordering::SeqCst)
    }

    fn set_step(&self, step: u64) {
        self.step.store(step, Ordering::SeqCst);
    }

    fn pieces(&self) -> Vec<Piece> {
        self.pieces.clone()
    }

    fn read_piece(
        &self,
        piece: &str,
        look: &mut dyn FnMut(&[&Tensor]) -> Result<()>,
    ) -> Result<()> {
        look(&self.values.lock().unwrap()[piece].iter().collect::<Vec<_>>())
    }

    fn read_piece_in_parts(
        &self,
        piece: &str,
        look: &mut dyn FnMut(&Part<'_>) -> Result<()>,
    ) -> Result<()> {
        let values = self.values.lock().unwrap()[piece].clone();
        for (value, tensor) in values.iter().enumerate() {
            let (dtype, dims) = (tensor.dtype(), tensor.dims());
            for (at, bytes) in tensor.as_bytes().chunks(4).enumerate() {
                look(&Part { value, dtype, dims, start: 4 * at, bytes })?;
            }
        }
        Ok(())
    }

    fn write_piece(
        &self,
        piece: &str,
        fill: &mut dyn FnMut(&mut [&mut Tensor]) -> Result<()>,
    ) -> Result<()> {
        let mut values = self.values.lock().unwrap();
        fill(&mut values.get_mut(piece).unwrap().iter_mut().collect::<Vec<_>>())
    }

    fn tables(&self) -> Vec<Arc<dyn Rows>> {
        vec![self.table.clone()]
    }
}

/// A whole model, wherever its pieces are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    /// Variables and elementwise states by name, with their shapes.
    pub(super) dense: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    pub(super) states: BTreeMap<String, Vec<f32>>,
    pub(super) rows: BTreeMap<u64, Vec<f32>>,
    pub(super) shards: u64,
    step: u64,
}

impl Model {
    /// Variables `v0`, `v1`, … of these shapes with a moment each, and a table.
    pub(super) fn new(shapes: &[(usize, usize)], rows: &BTreeMap<u64, f32>, shards: u64) -> Model {
        let mut model = Model::empty(shapes, shards);
        model.step = 7;
        for (index, (_, numbers)) in model.dense.values_mut().enumerate() {
            let all = numbers.iter_mut().enumerate();
            all.for_each(|(at, number)| *number = (index * 1000 + at) as f32 + 0.1);
        }
        for (index, numbers) in model.states.values_mut().enumerate() {
            let all = numbers.iter_mut().enumerate();
            all.for_each(|(at, number)| *number = -((index * 1000 + at) as f32) - 0.7);
        }
        let record = |value: f32| {
            (0..MemoryTable::RECORD).map(|place| value + place as f32 / 3.0).collect::<Vec<_>>()
        };
        model.rows = rows.iter().map(|(key, value)| (*key, record(*value))).collect();
        model
    }

    /// The same with nothing in it.
    pub(super) fn empty(shapes: &[(usize, usize)], shards: u64) -> Model {
        let dense = shapes.iter().enumerate().map(|(index, (rows, width))| {
            (format!("v{index}"), (vec![*rows, *width], vec![0.0; rows * width]))
        });
        let dense: BTreeMap<_, _> = dense.collect();
        let mut states = BTreeMap::new();
        for (name, (_, numbers)) in &dense {
            states.insert(format!("{name}_moment_0"), numbers.clone());
            states.insert(format!("{name}_beta1_pow_acc_0"), vec![0.0]);
        }
        Model { dense, states, rows: BTreeMap::new(), shards, step: 0 }
    }

    /// Cuts every variable into `cuts` pieces, and deals them out.
    pub(super) fn on_servers(&self, count: u32, cuts: usize) -> Vec<Server> {
        let servers = (0..count).map(|index| Server {
            index: ServerIndex { index, count },
            pieces: Vec::new(),
            values: Mutex::default(),
            table: Arc::new(MemoryTable::new(self.shards)),
            step: AtomicU64::new(self.step),
        });
        let mut servers: Vec<Server> = servers.collect();
        let mut turn = 0;
        for (name, (shape, numbers)) in &self.dense {
            let len = numbers.len().div_ceil(cuts);
            for (block, start) in (0..numbers.len()).step_by(len).enumerate() {
                let server = &mut servers[turn % count as usize];
                turn += 1;
                let end = (start + len).min(numbers.len());
                let cut = |numbers: &[f32]| {
                    Tensor::from_slice([end - start], &numbers[start..end]).unwrap()
                };
                let (moment, power) =
                    (format!("{name}_moment_0"), format!("{name}_beta1_pow_acc_0"));
                let values = vec![
                    cut(numbers),
                    cut(&self.states[&moment]),
                    Tensor::from_slice([1], &self.states[&power]).unwrap(),
                ];
                let state = |variable, kind| State { variable, dtype: DType::F32, kind };
                let piece = Piece {
                    name: format!("{name}.block{block}"),
                    variable: name.clone(),
                    shape: shape.clone(),
                    dtype: DType::F32,
                    start,
                    len: end - start,
                    states: vec![
                        state(moment, StateKind::Elementwise),
                        state(power, StateKind::Whole),
                    ],
                };
                server.values.lock().unwrap().insert(piece.name.clone(), values);
                server.pieces.push(piece);
            }
        }
        let sharding = Sharding::new(self.shards, count);
        for (key, record) in &self.rows {
            servers[sharding.server(*key) as usize].table.restore(&[*key], record).unwrap();
        }
        servers
    }

    /// The model that servers hold together.
    pub(super) fn of(servers: &[Server]) -> Model {
        let mut model = Model {
            dense: BTreeMap::new(),
            states: BTreeMap::new(),
            rows: BTreeMap::new(),
            shards: servers[0].table.layout.shards,
            step: servers[0].step(),
        };
        for server in servers {
            for piece in &server.pieces {
                let values = &server.values.lock().unwrap()[&piece.name];
                let numel = piece.shape.iter().product();
                let whole = model.dense.entry(piece.variable.clone());
                let (_, whole) = whole.or_insert((piece.shape.clone(), vec![f32::NAN; numel]));
                let numbers = |tensor: &Tensor| tensor.as_slice::<f32>().unwrap().to_vec();
                whole[piece.start..piece.start + piece.len].copy_from_slice(&numbers(&values[0]));
                for (state, value) in piece.states.iter().zip(&values[1..]) {
                    let elementwise = state.kind == StateKind::Elementwise;
                    let (size, start) = if elementwise { (numel, piece.start) } else { (1, 0) };
                    let whole =
                        model.states.entry(state.variable.clone()).or_insert(vec![0.0; size]);
                    let value = numbers(value);
                    whole[start..start + value.len()].copy_from_slice(&value);
                }
            }
            model.rows.extend(server.table.rows());
        }
        model
    }
}
