"""DeepFM: first order, factorisation machine and perceptron over the same embeddings."""

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
    dense = random.random((size, DENSE))
    label = (dense[:, :1] * dense[:, 1:2] + sparse[:, :1] / ROWS > 0.7) * 1
    return {"label": label, "sparse": sparse, "dense": dense}


class FM(nn.Layer):
    def __init__(self):
        super().__init__()
        table = paddle.ParamAttr(
            initializer=nn.initializer.TruncatedNormal(mean=0.0, std=0.05),
            regularizer=paddle.regularizer.L2Decay(1e-4),
        )
        self.embedding_one = nn.Embedding(ROWS, 1, padding_idx=0, weight_attr=table)
        self.embedding = nn.Embedding(ROWS, WIDTH, padding_idx=0, weight_attr=table)
        self.dense_w_one = paddle.create_parameter(
            shape=[DENSE],
            dtype="float32",
            default_initializer=nn.initializer.Constant(value=1.0),
        )
        self.dense_w = self.create_parameter(
            shape=[1, DENSE, WIDTH],
            attr=paddle.ParamAttr(initializer=nn.initializer.Normal(mean=0.0, std=0.1)),
        )

    def forward(self, sparse, dense):
        first = paddle.sum(self.embedding_one(sparse), axis=1)
        first += paddle.sum(paddle.multiply(dense, self.dense_w_one), axis=1, keepdim=True)
        dense_rows = paddle.multiply(paddle.unsqueeze(dense, axis=2), self.dense_w)
        rows = paddle.concat([self.embedding(sparse), dense_rows], axis=1)
        square_of_sum = paddle.square(paddle.sum(rows, 1))
        sum_of_square = paddle.sum(paddle.square(rows), 1)
        second = 0.5 * paddle.sum(square_of_sum - sum_of_square, 1, keepdim=True)
        return first, second, rows


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fm = FM()
        self.norm = nn.BatchNorm1D((SLOTS + DENSE) * WIDTH)
        self.dnn = nn.Sequential(
            nn.Linear((SLOTS + DENSE) * WIDTH, 32),
            nn.ReLU(),
            nn.Linear(32, 16, weight_attr=nn.initializer.KaimingNormal()),
            nn.LeakyReLU(),
            nn.Linear(16, 1, bias_attr=nn.initializer.Constant(0.1)),
        )
        self.bias = paddle.create_parameter(
            [1], "float32", default_initializer=nn.initializer.Constant(0.0)
        )

    def forward(self, sparse, dense):
        first, second, rows = self.fm(sparse, dense)
        deep = self.dnn(self.norm(paddle.reshape(rows, [-1, (SLOTS + DENSE) * WIDTH])))
        return F.sigmoid(first + second + deep + self.bias)


def arguments(feeds):
    return feeds["sparse"], feeds["dense"]


def loss(output, feeds):
    return F.binary_cross_entropy(output, feeds["label"].astype("float32"))


def judged(output, feeds):
    return paddle.concat([1.0 - output, output], axis=-1), feeds["label"]


def optimizer(parameters):
    return (
        paddle.optimizer.Adam(
            learning_rate=0.002, beta1=0.9, beta2=0.99, parameters=parameters, weight_decay=1e-5
        ),
        None,
    )
