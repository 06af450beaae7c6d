#!/bin/bash
#SBATCH --job-name=ctr
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=8192M
#SBATCH --time=02:00:00
#SBATCH --partition=cpu
#SBATCH --account=ads
#SBATCH --output=ctr-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60
#SBATCH --requeue

set -euo pipefail
nodes=2

# What the processes prove to each other that they know.
BIREME_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export BIREME_JOB_SECRET
export SYS_JOB_ID=ctr-"$SLURM_JOB_ID"
export FLAGS_rpc_deadline=60000
export NOTE='yes: "$(HOME)"'
cd /workspace

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

# --kill-on-bad-exit: a node that failed ends the others.
# shellcheck disable=SC2016 # the task's shell knows its node
srun --kill-on-bad-exit=1 --ntasks-per-node=1 --nodes="$nodes" --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    bash -c 'exec fleetrun --log_dir="log/$SLURM_JOB_ID/node$SLURM_NODEID" --rank="$SLURM_NODEID" "$@"' fleetrun \
    --job_id=ctr --max_restart=3 \
    --nproc_per_node=4 \
    --master="${addresses[0]}:$port" \
    --nnodes=2 \
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
