"""Exception classes that Python code raises itself; the engine's own come from `bireme._core`."""


class EOFException(Exception):
    """A started, non-iterable data loader has no batch left: call `reset()` and go on.

    >>> from bireme._errors import EOFException
    >>> str(EOFException("the loader has no batch left"))
    'the loader has no batch left'
    """
