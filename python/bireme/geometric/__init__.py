"""Messages along the edges of graphs: `paddle.geometric`."""

from .._missing import missing_names
from .message_passing import send_u_recv, send_ue_recv, send_uv
from .segment import segment_max, segment_mean, segment_min, segment_sum

__all__ = [
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_sum",
    "send_u_recv",
    "send_ue_recv",
    "send_uv",
]

__getattr__ = missing_names(__name__)
