"""The console commands."""

import os
import subprocess
import sys

import pytest
from bireme import _cli
from bireme.__main__ import main as run_main


def test_bireme_is_the_command_line_of_the_core(monkeypatch, capfd):
    monkeypatch.setattr("sys.argv", ["/usr/bin/bireme", "--version"])
    assert _cli.main() == 0
    assert capfd.readouterr().out.startswith("bireme 0")
    monkeypatch.setattr("sys.argv", ["/usr/bin/bireme", "no-such-command"])
    assert _cli.main() == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--server_num", "1", "train.py"], "The setting of Parameter-Server must have worker_num"),
        (["--workerz", "1", "train.py"], "unknown flag `--workerz`: did you mean `--workers`?"),
        ([], "no script was given"),
    ],
)
def test_fleetrun_refuses_what_makes_no_sense(arguments, reason, capfd):
    # Whether there is such a script is asked before the job is planned.
    script = [__file__ if argument == "train.py" else argument for argument in arguments]
    assert _cli.fleetrun(script) == 2
    assert capfd.readouterr().err.startswith(f"error: {reason}")


def launch(*arguments, cwd, **variables):
    """Runs a Python command in a folder, as a user would."""
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_fleetrun_runs_a_script_in_processes_with_the_alias(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys, paddle, bireme\n"
        "print(paddle is bireme, sys.argv, os.environ['PADDLE_TRAINER_ID'])\n"
        "1 / int(sys.argv[1])\n"
    )
    command = ("-m", "bireme_launch", "--nproc_per_node=2", "train.py")
    result = launch(*command, "1", cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    assert result.returncode == 0, result.stderr
    assert "[worker 0] True ['train.py', '1'] 0\n" in result.stdout
    log = (tmp_path / "log" / "workerlog.1").read_text()
    assert log == "True ['train.py', '1'] 1\n"

    result = launch(*command, "0", cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    assert result.returncode == 1
    assert "ZeroDivisionError" in result.stderr


def test_a_script_with_a_syntax_error_is_told(tmp_path):
    (tmp_path / "train.py").write_text("import paddle\nif:\n")
    result = launch(
        "-m", "bireme_launch", "--server_num=1", "--worker_num=1", "train.py", cwd=tmp_path
    )
    assert result.returncode == 1
    assert "SyntaxError: invalid syntax" in result.stderr


def test_bireme_in_a_job_is_the_command_of_this_package(tmp_path):
    command = ("--server_num=1", "--worker_num=1", "bireme", "--version")
    result = launch("-m", "bireme_launch", *command, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "[worker 0] bireme 0" in result.stdout


def test_launch_ps_starts_two_servers_and_two_workers(tmp_path):
    (tmp_path / "train.py").write_text("import os; print(os.environ['TRAINING_ROLE'])\n")
    result = launch("-m", "bireme.distributed.launch_ps", "train.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    logs = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert logs == ["serverlog.0", "serverlog.1", "workerlog.0", "workerlog.1"]


def test_fleetrun_starts_without_the_package(tmp_path):
    code = (
        "import sys; sys.argv[1:] = ['--version']; import bireme_launch; bireme_launch.main(); "
        "sys.exit('bireme' in sys.modules or 'numpy' in sys.modules)"
    )
    result = launch("-c", code, cwd=tmp_path)
    assert (result.returncode, result.stdout[:11]) == (0, "fleetrun 0."), result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(["-c", "1"], "unknown option `-c`"), (["-m"], "`-m` needs the name of a module")],
)
def test_python_m_bireme_says_what_it_does_not_know(arguments, problem, capsys):
    assert run_main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"bireme: {problem}\nusage: ")


def test_bireme_train_trains_on_a_cluster_of_this_interpreter(tmp_path):
    code = "import sys; from bireme._cli import main; sys.exit(main())"
    options = ["--samples", "4000", "--mode", "async", "--output", str(tmp_path / "out")]
    result = subprocess.run(
        [sys.executable, "-c", code, "train", *options],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "1 server and 2 trainers, mode async" in result.stdout + result.stderr
    assert any((tmp_path / "out").iterdir())
