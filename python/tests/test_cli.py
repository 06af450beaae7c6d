"""The console commands."""

import pytest
from bireme import _cli


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
