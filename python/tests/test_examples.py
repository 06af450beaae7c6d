"""The Python examples learn what they say; `heter_ctr.py` is run by the tests of `fleetrun`."""

import gzip
import hashlib
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import bireme
import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"

# Real MNIST is not here: the files below have other checksums.
WITH_OTHER_DIGITS = """
import runpy, sys
from bireme.vision.datasets import MNIST

for name, checksum in zip({names!r}, {checksums!r}):
    setattr(MNIST, name, checksum)
sys.argv = [{script!r}, "2"]
runpy.run_path({script!r}, run_name="__main__")
"""


def run(folder, *command, **variables):
    """What an example printed in an empty folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(bireme.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    result = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def numbers(what, said):
    """The numbers that follow a word."""
    return [float(number) for number in re.findall(rf"{what} ([\d.]+)", said)]


def test_every_example_has_a_test():
    tested = {"fit_a_line.py", "mnist_eager.py", "ctr_dnn_static.py", "heter_ctr.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_fit_a_line(tmp_path):
    said = run(tmp_path, EXAMPLES / "fit_a_line.py")
    *epochs, test = numbers("loss", said)
    assert len(epochs) == 3 and epochs[-1] < epochs[0], said
    # The variance of the prices is 84: a line explains most of it.
    assert test < 30, said


def test_ctr_dnn_static(tmp_path):
    said = run(tmp_path, EXAMPLES / "ctr_dnn_static.py")
    quality = numbers("auc", said)
    assert len(quality) == 3 and quality[-1] > 0.85, said
    assert (tmp_path / "ctr_dnn.pdmodel").exists()
    assert (tmp_path / "ctr_dnn.pdiparams").exists()


def test_mnist_eager(tmp_path):
    names, checksums = [], []
    for mode, prefix, count in (("TRAIN", "train", 640), ("TEST", "t10k", 100)):
        for kind, name, content in digits(count, prefix):
            path = tmp_path / "mnist" / f"{prefix}-{name}.gz"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress(content))
            names.append(f"{mode}_{kind}_MD5")
            checksums.append(hashlib.md5(path.read_bytes()).hexdigest())
    script = str(EXAMPLES / "mnist_eager.py")
    code = WITH_OTHER_DIGITS.format(names=names, checksums=checksums, script=script)
    said = run(tmp_path, "-c", code, BIREME_DATA_HOME=str(tmp_path))
    assert numbers("accuracy", said)[0] > 0.95, said
    assert (tmp_path / "mnist.pdparams").exists()


def digits(count, seed):
    """Pictures in which the rows of a digit are bright, with some noise; their IDX files."""
    random = np.random.RandomState(len(seed))
    labels = random.randint(0, 10, count).astype("uint8")
    pictures = random.randint(0, 60, (count, 28, 28)).astype("uint8")
    for picture, label in zip(pictures, labels.tolist()):
        picture[label * 28 // 10 : (label + 1) * 28 // 10] += 180
    images = struct.pack(">IIII", 2051, count, 28, 28) + pictures.tobytes()
    yield "IMAGE", "images-idx3-ubyte", images
    yield "LABEL", "labels-idx1-ubyte", struct.pack(">II", 2049, count) + labels.tobytes()
