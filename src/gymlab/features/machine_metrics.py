"""Metrics of the machine: env steps per second, CPU, memory and GPU use, compile and checkpoint time."""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

import jax

from gymlab.core.clock import Clock
from gymlab.process.usage import Usage, usage_metrics, usage_now
from gymlab.training.compile_time import compile_seconds
from gymlab.training.events import (
    Checkpointed,
    Control,
    Event,
    Feature,
    FeatureState,
    HistogramsRequested,
    Measured,
    Started,
    Updated,
)
from gymlab.training.update_histograms import HistogramSchedule

SAMPLE_SECONDS = 1.0  # between two samples of CPU, memory and GPU


class MachineMetrics(Feature):
    """Also schedules requested histograms, `longest_call` updates after the request: the most that one call does.

    By then the update that caused the request has been delivered, however updates are divided into calls; so histograms
    are of the same updates in every run.
    """

    name = "measure"

    def __init__(
        self,
        histogram_schedule: HistogramSchedule | None = None,
        longest_call: int = 1,
        compile_seconds_before: float | None = None,
    ) -> None:
        """`compile_seconds_before`: the process's total when the run's parts were built; None: now."""
        self._histogram_schedule = histogram_schedule or HistogramSchedule()
        self._longest_call = longest_call
        self._last = Clock()
        self._first = Clock()
        self._usage: Usage | None = None
        self._compiled = compile_seconds() if compile_seconds_before is None else compile_seconds_before

    def state(self) -> FeatureState:
        return (
            {"histograms_requested": sorted(self._histogram_schedule.requested)}
            if self._histogram_schedule.requested
            else {}
        )

    def restore(self, state: FeatureState) -> None:
        self._histogram_schedule.requested = set(state["histograms_requested"])

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started):
            self._first = self._last = event.clock
            self._usage = usage_now()
        elif isinstance(event, Updated):
            values = {"time/sps": _rate(self._last, event.clock), "time/sps_mean": _rate(self._first, event.clock)}
            self._last = event.clock
            self._histogram_schedule.forget(event.clock.updates)
            control.emit(Measured(event.clock, values | self._compiling() | self._machine()))
        elif isinstance(event, HistogramsRequested):
            self._histogram_schedule.ask(event.clock.updates + self._longest_call)
        elif isinstance(event, Checkpointed):
            control.emit(
                Measured(event.clock, {"time/checkpoint": event.seconds, "sys/checkpoint_bytes": float(event.bytes)})
            )

    def _compiling(self) -> dict[str, float]:
        before = self._compiled
        self._compiled = compile_seconds()
        return {"time/compile": self._compiled - before} if self._compiled > before else {}

    def _machine(self) -> dict[str, float]:
        before = self._usage
        now = usage_now() if self._due() else None
        if before is None or now is None:
            return {}
        self._usage = now
        return usage_metrics(before, now) | _gpu_metrics()

    def _due(self) -> bool:
        return self._usage is not None and time.monotonic() - self._usage.at >= SAMPLE_SECONDS


def _rate(earlier: Clock, later: Clock) -> float:
    seconds = later.seconds - earlier.seconds
    return (later.env_steps - earlier.env_steps) / seconds if seconds > 0 else float("nan")


def _gpu_metrics() -> dict[str, float]:
    """Memory in use (from JAX) and load (from NVML) of JAX's default device; {} on a CPU."""
    config: Any = jax.config  # its type does not declare the attributes
    device = config.jax_default_device or jax.local_devices()[0]
    if getattr(device, "platform", "cpu") != "gpu":
        return {}
    found = {}
    with suppress(Exception):  # any error of the backend: a missing metric must not end a run
        found["sys/gpu_memory"] = float(device.memory_stats()["bytes_in_use"])
    load = _gpu_load(device.local_hardware_id or 0)
    return found if load is None else found | {"sys/gpu_load": load}


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


@lru_cache(maxsize=1)
def _nvml() -> Any:
    """NVML, which comes with the driver; None if it cannot be initialised."""
    for name in ("libnvidia-ml.so.1", "nvml.dll"):
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL(name)
            return library if library.nvmlInit_v2() == 0 else None
    return None


def _gpu_load(index: int) -> float | None:
    library = _nvml()
    if library is None:
        return None
    handle = ctypes.c_void_p()
    rates = _Utilization()
    if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
        return None
    if library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)):
        return None
    return min(1.0, rates.gpu / 100)
