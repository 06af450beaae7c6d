"""The exchanged models as Paddle builds them, in the forms that programs in use have."""

import numpy as np
import paddle
from paddle.framework.io_utils import is_persistable
from paddle.nn import functional
from paddle.static.io import append_fetch_ops, prepend_feed_ops

FEATURES, PIXELS = 13, 784
SLOTS, DENSE, TABLE_ROWS, EMBEDDING = 26, 13, 1001, 9
STEPS, BATCH = 3, 16


# --- Builders: each returns feeds for prediction, the prediction, and the loss --------------------


def line_data():
    x = paddle.static.data("x", [None, FEATURES], "float32")
    y = paddle.static.data("y", [None, 1], "float32")
    return x, y


def line_loss(predicted, y):
    return paddle.mean(functional.square_error_cost(predicted, y))


def fit_a_line_fc():
    x, y = line_data()
    predicted = paddle.static.nn.fc(x, 1)
    return [x], predicted, line_loss(predicted, y)


def fit_a_line_linear():
    x, y = line_data()
    predicted = paddle.nn.Linear(FEATURES, 1)(x)
    return [x], predicted, line_loss(predicted, y)


def mnist_data():
    x = paddle.static.data("x", [None, PIXELS], "float32")
    y = paddle.static.data("y", [None, 1], "int64")
    return x, y


def mnist_loss(prediction, y):
    return paddle.mean(functional.cross_entropy(prediction, y, use_softmax=False))


def mnist_fc():
    x, y = mnist_data()
    hidden = paddle.static.nn.fc(x, 128, activation="tanh")
    hidden = paddle.static.nn.fc(hidden, 128, activation="tanh")
    prediction = paddle.static.nn.fc(hidden, 10, activation="softmax")
    return [x], prediction, mnist_loss(prediction, y)


def mnist_linear():
    x, y = mnist_data()
    nn = paddle.nn
    layers = [nn.Linear(PIXELS, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 10)]
    prediction = nn.Sequential(*layers, nn.Softmax())(x)
    return [x], prediction, mnist_loss(prediction, y)


def ctr_data():
    label = paddle.static.data("label", [None, 1], "int64")
    slots = [paddle.static.data(str(slot), [None, 1], "int64") for slot in range(1, SLOTS + 1)]
    dense = paddle.static.data("dense_input", [None, DENSE], "float32")
    return label, slots, dense


def table_attr():
    return paddle.ParamAttr("SparseFeatFactors", initializer=paddle.nn.initializer.Uniform(-1, 1))


def ctr_top(found, dense, fc):
    """The perceptron over looked-up rows and dense features."""
    rows = [paddle.reshape(rows, [-1, EMBEDDING]) for rows in found]
    hidden = paddle.concat([*rows, dense], axis=1)
    for width in [512, 256, 128, 32]:
        hidden = functional.relu(fc(hidden, width))
    return fc(hidden, 2)


def ctr_loss(logits, label):
    return paddle.mean(functional.cross_entropy(logits, label))


def ctr_fc():
    label, slots, dense = ctr_data()
    shape, attr = [TABLE_ROWS, EMBEDDING], table_attr()
    lookup = paddle.static.nn.embedding
    found = [lookup(ids, shape, is_sparse=True, param_attr=attr) for ids in slots]
    logits = ctr_top(found, dense, paddle.static.nn.fc)
    return [*slots, dense], functional.softmax(logits), ctr_loss(logits, label)


def ctr_linear():
    label, slots, dense = ctr_data()
    table = paddle.nn.Embedding(TABLE_ROWS, EMBEDDING, sparse=True, weight_attr=table_attr())
    linear = lambda hidden, width: paddle.nn.Linear(hidden.shape[1], width)(hidden)
    logits = ctr_top([table(ids) for ids in slots], dense, linear)
    return [*slots, dense], functional.softmax(logits), ctr_loss(logits, label)


def ctr_fluid():
    """With `lookup_table`, as `fluid.layers.embedding` of Paddle 1.x makes it."""
    label, slots, dense = ctr_data()
    table = paddle.create_parameter([TABLE_ROWS, EMBEDDING], "float32", attr=table_attr())
    block = paddle.static.default_main_program().global_block()
    found = []
    for ids in slots:
        rows = block.create_var(name=f"rows_{ids.name}", dtype="float32")
        block.append_op(
            type="lookup_table",
            inputs={"Ids": ids, "W": table},
            outputs={"Out": rows},
            attrs={"is_sparse": True, "is_distributed": False, "padding_idx": -1},
        )
        found.append(rows)
    logits = ctr_top(found, dense, paddle.static.nn.fc)
    return [*slots, dense], functional.softmax(logits), ctr_loss(logits, label)


BUILDERS = {
    "fit_a_line": {"fc": fit_a_line_fc, "nn.Linear": fit_a_line_linear},
    "mnist_mlp": {"fc": mnist_fc, "nn.Linear": mnist_linear},
    "ctr_dnn": {"fc": ctr_fc, "nn.Linear": ctr_linear, "lookup_table": ctr_fluid},
}


# --- Training and saving --------------------------------------------------------------------------


def train_and_save(build, folder):
    """Trains a few steps on random rows; returns layout to path."""
    paddle.seed(1)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.scope_guard(paddle.static.Scope()):
        with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
            feeds, prediction, loss = build()
            forward = main.clone(for_test=True)
            paddle.optimizer.Adam(1e-3).minimize(loss)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        names = [var.name for var in main.list_vars() if var.is_data]
        for step in range(STEPS):
            executor.run(main, feed=random_rows(main, names, BATCH, seed=step), fetch_list=[loss])
        return save(folder, main, forward, feeds, prediction, executor)


def save(folder, main, forward, feeds, prediction, executor):
    prefix = folder / "model"
    paddle.static.save_inference_model(str(prefix), feeds, [prediction], executor, program=main)
    saved = {"2.x": prefix}
    # What `fluid.io.save_inference_model` of Paddle 1.x did; 2.6 only reads it.
    names = [var.name for var in feeds]
    program = forward._prune_with_input(names, [prediction.name])
    prepend_feed_ops(program, names)
    append_fetch_ops(program, [prediction.name])
    for layout, filename in [("1.x files", None), ("1.x one file", "__params__")]:
        path = folder / layout.replace(" ", "_")
        paddle.static.save_vars(
            executor, str(path), program, predicate=is_persistable, filename=filename
        )
        (path / "__model__").write_bytes(program.desc.serialize_to_string())
        saved[layout] = path
    return saved


def random_rows(program, feeds, count, seed=0):
    """Rows for these feeds; ids lie inside the tables of the program."""
    random = np.random.default_rng(seed)
    block = program.global_block()
    lookups = [op for op in block.ops if op.type in ("lookup_table", "lookup_table_v2")]
    sizes = {op.input("Ids")[0]: block.var(op.input("W")[0]).shape[0] for op in lookups}
    rows = {}
    for name in feeds:
        var = block.var(name)
        shape = [count, *var.shape[1:]]
        if var.dtype == paddle.int64:
            rows[name] = random.integers(0, sizes.get(name, 2), shape)
        else:
            rows[name] = random.normal(size=shape).astype(np.float32)
    return rows
