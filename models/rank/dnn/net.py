"""The network: rows of one table for all slots, then fully connected layers."""

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


class DNNLayer(nn.Layer):
    """Scores two classes: no click, click."""

    def __init__(self, rows, dim, dense_dim, slots, fc_sizes):
        super().__init__()
        self.dim = dim
        self.embedding = nn.Embedding(
            rows,
            dim,
            sparse=True,
            weight_attr=paddle.ParamAttr(
                name="SparseFeatFactors", initializer=nn.initializer.Uniform()
            ),
        )
        self.deep = deep_layers([dim * slots + dense_dim, *fc_sizes, 2])

    def forward(self, sparse_inputs, dense_input):
        """The scores of a batch, before softmax."""
        rows = [paddle.reshape(self.embedding(ids), [-1, self.dim]) for ids in sparse_inputs]
        return self.deep(paddle.concat([*rows, dense_input], axis=1))
