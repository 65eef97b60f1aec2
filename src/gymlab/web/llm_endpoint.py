"""A language model that answers over HTTP: OpenAI's way of speaking (which most local servers speak too), or
Anthropic's. Sent text and nothing else: no tools, no files.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

from gymlab.core.errors import RunError, UserError
from gymlab.core.types import Json
from gymlab.recipes.project_settings import llm_settings

EXTRA = "asking a model needs an extra package: pip install 'gymlab[llm]'"
_LONGEST_ANSWER = 40_000
_SECONDS = 120.0


@dataclass(frozen=True)
class Endpoint:
    """Where to ask, and whom."""

    url: str
    model: str
    kind: str  # openai or anthropic
    key: str | None

    @property
    def name(self) -> str:
        return f"{self.model} at {self.url}"

    @property
    def address(self) -> str:
        base = self.url.rstrip("/")
        if self.kind == "anthropic":
            return base if base.endswith("/messages") else f"{base.removesuffix('/v1')}/v1/messages"
        return base if base.endswith("/chat/completions") else f"{base}/chat/completions"

    def headers(self) -> dict[str, str]:
        if self.kind == "anthropic":
            return {"anthropic-version": "2023-06-01", **({"x-api-key": self.key} if self.key else {})}
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    def body(self, text: str) -> dict[str, Json]:
        return {
            "model": self.model,
            "stream": True,
            "max_tokens": 1500,
            "messages": [{"role": "user", "content": text}],
        }


def configured() -> Endpoint | None:
    """The endpoint of gymlab.toml's [llm], else of the environment; None where there is none."""
    config = llm_settings()
    url = config.get("url") or os.environ.get("GYMLAB_LLM_URL")
    if not url:
        return None
    if not url.startswith(("http://", "https://")):
        raise UserError(f"llm.url: expected http:// or https://, got {url[:80]!r}")
    kind = config.get("kind") or os.environ.get("GYMLAB_LLM_KIND") or ("anthropic" if "anthropic" in url else "openai")
    model = config.get("model") or os.environ.get("GYMLAB_LLM_MODEL") or "default"
    variable = config.get("key_env") or "GYMLAB_LLM_KEY"
    return Endpoint(url, model, kind, os.environ.get(variable) or None)


async def stream(endpoint: Endpoint, text: str) -> AsyncIterator[str]:
    """The answer, piece by piece; RunError in words where there is none."""
    try:
        import httpx
    except ImportError as error:
        raise UserError(EXTRA) from error
    length = 0
    try:
        async with (
            httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False) as client,
            client.stream("POST", endpoint.address, headers=endpoint.headers(), json=endpoint.body(text)) as answer,
        ):
            if answer.status_code != 200:
                said = (await answer.aread()).decode(errors="replace")[:300]
                raise RunError(f"{endpoint.name} answered {answer.status_code}: {said}")
            async for line in answer.aiter_lines():
                piece = _piece(line)
                length += len(piece)
                if length > _LONGEST_ANSWER:
                    break
                if piece:
                    yield piece
    except httpx.HTTPError as error:
        raise RunError(f"{endpoint.name} cannot be reached: {error or type(error).__name__}") from error


def _piece(line: str) -> str:
    """The text in one event, of either way of speaking."""
    if not line.startswith("data:"):
        return ""
    try:
        event = json.loads(line.removeprefix("data:"))
        if "choices" in event:
            return str(event["choices"][0]["delta"].get("content") or "")
        return str(event["delta"].get("text") or "") if event.get("type") == "content_block_delta" else ""
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return ""  # `[DONE]`, pings, and what else comes along
