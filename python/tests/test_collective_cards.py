"""Ranks on emulated cards, a process each: the values of ranks on the host."""

import numpy as np
import pytest
from running_cards import emulator
from running_ranks import run_ranks, run_well


def on_cards():
    """What lets a rank of a test's job train on a card: the first, which the ranks share."""
    return {"JOB_DEVICE": "gpu:0", "BIREME_CUDA_LIBRARIES": emulator()}


def parameters(folder, script, how, ranks, options):
    """The parameters of each rank after training, and what it printed."""
    folder.mkdir(exist_ok=True)
    options = {"JOB_HOW": how, "JOB_OUT": f"{folder}/", **options}
    outputs = run_well(folder, script, ranks, options)
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(ranks)], outputs


@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("static_ranks.py", "fleet"),
        ("static_ranks.py", "fleet sparse"),
        ("static_ranks.py", "fleet merge"),
        ("static_ranks.py", "fleet local"),
        ("static_ranks.py", "collective"),
        ("static_ranks.py", "nccl2"),
        ("data_parallel.py", "plain"),
        ("data_parallel.py", "sparse"),
    ],
)
def test_ranks_on_cards_equal_one_process_on_the_host(tmp_path, script, how):
    found, outputs = parameters(tmp_path / "cards", script, how, 2, on_cards())
    for name, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][name], err_msg=name)
    (expected,), _ = parameters(tmp_path / "host", script, how, 1, {})
    assert found[0].keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[0][name], value, atol=2e-5, err_msg=name)
    line = "NCCL is not used: ranks 0 and 1 share a card; gradients go through host memory"
    assert outputs[0].count(line) == 1, outputs[0]
    assert line not in outputs[1]


def test_every_call_does_on_cards_what_numpy_says(tmp_path):
    for output in run_well(tmp_path, "collective_calls.py", 2, on_cards()):
        assert output.count("is right") == 7, output


# Not by NCCL: an emulated card works only while its process calls the driver. A rank that waits on the host for one
# whose card waits for its card would wait for ever. `calls_on_cards` of the testkit has such ranks in one process.
@pytest.mark.parametrize(("ranks", "road"), [(2, "host"), (4, "host")])
def test_every_call_does_the_same_from_card_to_card(tmp_path, ranks, road):
    cards = {"JOB_DEVICE": "gpu:RANK", "BIREME_EMULATED_CARDS": "4", "BIREME_COLLECTIVE": road}
    for output in run_well(tmp_path, "collective_calls.py", ranks, {**on_cards(), **cards}):
        assert output.count("is right") == 7, output


def test_nccl_that_cannot_be_is_an_error_on_every_rank(tmp_path):
    options = {"JOB_HOW": "fleet", "JOB_OUT": f"{tmp_path}/", "BIREME_COLLECTIVE": "nccl"}
    ended, outputs = run_ranks(tmp_path, "static_ranks.py", 2, {**options, **on_cards()})
    assert all(ended.values())
    for text in outputs.values():
        assert "asks for NCCL (`BIREME_COLLECTIVE=nccl`)" in text, text
        assert "ranks 0 and 1 share a card" in text
