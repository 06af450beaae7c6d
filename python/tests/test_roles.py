"""Role makers of both generations: who a process is, by a script or by the environment."""

import os
import sys
from types import SimpleNamespace

import pytest
from bireme.distributed import fleet
from bireme.distributed.fleet import mpi, stages
from bireme.fluid.incubate.fleet.base import role_maker as first
from bireme.fluid.incubate.fleet.collective import fleet as collective
from bireme.fluid.incubate.fleet.parameter_server.distribute_transpiler import FleetTranspiler

SERVERS = ["127.0.0.1:36001", "127.0.0.2:36001"]
TRAINER = {
    "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(SERVERS),
    "PADDLE_TRAINERS_NUM": "2",
    "TRAINING_ROLE": "TRAINER",
    "PADDLE_TRAINER_ID": "1",
}
SERVER = {
    "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(SERVERS),
    "PADDLE_TRAINERS_NUM": "2",
    "TRAINING_ROLE": "PSERVER",
    "POD_IP": "127.0.0.2",
    "PADDLE_PORT": "36001",
}


def test_a_stage_without_its_device_says_so_once(monkeypatch, capsys):
    stages._say_cpu.cache_clear()
    monkeypatch.setenv("HETER_DEVICE_TYPE", "xpu")
    assert [stages.environment_device() for _ in range(2)] == ["xpu", "xpu"]
    said = capsys.readouterr().err
    assert said == "HETER_DEVICE_TYPE is xpu, but this stage runs on the CPU\n"


@pytest.fixture
def environment(monkeypatch):
    for name in ("TRAINING_ROLE", "POD_IP"):
        monkeypatch.delenv(name, raising=False)

    def fill(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return fill


@pytest.mark.parametrize("maker", [fleet.PaddleCloudRoleMaker, first.PaddleCloudRoleMaker])
def test_a_trainer_by_the_environment(environment, maker):
    environment(TRAINER)
    role = maker()
    assert role._is_worker() and not role._is_first_worker()
    assert (role._worker_index(), role._worker_num()) == (1, 2)
    assert role._get_pserver_endpoints() == SERVERS
    assert not role._is_non_distributed()


@pytest.mark.parametrize("maker", [fleet.PaddleCloudRoleMaker, first.PaddleCloudRoleMaker])
def test_a_server_by_the_environment(environment, maker):
    environment(SERVER)
    role = maker()
    assert role._is_server()
    assert (role._server_index(), role._server_num(), role._worker_num()) == (1, 2, 2)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        (
            {**TRAINER, "PADDLE_TRAINERS_NUM": "two"},
            "`PADDLE_TRAINERS_NUM` is `two`, which is not a whole number",
        ),
        (
            {**TRAINER, "PADDLE_TRAINER_ID": "2"},
            "PADDLE_TRAINER_ID is 2, but there are 2 trainers, numbered from 0",
        ),
        ({**SERVER, "PADDLE_PORT": "36009"}, "this server's endpoint `127.0.0.2:36009` is not in"),
    ],
)
@pytest.mark.parametrize("maker", [fleet.PaddleCloudRoleMaker, first.PaddleCloudRoleMaker])
def test_an_environment_that_makes_no_sense_is_named(environment, maker, variables, text):
    environment(variables)
    with pytest.raises(ValueError, match=text):
        maker()._generate_role()


@pytest.mark.parametrize(
    ("missing", "variables"),
    [
        ("PADDLE_TRAINERS_NUM", TRAINER),
        ("TRAINING_ROLE", TRAINER),
        ("PADDLE_TRAINER_ID", TRAINER),
        ("POD_IP", SERVER),
        ("PADDLE_PORT", SERVER),
    ],
)
def test_a_missing_variable_is_named(environment, missing, variables):
    environment({name: value for name, value in variables.items() if name != missing})
    with pytest.raises(ValueError, match=f"Can not find {missing}, please check your environment"):
        fleet.PaddleCloudRoleMaker()._generate_role()
    with pytest.raises(ValueError, match="something wrong with PaddleCloud, please check"):
        first.PaddleCloudRoleMaker().generate_role()


def test_unknown_roles_are_refused(environment):
    environment({**TRAINER, "TRAINING_ROLE": "MASTER"})
    text = (
        "TRAINING_ROLE must be PSERVER or TRAINER or HETER_TRAINER or COORDINATOR, but get MASTER"
    )
    with pytest.raises(ValueError, match=text):
        fleet.PaddleCloudRoleMaker()._generate_role()
    environment({"TRAINING_ROLE": "COORDINATOR"})
    with pytest.raises(NotImplementedError, match="coordinators are not in this version"):
        fleet.PaddleCloudRoleMaker()._generate_role()


