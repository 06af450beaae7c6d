"""Trains a model folder in eager mode: `trainer.py -m config.yaml [-o key=value ...]`."""

import os
import sys

try:
    import bireme.rec
except ModuleNotFoundError:
    # In a checkout the package lies beside this folder.
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
    import bireme.rec  # noqa: F401

from bireme.rec.eager import main_train

if __name__ == "__main__":
    main_train()
