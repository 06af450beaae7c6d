"""One line of the data: `click:1 dense_feature:0.5 ... 1:17 2:4 ... 26:9`."""

SPARSE = ["click", *map(str, range(1, 27))]
DENSE = "dense_feature"
DENSE_WIDTH = 13
_PLACES = {name: place for place, name in enumerate(SPARSE)}


def parse(line):
    """The ids of each slot, the label's first, and the dense features; what is missing is 0."""
    ids, dense = [[] for _ in SPARSE], []
    for token in line.split():
        name, _, value = token.partition(":")
        if name == DENSE:
            dense.append(float(value))
        elif name in _PLACES:
            ids[_PLACES[name]].append(int(value))
    return [found or [0] for found in ids], dense or [0.0] * DENSE_WIDTH
