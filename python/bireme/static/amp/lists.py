"""Lists of op types for mixed precision of static programs."""

from __future__ import annotations

from collections.abc import Iterable

from ... import _core

__all__ = ["AutoMixedPrecisionLists", "CustomOpLists"]


class AutoMixedPrecisionLists:
    """Which ops compute with 16 bits: the white list does, the black list does not, the gray list follows.

    Custom lists are added to Paddle's own; ops that use a variable of `custom_black_varnames` compute with 32 bits.

    >>> lists = paddle.static.amp.AutoMixedPrecisionLists(["softmax"], ["mul"])
    >>> "softmax" in lists.white_list, "mul" in lists.black_list, "relu" in lists.gray_list
    (True, True, True)
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Iterable[str] | None = None,
        dtype: str = "float16",
    ) -> None:
        if dtype not in ("float16", "bfloat16"):
            raise ValueError(
                f"`dtype` of mixed precision is `float16` or `bfloat16`, not {dtype!r}"
            )
        self.amp_dtype = dtype
        self._custom_white_list = sorted(set(custom_white_list or ()))
        self._custom_black_list = sorted(set(custom_black_list or ()))
        both = set(self._custom_white_list) & set(self._custom_black_list)
        if both:
            raise ValueError(f"custom white list overlap custom black list: {sorted(both)}")
        lists = _core.amp_lists(self._custom_white_list, self._custom_black_list)
        self.white_list = set(lists["white"])
        self.gray_list = set(lists["gray"])
        self.black_list = set(lists["black"])
        self.black_varnames = set(custom_black_varnames or ())


CustomOpLists = AutoMixedPrecisionLists
