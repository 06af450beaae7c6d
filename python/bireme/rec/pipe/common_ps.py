"""`common` under the name by which readers of PaddleRec's later versions import it."""

from __future__ import annotations

from bireme.rec.pipe.common import (
    YamlHelper,
    get_utils_file_path,
    is_distributed_env,
    is_number,
    lazy_instance_by_fliename,
)

__all__ = [
    "YamlHelper",
    "get_utils_file_path",
    "is_distributed_env",
    "is_number",
    "lazy_instance_by_fliename",
]
