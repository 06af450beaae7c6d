"""Trains on data that comes in passes: `static_ps_online_trainer.py -m config.yaml`."""

import os
import sys

try:
    import bireme.rec
except ModuleNotFoundError:
    # In a checkout the package lies beside this folder.
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
    import bireme.rec  # noqa: F401

from bireme.rec.online import main

if __name__ == "__main__":
    main()
