"""Trains a model folder in GPUBox, as tools/run_gpubox.sh starts it: `static_gpubox_trainer.py -m config.yaml [-o key=value ...]`."""

import os
import sys

try:
    import bireme.rec
except ModuleNotFoundError:
    # In a checkout the package lies beside this folder.
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
    import bireme.rec  # noqa: F401

from bireme.rec.gpubox import main

if __name__ == "__main__":
    main()
