"""Redaction of secrets before anything is written to a file: tokens, keys and passwords become `***`.

In texts, command lines, nested values, and all output of a detached process.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TextIO, TypeVar, cast
from urllib.parse import quote

MASK = "***"
_DRAIN_SECONDS = 1.0
_LONGEST_LINE = 2**16
_SHORTEST = 8  # shorter values of secret variables would blank out ordinary words
_kept: set[str] = set()  # values added by `keep_secret`

_NAME = r"[\w.-]*(?:passw(?:or)?d|passphrase|secret|token(?!s|iz)|credential|(?:api|access|private)[_-]?key)[\w.-]*"
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_SECRET_ENDING = re.compile(r"(?:[\w.-]*[._-])?(?:key|auth|pass)", re.IGNORECASE)
_ASSIGNED = re.compile(
    rf"(?i)(?P<name>\b{_NAME})(?P<sign>[\"']?\s*[=:]\s*)(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s&,;}}\]\"']+)"
)
_URL_LOGIN = re.compile(r"(?i)\b(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<value>[^\s/?#@]+)@")
_HEADER = re.compile(
    r"(?i)\b(?P<kind>bearer|authorization[\"']?\s*[:=]\s*[\"']?basic)\s+(?P<value>[A-Za-z0-9+/=._~-]{8,})"
)
_TOKENS = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}|\bapi_org_[A-Za-z0-9]{16,}|\bsk-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{16,}"
    r"|\bgithub_pat_[A-Za-z0-9_]{16,}|\bglpat-[A-Za-z0-9_-]{16,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bpypi-[A-Za-z0-9_-]{16,}|\bnpm_[A-Za-z0-9]{16,}|\bwandb_v\d_[A-Za-z0-9_]{16,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_FLAG = re.compile(r"--?[\w.-]+")
_BARE_KEY = re.compile(r"(?i)(?P<name>-*(?:[\w.-]*[._-])?(?:key|auth|pwd|pass))=(?P<value>.+)")
_OPAQUE = re.compile(r"(?=(?:\D*\d){6})(?=.*[A-Za-z])[A-Za-z0-9_]{32,}")


def redact(text: str) -> str:
    """A text without its secrets. Ordinary text, recipes included, comes back unchanged."""
    return _redacted(text, _secret_values())


def _redacted(text: str, values: Sequence[str]) -> str:
    for value in values:
        text = text.replace(value, MASK)
    text = _PEM.sub(MASK, text)
    text = _URL_LOGIN.sub(rf"\g<scheme>{MASK}@", text)
    text = _HEADER.sub(rf"\g<kind> {MASK}", text)
    text = _TOKENS.sub(MASK, text)
    return _ASSIGNED.sub(rf"\g<name>\g<sign>{MASK}", text)


def keep_secret(values: Iterable[str]) -> None:
    """Mask these values too from now on; very short ones are left out, because they are ordinary words as well."""
    _kept.update(value for value in values if len(value) >= _SHORTEST)


def redact_argv(argv: Sequence[str]) -> list[str]:
    """A command line without its secrets; stricter than `redact`, because nothing parses it again."""
    clean: list[str] = []
    for word in argv:
        before = clean[-1] if clean else ""
        if _FLAG.fullmatch(before) and _is_secret_name(before.lstrip("-")) and not word.startswith("-"):
            clean.append(MASK)
            continue
        text = _BARE_KEY.sub(rf"\g<name>={MASK}", redact(word))
        name, sign, value = text.rpartition("=")
        clean.append(f"{name}{sign}{MASK}" if _OPAQUE.fullmatch(value) else text)
    return clean


T = TypeVar("T")


def redact_tree(value: T) -> T:
    """Nested mappings and sequences without their secrets: values under a secret name, and secrets inside texts."""
    return cast("T", _redacted_tree(value, _secret_values()))


def _redacted_tree(value: object, values: Sequence[str]) -> object:
    if isinstance(value, Mapping):
        return {
            key: MASK if isinstance(item, str) and item and _is_secret_name(str(key)) else _redacted_tree(item, values)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted_tree(item, values) for item in value]
    return _redacted(value, values) if isinstance(value, str) else value


def secrets_in(value: object) -> Iterator[str]:
    """What `redact_tree` masks in nested values."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            named = isinstance(item, str) and item and _is_secret_name(str(key))
            yield from [item, *_secrets_inside(item)] if named else secrets_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from secrets_in(item)
    elif isinstance(value, str):
        yield from _secrets_inside(value)


