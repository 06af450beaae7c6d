"""Steps over datasets of several trainers, counted by parameters whose gradients are known."""

import json
import re

import numpy as np
import pytest
from running_jobs import roles, run_job
from running_ranks import run_ranks, run_well

RATE, IDS = 0.5, 64


def write(folder, ids_of_files):
    """A file for each list of ids; returns the names."""
    names = []
    for at, ids in enumerate(ids_of_files):
        (folder / f"part-{at}").write_text("".join(f"1 {one}\n" for one in ids))
        names.append(f"part-{at}")
    return names


def values(output):
    """The parameters that a trainer printed."""
    found = json.loads(re.search(r"^values (.*)$", output, re.MULTILINE)[1])
    return {name: np.array(value) for name, value in found.items()}


@pytest.mark.parametrize("mode", ["sync", "collective"])
def test_trainers_in_step_end_with_the_one_that_has_the_fewest_batches(tmp_path, mode):
    # Seven batches and three.
    long, short = write(tmp_path, [[1] * 14, [2] * 6])
    options = {"MODE": mode, "FILES": json.dumps([[long], [short]]), "EPOCHS": 2, "THREADS": 2}
    if mode == "sync":
        outputs = run_job(tmp_path, "counted_steps.py", roles(1, 2), options)
        outputs = [outputs["trainer 0"], outputs["trainer 1"]]
    else:
        options = {f"JOB_{name}": value for name, value in options.items()}
        outputs = run_well(tmp_path, "counted_steps.py", 2, options)
    for output in outputs:
        got = values(output)
        # Three steps in each epoch, the gradients averaged over the trainers.
        np.testing.assert_array_equal(got["w"], [-6 * RATE] * 4)
        np.testing.assert_array_equal(got["rows"][[1, 2, 3], 0], [-6 * RATE, -6 * RATE, 0])


@pytest.mark.parametrize("threads", [1, 2])
def test_no_step_of_an_asynchronous_job_is_lost(tmp_path, threads):
    # Ids that one thread of one trainer has alone, and one that all have.
    ids = [[at, 9] * 50 for at in range(1, 5)]
    names = write(tmp_path, ids)
    files = json.dumps([names[:2], names[2:]])
    options = {"MODE": "async", "FILES": files, "THREADS": threads, "EPOCHS": 3}
    outputs = run_job(tmp_path, "counted_steps.py", roles(2, 2), options)
    for name in ("trainer 0", "trainer 1"):
        got = values(outputs[name])
        np.testing.assert_array_equal(got["w"], [-RATE * 3 * 200] * 4)
        np.testing.assert_array_equal(got["rows"][1:5], [[-RATE * 3 * 50] * 2] * 4)
        np.testing.assert_array_equal(got["rows"][9], [-RATE * 3 * 200] * 2)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_step_of_an_asynchronous_job_is_an_update_of_its_own(tmp_path, threads):
    names = write(tmp_path, [[at, 9] * 50 for at in range(1, 5)])
    files = json.dumps([names[:2], names[2:]])
    options = {"MODE": "async", "FILES": files, "THREADS": threads, "OPTIMIZER": "adam"}
    environments = {
        name: {**environment, "CPU_NUM": str(threads)} for name, environment in roles(1, 2).items()
    }
    outputs = run_job(tmp_path, "counted_steps.py", environments, options)
    got = values(outputs["trainer 0"])
    # One update for each of the 200 steps.
    np.testing.assert_allclose(got["w"], [-RATE * 200] * 4, rtol=1e-2)
    np.testing.assert_allclose(got["rows"][9], [-RATE * 200] * 2, rtol=1e-2)


def test_workers_draw_files_from_one_list(tmp_path):
    # Each file has an id of its own: what every row is says that each file was read once an epoch.
    names = write(tmp_path, [[at] * 8 for at in range(20)])
    options = {"MODE": "async", "FILES": json.dumps(names), "EPOCHS": 3, "SHARE": 1}
    outputs = run_job(tmp_path, "counted_steps.py", roles(1, 2), options)
    got = values(outputs["trainer 0"])
    np.testing.assert_array_equal(got["rows"][:20], [[-RATE * 3 * 8] * 2] * 20)
    np.testing.assert_array_equal(got["w"], [-RATE * 3 * 80] * 4)


def test_files_are_not_drawn_where_steps_wait_for_each_other(tmp_path):
    names = write(tmp_path, [[at] * 8 for at in range(4)])
    options = {"JOB_MODE": "collective", "JOB_FILES": json.dumps(names), "JOB_SHARE": 1}
    ended, outputs = run_ranks(tmp_path, "counted_steps.py", 2, options)
    assert all(ended.values())
    assert any("leave out `share_files`" in output for output in outputs.values())
