"""Trains one of `models/` with whatever `paddle` is: real Paddle, or Bireme (`python -m bireme`).

First `--prepare` makes weights and data with numpy, seeded; then each run of `--mode static` or
`eager` starts from those weights, and writes its losses, its metric and the rows it predicted as
JSON. `--save` and `--resume` keep and take parameters and optimizer state in Paddle's files (with
`--first` steps of data skipped); `--export` writes an inference model, `--predict` runs one.
"""

import argparse
import importlib
import json
import os
import sys
import zlib

os.environ.setdefault("GLOG_minloglevel", "2")
os.environ.setdefault("FLAGS_enable_pir_api", "0")

import numpy as np
import paddle

BATCH = 32


def main():
    options = parse(sys.argv[1:])
    model = importlib.import_module(f"models.{options.model}")
    if options.prepare:
        return prepare(model, options)
    data = dict(np.load(options.data))
    batches = [
        {name: data[name][step] for name in model.FEEDS}
        for step in range(options.first, options.first + options.steps)
    ]
    if options.mode == "static":
        paddle.enable_static()
    if options.predict:
        predict = predict_static if options.mode == "static" else predict_eager
        result = {"predicted": predict(model, options.predict, batches[0])}
    else:
        result = (train_static if options.mode == "static" else train_eager)(
            model, options, batches
        )
    result["package"] = paddle.__name__
    with open(options.out, "w") as file:
        json.dump(result, file)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--mode", choices=["static", "eager"], default="eager")
    parser.add_argument("--prepare", action="store_true", help="write --weights and --data")
    parser.add_argument("--weights", help="initial weights, .npz")
    parser.add_argument("--data", required=True, help="batches, .npz")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="batches to skip")
    parser.add_argument("--out", help="JSON to write")
    parser.add_argument("--save", help="prefix of the state to save after training")
    parser.add_argument("--resume", help="prefix of the state to start from")
    parser.add_argument("--export", help="prefix of the inference model to save")
    parser.add_argument("--predict", help="prefix of the inference model to run")
    return parser.parse_args(words)


# --- Weights and data -----------------------------------------------------------------------------


def prepare(model, options):
    """Small weights keep every unit alive; the statistics of normalisation stay as they are."""
    random = np.random.default_rng(zlib.crc32(options.model.encode()))
    weights = {}
    for name, tensor in model.Net().state_dict().items():
        value = np.array(tensor)
        if not name.endswith(("_mean", "_variance")):
            fan = value.shape[0] if value.ndim > 1 else 16
            value = random.normal(scale=min(0.3, fan**-0.5), size=value.shape)
        weights[name] = value.astype("float32")
    np.savez(options.weights, **weights)
    batches = [model.batch(random, BATCH) for _ in range(options.steps)]
    data = {
        name: np.stack([batch[name] for batch in batches]).astype(dtype)
        for name, (_, dtype) in model.FEEDS.items()
    }
    np.savez(options.data, **data)


# --- Eager ----------------------------------------------------------------------------------------


def train_eager(model, options, batches):
    net = model.Net()
    optimizer, schedule = model.optimizer(net.parameters())
    if options.resume:
        net.set_state_dict(paddle.load(options.resume + ".pdparams"))
        optimizer.set_state_dict(paddle.load(options.resume + ".pdopt"))
    else:
        weights = np.load(options.weights)
        net.set_state_dict({name: weights[name] for name in net.state_dict()})
    metric = {"auc": paddle.metric.Auc, "accuracy": paddle.metric.Accuracy}.get(model.METRIC)
    metric = metric and metric()
    losses = []
    for batch in batches:
        feeds = {name: paddle.to_tensor(value) for name, value in batch.items()}
        output = net(*model.arguments(feeds))
        loss = model.loss(output, feeds)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if schedule:
            schedule.step()
        losses.append(float(loss))
        if metric:
            observe(metric, *model.judged(output, feeds))
    if options.save:
        paddle.save(net.state_dict(), options.save + ".pdparams")
        paddle.save(optimizer.state_dict(), options.save + ".pdopt")
    net.eval()
    predicted = rows(net(*model.arguments({n: paddle.to_tensor(v) for n, v in batches[0].items()})))
    if options.export:
        paddle.jit.save(net, options.export, input_spec=list(model.arguments(specs(model))))
    return {
        "losses": losses,
        "metric": metric and float(metric.accumulate()),
        "predicted": predicted,
    }


