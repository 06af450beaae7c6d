"""`import paddle` means Bireme: in this process, under `python -m bireme`, and in its children."""

import os
import shutil
import subprocess
import sys
import textwrap
import venv

import pytest


def run(*arguments, cwd, **environment):
    """Runs Python with arguments; returns the finished process."""
    env = {**os.environ, **environment}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return str(path)


def check(result, stdout, code=0):
    assert (result.stdout, result.returncode) == (stdout, code), result.stderr


def test_modules_are_the_same_objects(tmp_path):
    script = write(
        tmp_path,
        "script.py",
        """
        import paddle
        import paddle.framework.io as io
        from paddle import device
        import bireme, bireme.framework.io, pickle
        print(paddle is bireme, io is bireme.framework.io, device is bireme.device)
        print(paddle.__spec__.name, io.__spec__.name, hasattr(io, "__path__"))
        attr = pickle.loads(pickle.dumps(paddle.ParamAttr("w")).replace(b"bireme", b"paddle"))
        print(type(attr) is bireme.ParamAttr, attr.name)
        """,
    )
    expected = "True True True\nbireme bireme.framework.io False\nTrue w\n"
    check(run("-m", "bireme", script, cwd=tmp_path), expected)


def test_script_sees_what_python_would_show_it(tmp_path):
    write(tmp_path, "scripts/neighbour.py", "name = 'neighbour'\n")
    script = write(
        tmp_path,
        "scripts/script.py",
        """
        import os, sys, neighbour
        import __main__
        print(__name__, __file__, sys.argv, os.path.basename(sys.path[0]), neighbour.name)
        print(__main__.__file__ == __file__, __spec__, __package__, len(__builtins__.__name__))
        """,
    )
    relative = os.path.join("scripts", "script.py")
    ours = run("-m", "bireme", relative, "--flag", "x y", cwd=tmp_path)
    check(ours, run(relative, "--flag", "x y", cwd=tmp_path).stdout)
    assert script


def test_module_runs_as_with_python(tmp_path):
    write(tmp_path, "package/__init__.py", "")
    write(tmp_path, "package/tool.py", "import sys\nprint(__name__, __spec__.name, sys.argv[1:])\n")
    write(tmp_path, "package/__main__.py", "from . import tool\nprint(__package__)\n")
    for module in ("package.tool", "package"):
        expected = run("-m", module, "a", cwd=tmp_path)
        check(run("-m", "bireme", "-m", module, "a", cwd=tmp_path), expected.stdout)


@pytest.mark.parametrize(
    ("ending", "code"),
    [("exit(0)", 0), ("exit(7)", 7), ("raise SystemExit('why')", 1), ("1 / 0", 1), ("", 0)],
)
def test_exit_codes_are_the_script_s(tmp_path, ending, code):
    script = write(tmp_path, "script.py", f"print('here')\n{ending}\n")
    result = run("-m", "bireme", script, cwd=tmp_path)
    check(result, "here\n", code)
    assert result.stderr == run(script, cwd=tmp_path).stderr


def test_traceback_of_an_error_in_a_library_and_of_wrong_syntax(tmp_path):
    write(tmp_path, "library.py", "def fail():\n    raise ValueError('deep')\n")
    deep = write(tmp_path, "deep.py", "import library\nlibrary.fail()\n")
    wrong = write(tmp_path, "wrong.py", "print(\n")
    for script in (deep, wrong):
        result = run("-m", "bireme", script, cwd=tmp_path)
        expected = run(script, cwd=tmp_path)
        assert (result.stderr, result.returncode) == (expected.stderr, 1)


