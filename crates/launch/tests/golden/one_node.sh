#!/bin/bash
#SBATCH --job-name=ctr
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --output=ctr-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60
#SBATCH --no-requeue

set -euo pipefail
nodes=1

# What the processes prove to each other that they know.
BIREME_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export BIREME_JOB_SECRET
export SYS_JOB_ID=ctr-"$SLURM_JOB_ID"

# --kill-on-bad-exit: a node that failed ends the others.
# shellcheck disable=SC2016 # the task's shell knows its node
srun --kill-on-bad-exit=1 --ntasks-per-node=1 --nodes="$nodes" \
    bash -c 'exec fleetrun --log_dir="log/$SLURM_JOB_ID/node$SLURM_NODEID" "$@"' fleetrun \
    --job_id=ctr --max_restart=0 \
    --nproc_per_node=8 \
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
