"""Recurrent networks, and single steps of them. `lstm_unit` is not in Paddle 2.6."""

from golden import Case, f32, f64, values

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def rnn(mode, layers=1, bidirectional=False, lengths=None, real=f32, time=3, batch=2, size=3,
        hidden=2, zero=False, **options):
    """A network with small random weights; `zero`: the first states are zeros."""
    passes, rows = layers * (2 if bidirectional else 1), GATES[mode] * hidden
    width = hidden * (2 if bidirectional else 1)
    weights = []
    for i in range(passes):
        first = i < passes // layers
        weights += [real(rows, size if first else width), real(rows, hidden)]
    weights += [real(rows) for _ in range(2 * passes)]
    state = [[[0.0] * hidden] * batch] * passes
    states = [values(state) if zero else real(passes, batch, hidden)
              for _ in range(2 if mode == "LSTM" else 1)]
    inputs = {"Input": real(time, batch, size), "PreState": states, "WeightList": weights}
    if lengths is not None:
        inputs["SequenceLength"] = values(lengths, "int32")
    attrs = {"mode": mode, "input_size": size, "hidden_size": hidden, "num_layers": layers,
             "is_bidirec": bidirectional}
    # How the kernel keeps what its gradient needs is its own affair.
    return Case("rnn", inputs, attrs,
                outputs=["Out", ("State", len(states)), "Reserve", "DropoutState"],
                check=["Out", "State"], targets=["Out", "State"], **options)


def ragged(op, gates, hidden=3, lengths=(2, 4, 1, 2), first=(), bias=3, attrs=None, real=f32):
    """A network over sequences of these lengths."""
    rows = sum(lengths)
    offsets = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    inputs = {"Input": real(rows, gates * hidden, lod=[offsets]),
              "Weight": real(hidden, gates * hidden)}
    if bias:
        inputs["Bias"] = real(1, bias * hidden)
    inputs.update({slot: real(len(lengths), hidden) for slot in first})
    outputs = {"gru": ["Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"],
               "lstm": ["Hidden", "Cell", "BatchGate", "BatchCellPreAct"]}[op]
    # What is kept for the gradient lies in an order of its own. Paddle leaves out what the cells of
    # an LSTM count in the loss; a test beside the op compares finite differences.
    checked = [slot for slot in outputs if not slot.startswith("Batch")]
    return Case(op, inputs, attrs, outputs=outputs, check=checked, targets=["Hidden"])


CASES = [
    *(rnn(mode) for mode in GATES),
    rnn("LSTM", layers=2, bidirectional=True),
    rnn("GRU", layers=2, bidirectional=True),
    rnn("RNN_TANH", layers=2),
    rnn("RNN_RELU", bidirectional=True),
    *(rnn(mode, lengths=[1, 3]) for mode in GATES),
    # Backwards from the end of a shorter sequence, Paddle's gradients are right for first states of
    # zero only. Ours are for others too: a test beside the op compares finite differences.
    *(rnn(mode, bidirectional=True, lengths=[1, 3], zero=True) for mode in GATES),
    rnn("LSTM", layers=2, lengths=[3, 2, 1], batch=3),
    *(rnn(mode, bidirectional=True, lengths=[1, 3], grad=[]) for mode in GATES),
    rnn("GRU", layers=3, lengths=[2, 4], time=4),
    rnn("LSTM", time=1, batch=1, size=1, hidden=1),
    rnn("GRU", real=f64),
    Case("gru_unit", {"Input": f32(2, 9), "HiddenPrev": f32(2, 3), "Weight": f32(3, 9),
                      "Bias": f32(1, 9)}, outputs=["Gate", "ResetHiddenPrev", "Hidden"]),
    Case("gru_unit", {"Input": f32(4, 6), "HiddenPrev": f32(4, 2), "Weight": f32(2, 6)},
         {"origin_mode": True}, outputs=["Gate", "ResetHiddenPrev", "Hidden"]),
    Case("gru_unit", {"Input": f32(2, 6, low=0.5), "HiddenPrev": f32(2, 2, low=0.1),
                      "Weight": f32(2, 6, low=0.1), "Bias": f32(1, 6, low=0.1)},
         {"activation": 3, "gate_activation": 2},
         outputs=["Gate", "ResetHiddenPrev", "Hidden"]),
    Case("gru_unit", {"Input": f32(2, 6), "HiddenPrev": f32(2, 2), "Weight": f32(2, 6),
                      "Bias": f32(1, 6)},
         {"activation": 0, "gate_activation": 1, "origin_mode": True},
         outputs=["Gate", "ResetHiddenPrev", "Hidden"]),
    *(ragged("gru", 3, **options) for options in (
        {}, {"first": ["H0"]}, {"attrs": {"is_reverse": True}, "first": ["H0"]},
        {"attrs": {"origin_mode": True}, "bias": None},
        {"attrs": {"activation": "sigmoid", "gate_activation": "tanh"}, "real": f64})),
    *(ragged("lstm", 4, **options) for options in (
        {"bias": 7}, {"bias": 7, "first": ["H0", "C0"]},
        {"bias": 7, "attrs": {"is_reverse": True}, "first": ["H0", "C0"]},
        {"bias": 4, "attrs": {"use_peepholes": False}},
        {"bias": 7, "attrs": {"gate_activation": "tanh", "cell_activation": "sigmoid",
                              "candidate_activation": "identity"}, "real": f64})),
]
