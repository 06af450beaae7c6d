"""Runs golden cases under real Paddle 2.6.2 and writes crates/engine/tests/golden/<family>.json.

Usage: python generate.py [family...]     (default: every file in cases/)
"""

import collections
import importlib.util
import json
import math
import os
import pathlib
import re
import sys

os.environ.setdefault("GLOG_minloglevel", "2")
os.environ.setdefault("FLAGS_call_stack_level", "0")

import numpy as np
import paddle
from paddle.base import core, framework
from paddle.base.proto import framework_pb2 as proto

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "crates/engine/tests/golden"
PLACE = paddle.CPUPlace()
FLOATS = ("float16", "float32", "float64")
SELECTED_ROWS = core.VarDesc.VarType.SELECTED_ROWS


# --- Values as JSON ------------------------------------------------------------------------------

def number(value):
    """A JSON number that reads back exactly; JSON has no infinities."""
    if isinstance(value, (np.bool_, bool)):
        return int(value)
    if isinstance(value, (np.integer, int)):
        return int(value)
    # The shortest decimal that names this value in its own precision.
    value = float(str(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value or 0


def tensor_json(array, lod=(), rows=None, height=None):
    item = {"dtype": str(array.dtype), "shape": list(array.shape),
            "data": [number(value) for value in array.reshape(-1)]}
    if lod:
        item["lod"] = [list(level) for level in lod]
    if rows is not None:
        item["rows"], item["height"] = list(rows), height
    return item


def read(scope, var):
    """What `var` holds after the run, or None when nothing was written."""
    found = scope.find_var(var.name)
    if found is None:
        return None
    if var.type == SELECTED_ROWS:
        selected = found.get_selected_rows()
        array = np.array(selected.get_tensor())
        return tensor_json(array, (), list(selected.rows()), selected.height())
    tensor = found.get_tensor()
    # An output that is only a shape (`XShape`) is never allocated.
    if not tensor._is_initialized():
        dims = tensor.shape()
        only_shape = len(dims) > 1 and 0 in dims
        return tensor_json(np.zeros(dims, "float32"), tensor.lod()) if only_shape else None
    return tensor_json(np.array(tensor), tensor.lod())


ATTR_FIELDS = {"INT": "i", "FLOAT": "f", "STRING": "s", "INTS": "ints", "FLOATS": "floats",
               "STRINGS": "strings", "BOOLEAN": "b", "BOOLEANS": "bools", "LONG": "l",
               "LONGS": "longs", "FLOAT64": "float64", "FLOAT64S": "float64s"}
ATTR_KINDS = {"BOOLEAN": "bool", "BOOLEANS": "bools"}


def scalar_json(scalar):
    kind = proto.Scalar.Type.Name(scalar.type)
    name, field = {"BOOLEAN": ("bool", "b"), "LONG": ("long", "i"),
                   "FLOAT64": ("float64", "r")}[kind]
    return {name: plain(getattr(scalar, field))}


def plain(value):
    if isinstance(value, (str, bool)):
        return value
    return number(value)


def attr_json(attr):
    """`{kind: value}` as the program really holds it."""
    kind = proto.AttrType.Name(attr.type)
    if kind == "SCALAR":
        return {"scalar": scalar_json(attr.scalar)}
    if kind == "SCALARS":
        return {"scalars": [scalar_json(scalar) for scalar in attr.scalars]}
    value = getattr(attr, ATTR_FIELDS[kind])
    single = np.float32 if kind in ("FLOAT", "FLOATS") else (lambda value: value)
    if kind.endswith("S"):
        value = [plain(single(item)) for item in value]
    else:
        value = plain(single(value))
    return {ATTR_KINDS.get(kind, kind.lower()): value}


# --- Running a case ------------------------------------------------------------------------------

class Built:
    """The program of one case, and the scope that its inputs are in."""

    def __init__(self, case, number):
        self.case, self.rng = case, case.rng(number)
        self.program, self.scope = paddle.static.Program(), core.Scope()
        self.block = self.program.global_block()
        self.inputs = {slot: [self.add_input(f"in.{slot}.{i}", slot, spec)
                              for i, spec in enumerate(specs)]
                       for slot, specs in case.inputs.items()}
        self.input_json = {slot: [item[1] for item in items] for slot, items in self.inputs.items()}
        self.inputs = {slot: [item[0] for item in items] for slot, items in self.inputs.items()}
        self.outputs = {slot: self.add_outputs(slot, how) for slot, how in case.outputs.items()}
        self.op = self.block.append_op(
            type=case.op, inputs=self.inputs, outputs=self.outputs, attrs=dict(case.attrs))

    def add_input(self, name, slot, spec):
        array = spec.array(self.rng)
        wanted = self.case.grad is None or slot in self.case.grad
        # Persistable variables live in the scope itself, where they can be set and read.
        var = self.block.create_var(
            name=name, shape=array.shape, dtype=spec.dtype, persistable=True,
            lod_level=len(spec.lod) or None,
            stop_gradient=not (wanted and spec.dtype in FLOATS))
        if spec.rows is not None:
            var.desc.set_type(SELECTED_ROWS)
            var.desc.set_shape([spec.height, *array.shape[1:]])
            selected = self.scope.var(name).get_selected_rows()
            selected.set_height(spec.height)
            selected.set_rows(spec.rows)
            selected.get_tensor().set(array, PLACE)
        else:
            self.set(name, array, spec.lod)
        return var, tensor_json(array, spec.lod, spec.rows, spec.height)

    def set(self, name, array, lod):
        tensor = self.scope.var(name).get_tensor()
        tensor.set(array, PLACE)
        if lod:
            tensor.set_lod(lod)
            assert tensor.has_valid_recursive_sequence_lengths(), f"bad LoD {lod} of {name}"

    def add_outputs(self, slot, how):
        if isinstance(how, str):
            return self.inputs[how]
        kind = SELECTED_ROWS if slot in self.case.rows_out else core.VarDesc.VarType.LOD_TENSOR
        return [self.block.create_var(name=f"out.{slot}.{i}", type=kind, persistable=True)
                for i in range(how)]

    def run(self):
        with paddle.static.scope_guard(self.scope):
            paddle.static.Executor(PLACE).run(self.program, scope=self.scope)

    def read_outputs(self):
        return {slot: [read(self.scope, var) for var in vars]
                for slot, vars in self.outputs.items()}


def target_slots(case):
    """Output slots that get a gradient: those that are results, not by-products of the kernel."""
    if case.targets is not None:
        return case.targets
    outputs = framework.OpProtoHolder.instance().get_op_proto(case.op).outputs
    return [out.name for out in outputs
            if isinstance(case.outputs.get(out.name), int) and not out.intermediate
            and not out.extra]


def add_gradients(built, forward):
    """Appends gradient ops; returns target gradients as JSON, and gradient variables."""
    case, targets, given, target_json = built.case, [], [], {}
    for slot in target_slots(case):
        target_json[slot] = []
        for i, (var, out) in enumerate(zip(built.outputs[slot], forward[slot])):
            if out is None or out["dtype"] not in FLOATS or not out["data"] or "rows" in out:
                target_json[slot].append(None)
                continue
            array = built.rng.uniform(-1, 1, out["shape"]).round(4).astype(out["dtype"])
            grad = built.block.create_var(
                name=f"target.{slot}.{i}", shape=var.shape, dtype=var.dtype, persistable=True,
                lod_level=var.lod_level, stop_gradient=True)
            built.set(grad.name, array, out.get("lod", []))
            targets.append(var)
            given.append(grad)
            target_json[slot].append(tensor_json(array, out.get("lod", [])))
    wanted = {slot: [var for var in vars if not var.stop_gradient]
              for slot, vars in built.inputs.items()}
    flat = [var for vars in wanted.values() for var in vars]
    if not targets or not flat:
        return target_json, {}
    with paddle.static.program_guard(built.program):
        found = paddle.static.gradients(targets, flat, target_gradients=given)
    # Paddle ignores gradients of some outputs (softmax beside its loss); so must the harness.
    used = {name for op in built.block.ops for name in op.input_arg_names}
    for slot, items in target_json.items():
        target_json[slot] = [item if f"target.{slot}.{i}" in used else None
                             for i, item in enumerate(items)]
    by_name = {}
    for var, grad in zip(flat, found):
        if grad is not None:
            grad.persistable = True
            by_name[var.name] = grad
    return target_json, by_name


def run_case(case, index):
    built = Built(case, index)
    built.run()
    outputs = built.read_outputs()
    result = {"op": case.op, "case": index, "attrs": given_attrs(built), "inputs": built.input_json}
    same = {slot: how for slot, how in case.outputs.items() if isinstance(how, str)}
    if same:
        result["same"] = same
    wants = not same if case.grad is None else case.grad
    if wants and core.has_grad_op_maker(case.op):
        # A fresh program: output shapes, hence those of the targets, are known only by now.
        built = Built(case, index)
        targets, grads = add_gradients(built, outputs)
        if grads:
            built.run()
            outputs = built.read_outputs()
            read_grads = lambda vars: [read(built.scope, grads[var.name])
                                       if var.name in grads else None for var in vars]
            expected = {slot: read_grads(vars) for slot, vars in built.inputs.items()}
            expected = {slot: items for slot, items in expected.items() if any(items)}
            result["targets"], result["grads"] = targets, expected
    missing = set(case.grad or []) - set(result.get("grads", {}))
    if missing:
        raise ValueError(f"Paddle computes no gradient of {sorted(missing)}")
    result["outputs"] = {slot: items if slot in case.check else [None] * len(items)
                         for slot, items in outputs.items()}
    if not case.fd:
        result["fd"] = False
    for name in ("rtol", "atol"):
        if getattr(case, name) is not None:
            result[name] = getattr(case, name)
    return result


def given_attrs(built):
    desc = proto.OpDesc.FromString(built.op.desc.serialize_to_string())
    return {attr.name: attr_json(attr) for attr in desc.attrs if attr.name in built.case.attrs}


def load(family):
    # Not by name: `math` and others would find the standard library's modules.
    spec = importlib.util.spec_from_file_location(f"cases_{family}", HERE / f"cases/{family}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def attempt(case, index):
    """The case as a line of JSON, or None and what went wrong."""
    try:
        return json.dumps(run_case(case, index), separators=(",", ":")), None
    except Exception as error:  # noqa: BLE001 - any failure of Paddle is reported with its case
        # Paddle puts its C++ and Python stacks before what it has to say.
        text = " ".join(re.split(r"\n\s*(?=\w+Error: )", str(error))[-1].split())
        return None, f"{type(error).__name__}: {text[-600:]}"


def isolated(case, index):
    """`attempt` in a process of its own: Paddle crashes on some wrong programs."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        with os.fdopen(send, "w") as out:
            json.dump(attempt(case, index), out)
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else (None, "Paddle crashed")


def run_family(family):
    """Writes the family's file; returns how many of its cases failed."""
    counts, lines, failed = collections.Counter(), [], 0
    for case in load(family).CASES:
        index = counts[case.op]
        counts[case.op] += 1
        line, problem = isolated(case, index)
        if line:
            lines.append(line)
        else:
            print(f"{family}: {case.op} case {index}: {problem}", flush=True)
            failed += 1
    (TARGET / f"{family}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{family}: {len(lines)} cases" + (f", {failed} FAILED" if failed else ""), flush=True)
    return failed


def main():
    paddle.enable_static()
    paddle.seed(1)
    TARGET.mkdir(parents=True, exist_ok=True)
    every = sorted(path.stem for path in (HERE / "cases").glob("*.py"))
    return 1 if sum(run_family(family) for family in sys.argv[1:] or every) else 0


if __name__ == "__main__":
    sys.exit(main())
