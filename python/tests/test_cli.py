"""The console commands."""

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
        (["--worker_num=2", "train.py"], "`--worker_num=2` asks for more than one process"),
        (["--server_num", "1", "train.py"], "`--server_num=1` asks for more than one process"),
        (["--servers", "127.0.0.1:1", "t.py"], "`--servers=127.0.0.1:1` asks for more than one"),
        (["--gpus", "0,1", "train.py"], "`--gpus=0,1` asks for more than one process"),
        (["--workerz", "1", "train.py"], "unknown option `--workerz`"),
        ([], "no script was given"),
    ],
)
def test_fleetrun_refuses_what_it_cannot_do(arguments, reason, capsys):
    assert _cli.fleetrun(arguments) == 2
    assert capsys.readouterr().err.startswith(f"fleetrun: {reason}")


def test_fleetrun_runs_one_process_with_the_alias(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import sys, paddle, bireme\nprint(paddle is bireme, sys.argv)\n1 / 0\n")
    code = "import sys; from bireme._cli import fleetrun; sys.exit(fleetrun())"
    command = [sys.executable, "-c", code, "--worker_num=1", "--gpus", "0", "train.py", "--lr=1"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stdout == "True ['train.py', '--lr=1']\n"
    assert result.returncode == 1
    assert result.stderr.splitlines()[1] == f'  File "{script}", line 3, in <module>'


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
