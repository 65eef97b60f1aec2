"""Templates of Python source: lines kept or dropped by flags, and names filled in."""

from __future__ import annotations

import re
from string import Template
from typing import NamedTuple

_LINE = re.compile(r"\s*#: (if|elif|else|end)\b ?(.*)")
_INLINE = re.compile(r"\[\[([a-z_ ]+)\|(.*?)\]\](?!\])")


class Blanks(NamedTuple):
    """What a template is filled in with."""

    flags: dict[str, bool]  # that its conditions name
    values: dict[str, object]  # of its $names


def fill(text: str, blanks: Blanks) -> str:
    """The template with its conditions decided and its names filled in.

    A line `#: if CONDITION`, `#: elif CONDITION`, `#: else` or `#: end` keeps or drops the lines after it; within a
    line, `[[CONDITION|text]]` does the same. A condition is a flag, `not` a flag, or several joined by `and` or `or`.
    """
    kept: list[str] = []
    branches: list[tuple[bool, bool]] = []  # of each open block: whether this branch is kept, and whether one was
    for line in text.splitlines():
        directive = _LINE.fullmatch(line)
        if directive is None:
            if all(keep for keep, _ in branches):
                kept.append(line)
            continue
        word, condition = directive.groups()
        done = branches.pop()[1] if word != "if" else False
        if word != "end":
            keep = not done and (word == "else" or _holds(condition, blanks.flags))
            branches.append((keep, done or keep))
    assert not branches, "an `if` without its `end`"
    joined = _INLINE.sub(lambda m: m[2] if _holds(m[1], blanks.flags) else "", "\n".join(kept))
    return Template(joined).substitute(blanks.values)


def _holds(condition: str, flags: dict[str, bool]) -> bool:
    return any(all(_flag(term, flags) for term in terms.split(" and ")) for terms in condition.split(" or "))


def _flag(term: str, flags: dict[str, bool]) -> bool:
    return not flags[term.removeprefix("not ")] if term.startswith("not ") else flags[term]
