"""Asks real Paddle for the values that the tests of the Python front compare with.

Run with a Python that has paddlepaddle 2.6.2: `python tools/paddle_values.py [family...]`.
"""

import json
import pathlib
import sys

import paddle

TESTS = pathlib.Path(__file__).parent.parent / "python" / "tests"
sys.path.insert(0, str(TESTS))

import training_cases
import value_cases


def rounded(array):
    """Seven digits are more than float32 holds, and keep the files small."""
    flat = array.ravel().tolist()
    values = [float(f"{v:.7g}") if isinstance(v, float) else v for v in flat]
    return {"shape": list(array.shape), "values": values}


def write_trainings():
    """Small trainings, one line each."""
    results = training_cases.run_all(paddle)
    lines = []
    for family, named in results.items():
        inner = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in named.items()]
        lines.append(f"{json.dumps(family)}: {{\n" + ",\n".join(inner) + "\n}")
    path = TESTS / "data" / "trainings.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{path.name}: {sum(map(len, results.values()))} cases")


def main(families):
    if not families or "trainings" in families:
        write_trainings()
    for family in families or value_cases.CASES:
        if family == "trainings":
            continue
        stored = {}
        for expression in value_cases.CASES[family]:
            try:
                result = value_cases.evaluate(paddle, expression)
            except Exception as error:  # noqa: BLE001 (any: what Paddle refuses is listed)
                print(
                    f"{expression}: {type(error).__name__}: {str(error).strip().splitlines()[-1]}"
                )
                continue
            stored[expression] = {"dtype": result["dtype"], "out": rounded(result["out"])}
            if "grads" in result:
                stored[expression]["grads"] = {k: rounded(v) for k, v in result["grads"].items()}
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in stored.items()]
        path = TESTS / "data" / f"values_{family}.json"
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{path.name}: {len(stored)} cases")


if __name__ == "__main__":
    main(sys.argv[1:])
