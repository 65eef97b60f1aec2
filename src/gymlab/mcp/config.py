"""Options of the server, and checks of the runs, recipes and overrides that a client names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gymlab.campaigns.queue.store import Queue
from gymlab.core.errors import UserError
from gymlab.runs.paths import RunPaths
from gymlab.runs.selection import select_checkpoint, select_run

MOST_OVERRIDES = 64
_ENV = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_.+-]+)?-v\d{1,4}")
_VARIANT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_REFERENCE = re.compile(r"[A-Za-z_][\w./-]*:[A-Za-z_]|\.pyc?\b")  # module:Name or a file; `{key: value}` has a space
_PATH = re.compile(r"(?:^|[\s\[{,'\"=:])(?:/|~|\.{1,2}/)|\.\./")
_CODE_KEYS = ("import", "imports", "imports+")


@dataclass(frozen=True)
class ServerConfig:
    """Options of one server."""

    root: Path  # the runs folder: clients reach runs in it only
    write: bool = True  # start, stop, resume, tag
    allow_code: bool = False  # recipes and overrides that name modules or files of the user's
    allow_delete: bool = False
    max_steps: int | None = None  # the largest budget of one run, in env steps

    @property
    def queue(self) -> Queue:
        return Queue(self.root)

    def run(self, name: str) -> RunPaths:
        """A run by id, unique prefix, @last or @best:ENV; never by path."""
        return select_run(name, self.root, by_path=False)

    def checkpoint(self, name: str) -> tuple[RunPaths, str]:
        return select_checkpoint(name, self.root, by_path=False)

    def recipe(self, reference: str) -> str:
        """The reference, checked: one that would run code or read a file is refused."""
        if not reference.startswith("-") and (self.allow_code or _names_no_code(reference)):
            return reference
        raise UserError(
            f"recipe {reference[:80]!r}: only ENV[:VARIANT] of a registered environment or a recipe in ./recipes; "
            "files and module:Class need a server started with --allow-code"
        )

    def overrides(self, texts: Sequence[str]) -> list[str]:
        """Overrides, checked: `key=value`, and none names code or a file."""
        if len(texts) > MOST_OVERRIDES:
            raise UserError(f"{len(texts)} overrides: at most {MOST_OVERRIDES}")
        for text in texts:
            key, equals, value = text.partition("=")
            if not equals or not re.fullmatch(r"[A-Za-z_][\w.]*\+?", key):
                raise UserError(f"override {text[:80]!r}: write key=value, e.g. learning_rate=1e-3")
            if not self.allow_code and (
                key.rpartition(".")[2] in _CODE_KEYS or _REFERENCE.search(value) or _PATH.search(value)
            ):
                raise UserError(
                    f"override {text[:80]!r}: code and files by reference need a server started with --allow-code"
                )
        return list(texts)


def _names_no_code(reference: str) -> bool:
    from gymlab.recipes.resolve import user_files

    env, colon, variant = reference.partition(":")
    if colon and not _VARIANT.fullmatch(variant):
        return False
    return bool(_ENV.fullmatch(env)) or env in {path.stem for path in user_files()}
