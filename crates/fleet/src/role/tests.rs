//! Roles of both generations of variables, and what is refused.

use super::*;

fn role(pairs: &[(&str, &str)]) -> Result<RoleMaker> {
    RoleMaker::from_environment(&Environment::of(pairs.iter().copied())?)
}

#[track_caller]
fn refused(pairs: &[(&str, &str)], text: &str) {
    let error = role(pairs).unwrap_err().to_string();
    assert!(error.contains(text), "`{text}` in: {error}");
}

const LIST: (&str, &str) = ("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:6174,127.0.0.1:6175");
const TWO: (&str, &str) = ("PADDLE_TRAINERS_NUM", "2");
const TRAINER: (&str, &str) = ("TRAINING_ROLE", "TRAINER");
const SERVER: (&str, &str) = ("TRAINING_ROLE", "PSERVER");

#[test]
fn a_launcher_of_2_x_gives_roles() {
    let trainer = role(&[LIST, TWO, TRAINER, ("PADDLE_TRAINER_ID", "1")]).unwrap();
    assert_eq!((trainer.role(), trainer.index(), trainer.worker_num()), (Role::Worker, 1, 2));
    assert_eq!(trainer.to_string(), "trainer 1 of 2");
    assert_eq!(trainer.server_endpoints().len(), 2);
    let server = [LIST, TWO, SERVER, ("POD_IP", "127.0.0.1"), ("PADDLE_PORT", "6175")];
    let server = role(&server).unwrap();
    assert_eq!((server.role(), server.index()), (Role::Server, 1));
    assert_eq!(server.to_string(), "server 1 of 2");
    assert_eq!(role(&[LIST, TWO, SERVER, ("PADDLE_PSERVER_ID", "1")]).unwrap().index(), 1);
    assert!(server.is_distributed() && !server.is_collective());
}

#[test]
fn older_names_give_the_same_roles() {
    let common = [
        ("PADDLE_PSERVER_PORT", "6174"),
        ("PADDLE_PSERVER_IPS", "127.0.0.1,127.0.0.2"),
        ("PADDLE_TRAINERS", "2"),
        ("PADDLE_TRAINER_ID", "1"),
    ];
    let server = [("PADDLE_CURRENT_IP", "127.0.0.2"), ("PADDLE_TRAINING_ROLE", "PSERVER")];
    let server = role(&[&common[..], &server].concat()).unwrap();
    assert_eq!(server.server_endpoints(), ["127.0.0.1:6174", "127.0.0.2:6174"]);
    assert_eq!((server.role(), server.index(), server.worker_num()), (Role::Server, 1, 2));
    let trainer = role(&[&common[..], &[("PADDLE_TRAINING_ROLE", "TRAINER")]].concat()).unwrap();
    assert_eq!((trainer.role(), trainer.index()), (Role::Worker, 1));
    let nameless = [&common[..], &[("PADDLE_TRAINING_ROLE", "PSERVER")]].concat();
    refused(&nameless, "Can not find PADDLE_CURRENT_IP");
}

#[test]
fn without_servers_a_process_is_alone() {
    let alone = role(&[TRAINER]).unwrap();
    assert_eq!(alone, RoleMaker::alone());
    assert_eq!((alone.worker_num(), alone.is_distributed()), (1, false));
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    refused(&[LIST], "Can not find PADDLE_TRAINERS_NUM, please check your environment.");
    refused(&[LIST, TWO], "Can not find TRAINING_ROLE, please check your environment.");
    refused(&[LIST, TWO, TRAINER], "Can not find PADDLE_TRAINER_ID");
    refused(&[LIST, TWO, TRAINER, ("PADDLE_TRAINER_ID", "2")], "there are 2 trainers");
    refused(&[LIST, TWO, SERVER], "Can not find POD_IP");
    refused(&[LIST, TWO, SERVER, ("POD_IP", "127.0.0.1")], "Can not find PADDLE_PORT");
    let elsewhere = [LIST, TWO, SERVER, ("POD_IP", "10.0.0.1"), ("PADDLE_PORT", "6174")];
    refused(&elsewhere, "`10.0.0.1:6174` is not in the list of servers");
    refused(&[LIST, TWO, SERVER, ("PADDLE_PSERVER_ID", "2")], "PADDLE_PSERVER_ID is 2");
    let coach = "TRAINING_ROLE must be PSERVER or TRAINER or HETER_TRAINER or COORDINATOR, but \
                 get COACH, please check your environment.";
    refused(&[LIST, TWO, ("TRAINING_ROLE", "COACH")], coach);
    refused(&[LIST, TWO, ("TRAINING_ROLE", "HETER_TRAINER")], "not in this version");
    refused(&[LIST, ("PADDLE_TRAINERS_NUM", "0")], "a job needs a trainer");
    let twice = ("PADDLE_PSERVERS_IP_PORT_LIST", "a:1,a:1");
    refused(&[twice], "can't have duplicate elements");
    refused(&[("PADDLE_PSERVERS_IP_PORT_LIST", "a:1,b")], "`b` in the list of servers");
    let heter = ("PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST", "127.0.0.1:1");
    refused(&[LIST, heter], "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST");
    let old = [("PADDLE_PSERVER_IPS", "127.0.0.1"), ("PADDLE_TRAINERS", "10.0.0.1,10.0.0.2")];
    refused(&old, "`PADDLE_TRAINERS` is `10.0.0.1,10.0.0.2`");
}

