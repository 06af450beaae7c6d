"""Trains model folders in the style of PaddleRec: a YAML file, a model and a reader beside it.

The scripts in `tools/` call `main` of its modules: `eager` and `static` train and infer in one
process or in several equal ones, `servers` with parameter servers, `online` on data that comes in
passes. What PaddleRec's readers import by a path of its tools is in `rec/pipe`.
"""

from .._missing import missing_names
from .config import load, load_yaml, override, table

__all__ = ["load", "load_yaml", "override", "table"]

__getattr__ = missing_names(__name__)
