"""Data generators: the slot format of Paddle, and what they refuse."""

import io
import sys

import pytest
from bireme.distributed.fleet.data_generator import (
    DataGenerator,
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)


class Words(MultiSlotDataGenerator):
    """A line of numbers, the first one the label; an empty line is left out."""

    def generate_sample(self, line):
        def samples():
            numbers = [int(word) for word in (line or "1 7 8").split()]
            yield [("label", numbers[:1]), ("words", numbers[1:])] if numbers else None

        return samples


def test_lines_of_standard_input_become_slots(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("1 5 6\n0 9\n"))
    Words().run_from_stdin()
    assert capsys.readouterr().out == "1 1 2 5 6\n1 0 1 9\n"


def test_samples_from_memory(capsys):
    Words().run_from_memory()
    assert capsys.readouterr().out == "1 1 2 7 8\n"


def test_batches_are_given_to_generate_batch(monkeypatch, capsys):
    class Padded(Words):
        def generate_batch(self, samples):
            longest = max(len(words) for _, (_, words) in samples)
            for (_, label), (_, words) in samples:
                words.extend([0] * (longest - len(words)))
            return lambda: iter(samples)

    generator = Padded()
    generator.set_batch(2)
    monkeypatch.setattr(sys, "stdin", io.StringIO("1 5 6\n0 9\n1 4\n"))
    generator.run_from_stdin()
    assert capsys.readouterr().out == "1 1 2 5 6\n1 0 2 9 0\n1 1 1 4\n"


def test_formats():
    assert MultiSlotStringDataGenerator()._gen_str(zip("ab", [["1"], ["2", "3"]])) == "1 1 2 2 3\n"
    numbers = MultiSlotDataGenerator()
    assert numbers._gen_str([("a", [1, 2]), ("b", [3])]) == "2 1 2 1 3\n"
    assert numbers._proto_info == [("a", "uint64"), ("b", "uint64")]
    assert numbers._gen_str((("a", [1]), ("b", [0.5, 2]))) == "1 1 2 0.5 2\n"
    assert numbers._proto_info == [("a", "uint64"), ("b", "float")]


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ("text", "must be in list or tuple type, got str"),
        ([(1, [2])], "name<class 'int'> must be in str type"),
        ([("a", (2,))], "elements<class 'tuple'> must be in list type: those of slot `a`"),
        (
            [("a", [])],
            "each field can not be empty, you need padding it in process\\(\\). Slot `a`",
        ),
        ([("a", ["x"])], "the type of element<class 'str'> must be in int or float: see slot `a`"),
        (
            [("a", [1]), ("b", [1])],
            "complete field set of two given line are inconsistent. .* this one has 2",
        ),
        ([("b", [1])], "field name of two given line are not match: require<a>, get<b>."),
    ],
)
def test_bad_samples_are_refused(sample, message):
    generator = MultiSlotDataGenerator()
    generator._gen_str([("a", [1])])
    with pytest.raises(ValueError, match=message):
        generator._gen_str(sample)


def test_what_must_be_defined_is_said():
    with pytest.raises(NotImplementedError, match="must define `generate_sample"):
        MultiSlotDataGenerator().run_from_memory()
    with pytest.raises(NotImplementedError, match="use `MultiSlotDataGenerator`"):
        DataGenerator()._gen_str([])
