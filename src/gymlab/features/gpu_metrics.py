"""How much of the GPU a run uses, where it uses one: JAX knows the memory, NVIDIA's library the load."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import lru_cache
from typing import Any

import jax


def gpu_metrics() -> dict[str, float]:
    """Memory in use and share of time busy of the device in use; {} on a CPU, less where the driver does not say."""
    config: Any = jax.config  # whose attributes its type does not know
    device = config.jax_default_device or jax.local_devices()[0]
    if getattr(device, "platform", "cpu") != "gpu":
        return {}
    found = {}
    with suppress(Exception):  # a number that is missing must not end a run
        found["sys/gpu_memory"] = float(device.memory_stats()["bytes_in_use"])
    load = _load(device.local_hardware_id or 0)
    return found if load is None else found | {"sys/gpu_load": load}


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


@lru_cache(maxsize=1)
def _library() -> Any:
    """NVML, which comes with the driver; None where it does not start."""
    for name in ("libnvidia-ml.so.1", "nvml.dll"):
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL(name)
            return library if library.nvmlInit_v2() == 0 else None
    return None


def _load(index: int) -> float | None:
    library = _library()
    if library is None:
        return None
    handle = ctypes.c_void_p()
    rates = _Utilization()
    if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
        return None
    if library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)):
        return None
    return min(1.0, rates.gpu / 100)
