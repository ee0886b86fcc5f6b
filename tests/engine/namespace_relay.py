"""A port of this machine in a network namespace, which has none of its own.

A process there reaches nothing but its own loopback device. What connects to it on a port is passed
on to a socket in the file system, where somebody of another namespace listens.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import suppress
from pathlib import Path
from threading import Thread

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # (Linux: netdevice(7))


def pass_on(port: int, path: Path) -> None:
    """Passes what connects to a port of 127.0.0.1 on to a socket, in threads of this process."""
    _raise_device()
    listener = socket.create_server(("127.0.0.1", port))
    Thread(target=_accept, args=(listener, path), daemon=True).start()


def _raise_device() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(control, _GET_FLAGS, request))
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def _accept(listener: socket.socket, path: Path) -> None:
    while True:
        near, _ = listener.accept()
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(str(path))
        except OSError:  # its server is being restarted: whoever asks connects again
            near.close()
            far.close()
            continue
        for one, other in ((near, far), (far, near)):
            Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    # The sockets are closed when both directions have ended and nobody has them any more.
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one, way in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with suppress(OSError):
            one.shutdown(way)