def test_heter_workers_have_stages(environment):
    stages = {
        "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST": "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
        "PADDLE_STAGE_TRAINERS_NUM": "[2, 2, 1]",
        "STAGE_NUM": "3",
    }
    own = {"STAGE_ID": "3", "POD_IP": "127.0.0.1", "PADDLE_PORT": "3", "HETER_DEVICE_TYPE": "gpu"}
    environment({**TRAINER, **stages, **own, "TRAINING_ROLE": "HETER_TRAINER"})
    role = fleet.PaddleCloudRoleMaker()
    assert role._is_heter_worker() and not role._is_worker()
    assert (role._role_id(), role._get_stage_id(), role._get_num_stage()) == (4, 3, 3)
    assert role._get_previous_trainers() == ["127.0.0.1:1", "127.0.0.1:2"]
    assert role._get_next_trainers() == []
    assert (role._heter_device_type(), role._heter_device()) == ("gpu", "gpu:0")
    environment({**TRAINER, **stages, "PADDLE_STAGE_TRAINERS_NUM": "[2, 2]"})
    with pytest.raises(ValueError, match="PADDLE_STAGE_TRAINERS_NUM"):
        fleet.PaddleCloudRoleMaker()._generate_role()


def test_no_launcher_means_one_process(environment):
    role = fleet.PaddleCloudRoleMaker()
    assert role._is_non_distributed() and role._is_first_worker()
    assert (role._worker_num(), role._server_num()) == (1, 0)


def test_the_first_user_defined_role_is_checked():
    role = first.UserDefinedRoleMaker(
        current_id=1, role=first.Role.SERVER, worker_num=3, server_endpoints=SERVERS
    )
    role.generate_role()
    assert role.is_server() and not role.is_worker() and not role.is_first_worker()
    assert (role.server_index(), role.worker_num(), role.role_id()) == (1, 3, 1)
    assert role.get_pserver_endpoints() == SERVERS


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"server_endpoints": "a:1"}, TypeError, "server_endpoints must be as string list"),
        ({"server_endpoints": []}, ValueError, "the length of server_endpoints list must be"),
        ({"server_endpoints": ["a:1", "a:1"]}, ValueError, "can't have duplicate elements"),
        ({"server_endpoints": [1]}, TypeError, "every element in server_endpoints list must be as"),
        ({"server_endpoints": ["a"]}, ValueError, "the address `a`, which is not of the form"),
        ({"role": 7}, TypeError, "role must be as Role"),
        ({"current_id": "0"}, TypeError, "current_id must be as int"),
        ({"current_id": -1}, ValueError, "current_id must be greater than or equal to 0"),
        ({"current_id": 3}, ValueError, "worker 3 is none of 2 workers"),
        (
            {"role": 2, "current_id": 2},
            ValueError,
            r"less than or equal to len\(server_endpoints\)",
        ),
        ({"worker_num": "2"}, TypeError, "worker_num must be as int"),
        ({"worker_num": 0}, ValueError, "worker_num must be greater than 0"),
    ],
)
def test_bad_user_defined_roles_have_the_texts_of_paddle(arguments, error, text):
    good = {"current_id": 0, "role": first.Role.WORKER, "worker_num": 2}
    with pytest.raises(error, match=text):
        first.UserDefinedRoleMaker(**{**good, "server_endpoints": SERVERS, **arguments})


def test_the_second_user_defined_role_counts_its_workers():
    role = fleet.UserDefinedRoleMaker(
        current_id=1,
        role=fleet.Role.WORKER,
        worker_endpoints=["127.0.0.1:1", "127.0.0.2:1"],
        server_endpoints=SERVERS,
        init_gloo=True,
        path="./meet",
    )
    assert (role._worker_num(), role._worker_index(), role._node_num()) == (2, 1, 2)
    with pytest.raises(ValueError, match="`worker_num` is 3, but `worker_endpoints` names 2"):
        fleet.UserDefinedRoleMaker(worker_num=3, worker_endpoints=["a:1", "a:2"])


def test_the_general_role_maker_reads_all_addresses(environment):
    environment(
        {**TRAINER, "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,127.0.0.1:2", "PADDLE_PSERVER_ID": "0"}
    )
    role = first.GeneralRoleMaker(path="./meet")
    assert (role.worker_index(), role.worker_num()) == (1, 2)
    environment({"TRAINING_ROLE": "PSERVER"})
    assert first.GeneralRoleMaker().server_index() == 0
    environment({"TRAINING_ROLE": "OTHER"})
    with pytest.raises(ValueError, match="TRAINING_ROLE must be PSERVER or TRAINER"):
        first.GeneralRoleMaker().generate_role()


def test_without_mpi_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setattr(mpi, "_core", SimpleNamespace(Mpi=SimpleNamespace(is_built_in=bool)))
    monkeypatch.setattr(mpi.importlib.util, "find_spec", lambda _: None)
    for start in (first.MPISymetricRoleMaker().generate_role, FleetTranspiler().init):
        with pytest.raises(ImportError, match=r"pip install mpi4py.*hand a `UserDefinedRoleMaker`"):
            start()


