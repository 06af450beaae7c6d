"""The scripts of Paddle's own guides run unchanged under `python -m bireme`."""

import gzip
import hashlib
import os
import re
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"
# One line of the log that the guide shows.
LOG_LINE = re.compile(
    r"epoch: (\d+), step:(\d+), train_loss: ([\d.]+), total time cost = [\d.]+, speed: [\d.]+"
)


def listing(document: str, start: str, end: str) -> str:
    """The lines of a document between two markers, without their common indent."""
    text = (DATA / document).read_text(encoding="utf-8")
    body = text.split(start, 1)[1]
    return textwrap.dedent(re.split(end, body, maxsplit=1, flags=re.MULTILINE)[0])


def run_unchanged(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    (folder / "train.py").write_text(script, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "bireme", "train.py"],
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_fit_a_line_reaches_a_loss_under_10(tmp_path):
    script = listing("fit_a_line.md", "```python\n", "^```")
    assert "exit(0)  # if avg cost less than 10.0" in script
    result = run_unchanged(script, tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "fit_a_line.model").is_dir()


def test_fit_a_line_does_the_same_when_it_imports_bireme(tmp_path):
    script = listing("fit_a_line.md", "```python\n", "^```")
    script = script.replace("import paddle.v2 as paddle", "import bireme as paddle")
    script = script.replace("import paddle.fluid as fluid", "import bireme.fluid as fluid")
    (tmp_path / "train.py").write_text(script)
    environment = {**os.environ, "BIREME_ALIAS": "0"}
    result = subprocess.run(
        [sys.executable, "train.py"],
        check=False,
        cwd=tmp_path,
        env=environment,
        timeout=300,
    )
    assert result.returncode == 0


def test_mnist_prints_the_log_of_the_guide_with_a_falling_loss(tmp_path):
    script = listing("fleetrun_mnist.rst", ".. code:: py\n", r"^单机单卡训练$")
    assert "fleet.distributed_optimizer(optimizer)" in script
    write_digits(tmp_path / "home" / "mnist")
    expect_checksums_of(tmp_path / "home" / "mnist", tmp_path / "site")
    result = run_unchanged(
        script,
        tmp_path,
        BIREME_DEVICE="cpu",
        BIREME_DATA_HOME=str(tmp_path / "home"),
        PYTHONPATH=os.pathsep.join([str(tmp_path / "site"), os.environ["PYTHONPATH"]]),
    )
    assert result.returncode == 0, result.stderr
    lines = [LOG_LINE.fullmatch(line) for line in result.stdout.splitlines()]
    assert all(lines), result.stdout
    assert [(int(m[1]), int(m[2])) for m in lines] == [(epoch, 200) for epoch in range(10)]
    losses = [float(m[3]) for m in lines]
    assert np.mean(losses[-3:]) < losses[0]
    assert losses[-1] < 0.5
    # Asking for a GPU where there is none is said once.
    assert result.stderr.count("BIREME_DEVICE") == 1, result.stderr


def write_digits(folder: Path, images: int = 201 * 64) -> None:
    """A set of faint images in MNIST's files: one pattern for each class, with noise on it."""
    random = np.random.default_rng(7)
    # The script feeds 0 to 255 as they are; dark pixels keep its tanh layers out of saturation.
    patterns = random.integers(0, 3, [10, 28, 28])
    folder.mkdir(parents=True)
    # By default 201 batches of 64: each epoch reaches step 200, where the script prints.
    for prefix, count in (("train", images), ("t10k", 64)):
        labels = random.integers(0, 10, count)
        pixels = patterns[labels] * random.integers(0, 2, [count, 28, 28])
        header = struct.pack(">IIII", 2051, count, 28, 28)
        write(folder / f"{prefix}-images-idx3-ubyte.gz", header + pixels.astype("uint8").tobytes())
        header = struct.pack(">II", 2049, count)
        write(folder / f"{prefix}-labels-idx1-ubyte.gz", header + labels.astype("uint8").tobytes())


def write(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, compresslevel=1))


def expect_checksums_of(folder: Path, site: Path) -> None:
    """Lets the script's process take our files for MNIST's, without touching the script."""
    sums = {}
    for mode, prefix in (("TRAIN", "train"), ("TEST", "t10k")):
        for kind, suffix in (("IMAGE", "images-idx3"), ("LABEL", "labels-idx1")):
            content = (folder / f"{prefix}-{suffix}-ubyte.gz").read_bytes()
            sums[f"{mode}_{kind}_MD5"] = hashlib.md5(content).hexdigest()
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "from bireme.vision.datasets import MNIST\n"
        + "".join(f"MNIST.{name} = {md5!r}\n" for name, md5 in sums.items())
    )
