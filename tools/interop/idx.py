"""MNIST's file format, with noise for images: enough to train a few steps anywhere."""

import struct

import numpy as np


def write_synthetic(folder, train, test):
    """Writes the four files with this many images; returns the folder."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    for name, count in [("train", train), ("t10k", test)]:
        images = random.integers(0, 256, (count, 28, 28), np.uint8)
        labels = random.integers(0, 10, count, np.uint8)
        header = struct.pack(">4i", 0x803, count, 28, 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        header = struct.pack(">2i", 0x801, count)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())
    return folder
