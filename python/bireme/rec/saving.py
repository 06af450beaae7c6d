"""What an epoch leaves behind, in PaddleRec's places."""

from __future__ import annotations

import os
from typing import Any

from .config import Config
from .log import logger


def save_eager(layer: Any, optimizer: Any, folder: str, epoch: int) -> None:
    """`FOLDER/EPOCH/rec.pdparams` and `rec.pdopt`."""
    from ..framework import save

    folder = _epoch_folder(folder, epoch)
    save(layer.state_dict(), os.path.join(folder, "rec.pdparams"))
    save(optimizer.state_dict(), os.path.join(folder, "rec.pdopt"))
    logger.info(f"Already save model in {folder}")


def load_eager(folder: str, layer: Any) -> None:
    """The parameters of `save_eager`."""
    from ..framework import load

    logger.info(f"start load model from {folder}")
    layer.set_state_dict(load(os.path.join(folder, "rec.pdparams")))


def save_static(program: Any, folder: str, epoch: int) -> None:
    """`FOLDER/EPOCH/rec_static.{pdparams,pdopt,pdmodel}`."""
    from ..static import save

    folder = _epoch_folder(folder, epoch)
    save(program, os.path.join(folder, "rec_static"))
    logger.info(f"Already save model in {folder}")


def load_static(program: Any, folder: str, executor: Any = None) -> None:
    """What `save_static` saved, as far as the program has it."""
    from ..static import load

    logger.info(f"start load model from {folder}")
    load(program, os.path.join(folder, "rec_static"), executor)


def save_inference(config: Config, program: Any, folder: str, epoch: int, executor: Any) -> None:
    """`FOLDER/EPOCH/rec_inference.{pdmodel,pdiparams}`, where the config asks for it."""
    from ..static import save_inference_model

    if not config.get("runner.use_inference", False):
        return
    feeds = _variables(program, config.get("runner.save_inference_feed_varnames", []), "Feed")
    fetches = _variables(program, config.get("runner.save_inference_fetch_varnames", []), "Fetch")
    prefix = os.path.join(_epoch_folder(folder, epoch), "rec_inference")
    save_inference_model(prefix, feeds, fetches, executor, program=program)


def _variables(program: Any, names: list[str], what: str) -> list[Any]:
    known = program.global_block().vars
    for name in names:
        if name not in known:
            raise ValueError(
                f"{what} variable: {name} not in default_main_program, global block has follow"
                f" vars: {list(known)}"
            )
    return [known[name] for name in names]


def _epoch_folder(folder: str, epoch: int) -> str:
    folder = os.path.join(folder, str(epoch))
    os.makedirs(folder, exist_ok=True)
    return folder
