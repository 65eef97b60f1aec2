"""A real MCP client (the official SDK) in a thread of its own, so that tests can call tools one after the other."""

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

from mcp import Client, StdioServerParameters
from tests.running import environment

TINY = ["policy.hidden=[4]", "metrics.statistics=basic", "eval.episodes=2", "eval.final_episodes=2", "ppo.epochs=1"]


class Session:
    """A server process over stdio and a client connected to it."""

    def __init__(self, folder, *flags):
        environ = environment(GYMLAB_RUNS=str(folder / "runs"))
        self._server = StdioServerParameters(
            command=sys.executable, args=["-m", "gymlab", "mcp", *flags], env=environ, cwd=folder
        )
        self.letters = 0  # of all answers, as a model reads them
        self._loop, self._ready = asyncio.new_event_loop(), threading.Event()
        self._fault = None
        self._thread = threading.Thread(target=self._live, daemon=True)
        before = servers()
        self._thread.start()
        assert self._ready.wait(60)
        if self._fault is not None:
            raise self._fault
        (self.pid,) = servers() - before

    def _live(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self):
        self._over = asyncio.Event()
        try:
            async with Client(self._server) as self.client:
                self._ready.set()
                await self._over.wait()
        except BaseException as fault:  # a server that was killed ends its client too
            self._fault = fault
        self._ready.set()

    def ask(self, coroutine, seconds=120):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(seconds)

    def call(self, tool, /, **arguments):
        return self._told(self.ask(self.client.call_tool(tool, arguments)))

    def together(self, calls):
        """Many calls at once."""

        async def all_of_them():
            return await asyncio.gather(*(self.client.call_tool(tool, given) for tool, given in calls))

        return [self._told(result) for result in self.ask(all_of_them())]

    def _told(self, result):
        text = "".join(block.text for block in result.content if block.type == "text")
        images = [block for block in result.content if block.type == "image"]
        self.letters += len(text)
        data = result.structured_content
        kind = data["error"]["kind"] if result.is_error and data else None
        return SimpleNamespace(error=result.is_error, kind=kind, text=text, data=data, images=images)

    def close(self):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._loop.close()


def servers():
    """Servers that this process has started."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            line = (entry / "cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            continue
        if parent == os.getpid() and b"gymlab\0mcp" in line:
            found.add(int(entry.name))
    return found


def size(answer):
    return len(json.dumps(answer.data))
