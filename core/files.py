"""Reading files that somebody else named: a device never ends, and a pipe that nobody writes to never begins."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_named(path: str | os.PathLike[str], *, largest: int | None = None, pipes: bool = False) -> bytes:
    """The bytes of a regular file.

    Args:
        largest: refuse a file of more bytes.
        pipes: read pipes too, as in `--data <(zcat rows.gz)` and `/dev/stdin`.

    Raises:
        OSError: no such file, a folder or device, or too large.
    """
    file = Path(path)
    try:
        mode = file.stat().st_mode
    except ValueError as error:  # a NUL character in the name
        raise OSError(errno.EINVAL, str(error), str(file)) from error
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    with file.open("rb") as opened:
        data = opened.read() if largest is None else opened.read(largest + 1)
    if largest is not None and len(data) > largest:
        raise OSError(errno.EFBIG, f"over {largest} bytes", str(file))
    return data
