"""Threads that take turns: one at a time, and others while it steps aside."""

import threading

import pytest
from jax._src.lru_cache import LRUCache

from gymlab.core.cooperative_lock import aside, taking_turns
from gymlab.runs import platform
from gymlab.session.jax_setup import set_up_jax


def test_only_one_goes_on_until_it_steps_aside():
    turn, order, waits = threading.Lock(), [], threading.Event()

    def other():
        waits.set()
        with taking_turns(turn):
            order.append("other")

    with taking_turns(turn):
        thread = threading.Thread(target=other)
        thread.start()
        waits.wait(10)
        order.append("first")
        with aside():
            thread.join(10)
        order.append("first again")
    assert order == ["first", "other", "first again"]


def test_stepping_aside_is_nothing_to_a_thread_that_takes_no_turns():
    """It lets go of no lock but its turn's: neither of one that it holds otherwise, nor of a turn that is over."""
    turn = threading.Lock()
    with taking_turns(turn):
        pass
    with turn, aside():
        assert turn.locked()


def test_two_that_want_a_file_lock_do_not_wait_for_each_others_turn(tmp_path):
    """Who holds the file's lock and steps aside gets its turn again although the other wants that lock."""
    turn, path, done = threading.Lock(), tmp_path / "lock", []

    def work():
        with taking_turns(turn):
            fd = platform.open_lock(path)
            platform.wait_lock(fd)
            with aside():
                threading.Event().wait(0.2)
            platform.unlock(fd)
            done.append(1)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert done == [1, 1]


def test_what_jax_compiles_is_kept_whole_or_not_at_all_and_within_one_turn(tmp_path, monkeypatch):
    set_up_jax(tmp_path)
    cache, turn = LRUCache(str(tmp_path / "cache"), max_size=-1), threading.Lock()
    seen = []

    def replace(*_):
        seen.append(turn.locked())
        raise OSError("no space left")

    with monkeypatch.context() as broken, taking_turns(turn):
        broken.setattr(platform, "replace", replace)
        with pytest.raises(OSError, match="no space"):
            cache.put("key", b"compiled")
    assert seen == [True]  # another thread that wants the same program would wait for us inside JAX
    assert cache.get("key") is None
    cache.put("key", b"compiled")
    assert cache.get("key") == b"compiled"
