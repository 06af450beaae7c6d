"""Layers and parameters in lists, dictionaries and sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...tensor.arguments import Tensor
from .layers import Layer

__all__ = ["LayerDict", "LayerList", "ParameterList", "Sequential"]


class Sequential(Layer):
    """Layers one after the other; they may have names, as pairs of name and layer.

    >>> model = paddle.nn.Sequential(paddle.nn.Flatten(), paddle.nn.ReLU())
    >>> model(paddle.to_tensor([[[-1.0], [2.0]]])).tolist()
    [[0.0, 2.0]]
    """

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        for i, layer in enumerate(layers):
            if isinstance(layer, (tuple, list)):
                self.add_sublayer(str(layer[0]), layer[1])
            else:
                self.add_sublayer(str(i), layer)

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, slice):
            return type(self)(*list(self._sub_layers.values())[name])
        if isinstance(name, str):
            return self._sub_layers[name]
        return _at(list(self._sub_layers.values()), name)

    def __setitem__(self, name: Any, layer: Layer) -> None:
        self.add_sublayer(str(name), layer)

    def __delitem__(self, name: Any) -> None:
        del self._sub_layers[str(name)]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def forward(self, input: Tensor) -> Tensor:
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class LayerList(Layer):
    """Layers by number.

    >>> layers = paddle.nn.LayerList([paddle.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(layers.parameters())
    (3, 6)
    """

    def __init__(self, sublayers: Iterable[Layer] | None = None) -> None:
        super().__init__()
        self.extend(sublayers or [])

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._sub_layers.values())[idx])
        return _at(list(self._sub_layers.values()), idx)

    def __setitem__(self, idx: int, sublayer: Layer) -> None:
        self.add_sublayer(str(_place(idx, len(self))), sublayer)

    def __delitem__(self, idx: Any) -> None:
        layers = list(self._sub_layers.values())
        del layers[idx]
        self._renumber(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def append(self, sublayer: Layer) -> LayerList:
        """Adds a layer at the end."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Layer) -> None:
        """Adds a layer before the one at `index`."""
        if not isinstance(index, int) or not -len(self) <= index <= len(self):
            raise AssertionError(f"index {index} is out of range for {len(self)} layers")
        layers = list(self._sub_layers.values())
        layers.insert(index, sublayer)
        self._renumber(layers)

    def extend(self, sublayers: Iterable[Layer]) -> LayerList:
        """Adds layers at the end."""
        for layer in sublayers:
            self.append(layer)
        return self

    def _renumber(self, layers: list[Layer]) -> None:
        for name in list(self._sub_layers):
            del self._sub_layers[name]
        self.extend(layers)


class LayerDict(Layer):
    """Layers by name.

    >>> layers = paddle.nn.LayerDict({"first": paddle.nn.Linear(2, 2)})
    >>> list(layers.keys())
    ['first']
    """

    def __init__(self, sublayers: Any = None) -> None:
        super().__init__()
        if sublayers is not None:
            self.update(sublayers)

    def __getitem__(self, key: str) -> Layer:
        return self._sub_layers[key]

    def __setitem__(self, key: str, sublayer: Layer) -> None:
        self.add_sublayer(key, sublayer)

    def __delitem__(self, key: str) -> None:
        del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sub_layers)

    def __contains__(self, key: str) -> bool:
        return key in self._sub_layers

    def clear(self) -> None:
        """Takes all layers away."""
        for key in list(self._sub_layers):
            del self._sub_layers[key]

    def pop(self, key: str) -> Layer:
        """Takes a layer away and returns it."""
        layer = self._sub_layers[key]
        del self._sub_layers[key]
        return layer

    def keys(self) -> Any:
        """The names."""
        return self._sub_layers.keys()

    def items(self) -> Any:
        """The names and layers."""
        return self._sub_layers.items()

    def values(self) -> Any:
        """The layers."""
        return self._sub_layers.values()

    def update(self, sublayers: Any) -> None:
        """Adds layers of a dictionary, or of pairs of name and layer."""
        pairs = sublayers.items() if isinstance(sublayers, (Mapping, LayerDict)) else sublayers
        for key, layer in pairs:
            self.add_sublayer(key, layer)


class ParameterList(Layer):
    """Parameters by number.

    >>> weights = [paddle.create_parameter([2, 2], "float32") for _ in range(3)]
    >>> len(paddle.nn.ParameterList(weights).parameters())
    3
    """

    def __init__(self, parameters: Iterable[Any] | None = None) -> None:
        super().__init__()
        for parameter in parameters or []:
            self.append(parameter)

    def __getitem__(self, idx: int) -> Any:
        return self._parameters[str(_place(idx, len(self)))]

    def __setitem__(self, idx: int, param: Any) -> None:
        self._parameters[str(_place(idx, len(self)))] = param

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def append(self, parameter: Any) -> ParameterList:
        """Adds a parameter at the end."""
        self.add_parameter(str(len(self)), parameter)
        return self


def _place(index: int, size: int) -> int:
    if not isinstance(index, int) or not -size <= index < size:
        raise IndexError(f"index {index} is out of range for {size} members")
    return index % size


def _at(layers: list[Layer], index: int) -> Layer:
    return layers[_place(index, len(layers))]
