"""Stands for `paddle` in processes started by a script that runs under Bireme.

Found through `PYTHONPATH` (see `bireme/_alias.py`); replaces itself with Bireme when imported.
"""

import os
import sys

try:
    import bireme
except ModuleNotFoundError:
    # The starting process found Bireme in a way that it did not hand down.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    import bireme

if not bireme.install_alias():
    raise ModuleNotFoundError("No module named 'paddle' (`BIREME_ALIAS` is 0)", name="paddle")
sys.modules["paddle"] = bireme
