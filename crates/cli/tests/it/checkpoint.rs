//! `bireme inspect` of checkpoints.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bireme_engine::tensor::Tensor;
use bireme_fleet::ps::checkpoint::{
    Holdings, Piece, Rows, SaveMode, ServerIndex, State, StateKind, finish, save,
};
use bireme_fleet::ps::table::{RowStore, SparseTable, TableConfig};
use bireme_ir::DType;

use crate::bireme;

/// A server with half of a parameter and a table.
struct Server {
    index: ServerIndex,
    value: Tensor,
    moment: Tensor,
    table: Arc<SparseTable>,
}

impl Server {
    fn new(index: u32) -> Server {
        let mut config = TableConfig::new("emb", 2);
        config.shards = 4;
        let table = Arc::new(SparseTable::new(config).unwrap());
        let keys: Vec<u64> = (0..20).filter(|key| key % 4 / 2 == u64::from(index)).collect();
        let values: Vec<f32> = keys.iter().flat_map(|key| [*key as f32, 0.0]).collect();
        table.set(&keys, &values).unwrap();
        let value = Tensor::from_slice([3], &[1.0f32, 2.0, 3.0]).unwrap();
        let moment = Tensor::zeros(DType::F32, [3]);
        Server { index: ServerIndex { index, count: 2 }, value, moment, table }
    }
}

impl Holdings for Server {
    fn step(&self) -> u64 {
        1234
    }

    fn set_step(&self, _: u64) {}

    fn pieces(&self) -> Vec<Piece> {
        let moment = "fc_w_moment_0".to_owned();
        let kind = StateKind::Elementwise;
        vec![Piece {
            name: format!("fc_w.block{}", self.index.index),
            variable: "fc_w".to_owned(),
            shape: vec![3, 2],
            dtype: DType::F32,
            start: self.index.index as usize * 3,
            len: 3,
            states: vec![State { variable: moment, dtype: DType::F32, kind }],
        }]
    }

    fn read_piece(
        &self,
        _: &str,
        look: &mut dyn FnMut(&[&Tensor]) -> bireme_fleet::ps::Result<()>,
    ) -> bireme_fleet::ps::Result<()> {
        look(&[&self.value, &self.moment])
    }

    fn write_piece(
        &self,
        _: &str,
        _: &mut dyn FnMut(&mut [&mut Tensor]) -> bireme_fleet::ps::Result<()>,
    ) -> bireme_fleet::ps::Result<()> {
        unreachable!("nothing is loaded here")
    }

    fn tables(&self) -> Vec<Arc<dyn Rows>> {
        vec![self.table.clone()]
    }
}

fn save_all(dir: &Path, servers: &[Server], mode: SaveMode) {
    let saved = servers.iter().map(|server| save(server, dir, server.index, mode).unwrap());
    finish(dir, saved.collect()).unwrap();
}

#[test]
fn a_checkpoint_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("ckpt");
    let servers = [Server::new(0), Server::new(1)];
    save_all(&dir, &servers, SaveMode::Base);
    let ran = bireme(folder.path(), &["inspect", "ckpt", "--top", "2"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    for part in [
        "ckpt: step 1,234, written 20",
        "by 2 servers",
        "in 4 files",
        " 0  emb     20",
        "weight[2]",
        "Keys of `emb` with the largest weights\nkey       norm\n 19  19.000000\n 18  18.000000\n\n",
        "fc_w  float32  [3, 2]  24 B  0 1                fc_w_moment_0",
        "server-001-of-002-000001-table-000.safetensors       1",
        "not verified (--verify)",
    ] {
        assert!(ran.stdout.contains(part), "`{part}` in:\n{}", ran.stdout);
    }

    servers[0].table.set(&[1, 100], &[50.0, 0.0, 1.0, 0.0]).unwrap();
    save_all(&dir, &servers, SaveMode::Delta);
    let ran = bireme(folder.path(), &["inspect", "ckpt/manifest.json", "--verify"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for part in ["Saves\nmode ", "\ndelta ", " 0  emb     21", "\n  1  50.000000\n", "verified"] {
        assert!(ran.stdout.contains(part), "`{part}` in:\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("not verified"), "{}", ran.stdout);
}

#[test]
fn damaged_and_partial_checkpoints_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("ckpt");
    save_all(&dir, &[Server::new(0), Server::new(1)], SaveMode::Full);
    let refused = |args: &[&str], reasons: &[&str]| {
        let ran = bireme(folder.path(), args, "");
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        for reason in reasons {
            assert!(ran.stderr.contains(reason), "`{reason}` in: {}", ran.stderr);
        }
        ran.stdout
    };
    refused(&["inspect", "ckpt", "--text"], &["`ckpt` is a checkpoint", "leave out the flag"]);

    let dense = dir.join("server-000-of-002-000001.safetensors");
    let whole = fs::read(&dense).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&dense, flipped).unwrap();
    let shown = refused(&["inspect", "ckpt", "--verify"], &["it is damaged: its checksum is"]);
    assert!(shown.contains("damaged") && shown.contains("verified"), "{shown}");
    fs::write(&dense, &whole[..10]).unwrap();
    let ran = bireme(folder.path(), &["inspect", "ckpt"], "");
    assert!(ran.stdout.contains("wrong size"), "{}", ran.stdout);

    fs::remove_file(dir.join("server-001-of-002-000001-table-000.safetensors")).unwrap();
    refused(&["inspect", "ckpt"], &["table-000.safetensors", "it is missing"]);
    let ran = bireme(folder.path(), &["inspect", "ckpt", "--top", "0"], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("missing"), "{}", ran.stdout);

    let manifest = dir.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("1234", "1235")).unwrap();
    refused(&["inspect", "ckpt"], &["manifest.json", "its checksum does not fit"]);
    fs::write(&manifest, &text[..200]).unwrap();
    refused(&["inspect", "ckpt"], &["manifest.json", "damaged"]);
    fs::remove_file(&manifest).unwrap();
    refused(&["inspect", "ckpt"], &["`ckpt` has files of servers", "never finished"]);
    fs::create_dir(folder.path().join("empty")).unwrap();
    refused(&["inspect", "empty", "--verify"], &["`empty` is no checkpoint"]);
}
