"""`summary` and `flops` print what Paddle 2.6.2 prints."""

import bireme as paddle
import pytest
from bireme import nn


class LeNet(nn.Layer):
    """The network of the figures below, which are Paddle's."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, stride=1, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 16, 5, stride=1, padding=0),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
        )
        self.fc = nn.Sequential(nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10))

    def forward(self, inputs):
        return self.fc(paddle.flatten(self.features(inputs), 1))


SUMMARY = """\
---------------------------------------------------------------------------
 Layer (type)       Input Shape          Output Shape         Param #    
===========================================================================
   Conv2D-1       [[1, 1, 28, 28]]      [1, 6, 28, 28]          60       
    ReLU-1        [[1, 6, 28, 28]]      [1, 6, 28, 28]           0       
  MaxPool2D-1     [[1, 6, 28, 28]]      [1, 6, 14, 14]           0       
   Conv2D-2       [[1, 6, 14, 14]]     [1, 16, 10, 10]         2,416     
    ReLU-2       [[1, 16, 10, 10]]     [1, 16, 10, 10]           0       
  MaxPool2D-2    [[1, 16, 10, 10]]      [1, 16, 5, 5]            0       
   Linear-1          [[1, 400]]            [1, 120]           48,120     
   Linear-2          [[1, 120]]            [1, 84]            10,164     
   Linear-3          [[1, 84]]             [1, 10]              850      
===========================================================================
Total params: 61,610
Trainable params: 61,610
Non-trainable params: 0
---------------------------------------------------------------------------
Input size (MB): 0.00
Forward/backward pass size (MB): 0.11
Params size (MB): 0.24
Estimated Total Size (MB): 0.35
---------------------------------------------------------------------------

"""


def test_summary_is_paddle_s(capsys):
    net = LeNet()
    counts = paddle.summary(net, (None, 1, 28, 28))
    assert counts == {"total_params": 61610, "trainable_params": 61610}
    assert capsys.readouterr().out == SUMMARY
    assert net.training


def test_summary_takes_inputs_of_all_kinds(capsys):
    class Two(nn.Layer):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(5, 3)
            self.linear = nn.Linear(2, 3)
            self.linear.bias.stop_gradient = True

        def forward(self, ids, values):
            return self.embedding(ids) + self.linear(values)

    counts = paddle.summary(Two(), [(4,), (4, 2)], dtypes=["int64", "float32"])
    assert counts == {"total_params": 24, "trainable_params": 21}
    spec = paddle.static.InputSpec([None, 2], "float32", "x")
    assert paddle.summary(nn.Linear(2, 3), spec)["total_params"] == 9
    assert paddle.summary(nn.Linear(2, 3), input=paddle.ones([1, 2]))["total_params"] == 9
    capsys.readouterr()
    with pytest.raises(ValueError, match="more than one unknown size"):
        paddle.summary(nn.Linear(2, 3), (None, -1))
    with pytest.raises(ValueError, match="needs `input_size` or `input`"):
        paddle.summary(nn.Linear(2, 3))


def test_flops_are_paddle_s(capsys):
    net = LeNet()

    def count(layer, inputs, output):
        layer.total_ops += 2 * output.numel()

    assert (
        paddle.flops(net, [1, 1, 28, 28], custom_ops={nn.MaxPool2D: count}, print_detail=True)
        == 350712
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "Total Flops: 350712     Total Params: 61610"
    assert any("Customize Function has been applied to" in line for line in lines)
    table = [line for line in lines if line.startswith("|")]
    assert table[0].split("|")[1].strip() == "Layer Name"
    assert len(table) == 10
    assert net.training
    with pytest.raises(TypeError, match="counts a layer, not int"):
        paddle.flops(3, [1])
