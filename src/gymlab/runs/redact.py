"""Secrets do not reach a file: tokens, keys and passwords in command lines, texts and nested values become `***`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

MASK = "***"
_SHORTEST = 8  # shorter values of secret variables would blank out ordinary words
_kept: set[str] = set()  # values this process was told to keep to itself

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
    """Mask these values too from here on, wherever they turn up; very short ones are ordinary words as well."""
    _kept.update(value for value in values if len(value) >= _SHORTEST)


def redact_argv(argv: Sequence[str]) -> list[str]:
    """A command line without its secrets; stricter than text, for nothing is read back from it."""
    shown: list[str] = []
    for word in argv:
        before = shown[-1] if shown else ""
        if _FLAG.fullmatch(before) and _is_secret_name(before.lstrip("-")) and not word.startswith("-"):
            shown.append(MASK)
            continue
        clean = _BARE_KEY.sub(rf"\g<name>={MASK}", redact(word))
        name, sign, value = clean.rpartition("=")
        shown.append(f"{name}{sign}{MASK}" if _OPAQUE.fullmatch(value) else clean)
    return shown


def redact_tree(value: Any) -> Any:
    """Nested mappings and sequences without their secrets: values under a secret name, and secrets inside texts."""
    return _redacted_tree(value, _secret_values())


def _redacted_tree(value: Any, values: Sequence[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: MASK if isinstance(item, str) and item and _is_secret_name(str(key)) else _redacted_tree(item, values)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted_tree(item, values) for item in value]
    return _redacted(value, values) if isinstance(value, str) else value


def secrets_in(value: Any) -> Iterator[str]:
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
    for word, shown in zip(argv, redact_argv(argv), strict=True):
        if word != shown:
            yield from _secrets_inside(word)
            yield word if shown == MASK else word.rpartition("=")[2] if shown.endswith(f"={MASK}") else ""


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
    """What is kept secret, and environment variables that are secret by name, longest first.

    Paths (`TOKEN_FILE`) are no secrets. Of a text of several lines each counts, for output may come line by line, and
    so does every way in which programs write a text down.
    """
    named = [value for name, value in os.environ.items() if _is_secret_name(name) and len(value) >= _SHORTEST]
    whole = {value for value in named if not (value.startswith(("/", "~", ".")) and os.path.exists(value))} | _kept
    lines = {line for value in whole if "\n" in value for line in value.splitlines() if len(line) >= 2 * _SHORTEST}
    return sorted({written for value in whole | lines for written in _spellings(value)}, key=len, reverse=True)


@lru_cache(maxsize=256)
def _spellings(value: str) -> tuple[str, ...]:
    return value, repr(value)[1:-1], ascii(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe="")