def observe(metric, scores, labels):
    if isinstance(metric, paddle.metric.Auc):
        metric.update(preds=scores.numpy(), labels=labels.numpy())
    else:
        metric.update(metric.compute(scores, labels))


def specs(model):
    return {
        name: paddle.static.InputSpec(shape=shape, dtype=dtype, name=name)
        for name, (shape, dtype) in model.FEEDS.items()
    }


def predict_eager(model, prefix, batch):
    net = paddle.jit.load(prefix)
    net.eval()
    inputs = [paddle.to_tensor(batch[n]) for n in model.FEEDS if n not in model.LABELS]
    return rows(net(*inputs))


# --- Static ---------------------------------------------------------------------------------------


def train_static(model, options, batches):
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        net = model.Net()
        feeds = {
            name: paddle.static.data(name=name, shape=shape, dtype=dtype)
            for name, (shape, dtype) in model.FEEDS.items()
        }
        output = net(*model.arguments(feeds))
        loss = model.loss(output, feeds)
        metric = judge_static(model, output, feeds)
        test = main.clone(for_test=True)
        optimizer, schedule = model.optimizer(None)
        optimizer.minimize(loss)
    place = paddle.CPUPlace()
    executor = paddle.static.Executor(place)
    executor.run(startup)
    if options.resume:
        paddle.static.load(main, options.resume, executor)
        # These files hold what programs do; the schedule is the script's to bring back.
        for _ in range(options.first if schedule else 0):
            schedule.step()
    else:
        assign(net, np.load(options.weights), place)
    losses, judgements = [], []
    for batch in batches:
        found = executor.run(main, feed=batch, fetch_list=[loss, *metric])
        losses.append(scalar(found[0]))
        judgements.append([scalar(value) for value in found[1:]])
        if schedule:
            schedule.step()
    if options.save:
        paddle.static.save(main, options.save)
    outputs = list(output) if isinstance(output, (list, tuple)) else [output]
    predicted = rows(executor.run(test, feed=batches[0], fetch_list=outputs))
    if options.export:
        variables = [feeds[name] for name in feeds if name not in model.LABELS]
        paddle.static.save_inference_model(
            options.export, variables, outputs, executor, program=main
        )
    if model.METRIC == "accuracy":
        # Of each batch alone, while the eager class and the AUC cover all batches so far.
        judgement = float(np.mean(judgements))
    else:
        judgement = judgements[-1][0] if metric else None
    return {"losses": losses, "metric": judgement, "predicted": predicted}


def judge_static(model, output, feeds):
    if model.METRIC == "auc":
        scores, labels = model.judged(output, feeds)
        return [paddle.static.auc(input=scores, label=labels, num_thresholds=4095)[0]]
    if model.METRIC == "accuracy":
        scores, labels = model.judged(output, feeds)
        return [paddle.static.accuracy(input=scores, label=labels)]
    return []


def assign(net, weights, place):
    scope = paddle.static.global_scope()
    for name, variable in net.state_dict().items():
        scope.find_var(variable.name).get_tensor().set(weights[name], place)


def predict_static(model, prefix, batch):
    executor = paddle.static.Executor(paddle.CPUPlace())
    program, names, fetches = paddle.static.load_inference_model(prefix, executor)
    # A traced layer may have named its inputs otherwise, but it keeps their order.
    inputs = [batch[name] for name in model.FEEDS if name not in model.LABELS]
    return rows(executor.run(program, feed=dict(zip(names, inputs)), fetch_list=fetches))


def scalar(value):
    return float(np.asarray(value).reshape(-1)[0])


def rows(outputs):
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return [np.asarray(output, "float64").reshape(-1).tolist() for output in outputs]


if __name__ == "__main__":
    main()
