"""What all Python tests share: where the package is, and a clean slate for each of them."""

import os

import pytest

# Processes that a test starts import the package from here too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [os.path.dirname(os.path.abspath(__file__)), *filter(None, [os.environ.get("PYTHONPATH")])]
)
# What a developer has set must not change what is tested.
for _name in [name for name in os.environ if name.startswith(("BIREME_", "PADDLE_", "OMP_NUM"))]:
    if not _name.startswith("BIREME_TEST_"):
        del os.environ[_name]

collect_ignore = ["bireme/_shim", "tests/guides_ps", "tests/jobs"]


@pytest.fixture(autouse=True)
def clean_slate(doctest_namespace, tmp_path_factory, request):
    """Eager mode, fresh programs, scope and names, whatever the test before left behind."""
    import bireme
    from bireme import _core

    doctest_namespace["paddle"] = bireme
    _core.disable_static()
    main = _core.switch_main_program(_core.Program())
    startup = _core.switch_startup_program(_core.Program())
    scope = _core.switch_scope(_core.Scope())
    names = _core.switch_names(_core.UniqueNames())
    # The two modes have names of their own.
    bireme.enable_static()
    _core.switch_names(_core.UniqueNames())
    bireme.disable_static()
    bireme.seed(0)
    bireme.set_default_dtype("float32")
    yield
    _core.switch_main_program(main)
    _core.switch_startup_program(startup)
    _core.switch_scope(scope)
    _core.switch_names(names)
    _core.disable_static()
