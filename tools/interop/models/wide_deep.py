"""Wide & Deep: a linear part and a perceptron, Adagrad, decay of single parameters, log loss."""

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

SLOTS, DENSE, ROWS, WIDTH = 8, 13, 500, 6
FEEDS = {
    "label": ([None, 1], "int64"),
    "sparse": ([None, SLOTS], "int64"),
    "dense": ([None, DENSE], "float32"),
}
LABELS = ["label"]
METRIC = "auc"


def batch(random, size):
    sparse = random.integers(0, ROWS, size=(size, SLOTS))
    dense = random.normal(size=(size, DENSE))
    label = (dense[:, :1] + dense[:, 1:2] * 0.5 + sparse[:, :1] / ROWS > 0.5) * 1
    return {"label": label, "sparse": sparse, "dense": dense}


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.wide_part = nn.Linear(
            in_features=DENSE,
            out_features=1,
            weight_attr=paddle.ParamAttr(
                initializer=nn.initializer.TruncatedNormal(mean=0.0, std=0.3),
                regularizer=paddle.regularizer.L1Decay(1e-4),
            ),
        )
        self.embedding = nn.Embedding(
            num_embeddings=ROWS,
            embedding_dim=WIDTH,
            weight_attr=paddle.ParamAttr(
                name="wide_deep_table", initializer=nn.initializer.XavierUniform()
            ),
        )
        self.deep = nn.LayerList()
        sizes = [SLOTS * WIDTH + DENSE, 48, 24, 1]
        for inner, outer in zip(sizes[:-1], sizes[1:]):
            attr = paddle.ParamAttr(
                initializer=nn.initializer.TruncatedNormal(std=0.1),
                regularizer=paddle.regularizer.L2Decay(coeff=1e-3),
                learning_rate=0.5 if outer == 1 else 1.0,
            )
            self.deep.append(nn.Linear(inner, outer, weight_attr=attr))

    def forward(self, sparse, dense):
        wide = self.wide_part(dense)
        hidden = paddle.flatten(self.embedding(sparse), start_axis=1)
        hidden = paddle.concat([hidden, dense], axis=-1)
        for linear in self.deep[:-1]:
            hidden = F.relu(linear(hidden))
        deep = self.deep[-1](hidden)
        return F.sigmoid(paddle.add(x=wide, y=deep))


def arguments(feeds):
    return feeds["sparse"], feeds["dense"]


def loss(output, feeds):
    label = paddle.cast(feeds["label"], dtype="float32")
    return paddle.mean(F.log_loss(input=output, label=label))


def judged(output, feeds):
    return paddle.concat([1 - output, output], axis=1), feeds["label"]


def optimizer(parameters):
    return (
        paddle.optimizer.Adagrad(
            learning_rate=0.02, initial_accumulator_value=0.1, epsilon=1e-6, parameters=parameters
        ),
        None,
    )
