"""MMoE: experts mixed by one gate for each of two tasks; a decaying rate, a global clip."""

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

FEATURES, EXPERTS, EXPERT_SIZE, TOWER_SIZE, TASKS = 32, 4, 12, 8, 2
FEEDS = {
    "input": ([None, FEATURES], "float32"),
    "label_income": ([None, 1], "int64"),
    "label_marital": ([None, 1], "int64"),
}
LABELS = ["label_income", "label_marital"]
METRIC = "auc"


def batch(random, size):
    x = random.normal(size=(size, FEATURES))
    income = (x[:, :8].sum(axis=1, keepdims=True) > 0.5) * 1
    marital = (x[:, 4:12].sum(axis=1, keepdims=True) > 0) * 1
    return {"input": x, "label_income": income, "label_marital": marital}


def uniform():
    bound = (6.0 / FEATURES) ** 0.5
    return paddle.ParamAttr(initializer=nn.initializer.Uniform(low=-bound, high=bound))


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        constant = paddle.ParamAttr(initializer=nn.initializer.Constant(value=0.1))
        self.experts, self.gates, self.towers, self.heads = [], [], [], []
        for i in range(EXPERTS):
            expert = nn.Linear(FEATURES, EXPERT_SIZE, uniform(), constant, name=f"expert_{i}")
            self.experts.append(self.add_sublayer(f"expert_{i}", expert))
        for i in range(TASKS):
            gate = nn.Linear(FEATURES, EXPERTS, weight_attr=uniform(), bias_attr=False)
            tower = nn.Linear(EXPERT_SIZE, TOWER_SIZE, weight_attr=uniform())
            head = nn.Linear(TOWER_SIZE, 2, weight_attr=uniform(), bias_attr=constant)
            self.gates.append(self.add_sublayer(f"gate_{i}", gate))
            self.towers.append(self.add_sublayer(f"tower_{i}", tower))
            self.heads.append(self.add_sublayer(f"head_{i}", head))

    def forward(self, x):
        experts = paddle.concat([F.relu(expert(x)) for expert in self.experts], axis=1)
        experts = paddle.reshape(experts, [-1, EXPERTS, EXPERT_SIZE])
        outputs = []
        for gate, tower, head in zip(self.gates, self.towers, self.heads):
            weight = F.softmax(gate(x))
            weight = paddle.reshape(weight, [-1, EXPERTS, 1])
            mixed = paddle.sum(x=paddle.multiply(x=experts, y=weight), axis=1)
            out = F.softmax(head(F.relu(tower(mixed))))
            outputs.append(paddle.clip(out, min=1e-15, max=1.0 - 1e-15))
        return outputs


def arguments(feeds):
    return (feeds["input"],)


def loss(output, feeds):
    income, marital = output
    columns = [paddle.slice(out, axes=[1], starts=[1], ends=[2]) for out in (income, marital)]
    labels = [paddle.cast(feeds[name], "float32") for name in LABELS]
    costs = [F.log_loss(input=column, label=y) for column, y in zip(columns, labels)]
    return paddle.mean(paddle.add(x=costs[0], y=costs[1]))


def judged(output, feeds):
    return output[0], feeds["label_income"]


def optimizer(parameters):
    rate = paddle.optimizer.lr.ExponentialDecay(learning_rate=0.005, gamma=0.97)
    clip = nn.ClipGradByGlobalNorm(clip_norm=0.5)
    return paddle.optimizer.Adam(learning_rate=rate, parameters=parameters, grad_clip=clip), rate
