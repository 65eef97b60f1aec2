"""Recipes made to break things: hostile files and random mutations give a UserError, quickly, or load."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from gymlab.core.errors import UserError
from gymlab.recipes.resolve import PACKAGED, resolve
from tests.recipe_files import GOOD

pytestmark = pytest.mark.fast


def _write(folder: Path, text: str) -> Path:
    path = folder / "broken.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "env: &a [*a, *a]\n",
        "env: " + "[" * 5000 + "\n",
        "env: {id: CartPole-v1}\n" + "x: y\n" * 20_000,
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)),
        "env: {id: " + "9" * 6000 + "}\n",
        "\x07",
        "",
        "just text",
        "- 1",
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_quickly(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write(tmp_path, text)
    start = time.process_time()
    with pytest.raises(UserError):
        resolve("broken.yaml")
    assert time.process_time() - start < 3


def test_bytes_that_are_no_text_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.yaml").write_bytes(b"env: \xff\xfe")
    with pytest.raises(UserError, match=r"broken\.yaml:1: not UTF-8"):
        resolve("broken.yaml")


WORDS = [
    "", "null", "-1", "0", "1e-3", "1e999", "10%", "true", "[]", "{}", "[[0%, 1]]", "lin_x", "x: y", "*a", "&a 1",
    "!!int x", "'", '"', "ppo", "extends", "env_steps", "[1, 2", "}", "# c", "\t", "- 1", "<<", "0x1g",
    "é", "100k", "? x", ".nan",
]  # fmt: skip


def _mutated(text: str, rng: random.Random) -> str:
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        kind, at = rng.randrange(7), rng.randrange(len(lines))
        line = lines[at]
        if kind == 0:
            lines[at] = line.partition(":")[0] + ": " + rng.choice(WORDS)
        elif kind == 1 and line:
            spot = rng.randrange(len(line))
            lines[at] = line[:spot] + rng.choice("abcxyz_:-{}[]#&*!|>'\"%@`, 0123456789\t") + line[spot + 1 :]
        elif kind == 2:
            del lines[at]
            lines = lines or [""]
        elif kind == 3:
            lines.insert(at, rng.choice(lines))
        elif kind == 4:
            lines[at] = " " * rng.randrange(8) + line.strip()
        elif kind == 5:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], line
        else:
            lines[at] = line + rng.choice(WORDS)
    return "\n".join(lines) + "\n"


def test_300_mutated_recipes_load_or_say_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(7)
    sources = [GOOD, *(path.read_text() for path in sorted(PACKAGED.glob("*.yaml"))[:6])]
    resolve("CartPole-v1")  # imports are not what is measured
    start, refused = time.process_time(), 0
    for number in range(300):
        text = _mutated(rng.choice(sources), rng)
        path = tmp_path / "broken.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            resolve("broken.yaml")
        except UserError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"mutation {number} gave {error!r}:\n{text}") from error
    assert refused > 100
    assert time.process_time() - start < 300 * 0.1  # RELIABILITY goal 12: 100 ms each
