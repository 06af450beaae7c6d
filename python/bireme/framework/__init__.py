"""What everything else stands on: types, places, modes, gradients, flags, saving and loading.

Most of it is `paddle.*`: `bireme` takes over all names of `__all__`.
"""

from __future__ import annotations

from .. import _core
from .._missing import missing_names
from .._names import set_public_names
from . import dtype as dtypes
from .dtype import *
from .dtype import get_default_dtype as get_default_dtype
from .dtype import set_default_dtype as set_default_dtype
from .flags import *
from .gradient import *
from .io import *
from .mode import *
from .param_attr import *
from .place import *
from .random import *

# Found here, but not in `paddle.*`.
Program = _core.Program
Parameter = _core.Parameter

set_public_names(__name__, also=" ".join(["CPUPlace CUDAPinnedPlace CUDAPlace", *dtypes.__all__]))
__getattr__ = missing_names(__name__, {"core": "bireme.framework.core"})
