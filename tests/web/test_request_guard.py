"""Who is let in, and what is never handed out. Every request goes to a real server."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tests.running import environment, gymlab
from tests.synthetic import make_run
from tests.web.browsing import serving

httpx = pytest.importorskip("httpx")
pytest.importorskip("nicegui")
TOKEN = "s3cretTokenOf20signs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "secret.txt").write_text("nobody's business")
    make_run(folder / "runs", "one")
    run = folder / "runs" / "one"
    (run / "videos").mkdir()
    (run / "videos" / "100-best.mp4").write_bytes(b"film")
    (run / "videos" / "100-best.json").write_text(json.dumps({"env_steps": 100, "kinds": ["best"]}))
    (run / "videos" / "200-best.mp4").symlink_to(folder / "secret.txt")
    (run / "videos" / "200-best.json").write_text(json.dumps({"env_steps": 200, "kinds": ["best"]}))
    (folder / "runs" / "linked").symlink_to(run)
    with serving(folder / "runs") as found:
        yield found


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("closed")
    make_run(folder / "runs", "one")
    with serving(folder / "runs", "--token", TOKEN) as found:
        yield found


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "", "localhost.evil"])
def test_a_foreign_host_is_refused(site, host):
    assert httpx.get(site.base, headers={"host": host}).status_code == 403
    assert httpx.get(site.base, headers={"host": site.base[7:]}).status_code == 200
    assert httpx.get(site.base, headers={"host": site.base[7:].replace("127.0.0.1", "localhost")}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_a_foreign_origin_reaches_neither_pages_nor_the_socket(site, origin):
    for path in ("/", "/_nicegui_ws/socket.io/?EIO=4&transport=polling"):
        assert httpx.get(site.base + path, headers={"origin": origin}).status_code == 403
    assert httpx.post(site.base + "/_nicegui_ws/socket.io/?EIO=4", headers={"origin": origin}).status_code == 403
    assert upgraded(site.base, origin) == 403


def test_what_changes_something_must_say_where_it_comes_from(site):
    assert httpx.post(site.base + "/").status_code == 403
    assert upgraded(site.base, None) == 403
    assert upgraded(site.base, site.base) == 101


def upgraded(base, origin):
    """The status with which a websocket is answered."""
    host, port = base[7:].split(":")
    lines = [
        "GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1", f"Host: {host}:{port}", "Upgrade: websocket",
        "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
        *([f"Origin: {origin}"] if origin else []), "", "",
    ]  # fmt: skip
    with socket.create_connection((host, int(port)), timeout=10) as wire:
        wire.sendall("\r\n".join(lines).encode())
        return int(wire.recv(64).split()[1])


@pytest.mark.parametrize(
    "path",
    [
        "/files/../secret.txt", "/files/%2e%2e/videos/secret.txt", "/files/..%2f/videos/secret.txt",
        "/files/one/videos/..%2f..%2fmanifest.json", "/files/one/videos/%2e%2e%2fmanifest.json",
        "/files/one/videos/200-best.mp4", "/files/linked/videos/100-best.mp4", "/files/one/manifest.json",
        "/files/one/videos/100-best.json", "/files/nobody/metrics.csv", "/files/..%2fone/metrics.csv",
        "/files/one/videos/%00", "/runs/one/manifest.json", "/_nicegui/../../secret.txt",
    ],
)  # fmt: skip
def test_no_file_but_a_runs_films_and_numbers_is_served(site, path):
    host, port = site.base[7:].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as wire:  # httpx would tidy the path
        wire.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: wire.recv(65536), b""))
    assert b"nobody's business" not in answer
    assert b"CartPole" not in answer
    assert int(answer.split()[1]) in (400, 403, 404)


def test_films_and_numbers_are_served(site):
    assert httpx.get(site.base + "/files/one/videos/100-best.mp4").content == b"film"
    part = httpx.get(site.base + "/files/one/videos/100-best.mp4", headers={"range": "bytes=1-2"})
    assert (part.status_code, part.content) == (206, b"il")
    rows = httpx.get(site.base + "/files/one/metrics.csv").text.splitlines()
    assert rows[0].startswith("updates,vec_steps,env_steps")
    assert len(rows) == 41


@pytest.mark.parametrize(
    "run_id", ["nobody", "..%2f..%2fetc", "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "linked", "x" * 300]
)
def test_a_run_that_is_not_there_is_said_so(site, run_id):
    answer = httpx.get(f"{site.base}/run/{run_id}")
    assert answer.status_code in (200, 404)
    assert "<script>alert" not in answer.text
    assert "CartPole" not in answer.text


def test_too_much_is_refused(site):
    own = {"origin": site.base}
    assert httpx.post(site.base + "/", headers=own, content=b"x" * (2**20 + 1)).status_code == 413
    endless = (b"x" * 65536 for _ in range(32))  # without a length
    try:
        status = httpx.post(site.base + "/_nicegui_ws/socket.io/?EIO=4&transport=polling", headers=own, content=endless)
        assert status.status_code in (400, 413)
    except httpx.HTTPError:
        pass  # cut off
    assert httpx.get(f"{site.base}/compare?runs={'a,' * 20_000}").status_code == 414
    assert httpx.get(f"{site.base}/compare?runs={'a,' * 3_000}").status_code == 200
    assert httpx.get(site.base).status_code == 200


def test_pages_may_load_nothing_from_elsewhere_nor_be_framed(site):
    headers = httpx.get(site.base).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"


def test_without_the_token_nobody_is_let_in(closed):
    for path in ("/", "/run/one", "/files/one/metrics.csv", "/_nicegui_ws/socket.io/?EIO=4&transport=polling"):
        assert httpx.get(closed.base + path).status_code == 401
        assert httpx.get(closed.base + path, params={"token": "wrong" * 4}).status_code == 401
    assert upgraded(closed.base, closed.base) == 403


def test_the_token_becomes_a_cookie_and_leaves_the_address(closed):
    assert closed.first.endswith(f"?token={TOKEN}")
    with httpx.Client() as client:
        first = client.get(f"{closed.base}/run/one?tab=Log&token={TOKEN}")
        assert (first.status_code, first.headers["location"]) == (303, "/run/one?tab=Log")
        assert "HttpOnly" in first.headers["set-cookie"]
        assert client.get(closed.base).status_code == 200
        assert client.get(f"{closed.base}//evil.example?token={TOKEN}").headers["location"] == "/evil.example"


def test_beyond_this_machine_a_token_is_demanded(folder):
    done = gymlab("web", "--no-open", "--host", "0.0.0.0", cwd=folder, check=False)
    assert done.returncode == 2
    assert "--token" in done.stderr
    assert gymlab("web", "--no-open", "--token", "short", cwd=folder, check=False).returncode == 2


def test_without_its_package_one_line_says_what_to_install(folder):
    script = "import sys; sys.modules['nicegui'] = None; sys.argv = ['gymlab', 'web']; " \
        "from gymlab.cli.main import main; main()"  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.strip() == "error: the web page needs an extra package: pip install 'gymlab[web]'"


def test_a_port_that_is_taken_is_said_so(site, folder):
    done = gymlab("web", "--no-open", "--port", site.base.rpartition(":")[2], cwd=folder, check=False)
    assert done.returncode == 2
    assert "--port 0" in done.stderr


def test_the_server_never_loads_jax(site):
    for path in ("/", "/run/one", "/compare?runs=one"):
        assert httpx.get(site.base + path).status_code == 200
    if os.path.exists(f"/proc/{site.pid}/maps"):
        with open(f"/proc/{site.pid}/maps") as maps:
            assert "jaxlib" not in maps.read()
