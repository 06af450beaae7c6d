#!/bin/bash
#SBATCH --job-name=ctr
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --output=ctr-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60
#SBATCH --no-requeue

set -euo pipefail
nodes=2

# What the processes prove to each other that they know.
BIREME_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export BIREME_JOB_SECRET
export SYS_JOB_ID=ctr-"$SLURM_JOB_ID"

# Jobs on the same node at the same time have numbers near each other.
port=$(( 10000 + (SLURM_JOB_ID % 200) * 100 ))

# The nodes, by addresses that all of them can reach.
address() {
    local found
    found=$(getent ahostsv4 "$1" | awk '$1 !~ /^127\./ { print $1; exit }')
    if [[ -z "$found" && "$1" == "${SLURMD_NODENAME:-}" ]]; then
        found=$(hostname -I | awk '{ print $1 }')
    fi
    if [[ -z "$found" ]]; then
        echo "error: no address of node $1 is known here" >&2
        return 1
    fi
    echo "$found"
}
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
if (( ${#hosts[@]} != nodes )); then
    echo "error: the job needs $nodes nodes, but Slurm gave ${#hosts[@]}" >&2
    exit 1
fi
addresses=()
for host in "${hosts[@]}"; do
    found=$(address "$host")
    addresses+=("$found")
done

# Servers and workers go round the nodes.
servers='' workers=''
for (( i = 0; i < 2; i++ )); do
    servers+="${servers:+,}${addresses[i % nodes]}:$(( port + i ))"
done
for (( i = 0; i < 3; i++ )); do
    workers+="${workers:+,}${addresses[i % nodes]}:$(( port + 2 + i ))"
done

# --kill-on-bad-exit: a node that failed ends the others.
# shellcheck disable=SC2016 # the task's shell knows its node
srun --kill-on-bad-exit=1 --ntasks-per-node=1 --nodes="$nodes" \
    bash -c 'exec fleetrun --log_dir="log/$SLURM_JOB_ID/node$SLURM_NODEID" "$@"' fleetrun \
    --job_id=ctr --max_restart=0 \
    --servers="$servers" \
    --workers="$workers" \
    train.py --epochs 3 '$(HOME)/it'\''s' &
step=$!

# srun hands signals on to every fleetrun, which ends its processes; Slurm sends TERM a minute
# before the time is up, `scancel --batch --signal=TERM` does it by hand.
trap 'signalled=1; kill -TERM "$step" 2>/dev/null || true' TERM INT
signalled=1
while (( signalled )); do
    # A signal ends the wait, but not the step.
    signalled=0 status=0
    wait "$step" || status=$?
done
exit "$status"
