"""`DistributeTranspiler` and its config: call forms, rules and texts; the engine is a fake."""

import socket
import threading

import bireme as paddle
import pytest
from bireme import fluid
from bireme.distributed.transpiler import HashName, PSDispatcher, RoundRobin
from bireme.distributed.transpiler.ports import wait_server_ready
from fake_core import install, replaceable

SERVERS = "127.0.0.1:6174,127.0.0.1:6175"


@pytest.fixture
def model(monkeypatch):
    """A program with an optimizer; the fakes, what `minimize` returned, and what was replaced."""
    transpilers, _ = install(monkeypatch)
    x = fluid.layers.data("x", [13])
    loss = fluid.layers.mean(fluid.layers.fc(x, 1))
    made = fluid.optimizer.SGD(0.1).minimize(loss)
    taken = replaceable(fluid.default_main_program(), fluid.default_startup_program())
    return transpilers, made, taken


def test_the_config_has_the_defaults_of_paddle():
    config = fluid.DistributeTranspilerConfig()
    assert (config.slice_var_up, config.split_method, config.min_block_size) == (True, None, 8192)
    assert (config.mode, config.sync_mode, config.geo_sgd_need_push_nums) == ("pserver", True, 100)


@pytest.mark.parametrize(
    ("name", "first", "text"),
    [
        (
            "runtime_split_send_recv",
            {},
            (
                "if you want to set runtime_split_send_recv to be true, make ensure config.sync_mode is"
                " false at first"
            ),
        ),
        (
            "sync_mode",
            {"sync_mode": False, "runtime_split_send_recv": True},
            (
                "if you want to set sync_mode to be true, make ensure config.runtime_split_send_recv is"
                " false at first"
            ),
        ),
    ],
)
def test_the_config_does_not_contradict_itself(name, first, text):
    config = fluid.DistributeTranspilerConfig()
    for key, value in first.items():
        setattr(config, key, value)
    with pytest.raises(ValueError, match=text):
        setattr(config, name, True)
    with pytest.raises(ValueError, match=f"{name} can't be None"):
        setattr(config, name, None)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"min_block_size": 100},
            "`min_block_size` must be at least 8192, as in Paddle, but is 100",
        ),
        ({"sync_mode": False, "hybrid": True, "geo_sgd_mode": True}, "exclude each other"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, text):
    config = fluid.DistributeTranspilerConfig()
    for name, value in settings.items():
        setattr(config, name, value)
    with pytest.raises(ValueError, match=text):
        fluid.DistributeTranspiler(config)


def test_delay_compensation_is_for_trainers_that_do_not_wait():
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [13]), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    config = fluid.DistributeTranspilerConfig()
    config.enable_dc_asgd = True
    with pytest.raises(ValueError, match="`enable_dc_asgd` is for asynchronous training"):
        fluid.DistributeTranspiler(config).transpile(0, pservers=SERVERS, trainers=2)
    # As Paddle's document writes it: the call alone says that trainers do not wait.
    transpiler = fluid.DistributeTranspiler(config)
    transpiler.transpile(0, pservers=SERVERS, trainers=2, sync_mode=False)
    served = transpiler.get_pserver_program(SERVERS.split(",")[0]).global_block().ops[-1]
    assert served.type == "listen_and_serv" and served.attr("dc_asgd")


def test_the_way_to_choose_servers_is_one_of_two():
    config = fluid.DistributeTranspilerConfig()
    config.split_method = HashName
    assert config._settled()["split_method"] == "HashName"
    config.split_method = "RoundRobin"
    assert config.split_method is RoundRobin
    with pytest.raises(TypeError, match="`split_method` must be `RoundRobin` or `HashName`"):
        config.split_method = list
    with pytest.raises(NotImplementedError, match="a dispatcher of your own"):
        config.split_method = type("Mine", (PSDispatcher,), {})
    with pytest.raises(ValueError, match="`mode` must be pserver, nccl2, collective"):
        config.mode = "mpi"


def test_round_robin_goes_on_where_it_stopped():
    servers = RoundRobin(["a:1", "b:1", "c:1"])
    assert servers.dispatch(["x", "y"]) == ["a:1", "b:1"]
    assert servers.dispatch(["z", "x"]) == ["c:1", "a:1"]
    servers.reset()
    assert servers.dispatch(["x"]) == ["a:1"]


def test_both_call_forms_say_the_same(model):
    transpilers, (ops, pairs), _ = model
    forms = [
        lambda t: t.transpile(1, pservers=SERVERS, trainers=2),
        lambda t: t.transpile(1, fluid.default_main_program(), SERVERS, 2),
        lambda t: t.transpile(trainer_id=1, pservers=SERVERS, trainers=2, sync_mode=True),
        lambda t: t.transpile(ops, pairs, 1, pservers=SERVERS, trainers=2),
        lambda t: t.transpile(
            optimize_ops=ops, params_grads=pairs, trainer_id=1, pservers=SERVERS, trainers=2
        ),
    ]
    for form in forms:
        form(fluid.DistributeTranspiler())
    calls = [made.calls for made in transpilers.made]
    assert calls == [[(1, SERVERS.split(","), 2, True)]] * len(forms)


def test_the_old_form_takes_the_number_from_the_environment(model, monkeypatch):
    transpilers, (ops, pairs), _ = model
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    fluid.DistributeTranspiler().transpile(ops, pairs, pservers=SERVERS, trainers=2)
    assert transpilers.made[0].calls[0][0] == 1


def test_asynchronous_by_argument_or_by_config(model):
    transpilers, _, _ = model
    fluid.DistributeTranspiler().transpile(0, sync_mode=False)
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    fluid.DistributeTranspiler(config).transpile(0, slice_var_up=False)
    assert [made.calls[0][3] for made in transpilers.made] == [False, False]
    assert [made.config["slice_var_up"] for made in transpilers.made] == [True, False]


