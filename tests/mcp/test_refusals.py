"""Malformed calls, unknown ids, path tricks, huge overrides, many calls at once: typed errors, and nothing left."""

import json
import subprocess
import sys

import pytest

from gymlab.core.errors import UserError
from gymlab.mcp.config import ServerConfig
from tests.campaigns.queue_jobs import processes_of, until
from tests.mcp.client import Session
from tests.running import environment

WRONG = {
    "an unknown tool": ("start_trainin", {}),
    "a missing argument": ("status", {}),
    "an unknown argument": ("status", {"run": "@last", "verbose": True}),
    "a wrong type": ("metrics", {"run": "@last", "points": "many"}),
    "out of bounds": ("wait", {"run": "@last", "timeout_s": 1e9}),
    "an unknown run": ("show_run", {"run": "no-such-run"}),
    "a path": ("show_run", {"run": "../../etc"}),
    "an absolute path": ("logs", {"run": "/etc"}),
    "a zero byte": ("logs", {"run": "a\0b"}),
    "a link's name": ("report", {"run": ".queue"}),
    "an option": ("evaluate", {"run": "--help"}),
    "an unknown recipe": ("start_training", {"recipe": "CartPole-v1:nothing"}),
    "an option as a recipe": ("start_training", {"recipe": "--detach-v1"}),
    "a file as a recipe": ("start_training", {"recipe": "/etc/passwd.yaml"}),
    "a module as a recipe": ("start_training", {"recipe": "os:system"}),
    "a module that registers": ("show_recipe", {"recipe": "my_module:Env-v0"}),
    "code in an override": ("start_training", {"recipe": "CartPole-v1", "overrides": ["env.wrappers+=[os:system]"]}),
    "a file in an override": ("start_training", {"recipe": "CartPole-v1", "overrides": ["alerts.rules=./x.yaml"]}),
    "an import": ("start_training", {"recipe": "CartPole-v1", "overrides": ["imports=[antigravity]"]}),
    "an option as an override": ("start_training", {"recipe": "CartPole-v1", "overrides": ["--detach"]}),
    "a huge override": ("start_training", {"recipe": "CartPole-v1", "overrides": ["note=" + "x" * 100_000]}),
    "many overrides": ("start_training", {"recipe": "CartPole-v1", "overrides": ["n_envs=8"] * 1000}),
    "a bad condition": ("wait", {"run": "@last", "until": "__import__('os')"}),
    "a bad time": ("digest", {"since": "yesterday"}),
    "an unknown sweep": ("sweep_status", {"name": "../x"}),
    "seeds that are none": ("start_training", {"recipe": "CartPole-v1", "seeds": "1; rm"}),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_call_gives_a_typed_error_that_is_short(lived, session, what):
    tool, arguments = WRONG[what]
    found = session.call(tool, **arguments)
    assert found.error
    assert found.kind == "input", found.text
    assert len(found.text) < 1000
    assert "Traceback" not in found.text


def test_fifty_calls_at_once_are_all_answered(lived, session):
    calls = [("status", {"run": lived.run})] * 20 + [("metrics", {"run": lived.run})] * 10
    calls += [WRONG["a path"], WRONG["an unknown tool"]] * 9 + [("validate_recipe", {"recipe": "Acrobot-v1:ppo"})] * 2
    answers = session.together(calls)
    assert len(answers) == 50
    assert sum(answer.error for answer in answers) == 18
    assert {answer.kind for answer in answers if answer.error} == {"input"}
    assert session.call("status", run=lived.run).data["status"] == "finished"


@pytest.mark.slow
def test_too_many_calls_that_need_a_process_are_told_to_come_back(lived, session):
    answers = session.together([("validate_recipe", {"recipe": "CartPole-v1:ppo"})] * 50)
    assert {answer.kind for answer in answers if answer.error} == {"busy"}
    assert sum(not answer.error for answer in answers) >= 12
    until(lambda: not any("config" in line for line in processes_of(lived.folder / "runs")))


def test_a_server_that_may_only_read_offers_nothing_that_writes_and_one_that_may_delete_does(lived):
    reader = Session(lived.folder, "--read-only", "--allow-delete")
    try:
        names = {tool.name for tool in reader.ask(reader.client.list_tools()).tools}
        assert not {"start_training", "stop", "resume", "sweep_start"} & names
        assert "delete_run" in names
        assert reader.call("delete_run", run="@last").kind == "input"
        assert reader.call("delete_run", run=lived.run[:-1]).kind == "input"
    finally:
        reader.close()


def test_code_by_reference_is_let_through_only_where_the_server_allows_it(tmp_path):
    strict, open_ = ServerConfig(tmp_path), ServerConfig(tmp_path, allow_code=True)
    for text in ("env.wrappers+=[pkg.mod:Wrap]", "features=[./f.py:F]", "env.id=m:Env-v0", "alerts.rules=/etc/x.yaml"):
        with pytest.raises(UserError, match="--allow-code"):
            strict.overrides([text])
        assert open_.overrides([text]) == [text]
    fine = ["learning_rate={start: 1e-3, end: 0}", "env.wrappers+=[{frame_stack: 4}]", "policy.hidden=[64, 64]"]
    assert strict.overrides(fine) == fine
    for recipe in ("CartPole-v1", "ALE/Pong-v5:rgb", "LunarLander-v3:ppo"):
        assert strict.recipe(recipe) == recipe


def test_lines_that_are_no_messages_do_not_hurt_and_the_server_ends_with_its_client(tmp_path):
    server = subprocess.Popen(
        [sys.executable, "-m", "gymlab", "mcp"], cwd=tmp_path, env=environment(GYMLAB_RUNS=str(tmp_path / "runs")),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    about = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
    garbage = ["not json", "{}", '{"jsonrpc": "2.0"}', "[1, 2]", '{"jsonrpc": "2.0", "id": 5, "method": 7}', "\x00\x01"]
    for line in [*garbage, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})]:
        server.stdin.write(line + "\n")
    server.stdin.flush()
    answers = (json.loads(line) for line in server.stdout)
    found = next(answer for answer in answers if answer.get("id") == 1)
    assert found["result"]["serverInfo"]["name"] == "gymlab"
    server.communicate(timeout=60)  # closes its stdin
    assert server.returncode == 0
    assert processes_of(tmp_path / "runs") == []
