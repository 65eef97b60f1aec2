"""As much of a W&B server as a run needs: it takes rows, gives them back to who resumes, and can be cut off."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WandbServer(ThreadingHTTPServer):
    """Answers on this machine alone. While `away` it accepts connections and says nothing, as a dead network does."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests, self.runs = [], {}
        self.back = threading.Event()
        self.back.set()
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    @property
    def environment(self):
        return {
            "WANDB_BASE_URL": f"http://127.0.0.1:{self.server_port}",
            "WANDB_API_KEY": "a" * 40,
            "WANDB_MODE": "online",
        }

    def away(self):
        self.back.clear()

    def history(self, run_id):
        return [json.loads(line) for line in self.runs[run_id]["history"]]

    def graphql(self, name, values):
        if name == "Viewer":
            return {"viewer": {"id": "user", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}}
        if name == "RunResumeStatus":
            run = self.runs.get(values["name"])
            return {
                "model": {"id": "p", "name": "p", "entity": {"id": "e", "name": "me"}, "bucket": run and _bucket(run)}
            }
        if name == "UpsertBucket":
            fresh = values["name"] not in self.runs
            run = self.runs.setdefault(values["name"], {"id": values["name"], "history": [], "summary": "{}"})
            run.update({key: value for key, value in values.items() if value is not None})
            return {"upsertBucket": {"bucket": _bucket(run), "inserted": fresh}}
        if name == "CreateRunFiles":
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": []}}
        return {}

    def take(self, run_id, files):
        run = self.runs[run_id]
        if "wandb-history.jsonl" in files:
            part = files["wandb-history.jsonl"]
            run["history"][part["offset"] :] = part["content"]
        if "wandb-summary.json" in files:
            run["summary"] = files["wandb-summary.json"]["content"][-1]

    def handle_error(self, *_):
        """A client that gave up waiting is what is tested."""

    def __exit__(self, *_):
        self.back.set()
        self.shutdown()
        self.server_close()


def _bucket(run):
    return {
        "id": run["id"], "name": run["id"], "displayName": run.get("displayName", ""), "description": None,
        "config": run.get("config", "{}"), "sweepName": None, "historyLineCount": len(run["history"]),
        "logLineCount": 0, "eventsLineCount": 0, "historyTail": json.dumps(run["history"][-1:]), "eventsTail": "[]",
        "summaryMetrics": run["summary"], "tags": [], "wandbConfig": '{"t": 1}',
        "project": {"id": "p", "name": run.get("project", "p"), "entity": {"id": "e", "name": "me"}},
    }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.server.back.wait()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        self.server.requests.append((self.path, body))
        if self.path == "/graphql":
            asked = json.loads(body)
            self._answer({"data": self.server.graphql(asked.get("operationName"), asked.get("variables") or {})})
        elif self.path.endswith("/file_stream"):
            self.server.take(self.path.split("/")[4], json.loads(body).get("files", {}))
            self._answer({"exitcode": None, "limits": {}})
        else:
            self._answer({})

    def _answer(self, told):
        data = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass
