//! A table on a card begins its rows with the values that a server's table draws for the same keys.

use bireme_cuda::driver::{Card, Stream, libraries};
use bireme_cuda::table::{Init, RowShape, Table};
use bireme_ps::table::{
    AccessorConfig, OptimizerRule, RowInit, RowStore as _, SparseTable, TableConfig,
};

const WIDTH: usize = 8;

#[test]
fn rows_begin_as_on_a_server() {
    let Some(dir) = bireme_emulator::DIR else {
        eprintln!("skipped: there is no emulated card, for want of a C++ compiler");
        return;
    };
    libraries::load_from(dir);
    let stream = Stream::new(&Card::open(0).unwrap()).unwrap();
    let keys = [0, 1, 77, 1 << 40, u64::MAX - 1, u64::MAX];
    let uniform = RowInit::Uniform { min: -0.3, max: 0.1 };
    let gaussian = RowInit::Gaussian { mean: 0.1, std: 0.7 };
    for (initializer, tolerance) in [(uniform, 0.0), (gaussian, 1e-6)] {
        let config = TableConfig {
            initializer,
            seed: 5,
            accessor: AccessorConfig::Plain(OptimizerRule::Adagrad { epsilon: 1e-6, initial: 0.2 }),
            ..TableConfig::new("emb", WIDTH)
        };
        let on_server = SparseTable::new(config).unwrap();
        let mut expected = vec![0.0; keys.len() * WIDTH];
        on_server.pull(&keys, &mut expected).unwrap();

        let shape = RowShape { width: WIDTH, states: 1 };
        let mut on_card = Table::new(&stream, shape, keys.len()).unwrap();
        let init =
            Init { weights: initializer, seed: 5, name: "emb".to_owned(), states: vec![0.2] };
        let given = stream.allocate(size_of_val(&keys)).unwrap();
        stream.upload(given.whole(), bytemuck::cast_slice(&keys)).unwrap();
        let out = stream.allocate(size_of_val(expected.as_slice())).unwrap();
        on_card.find_or_insert(given.whole(), &init, out.whole()).unwrap();
        let mut got = vec![0.0f32; expected.len()];
        stream.download(bytemuck::cast_slice_mut(&mut got), out.whole()).unwrap();
        for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert!((got - expected).abs() <= tolerance, "{initializer:?} {at}: {got}, {expected}");
        }
    }
}
