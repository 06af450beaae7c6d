"""Starts the ranks of a collective job on the loopback."""

from running_jobs import JOB_SECONDS, Job, free_ports


def environments(ports):
    """The environments of the ranks, by name: `rank 0` and so on."""
    endpoints = [f"127.0.0.1:{port}" for port in ports]
    made = {}
    for rank, endpoint in enumerate(endpoints):
        made[f"rank {rank}"] = {
            "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINERS_NUM": str(len(ports)),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_CURRENT_ENDPOINT": endpoint,
        }
    return made


def run_ranks(folder, script, count, options=None, seconds=JOB_SECONDS):
    """Runs a script in `count` ranks; returns how they ended and what they printed."""
    options = {name: str(value) for name, value in (options or {}).items()}
    with Job(folder) as job:
        for name, environment in environments(free_ports(count)).items():
            job.start(name, script, {**environment, **options})
        ended = job.ends(seconds)
        return ended, {name: job.output(name) for name in ended}


def run_well(folder, script, count, options=None, seconds=JOB_SECONDS):
    """As `run_ranks`; all must end with 0. Returns the outputs in the order of ranks."""
    ended, outputs = run_ranks(folder, script, count, options, seconds)
    said = "\n".join(f"--- {name}\n{output}" for name, output in outputs.items())
    assert not any(ended.values()), f"{ended}\n{said}"
    return list(outputs.values())
