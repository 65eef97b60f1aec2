"""Without JAX's private attributes, or with others in their place, a run computes and caches as with stock JAX."""

import json
import subprocess
import sys
import threading

import pytest
from jax._src import lru_cache, xla_bridge

from gymlab.core.cooperative_lock import hold_lock
from gymlab.runs import platform
from gymlab.session.jax_internals import backends_are_initialized, write_cache_atomically
from tests.running import environment


def stock_put(self, key, value):
    (self.path / f"{key}-cache").write_bytes(b"stock " + value)


def put_of_another_version(self, key, value, owner=None):
    stock_put(self, key, value)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(lru_cache.LRUCache, "put", stock_put)
    return lru_cache.LRUCache(str(tmp_path), max_size=-1)


def test_an_entry_is_written_whole_or_not_at_all_with_the_cooperative_lock_held(cache, monkeypatch, caplog):
    write_cache_atomically()
    lock, seen = threading.Lock(), []

    def replace(*_):
        seen.append(lock.locked())
        raise OSError("no space left")

    with monkeypatch.context() as broken, hold_lock(lock):
        broken.setattr(platform, "replace", replace)
        cache.put("key", b"compiled")
    assert seen == [True]  # another thread that wants the same program would wait for this one inside JAX
    assert "no space left" in caplog.text
    assert cache.get("key") is None
    cache.put("key", b"compiled")
    assert cache.get("key") == b"compiled"


def test_setting_up_twice_writes_the_same(cache):
    write_cache_atomically()
    put = lru_cache.LRUCache.put
    write_cache_atomically()
    assert lru_cache.LRUCache.put is put
    cache.put("key", b"compiled")
    assert cache.get("key") == b"compiled"


@pytest.mark.parametrize(
    ("owner", "name", "other"),
    [
        (lru_cache, "LRUCache", None),
        (lru_cache, "LRUCache", 3),
        (lru_cache, "_CACHE_SUFFIX", None),
        (lru_cache, "_CACHE_SUFFIX", lambda key: key),
        (lru_cache.LRUCache, "put", put_of_another_version),
    ],
)
def test_a_cache_of_another_version_writes_itself(cache, monkeypatch, capfd, owner, name, other):
    if name == "put":
        monkeypatch.setattr(owner, name, other)
        write_cache_atomically()
    else:
        with monkeypatch.context() as changed:
            changed.delattr(owner, name) if other is None else changed.setattr(owner, name, other)
            write_cache_atomically()
    cache.put("key", b"compiled")
    assert cache.get("key") == b"stock compiled"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["path", "eviction_enabled"])
def test_a_cache_without_the_attributes_of_this_version_writes_itself(cache, monkeypatch, name):
    written = []
    monkeypatch.setattr(lru_cache.LRUCache, "put", lambda self, key, value: written.append((self, key, value)))
    write_cache_atomically()
    monkeypatch.delattr(cache, name)
    cache.put("key", b"compiled")
    assert written == [(cache, "key", b"compiled")]


@pytest.mark.parametrize("other", [None, lambda platform: False, lambda: "yes"])
def test_flags_are_left_alone_where_jax_does_not_tell_whether_it_has_started(monkeypatch, other):
    monkeypatch.setattr(xla_bridge, "backends_are_initialized", lambda: False)
    assert not backends_are_initialized()
    if other is None:
        monkeypatch.delattr(xla_bridge, "backends_are_initialized")
    else:
        monkeypatch.setattr(xla_bridge, "backends_are_initialized", other)
    assert backends_are_initialized()


SCRIPT = """
import json, sys
from pathlib import Path
import jax
import jax._src.compilation_cache
from jax._src import lru_cache, xla_bridge
from gymlab.recipes.resolve import resolve
from gymlab.session.session import Options
from gymlab.session.start import train

if sys.argv[2] == "removed":
    del lru_cache.LRUCache, xla_bridge.backends_are_initialized  # JAX itself still needs the suffix
small = ["n_envs=2", "n_steps=8", "batch_size=8", "epochs=1", "policy.hidden=[4]", "budget=64", "eval.final_episodes=2"]
result = train(resolve("CartPole-v1:ppo", small).recipe, Options(), Path(sys.argv[1]) / "runs")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@jax.jit
def sorts(x):
    return jax.numpy.sort(x) * 3


sorts(jax.numpy.arange(5.0))
print(json.dumps([result.status, len(list(Path(sys.argv[1]).glob("cache/xla-*/*sort*-cache")))]))
"""


@pytest.mark.parametrize("private", ["there", "removed"])
def test_a_run_trains_and_every_program_is_cached_with_an_empty_stderr(tmp_path, private):
    """Also one that sorts, which XLA cannot serialise any more once it has run."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), private],
        check=True, env=environment(GYMLAB_CACHE=str(tmp_path / "cache")), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == ["finished", 1]
    assert done.stderr == ""
