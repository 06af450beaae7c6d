//! Ranks on emulated cards of which one is killed, fails or is late: all others end within ten seconds and name it, and
//! nothing is left of them: no process, no shared memory, no socket.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::bail;
use bireme_comm::{Network, Path, Settings};
use bireme_cuda::Keeping;
use bireme_cuda::driver::libraries;
use bireme_engine::Executor;
use bireme_engine::device::Device;
use bireme_engine::optimizer::Sgd;
use bireme_engine::tensor::Tensor;
use bireme_fleet::collective::Road;
use bireme_fleet::{Environment, Fleet, RoleMaker, Strategy};
use bireme_testkit::models::{mnist_batches, mnist_mlp, share};
use bireme_testkit::ranks::{Before, Ranks};

/// Divides evenly by two and three.
const BATCH: usize = 6;
/// How late a rank may be (`FLAGS_rpc_deadline`).
const DEADLINE: Duration = Duration::from_secs(2);
/// How long after a fault, or after the deadline of a rank that is late, the last rank may end.
const BOUND: Duration = Duration::from_secs(10);
/// How long a rank in a process trains when nothing happens.
const LIMIT: Duration = Duration::from_secs(120);

fn cards(count: u32) -> Option<Vec<Arc<dyn Device>>> {
    libraries::load_from(bireme_emulator::DIR?);
    bireme_emulator::Control::open().unwrap().unwrap().set_cards(4);
    // Not shared with other tests: exchanges of two groups in one order of work could wait for each other for ever.
    let open = |number| bireme_cuda::open_alone(number, Keeping::Driver).unwrap();
    Some((0..count).map(open).collect())
}

fn hasty() -> Settings {
    Settings {
        deadline: DEADLINE,
        heartbeat: Duration::from_millis(200),
        heartbeat_timeout: Duration::from_secs(4),
        ..Settings::default()
    }
}

/// What the ranks say when rank 1 does `fault` before its third step; all end soon.
#[expect(clippy::print_stdout, reason = "how long it took is what the test is about")]
fn survivors(road: Road, size: u32, settings: Settings, fault: fn() -> anyhow::Result<()>) {
    let Some(cards) = cards(size) else { return };
    let model = mnist_mlp(&Sgd::new(0.1)).unwrap();
    let batches = mnist_batches(6, BATCH);
    let start = Arc::new(Mutex::new(Instant::now()));
    let began = Arc::clone(&start);
    let before: Before = Arc::new(move |rank, step| match (rank, step) {
        (1, 2) => {
            *began.lock().unwrap() = Instant::now();
            fault()
        }
        _ => Ok(()),
    });
    let (before, late) = (Some(before), settings.deadline == DEADLINE);
    let ranks = Ranks { settings, before, ..Ranks::on_cards(cards, road) };
    let trained = ranks.train_each(&model, &batches, &Strategy::default());
    let took = start.lock().unwrap().elapsed();
    for (rank, outcome) in trained.iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let text = format!("{:#}", outcome.as_ref().unwrap_err());
        assert!(text.contains("trainer 1 ("), "{road:?}, rank {rank}: {text}");
    }
    assert!(trained[1].is_err(), "{road:?}");
    println!("{road:?}, {size} ranks: the last one ended {took:?} after the fault");
    let bound = if late { DEADLINE + BOUND } else { BOUND };
    assert!(took < bound, "{road:?}: {took:?}");
}

/// A rank that ends with an error of its own leaves; nobody waits for it for ever.
#[test]
fn a_rank_that_fails_is_named_by_all_others() {
    for road in [Road::Host, Road::Nccl] {
        for size in [2, 3] {
            survivors(road, size, Settings::default(), || bail!("out of memory, says the test"));
        }
    }
}

/// A rank that does not come in time: its own step fails too, when it comes at last.
#[test]
fn a_rank_that_is_late_is_named_by_all_others() {
    for road in [Road::Host, Road::Nccl] {
        survivors(road, 2, hasty(), || {
            std::thread::sleep(4 * DEADLINE);
            Ok(())
        });
    }
}

/// Ranks in processes.
const RANKS: usize = 3;

/// Tells a process that runs the ignored test below what it is: `RANK ROAD ENDPOINTS`.
const RANK: &str = "BIREME_TEST_CARD_RANK";

