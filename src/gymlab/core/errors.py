"""Errors shown to users without a traceback, and did-you-mean suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GymlabError(Exception):
    """Printed without a traceback; the process ends with `exit_code`."""

    exit_code = 1


class UserError(GymlabError):
    """The input is wrong. The message names the key, the value and what would be valid."""

    exit_code = 2


class FormatError(UserError):
    """A run or file that another version of gymlab wrote: it was found, and is not read."""


class RunError(GymlabError):
    """The run cannot continue: an env fault, a full disk, NaN."""

    exit_code = 1


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice closest to `name`, if any is close: equal but for case first, then by spelling."""
    options = list(dict.fromkeys(choices))
    folded = {option.lower(): option for option in reversed(options)}
    if name.lower() in folded:
        return folded[name.lower()]
    close = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def suggestion(name: str, choices: Iterable[str], limit: int = 12) -> str:
    """`did you mean 'x'?` or, when nothing is close, the list of choices."""
    options = list(dict.fromkeys(choices))
    close = nearest(name, options)
    if close is not None:
        return f"did you mean '{close}'?"
    listed = ", ".join(sorted(options)[:limit])
    more = f" and {len(options) - limit} more" if len(options) > limit else ""
    return f"choose one of: {listed}{more}"
