"""The web page as a user has it: a server process over a runs folder, and a headless browser that looks."""

import contextlib
import re
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

from tests.running import environment
from tests.waiting import wait_until

CHROMIUM = shutil.which("chromium")


@contextlib.contextmanager
def serving(runs, *arguments, **environ):
    """`gymlab web` over these runs; ends it, and sees that it ended well."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gymlab", "web", "--no-open", *map(str, arguments)],
        cwd=runs.parent, env=environment(GYMLAB_RUNS=str(runs), **environ),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        found = re.search(r"http://(\S+?:\d+)(\S*)", line)
        assert found, line + (process.stdout.read() if process.poll() is not None else "")
        base = f"http://{found[1]}"
        wait_until(lambda: answers(base), "an answer", seconds=60)
        yield SimpleNamespace(base=base, first=found[0], pid=process.pid, runs=runs, process=process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            said, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, said
    assert "Traceback" not in said, said


def answers(base):
    import httpx

    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(base, timeout=2).status_code in (200, 401)
    return False


@contextlib.contextmanager
def looking(browser, base, *, scheme="light", width=1280, expected=(), **options):
    """A tab; at its end nothing was complained about, and nothing was asked of anybody but the server."""
    troubles, requests = [], []
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(90_000)  # ends a test that hangs
    tab = context.new_page()
    tab.on("console", lambda told: troubles.append(told.text) if told.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    tab.on("dialog", lambda dialog: troubles.append(dialog.message))
    tab.on("request", lambda request: requests.append(request.url))
    try:
        yield tab
    finally:
        context.close()
    ours = (f"{base}/", base.replace("http", "ws", 1), "data:", "blob:")
    assert [url for url in requests if not url.startswith(ours)] == []
    troubles = [text for text in troubles if not any(known in text for known in expected)]
    assert not troubles, troubles


CHARTS = """() => [...document.querySelectorAll('.nicegui-echart')].map(element => {
    const chart = getElement(Number(element.id.slice(1))).chart;
    const options = chart ? chart.getOption() : null;
    return options && {
        title: options.title?.[0]?.text, series: options.series.map(s => ({name: s.name, data: s.data, type: s.type})),
        low: options.yAxis?.[0]?.min, high: options.yAxis?.[0]?.max,
        marks: options.series.flatMap(s => s.markArea?.data ?? []).length,
    };
}).filter(Boolean)"""


def charts(tab):
    """What the charts in sight draw, by title."""
    return {chart["title"]: chart for chart in tab.evaluate(CHARTS)}


def drawn(tab, title, seconds=20):
    """A chart, once there is a line in it."""
    return wait_until(
        lambda: (found := charts(tab).get(title)) and any(s["data"] for s in found["series"]) and found,
        title,
        seconds=seconds,
    )
