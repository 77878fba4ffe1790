"""Which process works on a run, and whether it is still alive."""

from __future__ import annotations

import os
import socket

import psutil

# Start times are read off clocks that differ by ticks between readers; a process number is not reused this fast.
_TOLERANCE_SECONDS = 1.0


def this_process() -> str:
    """This process as "host/pid/start time", such as `web-3/4711/1767225600.25`; differs after a fork."""
    pid = os.getpid()
    return f"{_host()}/{pid}/{psutil.Process(pid).create_time():.2f}"


def is_alive(owner: str) -> bool | None:
    """True or False for a process of this machine; None for one elsewhere, of which nothing can be said from here."""
    parts = owner.split("/")
    if len(parts) != 3 or parts[0] != _host():
        return None
    try:
        pid, started = int(parts[1]), float(parts[2])
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) <= _TOLERANCE_SECONDS
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
    except ValueError:
        return None


def _host() -> str:
    return socket.gethostname().replace("/", "_")[:200]
