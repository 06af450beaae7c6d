"""The cache folder of data sets: a file is there with the right checksum, or it is not there.

Files are looked for in `DATA_HOME` (`BIREME_DATA_HOME`, else `~/.cache/bireme/dataset`) and, when
`BIREME_DATA_HOME` is not set, in Paddle's `~/.cache/paddle/dataset`.
"""

from __future__ import annotations

import os
import re
import sys
from typing import BinaryIO

_PADDLE_HOME = os.path.join(os.path.expanduser("~"), ".cache", "paddle", "dataset")
_CHUNK_BYTES = 1 << 18
_CONNECT_TIMEOUT_S = 30

DATA_HOME = os.environ.get("BIREME_DATA_HOME") or os.path.join(
    os.path.expanduser("~"), ".cache", "bireme", "dataset"
)


def md5file(fname: str) -> str:
    """The MD5 of a file in hexadecimal digits.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "empty")
    ...     open(path, "wb").close()
    ...     md5file(path)
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    import hashlib

    digest = hashlib.md5(usedforsecurity=False)
    with open(fname, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""):
            digest.update(chunk)
    return digest.hexdigest()


def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """The path of the cached file of `url`; it is fetched when no cache folder has it.

    A file appears under its final name only when it is complete and its checksum is right, so that
    processes may download side by side. Progress goes to standard error.

    >>> import os, tempfile
    >>> from bireme.dataset import common
    >>> home, common.DATA_HOME = common.DATA_HOME, tempfile.mkdtemp()
    >>> os.makedirs(os.path.join(common.DATA_HOME, "demo"))
    >>> open(os.path.join(common.DATA_HOME, "demo", "a.txt"), "wb").close()
    >>> path = download("https://host.invalid/a.txt", "demo", "d41d8cd98f00b204e9800998ecf8427e")
    >>> os.path.basename(path)
    'a.txt'
    >>> common.DATA_HOME = home
    """
    name = save_name or url.rsplit("/", 1)[-1]
    for part in (module_name, name):
        if not re.fullmatch(r"[a-zA-Z0-9_/.\-]+", part) or ".." in part:
            raise ValueError(f"`{part}` can't be a name in the cache folder of data sets")
    target = os.path.join(DATA_HOME, module_name, name)
    for path in _places(target, module_name, name):
        if os.path.exists(path) and md5file(path) == md5sum:
            return path
    _fetch(url, target, md5sum)
    return target


def _check_exists_and_download(
    path: str | None, url: str, md5: str, module_name: str, download_it: bool = True
) -> str:
    """`path` when it is given and exists, else the cached file of `url`."""
    if path and os.path.exists(path):
        return path
    if path or not download_it:
        raise ValueError(f"`{path}` does not exist and no download was asked for")
    return download(url, module_name, md5)


def _places(target: str, module_name: str, name: str) -> list[str]:
    # Who names a folder wants that folder, not what another program has left elsewhere.
    if os.environ.get("BIREME_DATA_HOME"):
        return [target]
    return [target, os.path.join(_PADDLE_HOME, module_name, name)]


def _fetch(url: str, target: str, md5sum: str) -> None:
    import tempfile

    folder = os.path.dirname(target)
    try:
        os.makedirs(folder, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=folder, prefix=os.path.basename(target) + ".")
    except OSError as error:
        raise RuntimeError(
            f"can't write to the cache folder `{folder}` ({error}): "
            "set `BIREME_DATA_HOME` to a folder that is writable"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            _copy(url, file)
        found = md5file(partial)
        if found != md5sum:
            raise RuntimeError(_hint(url, target, md5sum, f"what came has the MD5 {found}"))
        os.chmod(partial, 0o644)
        os.replace(partial, target)
    except OSError as error:
        raise RuntimeError(_hint(url, target, md5sum, str(error))) from error
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def _copy(url: str, file: BinaryIO) -> None:
    from urllib import request

    with request.urlopen(url, timeout=_CONNECT_TIMEOUT_S) as response:
        total = int(response.headers.get("Content-Length") or 0)
        done = 0
        for chunk in iter(lambda: response.read(_CHUNK_BYTES), b""):
            file.write(chunk)
            done += len(chunk)
            share = f"{100 * done // total:3d} %" if total else f"{done} bytes"
            sys.stderr.write(f"\rdownloading {url}: {share}")
        sys.stderr.write("\n")


def _hint(url: str, target: str, md5sum: str, why: str) -> str:
    return (
        f"can't download `{url}`: {why}\n"
        f"get the file elsewhere and put it at `{target}` (MD5 {md5sum}), "
        "or set `BIREME_DATA_HOME` to the folder that has it as "
        f"`{os.path.relpath(target, DATA_HOME)}`"
    )
