"""What importing costs beyond bare Python, as a ratio of two imports measured in turn in fresh processes."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np


def seconds_of(code: str) -> float:
    """Wall seconds of a fresh interpreter that runs `code`."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def import_ratio(code: str, baseline: str, *, rounds: int = 21, seed: int = 0) -> tuple[float, float, float, int]:
    """(t(code) - t(bare)) / (t(baseline) - t(bare)): ratio of medians, with a 95 % bootstrap interval over rounds."""
    for each in ("pass", code, baseline):
        seconds_of(each)  # warm the disk cache
    times = np.array([[seconds_of("pass"), seconds_of(code), seconds_of(baseline)] for _ in range(rounds)])

    def ratio(sample: np.ndarray) -> float:
        bare, ours, theirs = np.median(sample, axis=0)
        return float((ours - bare) / (theirs - bare))

    rng = np.random.default_rng(seed)
    draws = [ratio(times[rng.integers(0, rounds, rounds)]) for _ in range(2000)]
    low, high = np.percentile(draws, [2.5, 97.5])
    return ratio(times), float(low), float(high), rounds
