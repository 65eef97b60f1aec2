"""Thousands of broken recipes and overrides: each gives one message that names key, value and what is allowed."""

import itertools
import random
import re
import statistics
import time

import pytest

from gymlab.core.clock import parse_number
from gymlab.recipes.keys import keys
from gymlab.recipes.problems import Problems
from gymlab.recipes.resolve import resolve
from gymlab.recipes.yaml_source import read_text

NO_ID = "../no-such-id"
BLOCKS = ("env", "policy", "eval", "checkpoints", "normalize", "stop", "ppo")
TYPES = ["many", "[8]", "{a: 1}", "1.5", "true", "", "'1e-3'", "2026-11-15", "[[1, 2], 3]", "0x10", "1_000", "~"]
RANGES = ["-1", "0", "-0.5", "1e19", "1e400", ".inf", "-.inf", ".nan", "99999999999999999999", "101%", "-1e-9"]
# The words by which a message says what would be right.
ALLOWED = re.compile(
    r"did you mean|choose one of|expected|must|at least|more than|try|write|duplicate key|not valid YAML|is a list of|"
    r"belongs|inside a variant|one level up|no parameter|a share of|use |list them with|aliases|unknown key|a budget is"
)


def known_keys():
    """Full keys of a PPO recipe and of its blocks."""
    found = [key.path for key in keys() if key.kind != "a block"]
    return [path for path in found if "." not in path or path.split(".")[0] in BLOCKS]


def misspelt(word, rng):
    spot = rng.randrange(len(word))
    kind = rng.randrange(3)
    if kind == 0 and len(word) > 3:
        return word[:spot] + word[spot + 1 :]
    letter = rng.choice("abcdefghijklmnopqrstuvwxyz_")
    return word[:spot] + letter + word[spot + (kind == 1) :]


def as_file(path, value):
    """A recipe that is sound but for one key."""
    block, _, leaf = path.rpartition(".")
    lines = {"env": ["  id: CartPole-v1"], "ppo": []}
    if block == "env":
        lines["env"] = [line for line in lines["env"] if leaf != "id"] + [f"  {leaf}: {value}"]
    elif block == "ppo":
        lines["ppo"].append(f"      {leaf}: {value}")
    variant = [f"    {block}:", f"      {leaf}: {value}"] if block not in ("", "env", "ppo") else []
    variant += [f"    {leaf}: {value}"] if not block else []
    ppo = ["    ppo:", *lines["ppo"]] if lines["ppo"] else ["    ppo: {}"]
    return "\n".join(["env:", *lines["env"], "variants:", "  ppo:", *variant, *ppo]) + "\n"


def alias_bomb(rng):
    depth, width = rng.randint(4, 12), rng.randint(6, 12)
    names = [f"n{i}" for i in range(depth)]
    lines = [f"{names[0]}: &{names[0]} [{', '.join('x' * width)}]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * width)}]" for a, b in itertools.pairwise(names)]
    return "\n".join(lines) + "\n"


def broken(rng):
    """What is broken: arguments of `train`, the text of broken.yaml, the key and the value the message must name."""
    path = rng.choice(known_keys())
    kind = rng.choice(["typo", "type", "range", "duplicate", "bomb", "override typo", "override", "override", "set"])
    value = rng.choice(TYPES if rng.random() < 0.6 else RANGES)
    if kind == "typo":
        block, dot, leaf = path.rpartition(".")
        wrong = misspelt(leaf, rng)
        return ["broken.yaml"], as_file(f"{block}{dot}{wrong}", "1"), wrong, None
    if kind == "duplicate":
        line = next(
            line for line in as_file(path, "1").splitlines() if re.match(rf"\s+{path.rpartition('.')[2]}: 1", line)
        )
        return ["broken.yaml"], as_file(path, "1").replace(line, f"{line}\n{line}"), path.rpartition(".")[2], "line"
    if kind == "bomb":
        return ["broken.yaml"], alias_bomb(rng), "n", None
    if kind in ("type", "range"):
        return ["broken.yaml"], as_file(path, value), path.rpartition(".")[2], value
    if kind == "override typo":
        wrong = misspelt(path, rng)
        return ["CartPole-v1:ppo", f"{wrong}=1"], None, wrong, None
    given = f"{path}={value}"
    return ["CartPole-v1:ppo", *(["--set", given] if kind == "set" else [given])], None, path.rpartition(".")[2], value


def spellings(text):
    """The ways in which a message may show a value: as it stands, as the number it is, or the item that is wrong."""
    value = read_text(f"a: {text}\n", "t", Problems()).to_data()["a"]
    number = parse_number(value)
    shown = [value, number, *(value if isinstance(value, list | dict) else [])]
    shown += [f"{number:g}"] if isinstance(number, int | float) else []
    return {"nothing", "None"} if value is None else {str(one)[:40] for one in shown}


def fuzz(cli, count, seed):
    """Give so many broken commands; the seconds each refusal took."""
    rng, seconds = random.Random(seed), []
    resolve("CartPole-v1:ppo")  # imports are not what is measured
    for number in range(count):
        arguments, text, key, value = broken(rng)
        if text is not None:
            (cli.folder / "broken.yaml").write_text(text, encoding="utf-8")
        began = time.process_time()  # of this process: others may be busy
        # Where chance made a sound recipe, the id, which is looked at after the recipe, keeps it from training.
        done = cli("train", *arguments, "--detach", "--run-id", NO_ID)
        took = time.process_time() - began
        told = f"{number}: {arguments}\n{text or ''}\n{done.err}"
        assert done.code == 2, told
        assert done.err.startswith("error: "), told
        assert not (cli.folder / "runs").exists(), told
        if NO_ID in done.err:
            continue
        seconds.append(took)
        assert key in done.err or (key in ("n_envs", "n_steps") and "the rollout of" in done.err), told
        assert value is None or any(shown in done.err for shown in spellings(value)), told
        assert ALLOWED.search(done.err), told
    return seconds


def test_broken_recipes_and_overrides_say_what_is_wrong_and_leave_nothing(cli):
    seconds = fuzz(cli, 100, seed=1)
    assert len(seconds) > 50
    assert statistics.median(seconds) < 3 * 0.1


@pytest.mark.slow
def test_ten_thousand_broken_recipes_and_overrides(cli):
    seconds = fuzz(cli, 10_000, seed=2)
    told = f"median {statistics.median(seconds) * 1e3:.1f} ms, most {max(seconds) * 1e3:.0f} ms"
    print(f"\nrefused {len(seconds)} of 10000, {told}")
    assert len(seconds) > 5000
    assert statistics.median(seconds) < 3 * 0.1
