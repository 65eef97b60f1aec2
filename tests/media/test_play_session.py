"""`gymlab play`: key bindings, the terminal window, and recording."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.media.action_keys import keys_for
from gymlab.media.terminal_window import half_blocks, shrunk
from gymlab.media.video_file import read_frames
from tests.running import environment
from tests.waiting import wait_until


def test_action_keys_follow_action_names():
    cart = keys_for(spaces.Discrete(2), ("left", "right"), 50)
    assert (cart.actions["left"], cart.actions["right"], cart.actions["1"]) == (0, 1, 1)
    assert cart.idle is None  # the last key is held
    assert not cart.turns
    lander = keys_for(spaces.Discrete(4), ("nothing", "left engine", "main engine", "right engine"), 50)
    assert [lander.actions[key] for key in ("left", "up", "right")] == [1, 2, 3]
    assert lander.idle == 0
    lake = keys_for(spaces.Discrete(4), ("left", "down", "right", "up"), 4)
    assert [lake.actions[key] for key in ("left", "down", "right", "up")] == [0, 1, 2, 3]
    assert lake.turns
    pong = keys_for(spaces.Discrete(6), ("noop", "fire", "right", "left", "rightfire", "leftfire"), 30)
    assert [pong.actions[key] for key in ("space", "right", "left", "4")] == [1, 2, 3, 4]
    assert pong.idle == 0
    pendulum = keys_for(spaces.Box(-2, 2, (1,), np.float32), (), 30)
    assert (pendulum.actions["left"], pendulum.actions["right"], pendulum.idle) == (-2, 2, 0)
    with pytest.raises(UserError, match="cannot be played with keys"):
        keys_for(spaces.MultiBinary(3), (), 30)


def test_pictures_become_half_blocks_of_their_mean_colours():
    picture = np.zeros((8, 8, 3), np.uint8)
    picture[:4] = 255
    assert shrunk(picture, 2, 2)[:, 0, 0].tolist() == [255, 0]
    lines = half_blocks(picture, 4, 2, true_colour=True)
    assert len(lines) == 2
    assert lines[0] == "\x1b[38;2;255;255;255;48;2;255;255;255m▀▀▀▀\x1b[0m"
    assert lines[1].startswith("\x1b[38;2;0;0;0;48;2;0;0;0m▀")
    assert half_blocks(picture, 1, 1, true_colour=False) == ["\x1b[38;5;231;48;5;16m▀\x1b[0m"]


def test_random_play_is_filmed(cli):
    done = cli("play", "FrozenLake-v1", "--record", "lake.mp4", "--fps", "10000", "--seed", "3")
    assert done.code == 0, done.err
    length = int(re.search(r"in (\d+) steps", done.out)[1])
    assert len(list(read_frames(cli.folder / "lake.mp4"))) == length


def test_play_reports_the_return_of_a_runs_policy(solved_run, cli):
    done = cli("play", solved_run.root, "--fps", "10000")
    assert done.out.strip() == "episode 0: return 500 in 500 steps (truncated)"


def test_play_of_an_unknown_name_suggests_the_nearest(cli):
    done = cli("play", "CartPol-v1")
    assert done.code == 2
    assert "CartPole-v1" in done.err
    assert cli("play", "CartPole-v1", "--policy", "user").code == 2  # nobody there to press keys


def test_the_keyboard_moves_the_cart_in_a_terminal(tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gymlab", "play", "CartPole-v1", "--policy", "user", "--fps", "5"]
    player = subprocess.Popen(
        command, cwd=tmp_path, env=environment(TERM="xterm-256color", COLUMNS="90", LINES="24"),
        stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        seen = _read_until(ours, "press a key", 60)
        assert "▀" in seen
        os.write(ours, b"\x1b[C")
        right = _read_until(ours, "step 3 ", 20)
        assert re.search(r"step 2 .*right", right)
        os.write(ours, b"a")
        _read_until(ours, "left\x1b", 20)
        os.write(ours, b"q")
        assert "\x1b[?1049l" in _read_until(ours, "\x1b[?1049l", 20)
        assert player.wait(20) == 0
    finally:
        player.kill()
        player.wait()
        os.close(ours)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
@pytest.mark.parametrize(("key", "sign"), [("Right", 1), ("Left", -1)])
def test_keys_sent_through_tmux_move_the_cart(key, sign, tmp_path):
    """Pushed to one side all the time, the cart is some twenty pixels further there when the pole falls."""
    film, name = tmp_path / "cart.mp4", f"gymlab-{os.getpid()}-{key}"
    command = [sys.executable, "-m", "gymlab", "play", "CartPole-v1", "--policy", "user", "--terminal", "--fps", "10"]

    def tmux(*words):
        return subprocess.run(
            ["tmux", "-L", name, *words], capture_output=True, text=True, check=False, env=environment()
        )

    tmux("new-session", "-d", "-x", "90", "-y", "26", shlex.join([*command, "--record", str(film)]))
    try:
        wait_until(lambda: "press a key" in tmux("capture-pane", "-p").stdout)
        tmux("send-keys", key)
        wait_until(lambda: tmux("has-session").returncode != 0)  # the episode is over
    finally:
        tmux("kill-server")
    frames = list(read_frames(film))
    # The cart is the only black thing above its line, below the pole's lower end.
    before, after = (np.nonzero((frame[280:295] < 60).all(-1))[1].mean() for frame in (frames[0], frames[-1]))
    assert 8 < sign * (after - before) < 60


def _read_until(terminal, text, seconds):
    seen, deadline = "", time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            try:
                seen += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
            if text in seen:
                return seen
    raise AssertionError(f"{text!r} did not come: {seen[-2000:]!r}")
