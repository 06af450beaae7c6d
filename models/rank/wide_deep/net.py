"""The network: a linear part over the dense features, a deep one over all."""

import math
from itertools import pairwise

import paddle
from paddle import nn


def deep_layers(sizes):
    """Fully connected layers with `relu` between them."""
    layers = []
    for inputs, outputs in pairwise(sizes):
        start = nn.initializer.Normal(std=1.0 / math.sqrt(inputs))
        layers += [nn.Linear(inputs, outputs, weight_attr=start), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class WideDeepLayer(nn.Layer):
    """The probability of a click."""

    def __init__(self, rows, dim, dense_dim, slots, fc_sizes):
        super().__init__()
        self.dim = dim
        spread = nn.initializer.TruncatedNormal(mean=0.0, std=1.0 / math.sqrt(dense_dim))
        self.wide = nn.Linear(dense_dim, 1, weight_attr=spread)
        self.embedding = nn.Embedding(
            rows,
            dim,
            sparse=True,
            weight_attr=paddle.ParamAttr(
                name="SparseFeatFactors", initializer=nn.initializer.Uniform()
            ),
        )
        self.deep = deep_layers([dim * slots + dense_dim, *fc_sizes, 1])

    def forward(self, sparse_inputs, dense_input):
        """The probabilities of a batch."""
        rows = [paddle.reshape(self.embedding(ids), [-1, self.dim]) for ids in sparse_inputs]
        deep = self.deep(paddle.concat([*rows, dense_input], axis=1))
        return nn.functional.sigmoid(self.wide(dense_input) + deep)