def test_the_programs_become_those_of_the_trainer_once(model):
    _, _, taken = model
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(0, pservers=SERVERS)
    assert taken == ["trainer startup"]
    for _ in range(2):
        assert transpiler.get_trainer_program(wait_port=False) is fluid.default_main_program()
    assert taken == ["trainer startup", "trainer main"]


def test_each_server_gets_its_programs(model):
    transpiler = fluid.DistributeTranspiler()
    with pytest.raises(RuntimeError, match="call `transpile` first"):
        transpiler.get_pserver_program("127.0.0.1:6174")
    transpiler.transpile(0, pservers=SERVERS)
    main, startup = transpiler.get_pserver_programs("127.0.0.1:6175")
    assert (main, startup) == ("server main of 127.0.0.1:6175", "server startup of 127.0.0.1:6175")
    assert transpiler.get_startup_program("127.0.0.1:6175", main) == startup
    with pytest.raises(ValueError, match="`127.0.0.1:1` is none of the servers"):
        transpiler.get_pserver_program("127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"trainer_id": -1}, ValueError, "`trainer_id` is counted from 0"),
        ({"trainer_id": "0"}, TypeError, "`trainer_id` must be a number, not str"),
        ({"trainer_id": 0, "trainers": SERVERS}, TypeError, "`trainers` is the number of trainers"),
        ({"trainer_id": 0, "trainers": 0}, ValueError, "`trainers` must be at least 1"),
        ({"trainer_id": 0, "pservers": "127.0.0.1"}, ValueError, "not of the form host:port"),
        ({"trainer_id": 0, "pservers": "a:1,a:1"}, ValueError, "names `a:1` more than once"),
        ({"trainer_id": 0, "program": "main"}, TypeError, "`program` must be a `Program`, not str"),
        ({"trainer_id": 0, "servers": "a:1"}, TypeError, "unexpected keyword argument 'servers'"),
    ],
)
def test_bad_arguments_are_named(model, arguments, error, text):
    with pytest.raises(error, match=text):
        fluid.DistributeTranspiler().transpile(**arguments)


def test_a_trainer_that_is_none_of_them_gets_no_program(model):
    transpiler = fluid.DistributeTranspiler()
    # A server may call it with a number of its own.
    transpiler.transpile(2, pservers=SERVERS, trainers=2)
    with pytest.raises(ValueError, match="trainer 2 is none of 2 trainers"):
        transpiler.get_trainer_program()


def test_parameters_of_another_program_are_refused(model):
    _, (ops, pairs), _ = model
    with pytest.raises(ValueError, match="hand over the `program` that `minimize` changed"):
        fluid.DistributeTranspiler().transpile(ops, pairs, 0, fluid.Program())


def test_a_schedule_in_python_reaches_the_servers_by_the_trainers(monkeypatch):
    transpilers, _ = install(monkeypatch)
    paddle.enable_static()
    loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [None, 2]), 1))
    schedule = paddle.optimizer.lr.ExponentialDecay(0.1, gamma=0.5)
    paddle.optimizer.SGD(schedule).minimize(loss)
    replaceable(fluid.default_main_program(), fluid.default_startup_program())
    fluid.DistributeTranspiler().transpile(0)
    assert transpilers.made[0].config["learning_rate_from_trainer"]


def test_the_connections_of_a_server_come_from_the_environment(model, monkeypatch):
    transpilers, _, _ = model
    monkeypatch.setenv("FLAGS_rpc_get_thread_num", "3")
    fluid.DistributeTranspiler().transpile(0)
    assert transpilers.made[0].config["rpc_get_thread_num"] == 3
    assert transpilers.made[0].config["rpc_send_thread_num"] == 12


def test_collective_modes_name_all_trainers(model):
    transpilers, _, _ = model
    config = fluid.DistributeTranspilerConfig()
    config.mode = "nccl2"
    transpiler = fluid.DistributeTranspiler(config)
    transpiler.transpile(1, trainers=SERVERS, current_endpoint="127.0.0.1:6175")
    assert transpilers.made[0].calls == [(1, SERVERS.split(","), "127.0.0.1:6175")]
    with pytest.raises(ValueError, match="invalid trainers config: 2"):
        transpiler.transpile(0, trainers=2)
    with pytest.raises(ValueError, match="trainer 0 of `trainers` is 127.0.0.1:6174"):
        transpiler.transpile(0, trainers=SERVERS, current_endpoint="127.0.0.1:6175")
    config.mode = "collective"
    with pytest.raises(ValueError, match="invalid trainer number in distributed: 1"):
        transpiler.transpile(0, trainers="127.0.0.1:6174")


def test_what_was_split_is_printed_on_demand(model, capsys):
    config = fluid.DistributeTranspilerConfig()
    config.print_log = True
    fluid.DistributeTranspiler(config).transpile(0)
    assert "what was split" in capsys.readouterr().out


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_trainer_waits_for_servers_and_says_so(capsys):
    endpoint = f"127.0.0.1:{free_port()}"
    with socket.socket() as listener:
        host, port = endpoint.split(":")

        def listen():
            listener.bind((host, int(port)))
            listener.listen()

        threading.Timer(1, listen).start()
        wait_server_ready([endpoint], timeout_s=30)
    said = capsys.readouterr().err
    assert said.startswith("server not ready, wait 3 sec to retry...\n")
    assert f"not ready endpoints:['{endpoint}']\n" in said


def test_waiting_for_servers_has_an_end():
    with pytest.raises(TimeoutError, match="no server listens on 127.0.0.1:.* after 0.2 s"):
        wait_server_ready([f"127.0.0.1:{free_port()}"], timeout_s=0.2)
