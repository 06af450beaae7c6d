"""GPUBox: `tools/run_gpubox.sh`, its log lines, and that it learns what sync training learns."""

import re

import bireme as paddle
import pytest
from running_cards import emulator
from running_jobs import free_ports_in_a_row
from running_tools import TIME, check_lines, copied_checkout, logs, run


@pytest.fixture
def checkout(tmp_path):
    return copied_checkout(tmp_path)


WORKER = (
    TIME + "Run Worker Begin",
    r"self\.reader\.load_into_memory cost :[\d.e-]+ seconds",
    r"begin_pass cost:[\d.e-]+ seconds",
    TIME + r"Epoch: 0, Running Dataset Begin\.",
    TIME + r"Epoch: 0, using time: [\d.]+ second, ips: [\d.]+ example/sec\. auc: \d\.\d+",
    TIME + r"finish 0 epoch training\.\.\.\.",
    TIME + r"train_result_dict: \{'speed': \[",
    TIME + r"Run Success, Exit\.",
)


def in_gpubox(checkout, options="", **environment):
    """Runs `run_gpubox.sh`; what its two processes have logged."""
    # The server's, and those of up to two trainers.
    port = free_ports_in_a_row(3)
    settings = {"PADDLE_PORT": str(port), "PYTHON": "python", **environment}
    ran = run(checkout, f"sh tools/run_gpubox.sh {options}", **settings)
    assert "PADDLE WILL START Trainer 0" in ran
    return (checkout / "log/worker.0.log").read_text(), (checkout / "log/pserver.0.log").read_text()


def test_a_server_and_a_trainer_on_cpus(checkout):
    worker, server = in_gpubox(checkout, BIREME_DEVICE="cpu")
    check_lines(worker, *WORKER)
    check_lines(server, TIME + "Run Server Begin", TIME + r"Run Success, Exit\.")
    saved = sorted(path.name for path in (checkout / "output_model_dnn_gpubox").iterdir())
    assert saved == ["0", "1", "2"]


def test_the_emulated_card_learns_what_sync_training_learns(checkout):
    small = (
        "-o runner.epochs=2 runner.train_batch_size=20 hyper_parameters.sparse_feature_number=1000001"
        " hyper_parameters.fc_sizes=[8]"
    )
    worker, _ = in_gpubox(checkout, small, BIREME_CUDA_LIBRARIES=emulator())
    check_lines(worker, *WORKER)
    sync = run(
        checkout,
        "fleetrun --worker_num=1 --server_num=1 tools/static_ps_trainer.py"
        f" -m models/rank/dnn/config_gpubox.yaml {small} runner.sync_mode=sync runner.use_gpu=False",
    )
    auc = re.compile(r"Epoch: 1, using time: .* auc: (\S+)")
    expected = auc.search(sync + logs(checkout))
    assert abs(float(auc.search(worker)[1]) - float(expected[1])) < 1e-6


def test_a_trainer_for_each_card(checkout):
    cards = {"FLAGS_selected_gpus": "0,1", "BIREME_EMULATED_CARDS": "2"}
    small = "-o runner.epochs=1 runner.train_batch_size=20 hyper_parameters.fc_sizes=[8]"
    first, _ = in_gpubox(checkout, small, BIREME_CUDA_LIBRARIES=emulator(), **cards)
    second = (checkout / "log/worker.1.log").read_text()
    auc = re.compile(r"Epoch: 0, using time: .* auc: (\S+)")
    assert auc.search(first)[1] == auc.search(second)[1], "that of both"
    assert "Run Success, Exit." in second


def test_data_that_is_read_while_it_is_trained(checkout):
    """A stream on the emulated card, with memory for a few batches, learns what passes learn."""
    small = (
        "-o runner.epochs=2 runner.train_batch_size=20 hyper_parameters.sparse_feature_number=1000001"
        " hyper_parameters.fc_sizes=[8]"
    )
    auc = re.compile(r"Epoch: 1, using time: .* auc: (\S+)")
    passes, _ = in_gpubox(checkout, small, BIREME_CUDA_LIBRARIES=emulator())
    expected = auc.search(passes)[1]
    queue = f"{small} runner.reader_type=QueueDataset"
    memory = {"BIREME_GPUBOX_MEMORY": str(700 * (9 * 3 * 4 + 64))}
    worker, _ = in_gpubox(checkout, queue, BIREME_CUDA_LIBRARIES=emulator(), **memory)
    check_lines(worker, WORKER[0], *WORKER[3:])
    assert abs(float(auc.search(worker)[1]) - float(expected)) < 1e-6


