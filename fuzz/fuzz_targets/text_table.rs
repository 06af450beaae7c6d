//! Any bytes in place of the files of Paddle's text layout are rows or an error; rows survive
//! writing.

#![no_main]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bireme_engine::tensor::Tensor;
use bireme_ir::DType;
use bireme_ps::Result;
use bireme_ps::checkpoint::{
    Holdings, Piece, Rows, SaveMode, ServerIndex, export_text, finish_text, import_text,
};
use bireme_ps::table::{
    AccessorConfig, CtrClass, CtrConfig, SparseRule, SparseRuleKind, SparseTable, TableConfig,
};
use libfuzzer_sys::fuzz_target;

const ONLY: ServerIndex = ServerIndex { index: 0, count: 1 };

/// A server with two tables and a dense variable of three numbers.
struct Server {
    tables: [Arc<SparseTable>; 2],
    dense: std::sync::Mutex<Tensor>,
}

impl Server {
    fn new() -> Server {
        let kind = SparseRuleKind::AdaGrad { initial_g2sum: 3.0 };
        let bounds = [-10.0, 10.0];
        let rule = SparseRule { kind, learning_rate: 0.05, initial_range: 1e-4, bounds };
        let ctr = CtrConfig::unconfigured(CtrClass::CtrCommonAccessor, rule);
        let mut configs = [TableConfig::new("plain", 3), TableConfig::new("clicks", 5)];
        configs[1].accessor = AccessorConfig::Ctr(ctr);
        let tables = configs.map(|mut config| {
            config.shards = 1;
            Arc::new(SparseTable::new(config).expect("the settings are right"))
        });
        Server { tables, dense: Tensor::zeros(DType::F32, [3]).into() }
    }

    fn rows(&self) -> Vec<(u64, Vec<u32>)> {
        let mut rows = Vec::new();
        for table in &self.tables {
            table.for_each_shard(|shard| {
                rows.extend(shard.rows().map(|row| {
                    let bits = |x: &f32| if x.is_nan() { f32::NAN } else { *x }.to_bits();
                    (row.key, row.record.iter().map(bits).collect())
                }));
            });
        }
        rows.sort();
        rows
    }
}

impl Holdings for Server {
    fn step(&self) -> u64 {
        0
    }

    fn set_step(&self, _: u64) {}

    fn pieces(&self) -> Vec<Piece> {
        let (name, shape) = ("w".to_owned(), vec![3]);
        let variable = name.clone();
        vec![Piece { name, variable, shape, dtype: DType::F32, start: 0, len: 3, states: vec![] }]
    }

    fn read_piece(&self, _: &str, look: &mut dyn FnMut(&[&Tensor]) -> Result<()>) -> Result<()> {
        look(&[&*self.dense.lock().expect("nothing panics")])
    }

    fn write_piece(
        &self,
        _: &str,
        fill: &mut dyn FnMut(&mut [&mut Tensor]) -> Result<()>,
    ) -> Result<()> {
        fill(&mut [&mut *self.dense.lock().expect("nothing panics")])
    }

    fn tables(&self) -> Vec<Arc<dyn Rows>> {
        self.tables.iter().map(|table| table.clone() as Arc<dyn Rows>).collect()
    }
}

fuzz_target!(|bytes: &[u8]| {
    // Two tables, dense values and `layout.json`, with NULs between them.
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let dir = std::env::temp_dir().join(format!("bireme-fuzz-text-{}", std::process::id()));
    let files = [
        ("000", "part-000-00000", part()),
        ("001", "part-000-00000", part()),
        ("002", "part-000", part()),
        ("", "layout.json", part()),
    ];
    for (folder, name, contents) in files {
        fs::create_dir_all(dir.join(folder)).expect("a folder can be made");
        if !contents.is_empty() || name != "layout.json" {
            fs::write(dir.join(folder).join(name), contents).expect("a file can be written");
        }
    }
    let server = Server::new();
    if import_text(&dir, &server, ONLY).is_ok() {
        survives(&dir.join("again"), &server);
    }
    fs::remove_dir_all(&dir).ok();
});

fn survives(dir: &Path, server: &Server) {
    let shard = export_text(server, dir, ONLY, SaveMode::Full).expect("a save succeeds");
    finish_text(dir, vec![shard]).expect("a save succeeds");
    let again = Server::new();
    import_text(dir, &again, ONLY).expect("what is written is read");
    assert_eq!(again.rows(), server.rows());
}