@pytest.mark.parametrize("rank", range(4))
def test_mpi_gives_even_ranks_servers_and_odd_ranks_workers(monkeypatch, rank):
    hosts = [b"10.0.0.1", b"10.0.0.1", b"10.0.0.2", b"10.0.0.2"]
    # What is gathered next is a secret of each.
    secrets = [b"made by rank 0", b"b", b"c", b"d"]
    answers = iter([hosts, secrets])
    gathered = {"all": lambda _: next(answers), "role": lambda data: [data, data]}
    monkeypatch.setenv("BIREME_JOB_SECRET", "")
    waited = []
    started = SimpleNamespace(
        rank=rank,
        size=4,
        all_gather=lambda group, data: gathered[group](data),
        barrier=waited.append,
        finalize=lambda: waited.append("the end"),
    )
    monkeypatch.setattr(first, "start_mpi", lambda: started)
    monkeypatch.setattr(first.atexit, "register", lambda _: None)
    role = first.MPISymetricRoleMaker()
    assert (role.is_server(), role.role_id()) == (rank % 2 == 0, rank // 2)
    assert (role.server_num(), role.worker_num()) == (2, 2)
    # `random.seed(2); random.randint(60001, 64000)`, as in Paddle.
    assert role.get_pserver_endpoints() == ["10.0.0.1:63916", "10.0.0.2:63916"]
    assert role.get_trainer_endpoints() == ["10.0.0.1", "10.0.0.2"]
    assert os.environ["BIREME_JOB_SECRET"] == "made by rank 0"
    total = [0, 0]
    role.all_reduce_worker([rank, 1], total)
    assert total == ([2 * rank, 2] if role.is_worker() else [0, 0])
    role.barrier_worker()
    role.barrier_all()
    assert waited == (["role", "all"] if role.is_worker() else ["all"])
    # pytest sets it when another test has failed.
    monkeypatch.delattr(sys, "last_type", raising=False)
    role._end_in_peace()
    assert waited[-1] == "the end"


def test_servers_of_a_cluster_have_names(environment):
    names = "ctr-server-0.ctr:6174,ctr-server-1.ctr:6174"
    environment(
        {
            "TRAINING_ROLE": "PSERVER",
            "PADDLE_PSERVERS_IP_PORT_LIST": names,
            "PADDLE_TRAINERS_NUM": "3",
            "PADDLE_PSERVER_ID": "1",
            "POD_IP": "ctr-server-1.ctr",
            "PADDLE_PORT": "6174",
        }
    )
    assert fleet.PaddleCloudRoleMaker()._server_index() == 1
    assert first.PaddleCloudRoleMaker().server_index() == 1


def test_a_collective_role_may_be_said_by_the_script():
    ends = ["127.0.0.1:1", "127.0.0.1:2"]
    role = fleet.UserDefinedRoleMaker(is_collective=True, current_id=1, worker_endpoints=ends)
    assert (role._worker_index(), role._worker_num(), role._node_num()) == (1, 2, 1)
    assert role._is_worker() and not role._is_first_worker() and not role._is_non_distributed()
    with pytest.raises(ValueError, match="a collective job has workers only"):
        fleet.UserDefinedRoleMaker(
            is_collective=True, role=fleet.Role.SERVER, worker_endpoints=ends
        )
    with pytest.raises(ValueError, match="worker 2 is none of 2 workers"):
        fleet.UserDefinedRoleMaker(is_collective=True, current_id=2, worker_endpoints=ends)
    one = first.UserDefinedCollectiveRoleMaker(1, ends)
    assert (one.worker_index(), one.worker_num(), one.get_trainer_endpoints()) == (1, 2, ends)
    assert not one.is_server()


def test_collective_jobs_have_no_servers():
    role = first.UserDefinedCollectiveRoleMaker(0, ["127.0.0.1:1"])
    collective.init(role)
    assert collective.is_first_worker()
    with pytest.raises(NotImplementedError, match="You should not call 'init_server'"):
        collective.init_server()
    collective.init(first.UserDefinedCollectiveRoleMaker(0, ["127.0.0.1:1", "127.0.0.1:2"]))
    assert collective.worker_num() == 2
    collective.init(role)
    with pytest.raises(ValueError, match=r"less than or equal to len\(worker_endpoints\) - 1"):
        first.UserDefinedCollectiveRoleMaker(1, ["127.0.0.1:1"])


@pytest.mark.parametrize("job", [fleet.Fleet(), FleetTranspiler()])
def test_only_role_makers_make_roles(job):
    with pytest.raises(TypeError, match="role_maker must be an instance of RoleMakerBase"):
        job.init("worker")


def test_files_are_split_in_runs():
    shares = []
    for index in range(2):
        job = FleetTranspiler()
        job.init(first.UserDefinedRoleMaker(index, first.Role.WORKER, 2, SERVERS))
        shares.append(job.split_files(list("abcde")))
    assert shares == [["a", "b", "c"], ["d", "e"]]
    with pytest.raises(TypeError, match="files should be a list of file need to be read"):
        job.split_files("abc")
