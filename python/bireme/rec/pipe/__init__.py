"""A folder for `sys.path`: what PaddleRec's readers import in a pipe command."""

from ..._missing import missing_names

__getattr__ = missing_names(__name__)
