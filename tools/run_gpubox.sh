#!/bin/sh
# GPUBox on one machine: a server with the tables, and a trainer for each card. Run it from the root of
# the checkout; what is set in the environment before counts.
set -e
mkdir -p log

# the cards to train on: "0,1,2,3" are four trainers, each with its card
cards=${FLAGS_selected_gpus:-0}
count=$(echo "$cards" | tr ',' '\n' | grep -c .)

export PADDLE_PSERVER_NUMS=1
export PADDLE_TRAINERS=$count
export PADDLE_TRAINERS_NUM=$count
export POD_IP=127.0.0.1

# another port, if this one is taken; trainers have those after it
port=${PADDLE_PORT:-29011}
export PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:${port}"
endpoints=""
for rank in $(seq "$count"); do
  endpoints="${endpoints:+$endpoints,}127.0.0.1:$((port + rank))"
done
# One trainer has nobody to talk to but the server.
if [ "$count" -gt 1 ]; then export PADDLE_TRAINER_ENDPOINTS="$endpoints"; fi

# the model
SC=${SC:-"tools/static_gpubox_trainer.py -m models/rank/dnn/config_gpubox.yaml"}
python=${PYTHON:-python3}

echo "PADDLE WILL START PSERVER ${port}"
TRAINING_ROLE=PSERVER PADDLE_PORT=$port $python -u $SC "$@" > ./log/pserver.0.log 2>&1 &
processes=$!

rank=0
for card in $(echo "$cards" | tr ',' ' '); do
  echo "PADDLE WILL START Trainer $rank"
  TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=$rank PADDLE_PORT=$((port + rank + 1)) FLAGS_selected_gpus=$card \
    $python -u $SC "$@" > "./log/worker.$rank.log" 2>&1 &
  processes="$processes $!"
  rank=$((rank + 1))
done

# A server ends by itself when its trainers have finished, and all end when one is lost.
status=0
for process in $processes; do
  wait "$process" || status=$?
done
echo "Training log stored in ./log/"
exit $status
