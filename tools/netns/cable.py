"""A slow cable for kernels without netem: its frames pass through this process, which holds them
back for as long as their length and the way take."""

import fcntl
import heapq
import os
import select
import struct
import threading
import time

TUNSETIFF = 0x400454CA
TAP_WITHOUT_HEADER = 0x1002
# What may wait at the beginning of the cable, in seconds; more is dropped, as by a switch.
QUEUE = 0.4


def open_end(name):
    """A network device whose other side is a file."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), TAP_WITHOUT_HEADER))
    return file


class SlowCable(threading.Thread):
    """Carries frames between two devices, with a delay in seconds and a rate in bits a second."""

    def __init__(self, names, rate, delay):
        super().__init__(daemon=True)
        self.ends = [open_end(name) for name in names]
        self.rate, self.delay = rate, delay
        self.closing = threading.Event()

    def run(self):
        idle = {end: 0.0 for end in self.ends}
        frames, count = [], 0
        while not self.closing.is_set():
            wait = frames[0][0] - time.monotonic() if frames else 0.2
            ready = select.select(self.ends, [], [], min(max(wait, 0), 0.2))[0]
            now = time.monotonic()
            for end in ready:
                frame = os.read(end, 65536)
                if idle[end] - now > QUEUE:
                    continue
                idle[end] = max(idle[end], now) + len(frame) * 8 / self.rate
                count += 1
                to = self.ends[1 - self.ends.index(end)]
                heapq.heappush(frames, (idle[end] + self.delay, count, to, frame))
            while frames and frames[0][0] <= now:
                _, _, to, frame = heapq.heappop(frames)
                try:
                    os.write(to, frame)
                except OSError:
                    # The device is down or full: the frame is lost, as on a real cable.
                    continue
        for end in self.ends:
            os.close(end)

    def close(self):
        self.closing.set()
        self.join()
