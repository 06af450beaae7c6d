"""Small files of samples, read by a plain reader to compare with."""

import numpy as np

DENSE = 3


def write_samples(folder, files, rows, seed=0):
    """`MultiSlot` files: a label, one to four ids, three numbers; returns their paths."""
    random = np.random.default_rng(seed)
    paths = []
    for at in range(files):
        path = folder / f"part-{at}"
        with open(path, "w") as file:
            for _ in range(rows):
                ids = random.integers(0, 50, random.integers(1, 5))
                dense = random.random(DENSE).round(3)
                label = int(ids[0] % 2 == 0)
                fields = [[label], ids, dense]
                file.write(" ".join(f"{len(f)} {' '.join(map(str, f))}" for f in fields) + "\n")
        paths.append(str(path))
    return paths


def read_plainly(paths):
    """The samples of files in order: label, ids and numbers of each."""
    samples = []
    for path in paths:
        with open(path) as lines:
            for line in lines:
                words, fields = line.split(), []
                while words:
                    count = int(words[0])
                    fields.append(words[1 : count + 1])
                    words = words[count + 1 :]
                label, ids, dense = fields
                samples.append((int(label[0]), list(map(int, ids)), np.array(dense, "float32")))
    return samples