def test_wrong_usage(tmp_path):
    result = run("-m", "bireme", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("usage: python -m bireme SCRIPT")
    result = run("-m", "bireme", "none.py", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, "bireme: there is no script `none.py`\n")
    result = run("-m", "bireme", "-m", "no_such_module", cwd=tmp_path)
    assert "there is no module `no_such_module`" in result.stderr


def test_children_have_the_alias(tmp_path):
    write(tmp_path, "child.py", "import paddle.device, bireme\nprint(paddle is bireme)\n")
    script = write(
        tmp_path,
        "script.py",
        """
        import multiprocessing, subprocess, sys
        import paddle

        def work(queue):
            import bireme
            queue.put((paddle is bireme, paddle.__name__))

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            queue = context.Queue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            print(queue.get(timeout=60), flush=True)
            process.join()
            subprocess.run([sys.executable, "child.py"], check=True)
            subprocess.run([sys.executable, "-m", "child"], check=True)
        """,
    )
    result = run("-m", "bireme", script, cwd=tmp_path)
    check(result, "(True, 'bireme')\nTrue\nTrue\n")


def test_real_paddle_keeps_its_name_unless_told_otherwise(tmp_path):
    write(tmp_path, "site/paddle/__init__.py", "name = 'real'\n")
    text = "import paddle\nprint(getattr(paddle, 'name', 'bireme'))\n"
    script = write(tmp_path, "script.py", text)
    path = os.pathsep.join([str(tmp_path / "site"), os.environ["PYTHONPATH"]])
    kept = run("-m", "bireme", script, cwd=tmp_path, PYTHONPATH=path)
    check(kept, "real\n")
    assert "set BIREME_ALIAS=1" in kept.stderr
    check(run("-m", "bireme", script, cwd=tmp_path, PYTHONPATH=path, BIREME_ALIAS="1"), "bireme\n")
    off = run("-m", "bireme", script, cwd=tmp_path, BIREME_ALIAS="0")
    assert off.returncode == 1
    assert "No module named 'paddle'" in off.stderr


def test_alias_by_call(tmp_path):
    code = "import bireme; print(bireme.install_alias()); import paddle.v2; print(paddle is bireme)"
    check(run("-c", code, cwd=tmp_path), "True\nTrue\n")
    late = "import sys, types; sys.modules['paddle'] = types.ModuleType('paddle'); import bireme; "
    result = run("-c", late + "bireme.install_alias()", cwd=tmp_path, BIREME_ALIAS="1")
    assert "call `bireme.install_alias()` first" in result.stderr
    result = run("-c", "import bireme; bireme.install_alias()", cwd=tmp_path, BIREME_ALIAS="yes")
    assert "must be 0, 1 or not set" in result.stderr
    (tmp_path / "script.py").write_text("")
    result = run("-m", "bireme", "script.py", cwd=tmp_path, BIREME_ALIAS="yes")
    assert result.stderr == "bireme: `BIREME_ALIAS` is `yes`, but must be 0, 1 or not set\n"


def test_the_launcher_of_paddle_is_fleetrun(tmp_path):
    (tmp_path / "script.py").write_text("import sys, paddle; print(paddle.__name__, sys.argv)")
    launch = ("--nproc_per_node=1", "script.py", "-x")
    for command in (
        ("-m", "bireme", "-m", "paddle.distributed.launch"),
        ("-m", "bireme.distributed.launch"),
        ("-m", "bireme.distributed.fleet.launch"),
    ):
        result = run(*command, *launch, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert result.stdout.endswith("[worker 0] bireme ['script.py', '-x']\n"), result.stdout
    result = run("-m", "bireme", "-m", "paddle.nn", cwd=tmp_path)
    assert result.stderr == "bireme: there is no module `bireme.nn` that could be run\n"


def test_the_path_of_the_alias_lets_plain_python_find_it(tmp_path):
    (tmp_path / "script.py").write_text("import sys, paddle; print(paddle.__name__, sys.argv)")
    shim = run("-m", "bireme", "--alias-path", cwd=tmp_path).stdout.strip()
    path = os.pathsep.join([os.environ["PYTHONPATH"], shim])
    launch = ("-m", "paddle.distributed.launch", "--nproc_per_node=1", "script.py", "-x")
    result = run(*launch, cwd=tmp_path, PYTHONPATH=path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("[worker 0] bireme ['script.py', '-x']\n"), result.stdout
    check(run("script.py", cwd=tmp_path, PYTHONPATH=path), "bireme ['script.py']\n")


@pytest.fixture
def scratch(tmp_path):
    """A virtual environment that finds Bireme and numpy through `PYTHONPATH`."""
    import numpy

    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    packages = os.path.dirname(os.path.dirname(numpy.__file__))
    path = os.pathsep.join([os.environ["PYTHONPATH"], packages])

    def python(*arguments):
        return subprocess.run(
            [tmp_path / "venv/bin/python", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return python


def test_one_command_lets_an_environment_find_the_alias(scratch, tmp_path):
    (tmp_path / "script.py").write_text("import sys, paddle; print(paddle.__name__, sys.argv)")
    launch = ("-m", "paddle.distributed.launch", "--nproc_per_node=1", "script.py", "-x")
    assert "No module named 'paddle'" in scratch(*launch).stderr
    installed = scratch("-m", "bireme", "install-paddle-alias")
    assert installed.returncode == 0, installed.stderr
    (pth,) = (tmp_path / "venv").rglob("bireme_paddle_alias.pth")
    assert str(pth) in installed.stdout and "--remove" in installed.stdout
    result = scratch(*launch)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("[worker 0] bireme ['script.py', '-x']\n"), result.stdout
    check(scratch("script.py"), "bireme ['script.py']\n")
    # Who installs real Paddle later gets it.
    (pth.parent / "paddle").mkdir()
    (pth.parent / "paddle/__init__.py").write_text("")
    check(scratch("script.py"), "paddle ['script.py']\n")
    refused = scratch("-m", "bireme", "install-paddle-alias")
    assert refused.returncode == 1 and "real Paddle is installed" in refused.stderr
    shutil.rmtree(pth.parent / "paddle")
    assert scratch("-m", "bireme", "install-paddle-alias", "--remove").stdout == f"removed {pth}\n"
    assert "No module named 'paddle'" in scratch("script.py").stderr
    assert "nothing to remove" in scratch("-m", "bireme", "install-paddle-alias", "--remove").stdout
    assert scratch("-m", "bireme", "install-paddle-alias", "--all").returncode == 2


def test_importing_bireme_does_not_install_the_alias(tmp_path):
    code = "import bireme, sys; print('paddle' in sys.modules); import paddle"
    result = run("-c", code, cwd=tmp_path)
    assert result.stdout == "False\n"
    assert "No module named 'paddle'" in result.stderr
