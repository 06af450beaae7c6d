"""GPUBox: `tools/run_gpubox.sh`, its log lines, and that it learns what sync training learns."""

import re

import bireme as paddle
import pytest
from running_cards import emulator
from running_jobs import free_ports
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
    (port,) = free_ports(1)
    settings = {"PADDLE_PORT": str(port), "PYTHON": "python", **environment}
    ran = run(checkout, f"bash tools/run_gpubox.sh {options}", **settings)
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


def test_several_cards_are_refused():
    with pytest.raises(NotImplementedError, match="one card in this version, and 2 are named"):
        paddle.framework.core.PSGPU().init_gpu_ps([0, 1])


def test_a_pass_needs_data_and_a_job():
    passes = paddle.framework.core.PSGPU()
    with pytest.raises(RuntimeError, match="there is no data for a pass"):
        passes.begin_pass()
