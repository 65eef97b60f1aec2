"""Secrets do not reach a file: tokens, keys and passwords in command lines, texts and nested values become `***`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

MASK = "***"
_SHORTEST = 8  # shorter values of secret variables would blank out ordinary words

_NAME = r"[\w.-]*(?:passw(?:or)?d|passphrase|secret|token(?!s|iz)|credential|(?:api|access|private)[_-]?key)[\w.-]*"
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_SECRET_ENDING = re.compile(r"(?:[\w.-]*[._-])?(?:key|auth|pass)", re.IGNORECASE)
_ASSIGNED = re.compile(
    rf"(?i)(?P<name>\b{_NAME})(?P<sign>[\"']?\s*[=:]\s*)(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s&,;}}\]\"']+)"
)
_URL_LOGIN = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#@]+@")
_HEADER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}")
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
    for value in _secret_values():
        text = text.replace(value, MASK)
    text = _PEM.sub(MASK, text)
    text = _URL_LOGIN.sub(rf"\g<1>{MASK}@", text)
    text = _HEADER.sub(rf"\g<1> {MASK}", text)
    text = _TOKENS.sub(MASK, text)
    return _ASSIGNED.sub(rf"\g<name>\g<sign>{MASK}", text)


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
    if isinstance(value, Mapping):
        return {
            key: MASK if isinstance(item, str) and item and _is_secret_name(str(key)) else redact_tree(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_tree(item) for item in value]
    return redact(value) if isinstance(value, str) else value


def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None or _SECRET_ENDING.fullmatch(name) is not None


def _secret_values() -> list[str]:
    """Values of environment variables that are secret by name, longest first. Paths (`TOKEN_FILE`) are no secrets."""
    named = [value for name, value in os.environ.items() if _is_secret_name(name) and len(value) >= _SHORTEST]
    found = {value for value in named if not (value.startswith(("/", "~", ".")) and os.path.exists(value))}
    return sorted(found, key=len, reverse=True)