ACCESSOR = """
table_parameters:
  ctr_table:
    table_class: "MemorySparseTable"
    accessor:
      accessor_class: "{accessor}"
      embedx_threshold: 2
      embed_sgd_param:
        name: "SparseAdaGradSGDRule"
        adagrad:
          learning_rate: 0.05
          initial_g2sum: 3.0
          initial_range: 0.0001
          weight_bounds: [-10.0, 10.0]
      embedx_sgd_param:
        name: "SparseAdaGradSGDRule"
        adagrad:
          learning_rate: 0.05
          initial_g2sum: 3.0
          initial_range: 0.0001
          weight_bounds: [-10.0, 10.0]
      ctr_accessor_param:
        nonclk_coeff: 0.1
        click_coeff: 1.0
        base_threshold: 0.1
        delta_threshold: 0.25
        delta_keep_days: 16.0
        show_click_decay_rate: 0.98
        delete_threshold: 0.8
        delete_after_unseen_days: 30.0
"""


def with_sparse_embedding(checkout, accessor):
    """Has the model's table made as PaddleRec's slot_dnn makes it, with an accessor that counts."""
    net = checkout / "models/rank/dnn/net.py"
    text = re.sub(
        r"self\.embedding = nn\.Embedding\(.*?\n        \)\n",
        "pass\n",
        net.read_text(),
        flags=re.DOTALL,
    )
    lookup = (
        "paddle.static.nn.sparse_embedding(ids, [1000001, self.dim], padding_idx=0,"
        " entry=paddle.distributed.ShowClickEntry('label', 'label'),"
        " param_attr=paddle.ParamAttr(name='ctr_table'))"
    )
    net.write_text(text.replace("self.embedding(ids)", lookup))
    config = checkout / "models/rank/dnn/config_gpubox.yaml"
    config.write_text(config.read_text() + ACCESSOR.format(accessor=accessor))


@pytest.mark.parametrize("accessor", ["CtrDymfAccessor", "SparseAccessor"])
def test_accessors_learn_what_they_learn_in_sync_training(checkout, accessor):
    with_sparse_embedding(checkout, accessor)
    small = (
        "-o runner.epochs=2 runner.train_batch_size=20 hyper_parameters.fc_sizes=[8]"
        " runner.model_save_path="
    )
    sync = run(
        checkout,
        "fleetrun --worker_num=1 --server_num=1 tools/static_ps_trainer.py"
        f" -m models/rank/dnn/config_gpubox.yaml {small} runner.sync_mode=sync runner.use_gpu=False",
    )
    auc = re.compile(r"Epoch: 1, using time: .* auc: (\S+)")
    expected = float(auc.search(sync + logs(checkout))[1])
    for device in ({"BIREME_DEVICE": "cpu"}, {"BIREME_CUDA_LIBRARIES": emulator()}):
        worker, _ = in_gpubox(checkout, small, **device)
        assert abs(float(auc.search(worker)[1]) - expected) < 1e-6


def test_two_workers_learn_what_sync_training_learns(checkout):
    small = (
        "-o runner.epochs=2 runner.train_batch_size=20 hyper_parameters.sparse_feature_number=1000001"
        " hyper_parameters.fc_sizes=[8] runner.use_gpu=False"
    )
    start = "fleetrun --worker_num=2 --server_num=1"
    config = "-m models/rank/dnn/config_gpubox.yaml"
    auc = re.compile(r"Epoch: 1, using time: .* auc: (\S+)")
    run(checkout, f"{start} --log_dir=box tools/static_gpubox_trainer.py {config} {small}")
    trained = (checkout / "box/workerlog.0").read_text()
    check_lines(trained, *WORKER)
    run(
        checkout,
        f"{start} --log_dir=sync tools/static_ps_trainer.py {config} {small} runner.sync_mode=sync",
    )
    expected = auc.search((checkout / "sync/workerlog.0").read_text())
    assert abs(float(auc.search(trained)[1]) - float(expected[1])) < 1e-6


def test_two_workers_count_what_sync_training_counts(checkout):
    """With an accessor."""
    with_sparse_embedding(checkout, "CtrDymfAccessor")
    small = (
        "-o runner.epochs=2 runner.train_batch_size=20 hyper_parameters.fc_sizes=[8]"
        " runner.use_gpu=False runner.reader_type=InmemoryDataset"
    )
    start = "fleetrun --worker_num=2 --server_num=1"
    config = "-m models/rank/dnn/config_gpubox.yaml"
    auc = re.compile(r"Epoch: 1, using time: .* auc: (\S+)")
    run(checkout, f"{start} --log_dir=box tools/static_gpubox_trainer.py {config} {small}")
    trained = auc.search((checkout / "box/workerlog.0").read_text())
    run(
        checkout,
        f"{start} --log_dir=sync tools/static_ps_trainer.py {config} {small} runner.sync_mode=sync",
    )
    expected = auc.search((checkout / "sync/workerlog.0").read_text())
    assert abs(float(trained[1]) - float(expected[1])) < 1e-6


def test_several_cards_of_one_worker_are_refused():
    with pytest.raises(NotImplementedError, match="trains on one card, and 2 are named"):
        paddle.framework.core.PSGPU().init_gpu_ps([0, 1])


def test_a_pass_needs_data_and_a_job():
    passes = paddle.framework.core.PSGPU()
    with pytest.raises(RuntimeError, match="there is no data for a pass"):
        passes.begin_pass()
