"""What users can say about a parameter: its name, first values, learning rate and so on."""

from __future__ import annotations

from typing import Any

from .._missing import missing_names

__all__ = ["ParamAttr"]


class ParamAttr:
    """The wishes for a parameter; what is not said is left to the layer.

    `learning_rate` multiplies that of the optimizer; a `regularizer` here replaces that of the
    optimizer; `need_clip=False` leaves the gradient out of clipping. `do_model_average` is kept
    for moving averages of parameters.

    >>> import bireme as paddle
    >>> attr = paddle.ParamAttr("w", learning_rate=0.5, trainable=False)
    >>> attr.name, attr.learning_rate, attr.trainable
    ('w', 0.5, False)
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
    ) -> None:
        if name == "":
            raise ValueError(
                "the `name` of a ParamAttr must not be empty: use None to have one made"
            )
        _check("name", name, (str, type(None)))
        _check("learning_rate", learning_rate, (float, int))
        for flag, value in (
            ("trainable", trainable),
            ("do_model_average", do_model_average),
            ("need_clip", need_clip),
        ):
            _check(flag, value, (bool,))
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.need_clip = need_clip

    @staticmethod
    def _to_attr(arg: Any) -> Any:
        """Whatever users may pass as `weight_attr`, as a ParamAttr; False stays False."""
        if isinstance(arg, ParamAttr) or arg is False:
            return arg
        if arg is None or arg is True:
            return ParamAttr()
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        if isinstance(arg, (list, tuple)):
            return [ParamAttr._to_attr(item) for item in arg]
        return _from_object(arg)

    def __repr__(self) -> str:
        return f"ParamAttr({', '.join(f'{key}={value!r}' for key, value in vars(self).items())})"


def _from_object(arg: Any) -> ParamAttr:
    from ..nn.initializer import Initializer
    from ..regularizer import WeightDecayRegularizer

    if isinstance(arg, Initializer):
        return ParamAttr(initializer=arg)
    if isinstance(arg, WeightDecayRegularizer):
        return ParamAttr(regularizer=arg)
    raise TypeError(
        f"cannot make a ParamAttr of {type(arg).__name__}: give a ParamAttr, a name, an "
        "initializer, a regularizer, or False for no parameter"
    )


def _check(name: str, value: Any, types: tuple[type, ...]) -> None:
    # Python's True is an int, but no learning rate.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        wanted = " or ".join(kind.__name__ for kind in types)
        raise TypeError(f"`{name}` of a ParamAttr must be {wanted}, not {value!r}")


__getattr__ = missing_names(__name__)
