"""Over HTTP: this machine only, a token with every request, and no page of a stranger's may ask."""

import asyncio
import socket

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from mcp import Client
from tests.campaigns.queue_jobs import until
from tests.running import start

HELLO = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("http")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = start(
        "mcp", "--http", "--port", port, cwd=folder, GYMLAB_RUNS=str(folder / "runs"), GYMLAB_MCP_TOKEN="open-sesame"
    )
    until(lambda: answers(port), what="the server")
    yield f"http://127.0.0.1:{port}/mcp"
    server.terminate()
    server.communicate(timeout=30)


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def post(url, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(url, json=HELLO, headers={**ACCEPT, **named}).status_code


def test_a_request_without_the_token_or_from_elsewhere_is_refused(url):
    token = {"Authorization": "Bearer open-sesame"}
    assert post(url) == 401
    assert post(url, Authorization="Bearer guess") == 401
    assert post(url, **token, Origin="http://evil.example") == 403
    assert post(url, **token, Host="evil.example") == 421
    assert post(url, **token) not in (401, 403, 421)


def test_a_client_with_the_token_lists_the_tools_and_none_of_them_writes(url):
    async def names():
        headers = {"Authorization": "Bearer open-sesame"}
        http = httpx2.AsyncClient(headers=headers)
        async with http, Client(streamable_http_client(url, http_client=http)) as client:
            tools = (await client.list_tools()).tools
            runs = await client.call_tool("list_runs", {})
            return {tool.name for tool in tools}, runs.structured_content

    tools, runs = asyncio.run(names())
    assert "list_runs" in tools
    assert "start_training" not in tools
    assert runs["runs"] == []