#[test]
fn collective_jobs_count_their_endpoints() {
    let environment = Environment::of([
        ("PADDLE_TRAINER_ENDPOINTS", "10.0.0.1:1,10.0.0.1:2,10.0.0.2:1"),
        ("PADDLE_TRAINER_ID", "2"),
    ]);
    let role = RoleMaker::collective(&environment.unwrap()).unwrap();
    assert_eq!((role.index(), role.worker_num(), role.node_num()), (2, 3, 2));
    let alone = RoleMaker::collective(&Environment::default()).unwrap();
    assert_eq!(
        (alone.worker_endpoints(), alone.is_distributed()),
        (&["127.0.0.1:6170".to_owned()][..], false)
    );
    let wrong = Environment::of([("PADDLE_TRAINER_ID", "1")]).unwrap();
    assert!(RoleMaker::collective(&wrong).is_err());
}

#[test]
fn a_script_may_give_the_role() {
    let given = |current_id, role, worker_num, servers: &[&str]| {
        RoleMaker::user_defined(UserDefined {
            current_id,
            role,
            worker_num,
            server_endpoints: servers.iter().map(|s| (*s).to_owned()).collect(),
            worker_endpoints: Vec::new(),
        })
        .map_err(|error| error.to_string())
    };
    let two = &["127.0.0.1:36001", "127.0.0.1:36002"][..];
    let server = given(1, Role::Server, Some(4), two).unwrap();
    assert_eq!((server.role(), server.index(), server.worker_num()), (Role::Server, 1, 4));
    let refused = |result: std::result::Result<RoleMaker, String>, text: &str| {
        let error = result.unwrap_err();
        assert!(error.contains(text), "`{text}` in: {error}");
    };
    refused(given(0, Role::Worker, Some(1), &[]), "the length of server_endpoints list must be");
    refused(given(0, Role::Worker, Some(1), &["a:1", "a:1"]), "server_endpoints can't have dup");
    refused(given(0, Role::Worker, Some(1), &["a"]), "is not of the form `ip:port`");
    refused(given(-1, Role::Worker, Some(1), two), "current_id must be greater than or equal");
    refused(given(2, Role::Server, Some(1), two), "len(server_endpoints) - 1");
    refused(given(0, Role::Worker, Some(0), two), "worker_num must be greater than 0");
    refused(given(0, Role::Worker, None, two), "worker_num must be greater than 0");
    refused(given(1, Role::Worker, Some(1), two), "must be less than worker_num");
}

#[test]
fn a_script_may_number_the_processes_of_a_collective_job() {
    let given = |id, list: &[&str]| {
        let list = list.iter().map(|endpoint| (*endpoint).to_owned()).collect();
        RoleMaker::user_defined_collective(id, list).map_err(|error| error.to_string())
    };
    let list = &["10.0.0.1:1", "10.0.0.2:1", "10.0.0.2:2"][..];
    let role = given(2, list).unwrap();
    assert_eq!((role.index(), role.worker_num(), role.node_num()), (2, 3, 2));
    assert!(role.is_collective() && role.is_distributed());
    assert_eq!((role.rank_in_node(), role.role()), (1, Role::Worker));
    assert!(!given(0, &list[..1]).unwrap().is_distributed());
    assert!(given(0, &[]).unwrap_err().contains("must be greater than 0"));
    assert!(given(-1, list).unwrap_err().contains("greater than or equal to 0"));
    assert!(given(3, list).unwrap_err().contains("len(worker_endpoints) - 1"));
    assert!(given(0, &["a:1", "a:1"]).unwrap_err().contains("duplicate"));
    assert!(given(0, &["a"]).unwrap_err().contains("is not of the form"));
}

#[test]
fn processes_of_a_cluster_are_found_by_names() {
    let list = ("PADDLE_PSERVERS_IP_PORT_LIST", "ctr-server-0.ctr:6174,ctr-server-1.ctr:6174");
    let by_number = role(&[list, TWO, SERVER, ("PADDLE_PSERVER_ID", "1")]).unwrap();
    assert_eq!((by_number.role(), by_number.index()), (Role::Server, 1));
    let named = ("POD_IP", "ctr-server-1.ctr");
    let by_name = role(&[list, TWO, SERVER, named, ("PADDLE_PORT", "6174")]).unwrap();
    assert_eq!(by_name, by_number);
    let trainer = [list, TWO, TRAINER, ("PADDLE_TRAINER_ID", "0"), ("POD_IP", "ctr-worker-0.ctr")];
    assert_eq!(role(&trainer).unwrap().to_string(), "trainer 0 of 2");
}