/// Not a test: a rank in a process of its own, on an emulated card of its own.
#[test]
#[ignore = "runs in a process of its own, started by other tests"]
fn rank_in_a_process() {
    let Ok(what) = std::env::var(RANK) else { return };
    let [rank, road, endpoints] = what.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
    let road: Road = road.parse().unwrap();
    let small = rank == "1" && std::env::var_os("BIREME_TEST_SMALL_CARD").is_some();
    let cards = cards(RANKS as u32).unwrap();
    let card = &cards[rank.parse::<usize>().unwrap()];
    let names = [("PADDLE_TRAINER_ENDPOINTS", endpoints), ("PADDLE_TRAINER_ID", rank)];
    let environment = Environment::of(names).unwrap();
    let role = RoleMaker::collective(&environment).unwrap();
    let transport = Arc::new(Network::new(Path::Auto));
    let mut fleet = Fleet::with_transport(role, transport, Settings::default()).road(road);
    let model = mnist_mlp(&Sgd::new(0.1)).unwrap();
    fleet.distribute(&model.main, &model.startup, &Strategy::default()).unwrap();
    let executor = fleet.init_worker(Executor::on(Arc::clone(card))).unwrap();
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let mut step = executor.prepare(fleet.main_program().unwrap(), &feeds, &[&model.loss]).unwrap();
    let (batches, larger) = (mnist_batches(2, BATCH), mnist_batches(1, 4 * BATCH));
    let start = Instant::now();
    // A larger batch needs more memory, and the small card has none.
    for (number, batch) in batches.iter().chain(larger.iter().cycle()).enumerate() {
        if start.elapsed() > LIMIT {
            println!("\nerror nothing has happened");
            return;
        }
        if small && number == batches.len() {
            let control = bireme_emulator::Control::open().unwrap().unwrap();
            control.set_memory(1 << 10);
        }
        let own = share(batch, rank.parse().unwrap(), RANKS);
        if let Err(error) = step.run(&own.iter().collect::<Vec<&Tensor>>()) {
            println!("\nerror {error}");
            return;
        }
        println!("\nstep {number}");
    }
}

/// A rank in a process, which ends with the test.
struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(rank: usize, endpoints: &str, road: Road, small: bool) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "faults_on_cards::rank_in_a_process", "--ignored", "--nocapture"]);
        command.env(RANK, format!("{rank} {road} {endpoints}")).stdout(Stdio::piped());
        if small {
            command.env("BIREME_TEST_SMALL_CARD", "1");
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Process { child, lines }
    }

    /// The next line with this beginning.
    fn next(&mut self, start: &str) -> Option<String> {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find_map(|line| line.strip_prefix(start).map(str::to_owned))
    }
}

/// Endpoints that are free now.
fn endpoints(count: usize) -> String {
    let held: Vec<_> =
        (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let text: Vec<_> = held.iter().map(|one| one.local_addr().unwrap().to_string()).collect();
    text.join(",")
}

/// Files of shared memory that there are.
fn segments() -> Vec<String> {
    let Ok(folder) = std::fs::read_dir("/dev/shm") else { return Vec::new() };
    let names = folder.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("bireme")).collect()
}

/// Sockets of the job's processes that have a name, which nobody takes away when a process is killed.
fn sockets(endpoints: &str) -> Vec<String> {
    let all = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let ports: Vec<&str> = endpoints.split(',').filter_map(|one| one.rsplit(':').next()).collect();
    let is_ours = |line: &&str| {
        let name = line.split_whitespace().nth(7).unwrap_or("");
        name.contains("bireme") && ports.iter().any(|port| name.contains(port))
    };
    all.lines().filter(is_ours).map(str::to_owned).collect()
}

/// In processes, by either road and with the settings that jobs have: one is killed in the middle of its steps, or its
/// card has too little memory.
#[test]
fn a_process_that_is_killed_or_out_of_memory_is_named() {
    if bireme_emulator::DIR.is_none() {
        return;
    }
    let before = segments();
    for (road, small) in [Road::Host, Road::Nccl].into_iter().flat_map(|r| [(r, false), (r, true)])
    {
        let what = format!("{road:?}, {}", if small { "out of memory" } else { "killed" });
        let endpoints = endpoints(RANKS);
        let start = |rank| Process::start(rank, &endpoints, road, small);
        let mut ranks: Vec<Process> = (0..RANKS).map(start).collect();
        for rank in &mut ranks {
            assert_eq!(rank.next("step ").as_deref(), Some("0"), "{what}");
        }
        let mut start = Instant::now();
        if small {
            let own = ranks[1].next("error ").unwrap();
            start = Instant::now();
            assert!(own.contains("out of memory"), "{what}: {own}");
        } else {
            ranks[1].child.kill().unwrap();
        }
        for (number, rank) in ranks.iter_mut().enumerate() {
            if number != 1 {
                let error = rank.next("error ").unwrap();
                assert!(error.contains("trainer 1 ("), "{what}, rank {number}: {error}");
            }
            rank.child.wait().unwrap();
        }
        let took = start.elapsed();
        println!("{what}: the last process ended {took:?} after the fault");
        assert!(took < BOUND, "{what}: {took:?}");
        assert_eq!(sockets(&endpoints), Vec::<String>::new(), "{what}");
    }
    assert_eq!(segments(), before);
}
