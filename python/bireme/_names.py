"""Names of the package that are fetched when they are first used, so that importing it is quick."""

_SUBPACKAGES = (
    "base",
    "dataset",
    "device",
    "distributed",
    "distribution",
    "fluid",
    "geometric",
    "hapi",
    "incubate",
    "inference",
    "io",
    "jit",
    "linalg",
    "metric",
    "nn",
    "optimizer",
    "reader",
    "regularizer",
    "static",
    "utils",
    "v2",
    "version",
    "vision",
)

LAZY = {
    **{name: f"bireme.{name}" for name in _SUBPACKAGES},
    "DataParallel": "bireme.distributed:DataParallel",
    "flops": "bireme.hapi:flops",
    "summary": "bireme.hapi:summary",
    "ResourceExhaustedError": "bireme._core:ResourceExhaustedError",
}
