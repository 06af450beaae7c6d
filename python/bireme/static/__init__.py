"""Static mode: build a program once, then run it many times.

>>> import bireme as paddle, numpy as np
>>> paddle.enable_static()
>>> main, startup = paddle.static.Program(), paddle.static.Program()
>>> with paddle.static.program_guard(main, startup):
...     x = paddle.static.data("x", [None, 13])
...     loss = paddle.mean(paddle.static.nn.fc(x, 1))
...     _ = paddle.optimizer.SGD(0.01).minimize(loss)
>>> exe = paddle.static.Executor(paddle.CPUPlace())
>>> _ = exe.run(startup)
>>> exe.run(main, feed={"x": np.zeros([4, 13], "float32")}, fetch_list=[loss])
[array([0.], dtype=float32)]
>>> paddle.disable_static()
"""

from .._missing import missing_names
from .._names import set_public_names
from ..tensor.indexing import setitem as setitem
from . import amp, io, nn
from .backward import *
from .executor import *
from .inference import *
from .input import *
from .io import *
from .nn.metric import *
from .program import *

set_public_names(__name__, also="Program Scope Variable amp io nn setitem")
__getattr__ = missing_names(__name__)
