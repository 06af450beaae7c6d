"""The commands of PaddleRec's guide to distributed training, as they are written there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import bireme
import pytest
from running_jobs import free_ports

ROOT = Path(__file__).parents[2]
pytest.importorskip("yaml")

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - INFO - "
COST = r"avg_reader_cost: [\d.]+ sec, avg_batch_cost: [\d.]+ sec, avg_samples: [\d.]+, "
COMMON = r"\*{14}common\.configs\*{10}"


@pytest.fixture
def checkout(tmp_path):
    """A copy of what the guide's commands name, with tables small enough for a test."""
    copied = shutil.ignore_patterns("output_model_*", "__pycache__", "log")
    for part in ("tools", "models"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=copied)
    for config in tmp_path.glob("models/rank/*/config.yaml"):
        text = config.read_text().replace("1000001", "1000001")
        config.write_text(text)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    for name, module in (("fleetrun", "bireme_launch"),):
        command = tmp_path / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n')
        command.chmod(0o755)
    return tmp_path


def run(checkout, command, folder=".", ends=0, **environment):
    """Runs a command line in a folder of the checkout; returns what was printed."""
    package = Path(bireme.__file__).parents[1]
    known = {
        "PATH": f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(package), str(package / "bireme" / "_shim")]),
        "OMP_NUM_THREADS": "1",
    }
    # A link to an interpreter does not know the environment that it stands for.
    command = re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", command)
    result = subprocess.run(
        ["sh", "-c", command],
        cwd=checkout / folder,
        env={**os.environ, **known, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == ends, result.stdout
    return result.stdout


def logs(checkout, folder="."):
    """All that the processes of a job logged."""
    files = sorted((checkout / folder / "log").glob("*log*"))
    return "\n".join(file.read_text() for file in files)


def check_lines(text, *patterns):
    """That lines of these forms come in this order."""
    at = 0
    for pattern in patterns:
        found = re.compile(pattern).search(text, at)
        assert found, f"no `{pattern}` in\n{text[at:]}"
        at = found.end()


PS_WORKER = (
    r"PaddleRec Benchmark Envs +Value",
    TIME + "Run Worker Begin",
    TIME + r"Epoch: 0, Running Dataset Begin\.",
    r"time: \[[^\]]+\], batch: \[2\], Epoch 0 Var cost\[1\]:\[[\d.]+\], Epoch 0 Var auc\[1\]:\[",
    TIME + r"Epoch: 0, using time: [\d.]+ second, ips: [\d.]+ example/sec\. auc: 0\.\d+",
    TIME + r"Epoch: 2, using time: [\d.]+ second, ips: [\d.]+ example/sec\. auc: \d\.\d+",
    TIME + r"train_result_dict: \{'speed': \[",
    TIME + r"Run Success, Exit\.",
)


def test_parameter_servers_on_one_machine(checkout):
    said = run(
        checkout,
        "fleetrun --worker_num=1 --server_num=1 tools/static_ps_trainer.py"
        " -m models/rank/dnn/config.yaml",
    )
    text = said + logs(checkout)
    check_lines(text, *PS_WORKER)
    check_lines(text, TIME + "Run Server Begin", TIME + r"Run Success, Exit\.")
    saved = sorted(path.name for path in (checkout / "output_model_dnn").iterdir())
    assert saved == ["0", "1", "2"]
    assert (checkout / "train_result_dict.txt").exists()
    assert (checkout / "0_worker_main_program.prototxt").exists()


def test_parameter_servers_by_addresses(checkout):
    first, second, server, other = (f"127.0.0.1:{port}" for port in free_ports(4))
    said = run(
        checkout,
        f'fleetrun --workers="{first},{second}" --servers="{server},{other}"'
        " tools/static_ps_trainer.py -m models/rank/dnn/config.yaml",
    )
    text = said + logs(checkout)
    check_lines(text, *PS_WORKER)
    assert len(re.findall(TIME + r"Run Success, Exit\.", text)) >= 4


def test_eager_training_and_evaluation(checkout):
    folder = "models/rank/wide_deep"
    said = run(
        checkout,
        "python -m paddle.distributed.launch ../../../tools/trainer.py -m config.yaml",
        folder,
    )
    check_lines(
        said,
        TIME + COMMON,
        TIME + r"use_gpu: False, use_xpu: False, .*use_visual: False, train_batch_size: 50, "
        r"train_data_dir: data/sample_data/train, epochs: 4, print_interval: 2, "
        r"model_save_path: output_model_wide_deep",
        TIME + COMMON,
        TIME + "read data",
        TIME + r"epoch: 0, batch_id: 0, auc:0\.\d{6}, loss:[\d.]+, " + COST + r"ips: \S+ ins/s",
        TIME + r"epoch: 0 done, auc: 0\.\d{6},loss:[\d.]+, epoch time: [\d.]+ s",
        TIME + r"Already save model in output_model_wide_deep/0",
        TIME + r"epoch: 3 done, ",
    )
    saved = sorted(path.name for path in (checkout / folder / "output_model_wide_deep/3").iterdir())
    assert saved == ["rec.pdopt", "rec.pdparams"]
    said = run(checkout, "python ../../../tools/infer.py -m config.yaml", folder)
    check_lines(
        said,
        TIME + "load model epoch 3",
        TIME + r"epoch: 3, batch_id: 0, auc: [\d.]+, " + COST + r"ips: \d+\.\d\d ins/s",
        TIME + r"epoch: 3 done, auc: 0\.\d{6}, epoch time: [\d.]+ s",
    )


def test_static_training_and_evaluation(checkout):
    folder = "models/rank/wide_deep"
    said = run(
        checkout,
        "python -m paddle.distributed.launch ../../../tools/static_trainer.py -m config.yaml",
        folder,
    )
    check_lines(
        said,
        TIME + COMMON,
        TIME + r"epoch: 0, batch_id: 0, cost: [\d.]+, auc: [\d.]+, " + COST + r"ips: \S+ ins/s",
        TIME + r"epoch: 0 done, cost: [\d.]+, auc: [\d.]+, epoch time: [\d.]+ s",
        TIME + r"Already save model in output_model_wide_deep/0",
        TIME + r"epoch: 3 done, ",
    )
    saved = sorted(path.name for path in (checkout / folder / "output_model_wide_deep/3").iterdir())
    assert saved == ["rec_static.pdmodel", "rec_static.pdopt", "rec_static.pdparams"]
    said = run(checkout, "python ../../../tools/static_infer.py -m config.yaml", folder)
    check_lines(
        said,
        TIME + "load model epoch 3",
        TIME + r"epoch: 3, batch_id: 0, auc: [\d.]+, " + COST + r"ips: \d+\.\d\d ins/s",
        TIME + r"epoch: 3 done, auc: [\d.]+, epoch time: [\d.]+ s",
    )


def test_two_ranks_train_together(checkout):
    said = run(
        checkout,
        "python -m paddle.distributed.launch --nproc_per_node=2 ../../../tools/static_trainer.py"
        " -m config.yaml -o runner.use_fleet=True runner.epochs=1",
        "models/rank/wide_deep",
    )
    assert len(re.findall("Already save model in output_model_wide_deep/0", said)) == 1
    eager = run(
        checkout,
        "python -m paddle.distributed.launch --nproc_per_node=2 ../../../tools/trainer.py"
        " -m config.yaml -o runner.use_fleet=True runner.epochs=1",
        "models/rank/wide_deep",
    )
    assert len(re.findall("Already save model in output_model_wide_deep/0", eager)) == 1


@pytest.mark.parametrize("reader", ["QueueDataset", "InmemoryDataset", "RecDataset"])
def test_without_a_launcher_one_process_trains(checkout, reader):
    said = run(
        checkout,
        "python tools/static_ps_trainer.py -m models/rank/dnn/config.yaml"
        f" -o runner.epochs=1 runner.reader_type={reader}",
    )
    check_lines(
        said,
        "Not Find Distributed env, Change To local train mode",
        r"Epoch: 0, using time: [\d.]+ second, ips: [\d.]+ example/sec\. auc: 0\.\d+",
        "Run Success, Exit",
    )


def test_static_training_on_a_dataset_and_for_prediction(checkout):
    said = run(
        checkout,
        "python tools/static_trainer.py -m models/rank/dnn/config.yaml -o runner.epochs=1"
        " runner.pipe_command=native:slot_value",
        ends=1,
    )
    # The variable of the label has another name than its token.
    assert "label" in said
    said = run(
        checkout, "python tools/static_trainer.py -m models/rank/dnn/config.yaml -o runner.epochs=1"
    )
    check_lines(said, r"batch: \[2\], Epoch 0 Var cost", r"epoch: 0 done, epoch time: [\d.]+ s")


def test_what_is_wrong_is_said(checkout):
    said = run(checkout, "python tools/trainer.py -m none.yaml", ends=1)
    assert "model config: none.yaml invalid" in said
    wrong = "python tools/trainer.py -m models/rank/dnn/config.yaml -o runner.epochs=many"
    assert "must be a number" in run(checkout, wrong, ends=1)
    large = "python tools/trainer.py -m models/rank/dnn/config.yaml -o runner.train_batch_size=500"
    assert "please ensure batch size < dataset size!" in run(checkout, large, ends=1)
    mode = "fleetrun --worker_num=1 --server_num=1 tools/static_ps_trainer.py -m bad.yaml"
    text = (checkout / "models/rank/dnn/config.yaml").read_text()
    (checkout / "models/rank/dnn/bad.yaml").write_text(text.replace('"async"', '"fast"', 1))
    mode = mode.replace("bad.yaml", "models/rank/dnn/bad.yaml")
    result = run(checkout, mode + "; test $? -ne 0") + logs(checkout)
    assert "`runner.sync_mode` is 'fast'" in result
