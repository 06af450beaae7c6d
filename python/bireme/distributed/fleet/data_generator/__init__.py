"""Programs that turn lines of text into the slot format of `MultiSlot` data feeds."""

from ...._missing import missing_names
from .data_generator import DataGenerator, MultiSlotDataGenerator, MultiSlotStringDataGenerator

__all__ = ["DataGenerator", "MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]

__getattr__ = missing_names(__name__)
