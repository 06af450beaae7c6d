#!/bin/bash
# GPUBox on one machine: a server with the tables, and a trainer with the card. Run it from the root of
# the checkout; what is set in the environment before counts.
set -e
mkdir -p log

export PADDLE_TRAINER_ID=0
export PADDLE_PSERVER_NUMS=1
export PADDLE_TRAINERS=1
export PADDLE_TRAINERS_NUM=${PADDLE_TRAINERS}
export POD_IP=127.0.0.1

# another port, if this one is taken
port=${PADDLE_PORT:-29011}
export PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:${port}"
export PADDLE_PORT=${port}

# the card to train on
export FLAGS_selected_gpus=${FLAGS_selected_gpus:-0}

# the model
SC=${SC:-"tools/static_gpubox_trainer.py -m models/rank/dnn/config_gpubox.yaml"}
python=${PYTHON:-python3}

echo "PADDLE WILL START PSERVER ${port}"
TRAINING_ROLE=PSERVER $python -u $SC "$@" &> ./log/pserver.0.log &
server=$!

echo "PADDLE WILL START Trainer 0"
status=0
TRAINING_ROLE=TRAINER $python -u $SC "$@" &> ./log/worker.0.log || status=$?
# A server ends by itself when its trainer has finished, or is lost.
wait "$server" || status=$?
echo "Training log stored in ./log/"
exit $status
