"""A bag of named settings that refuses names and types it does not know.

`BuildStrategy`, `ExecutionStrategy` and `fleet.DistributedStrategy` are made of it: a misspelt
setting that is silently kept would train something else than its author thinks.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Settings:
    """Settings with defaults: an unknown name or a value of another type raises.

    >>> class Pace(Settings):
    ...     DEFAULTS = {"step_count": 1}
    >>> pace = Pace()
    >>> pace.step_count = 4
    >>> pace.step_cuont = 5
    Traceback (most recent call last):
    ...
    AttributeError: `Pace` has no setting `step_cuont`: did you mean `step_count`?
    """

    DEFAULTS: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        for name, default in self.DEFAULTS.items():
            kept = dict(default) if isinstance(default, dict) else default
            object.__setattr__(self, name, kept)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            return object.__setattr__(self, name, value)
        if name not in self.DEFAULTS:
            raise AttributeError(unknown_setting(type(self).__name__, name, self.DEFAULTS))
        object.__setattr__(self, name, self._checked(name, value))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(unknown_setting(type(self).__name__, name, self.DEFAULTS))

    def __repr__(self) -> str:
        changed = [f"{n}={getattr(self, n)!r}" for n in self.DEFAULTS if self._is_changed(n)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _is_changed(self, name: str) -> bool:
        return getattr(self, name) != self.DEFAULTS[name]

    def _checked(self, name: str, value: Any) -> Any:
        default = self.DEFAULTS[name]
        if isinstance(default, bool) and isinstance(value, int) and value in (0, 1):
            return bool(value)
        # As a command line has it: PaddleRec's `-o key=False` does not know types.
        if isinstance(default, bool) and value in ("True", "true", "False", "false"):
            return value in ("True", "true")
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if default is not None and not isinstance(value, type(default)):
            wanted = type(default).__name__
            raise TypeError(f"`{name}` must be of type {wanted}, not {type(value).__name__}")
        return {**default, **value} if isinstance(default, dict) else value


def unknown_setting(owner: str, name: str, known: Any) -> str:
    """The text for a setting that does not exist, with the nearest that does.

    >>> unknown_setting("Pace", "spead", ["speed"])
    '`Pace` has no setting `spead`: did you mean `speed`?'
    """
    import difflib

    nearest = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean `{nearest[0]}`?" if nearest else f"it has {', '.join(sorted(known))}"
    return f"`{owner}` has no setting `{name}`: {hint}"
