"""Values of the step table as plain data and as text: every number exact, pictures by name."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

import numpy as np

_MOST_NUMBERS = 64  # of an observation; a larger one is named by its shape and checksum


def cell(value: Any) -> Any:
    """What stands in a CSV: structured values as JSON, what is unknown as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return value
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    written = plain(value)
    return written if isinstance(written, str) else json.dumps(written)


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.size > _MOST_NUMBERS:
        shape = ",".join(map(str, value.shape))
        return f"{value.dtype}[{shape}] {zlib.crc32(value.tobytes()):08x}"
    return np.array(short(value), object).reshape(value.shape).tolist()


def short(array: np.ndarray) -> list[Any]:
    """Numbers as the shortest text that reads back to the same, in their own precision."""
    flat = array.ravel()
    return [float(str(x)) for x in flat] if flat.dtype.kind == "f" else flat.tolist()
