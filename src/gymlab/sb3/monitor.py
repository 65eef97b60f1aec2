"""Stable-Baselines3's Monitor: the return, length and time of an episode in the info of its last step."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import IO, Any

import gymnasium

from gymlab.envs.gymnasium_types import Env, EnvValue, EnvWrapper, Info, ResetResult, StepResult


class Monitor(EnvWrapper):
    """Adds `info["episode"] = {"r": return, "l": length, "t": seconds}`, and a line to a CSV file if one is named.

    Arguments of `reset` named in `reset_keywords`, and infos named in `info_keywords`, are columns of the file.
    """

    EXT = "monitor.csv"

    def __init__(
        self,
        env: Env,
        filename: str | None = None,
        allow_early_resets: bool = True,
        reset_keywords: tuple[str, ...] = (),
        info_keywords: tuple[str, ...] = (),
        override_existing: bool = True,
    ) -> None:
        super().__init__(env)
        self.allow_early_resets = allow_early_resets
        self.needs_reset = True
        self._reset_keywords = reset_keywords
        self._reset_values: dict[str, Any] = {}
        self._started = time.time()
        self._info_keywords = info_keywords
        self._rewards: list[float] = []
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._times: list[float] = []
        self.total_steps = 0
        self._file: IO[str] | None = None
        if filename is not None:
            self._file = self._open(_with_ending(filename), new=override_existing)

    def _open(self, path: Path, *, new: bool) -> IO[str]:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = new or not path.exists()
        file = path.open("w" if new else "a", encoding="utf-8", newline="")
        if fresh:
            about = {"t_start": self._started, "env_id": str(self.env.spec and self.env.spec.id)}
            file.write(
                f"#{json.dumps(about)}\n{','.join(['r', 'l', 't', *self._reset_keywords, *self._info_keywords])}\n"
            )
        return file

    def reset(self, **options: Any) -> ResetResult:
        """Start an episode. The env gets only the arguments that were given, as its reset may know no others."""
        if not self.allow_early_resets and not self.needs_reset:
            raise RuntimeError(
                "Tried to reset an environment before done. "
                "If you want to allow early resets, wrap your env with Monitor(env, path, allow_early_resets=True)"
            )
        for name in self._reset_keywords:
            if options.get(name) is None:
                raise ValueError(f"Expected you to pass keyword argument {name} into reset")
            self._reset_values[name] = options[name]
        self._rewards.clear()
        self.needs_reset = False
        return self.env.reset(**options)

    def step(self, action: EnvValue) -> StepResult:
        """Step; at the end of an episode add its return, length and time to the info."""
        if self.needs_reset:
            raise RuntimeError("Tried to step environment that needs reset")
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._rewards.append(float(reward))
        self.total_steps += 1
        if terminated or truncated:
            self.needs_reset = True
            info["episode"] = self._end(info)
        return obs, reward, terminated, truncated, info

    def _end(self, info: Info) -> dict[str, Any]:
        episode: dict[str, Any] = {
            "r": round(sum(self._rewards), 6),
            "l": len(self._rewards),
            "t": round(time.time() - self._started, 6),
        }
        self._returns.append(episode["r"])
        self._lengths.append(episode["l"])
        self._times.append(episode["t"])
        episode |= self._reset_values | {name: info[name] for name in self._info_keywords}
        if self._file is not None:
            self._file.write(",".join(map(str, episode.values())) + "\n")
            self._file.flush()
        return episode

    def get_total_steps(self) -> int:
        return self.total_steps

    def get_episode_rewards(self) -> list[float]:
        return self._returns

    def get_episode_lengths(self) -> list[int]:
        return self._lengths

    def get_episode_times(self) -> list[float]:
        return self._times

    def close(self) -> None:
        """Close the env and the file."""
        super().close()
        if self._file is not None:
            self._file.close()
            self._file = None


def is_monitored(env: Env) -> bool:
    """Whether a Monitor is among an env's wrappers."""
    return has_wrapper(env, Monitor)


def has_wrapper(env: Env, kind: type) -> bool:
    """Whether a wrapper of this class is around an env."""
    inner: Any = env
    while isinstance(inner, gymnasium.Wrapper):
        if isinstance(inner, kind):
            return True
        inner = inner.env
    return False


def _with_ending(filename: str) -> Path:
    path = Path(filename)
    if str(filename).endswith(Monitor.EXT):
        return path
    return path / Monitor.EXT if path.is_dir() else path.with_name(f"{path.name}.{Monitor.EXT}")
