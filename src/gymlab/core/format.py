"""Number formatting: counts, bytes and durations as text for people."""

from __future__ import annotations

import math


def format_count(value: float, *, brief: bool = False) -> str:
    """1234567 as `1.235M`; numbers below 10,000 (`brief`: below 1,000) are not abbreviated."""
    full_below = 1_000 if brief else 10_000
    for suffix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= max(size, full_below):
            return f"{value / size:.4g}{suffix}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.4g}"


def format_bytes(value: float, *, binary: bool = False) -> str:
    """`12.3 MB` with three digits; `binary` gives `12.3 MiB` or GiB, with one decimal."""
    if binary:
        return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.1f} MiB"
    for unit in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def format_duration(seconds: float) -> str:
    """`0.42 s`, `12.3 s`, `5:03`, `2:05:03`: a measured time."""
    if not seconds >= 60 or math.isinf(seconds):
        return f"{seconds:.3g} s"
    return format_elapsed(round(seconds))


def format_elapsed(seconds: float) -> str:
    """`0:12`, `5:03`, `2:05:03`: a running clock, in whole seconds."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_episodes(count: int, source: str) -> str:
    """`20 compiled episodes` or `100 Gymnasium episodes`; a run of an older version does not say which."""
    kind = {"compiled": "compiled ", "gymnasium": "Gymnasium "}.get(source, "")
    return f"{count} {kind}episodes"
