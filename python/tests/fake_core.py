"""Stands in for the engine's `Transpiler` and `Fleet`: notes what it is told, and answers simply."""

from typing import ClassVar

import numpy as np
from bireme import _core


class FakeTranspiler:
    """Splits nothing: its programs are empty, but each is its own."""

    made: ClassVar[list] = []

    def __init__(self, config):
        self.config = config
        self.calls = []
        FakeTranspiler.made.append(self)

    def transpile(self, trainer_id, main, startup, pservers, trainers, sync_mode):
        self.calls.append((trainer_id, pservers, trainers, sync_mode))

    def transpile_collective(self, trainer_id, main, startup, endpoints, current_endpoint):
        self.calls.append((trainer_id, endpoints, current_endpoint))

    def trainer_program(self):
        return "trainer main"

    def trainer_startup(self):
        return "trainer startup"

    def whole_program(self):
        return None

    def pserver_program(self, endpoint):
        return f"server main of {endpoint}"

    def startup_program(self, endpoint):
        return f"server startup of {endpoint}"

    def log(self):
        return "what was split"


class FakeFleet:
    """Notes every call; its job has two workers, of which the other one says the same."""

    made: ClassVar[list] = []

    def __init__(self, settings):
        self.settings, self.calls = settings, []
        FakeFleet.made.append(self)

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, *[a for a in arguments if not isinstance(a, _core.Scope)]))

        return call

    def set_whole(self, program):
        pass

    def all_gather(self, content, group):
        assert isinstance(content, bytes)
        return [content] * 2

    def dense(self):
        return {"w": np.full([2, 1], 0.5, "float32")}

    def stat(self):
        return [{"id": 0, "name": "emb", "rows": 3, "bytes": 120}]

    def pull_rows(self, table, ids):
        return np.repeat(ids[:, None], 4, axis=1).astype("float32")


def install(monkeypatch):
    """Puts the fakes in the engine's place; returns them."""
    FakeTranspiler.made, FakeFleet.made = [], []
    monkeypatch.setattr(_core, "Transpiler", FakeTranspiler, raising=False)
    monkeypatch.setattr(_core, "Fleet", FakeFleet, raising=False)
    return FakeTranspiler, FakeFleet


def replaceable(*programs):
    """Lets programs be replaced; returns what they were replaced by, in order."""
    taken = []
    for program in programs:
        program._replace = taken.append
    return taken