def argv_secrets(argv: Sequence[str]) -> Iterator[str]:
    """What `redact_argv` masks in a command line."""
    for word, clean in zip(argv, redact_argv(argv), strict=True):
        if word != clean:
            yield from _secrets_inside(word)
            yield word if clean == MASK else word.rpartition("=")[2] if clean.endswith(f"={MASK}") else ""


def _secrets_inside(text: str) -> Iterator[str]:
    for found in (*_PEM.finditer(text), *_TOKENS.finditer(text)):
        yield found[0]
    for found in (*_URL_LOGIN.finditer(text), *_HEADER.finditer(text)):
        yield found["value"]
        yield found["value"].rpartition(":")[2]  # the password of user:password
    for found in _ASSIGNED.finditer(text):
        value = found["value"].strip("\"'")
        if "=" in found["sign"] or not value.isalpha():  # "token: something" may be just prose
            yield value


@lru_cache(maxsize=1024)
def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None or _SECRET_ENDING.fullmatch(name) is not None


def _secret_values() -> list[str]:
    """The values of `keep_secret` and of environment variables with a secret name, longest first.

    Paths (`TOKEN_FILE`) are not secrets. Each line of a multi-line value counts, because output may come line by line,
    and so does every escaped form of a value.
    """
    named = [value for name, value in os.environ.items() if _is_secret_name(name) and len(value) >= _SHORTEST]
    whole = {value for value in named if not (value.startswith(("/", "~", ".")) and os.path.exists(value))} | _kept
    lines = {line for value in whole if "\n" in value for line in value.splitlines() if len(line) >= 2 * _SHORTEST}
    return sorted({escaped for value in whole | lines for escaped in _escaped_forms(value)}, key=len, reverse=True)


@lru_cache(maxsize=256)
def _escaped_forms(value: str) -> tuple[str, ...]:
    return value, repr(value)[1:-1], ascii(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe="")


class RedactedStream(io.TextIOBase):
    """A text stream that redacts each line before writing it."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._line = ""

    def write(self, text: str) -> int:
        *whole, self._line = (self._line + text).split("\n")
        if whole:
            self._send("\n".join(whole) + "\n")
        return len(text)

    def flush(self) -> None:
        if not self._out.closed:
            self._send(self._line)
            self._line = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def fileno(self) -> int:
        return self._out.fileno()

    def _send(self, text: str) -> None:
        if text:
            self._out.write(redact(text))
        self._out.flush()


def redact_output(command: Sequence[str]) -> None:
    """Redact all output of this process, which goes to a file, also the secrets in its command line.

    Python's own prints are redacted in `RedactedStream`. What C code and env processes write to the shared descriptors
    goes through a pipe and a thread.
    """
    keep_secret(argv_secrets(command))
    file = os.dup(2)
    sys.stdout, sys.stderr = (RedactedStream(open(file, "w", encoding="utf-8", closefd=False)) for _ in range(2))  # noqa: SIM115
    reading, writing = os.pipe()
    for fd in (1, 2):
        os.dup2(writing, fd)
    os.close(writing)
    pump = threading.Thread(target=_pump, args=(reading, file), name="gymlab-output", daemon=True)
    pump.start()
    atexit.register(_drain, pump, file)


def _pump(reading: int, file: int) -> None:
    with os.fdopen(reading, "rb") as source:
        while line := source.readline(_LONGEST_LINE):  # progress bars write no newlines
            with contextlib.suppress(OSError):  # a full disk must not block the writers
                os.write(file, redact(line.decode(errors="replace")).encode())


def _drain(pump: threading.Thread, file: int) -> None:
    """Close our ends of the pipe, so that the thread ends; a process that still holds it open is not waited for."""
    for fd in (1, 2):
        os.dup2(file, fd)
    pump.join(_DRAIN_SECONDS)
