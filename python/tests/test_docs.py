"""The Python examples of the documentation run as they are written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    (page, number, code)
    for page in ("README.md", "docs/api.md")
    for number, code in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize(
    "code", [code for _, _, code in EXAMPLES], ids=[f"{page}-{n}" for page, n, _ in EXAMPLES]
)
def test_an_example_runs(code, tmp_path):
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
