"""`common` under the name by which readers of PaddleRec's later versions import it."""

from bireme.rec.pipe.common import *
