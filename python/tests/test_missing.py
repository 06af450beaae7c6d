"""A name that Bireme lacks is an error that names the nearest thing it has."""

import importlib
import re
from pathlib import Path

import bireme
import pytest


def message(code):
    with pytest.raises((AttributeError, ImportError)) as caught:
        exec(code, {"bireme": bireme})  # noqa: S102 (the ways to import are what is tested)
    return str(caught.value)


@pytest.mark.parametrize(
    "code",
    [
        "bireme.framework.sav",
        "from bireme.framework import sav",
        "import bireme.framework.sav",
    ],
)
def test_every_way_to_a_name_of_a_package_says_what_is_nearest(code):
    assert message(code) == (
        "`paddle.framework.sav` is not in Bireme; nearest: `paddle.framework.save` (see docs/api.md)"
    )


@pytest.mark.parametrize("code", ["bireme.framework.io.lod", "from bireme.framework.io import lod"])
def test_every_way_to_a_name_of_a_module_says_what_is_nearest(code):
    assert message(code) == (
        "`paddle.framework.io.lod` is not in Bireme; nearest: `paddle.framework.io.load` "
        "(see docs/api.md)"
    )


def test_renamed_and_moved_names_are_known():
    assert "nearest: `paddle.static.Executor`" in message("bireme.trainer")
    assert "nearest: `paddle.seed`" in message("bireme.device.seed")


def test_names_that_resemble_nothing_have_no_hint():
    assert message("bireme.qqqqqq") == "`paddle.qqqqqq` is not in Bireme (see docs/api.md)"


def test_what_the_page_calls_missing_is_missing():
    page = Path(__file__).parents[2] / "docs" / "api.md"
    (line,) = re.findall(r"^- \*\*Not there\*\*.*$", page.read_text("utf-8"), re.MULTILINE)
    names = re.findall(r"`paddle\.([\w.]+)`", line)
    assert {"profiler", "linalg.svd"} <= set(names)
    for name in names:
        assert "is not in Bireme" in message(f"bireme.{name}")


def test_feature_tests_work():
    assert not hasattr(bireme, "no_such_name")
    assert getattr(bireme, "no_such_name", 1) == 1
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("bireme.no_such_module")
    assert not hasattr(bireme, "__wrapped__")


def test_every_module_of_the_package_explains_missing_names():
    import pkgutil

    for module in pkgutil.walk_packages(bireme.__path__, "bireme."):
        if any(part.startswith("_") for part in module.name.split(".")):
            continue
        loaded = importlib.import_module(module.name)
        if module.ispkg and "__getattr__" not in vars(loaded):
            pytest.fail(f"`{module.name}` has no `__getattr__ = missing_names(__name__)`")
