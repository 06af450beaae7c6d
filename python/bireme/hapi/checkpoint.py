"""What `Model.load` does with saved states: parameters by their places, optimizers by parameters."""

from __future__ import annotations

import warnings
from typing import Any

from .._missing import missing_names
from ..framework.io import NAME_TABLE

__all__ = ["matched", "restore_optimizer"]


def matched(network: Any, state: Any, skip: bool) -> tuple[list[tuple[Any, Any]], bool]:
    """The parameters of a network with their saved values, and whether all were found.

    >>> from bireme.hapi.checkpoint import matched
    >>> layer = paddle.nn.Linear(2, 3)
    >>> matched(layer, {}, skip=False)
    Traceback (most recent call last):
    ...
    ValueError: weight is not found in the providing file.
    """
    if not isinstance(state, dict):
        raise TypeError(f"the file holds `{type(state).__name__}` in the place of a state dict")
    found: list[tuple[Any, Any]] = []
    all_match = True
    for name, parameter in network.state_dict().items():
        problem = _mismatch(name, parameter, state)
        if problem is None:
            found.append((parameter, state[name]))
        elif skip:
            warnings.warn(f"Skip loading for {name}. {problem}", stacklevel=3)
            all_match = False
        else:
            raise ValueError(problem)
    return found, all_match


def _mismatch(name: str, parameter: Any, state: dict[str, Any]) -> str | None:
    if name not in state:
        return f"{name} is not found in the providing file."
    shapes = list(state[name].shape), list(parameter.shape)
    if shapes[0] != shapes[1]:
        return f"{name} receives a shape {shapes[0]}, but the expected shape is {shapes[1]}."
    return None


def restore_optimizer(optimizer: Any, saved: dict[str, Any], network: Any, state: Any) -> None:
    """Gives an optimizer its saved state, also where the parameters had other names then."""
    now = {place: parameter.name for place, parameter in network.state_dict().items()}
    table = state.get(NAME_TABLE, {})
    renamed = {old: now[place] for place, old in table.items() if place in now}
    optimizer.set_state_dict(_renamed(saved, renamed))


def _renamed(saved: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Accumulators (`linear_0.w_0_moment1_0`) under the names that their parameters have now."""
    # The longest first: one parameter's name may be the beginning of another's.
    known = sorted(names, key=len, reverse=True)
    result: dict[str, Any] = {}
    for key, value in saved.items():
        if key == "master_weights":
            result[key] = {names.get(name, name): one for name, one in value.items()}
            continue
        old = next((name for name in known if key.startswith(f"{name}_")), None)
        result[key if old is None else names[old] + key[len(old) :]] = value
    return result


__getattr__ = missing_names(__name__)
