"""A click-through-rate model as a program: sparse embeddings, lazy Adam, AUC; data is made up."""

import bireme as paddle
import numpy as np
from bireme.nn import functional

SLOTS, DENSE, ROWS, WIDTH = 26, 13, 10001, 9
BATCH, STEPS = 512, 300


def main():
    paddle.enable_static()
    paddle.seed(1)
    label = paddle.static.data("label", [None, 1], "int64")
    sparse = paddle.static.data("sparse", [None, SLOTS], "int64")
    dense = paddle.static.data("dense", [None, DENSE], "float32")
    logits = network(sparse, dense)
    loss = paddle.mean(functional.cross_entropy(logits, label))
    auc, _, _ = paddle.static.auc(functional.softmax(logits), label)
    paddle.optimizer.Adam(learning_rate=0.002, lazy_mode=True).minimize(loss)

    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    random = np.random.default_rng(1)
    for step in range(STEPS):
        cost, area = executor.run(feed=samples(random), fetch_list=[loss, auc])
        if step % 100 == 99:
            print(f"step {step + 1}: loss {float(cost.item()):.4f}, auc {float(area.item()):.4f}")
    paddle.static.save_inference_model("ctr_dnn", [sparse, dense], [logits], executor)


def network(sparse, dense):
    attr = paddle.ParamAttr(name="rows", initializer=paddle.nn.initializer.Uniform(-0.1, 0.1))
    table = paddle.nn.Embedding(ROWS, WIDTH, sparse=True, weight_attr=attr)
    hidden = paddle.concat([paddle.reshape(table(sparse), [-1, SLOTS * WIDTH]), dense], axis=1)
    for width in (256, 128, 32):
        hidden = paddle.static.nn.fc(hidden, width, activation="relu")
    return paddle.static.nn.fc(hidden, 2)


def samples(random):
    """Clicks follow a few frequent ids and the dense features."""
    sparse = random.zipf(1.2, size=(BATCH, SLOTS)) % ROWS
    dense = random.random((BATCH, DENSE), dtype="float32")
    score = dense.sum(axis=1) - DENSE / 2 + (sparse[:, :4] == 1).sum(axis=1) - 0.8
    label = (score + random.normal(size=BATCH) * 0.5 > 0).astype("int64")
    return {"label": label[:, None], "sparse": sparse, "dense": dense}


if __name__ == "__main__":
    main()
