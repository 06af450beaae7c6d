"""Prediction with a saved model, as Paddle's inference library spells it.

>>> import os, tempfile, numpy as np
>>> paddle.enable_static()
>>> y = paddle.exp(paddle.static.data("x", [None, 1]))
>>> prefix = os.path.join(tempfile.mkdtemp(), "model")
>>> x = paddle.static.default_main_program().global_block().var("x")
>>> paddle.static.save_inference_model(prefix, [x], [y], None)
>>> config = paddle.inference.Config(prefix + ".pdmodel", prefix + ".pdiparams")
>>> predictor = paddle.inference.create_predictor(config)
>>> predictor.get_input_handle("x").copy_from_cpu(np.zeros([2, 1], "float32"))
>>> _ = predictor.run()
>>> predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu().tolist()
[[1.0], [1.0]]
"""

from .._missing import missing_names
from .._names import set_public_names
from .config import *
from .predictor import *

set_public_names(__name__)
__getattr__ = missing_names(__name__)
