"""Samples for datasets: standard input to `MultiSlot` lines, as a pipe command."""

from criteo_line import DENSE, SPARSE, parse
from paddle.distributed import fleet


class Reader(fleet.MultiSlotDataGenerator):
    """Writes label, slots and dense features, in the order of `StaticModel.create_feeds`."""

    def generate_sample(self, line):
        """The sample of a line."""

        def sample():
            ids, dense = parse(line)
            yield [*zip(SPARSE, ids), (DENSE, dense)]

        return sample


if __name__ == "__main__":
    Reader().run_from_stdin()
