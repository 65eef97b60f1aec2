"""Numbers as text for people: counts, bytes, durations."""

from __future__ import annotations

import math


def counted(value: float) -> str:
    """1234567 as `1.235M`; whole numbers below 10,000 in full."""
    for suffix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= max(size, 1e4):
            return f"{value / size:.4g}{suffix}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.4g}"


def sized(value: float) -> str:
    """Bytes in the unit that suits."""
    for unit in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def lasted(seconds: float) -> str:
    """`0.42 s`, `12.3 s`, `5:03`, `2:05:03`."""
    if not seconds >= 60 or math.isinf(seconds):
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
