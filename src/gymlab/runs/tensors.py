"""Named NumPy arrays as safetensors bytes: no pickle, and the same arrays always give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_KINDS = "?bhilqBHILQefd"


def encode(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays of any shape (0-d and empty too) of bools, integers and floats."""
    from safetensors.numpy import save

    plain: dict[str, np.ndarray] = {}
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        if array.dtype.char not in _KINDS:
            raise TypeError(f"tensor '{name}' has dtype {array.dtype}: only bools, integers and floats are saved")
        # safetensors writes raw memory: a transposed or byte-swapped view would be read back as other numbers.
        plain[name] = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    data: bytes = save(plain)
    return data


def decode(data: bytes) -> dict[str, np.ndarray]:
    """The arrays, writable, sorted by name; ValueError if the bytes are not such a file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(data)
        return {name: np.array(arrays[name]) for name in sorted(arrays)}
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ValueError(f"not a tensor file of gymlab: {error}") from error
