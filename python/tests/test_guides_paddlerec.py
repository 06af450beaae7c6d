"""The commands of PaddleRec's guide to distributed training, as they are written there."""

import re

import pytest
from running_jobs import free_ports
from running_tools import COMMON, COST, TIME, check_lines, copied_checkout, logs, run


@pytest.fixture
def checkout(tmp_path):
    return copied_checkout(tmp_path)


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
    assert "needs `slot_names`" in said
    said = run(
        checkout, "python tools/static_trainer.py -m models/rank/dnn/config.yaml -o runner.epochs=1"
    )
    steps = (r"batch: \[2\], Epoch 0 Var cost", r"epoch: 0 done, epoch time: [\d.]+ s")
    check_lines(said, *steps)
    # As the config says, what the reader does can be done without Python, to the same end.
    config = checkout / "models/rank/dnn/config.yaml"
    text = re.sub(r"(?m)^  pipe_command: .*", "", config.read_text())
    config.write_text(re.sub(r"(?m)^  # (pipe_command|slot_names): ", r"  \1: ", text))
    native = run(
        checkout, "python tools/static_trainer.py -m models/rank/dnn/config.yaml -o runner.epochs=1"
    )
    check_lines(native, *steps)
    values = re.compile(r"batch: .*")
    assert values.findall(native) == values.findall(said)


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
