"""The examples in the docstrings of the extension's own classes."""

import doctest

import bireme as paddle
import pytest
from bireme import _core

CLASSES = [_core.Tensor, _core.Variable, _core.Program, _core.Scope, _core.CPUPlace]


@pytest.mark.parametrize("of", CLASSES, ids=lambda of: of.__name__)
def test_examples(of):
    test = doctest.DocTestParser().get_doctest(of.__doc__, {"paddle": paddle}, of.__name__, None, 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
