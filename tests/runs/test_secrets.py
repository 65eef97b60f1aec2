"""Twenty secrets go through whole runs, a crash and a resume: none of them is in anything that was written."""

import json

import pytest

from gymlab.core.errors import UserError
from gymlab.recipes.resolve import read_run_recipe, resolve
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from gymlab.session.start import Continuation, resume
from tests.running import environment
from tests.waiting import wait_until_gone

BODY = "c4naryBODY"  # in all of them, and nowhere else
IN_ENVIRONMENT = {
    "CANARY_TOKEN": f"{BODY}-env-token",
    "HF_TOKEN_CANARY": f"hf_{BODY}0123456789abcdef",
    "CANARY_API_KEY": f"{BODY}-env-key with spaces",
    "CANARY_PASSWORD": f"{BODY}'quoted\"password",
    "AWS_SECRET_ACCESS_KEY_CANARY": f"{BODY}/aws+secret=",
    "CANARY_PRIVATE_KEY": f"-----BEGIN PRIVATE KEY-----\n{BODY}LINEONE\n{BODY}LINETWO\n-----END PRIVATE KEY-----",
    "CANARY_PASSPHRASE": f"{BODY}\\back\\slashes\ttab",
    "WANDB_API_KEY_CANARY": f"{BODY}{'0123456789abcdef' * 2}",
    "CANARY_CREDENTIALS": f"{BODY}-ünïcode-credentials",
}
IN_ARGV = [
    "--note", f"password={BODY}-in-note and https://someone:{BODY}-login@host.example/x",
    "--group", f"sk-{BODY}-0123456789abcdef",
    "--tag", f"ghp_{BODY}0123456789abcdef",
    f"env.kwargs.api_key={BODY}-argv-key",
]  # fmt: skip
RECIPE = f"""
# password: {BODY}-in-a-comment
env:
  id: tests.runs.canaries:Talkative-v0
  kwargs:
    url: "https://user:{BODY}-url-password@host.example/sim"  # token={BODY}-behind-a-value
    header: "Authorization: Bearer {BODY}0123456789"
    note: "glpat-{BODY}0123456789abcdef and AKIA{"C4NARYBODY" + "0123456789"[:6]}"
    fails_at: 40
variants:
  loud:
    budget: 256 env_steps
    n_envs: 4
    n_steps: 8
    vectorization: processes
    workers: 2
    policy: {{hidden: [8]}}
    eval: {{episodes: 4, final_episodes: 4, max_envs: 4}}
    ppo: {{batch_size: 32}}
"""
MARKS = (BODY.encode(), BODY.upper().encode(), "ünïcode-credentials".encode(), b"\\u00fcn\\u00efcode-credentials")


def hits(folder):
    """Files that hold a canary, and where. The recipe file is the user's own."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "loud.yaml":
            data = path.read_bytes()
            found += [(str(path), data[max(0, data.find(m) - 60) : data.find(m) + 60]) for m in MARKS if m in data]
    return found


def status_at_the_end(paths):
    wait_until_gone([json.loads(paths.status.read_text())["pid"]])
    return read_status(paths)["status"]


def crashed(cli, monkeypatch):
    """A detached run that died of its env, with all canaries in it."""
    for name, value in {**IN_ENVIRONMENT, "PYTHONPATH": environment()["PYTHONPATH"]}.items():
        monkeypatch.setenv(name, value)
    (cli.folder / "loud.yaml").write_text(RECIPE, encoding="utf-8")
    paths = RunPaths(cli.folder / "runs/loud")
    assert cli("train", "loud.yaml", *IN_ARGV, "--run-id", "loud", "--full-budget", "--detach").code == 0
    assert status_at_the_end(paths) == "failed"
    return paths


def test_no_secret_is_in_anything_that_a_detached_run_writes_which_crashes(cli, monkeypatch):
    paths = crashed(cli, monkeypatch)
    console, log = (paths.root / "console.log").read_text(), paths.log.read_text()
    for told in ("printed ***", "to stderr ***", "written to the descriptor: ***", "https://***@host.example/sim"):
        assert told in console
    assert "RuntimeError: cannot log in with ***" in log
    assert hits(cli.folder) == []
    lost = cli("resume", "loud")
    assert lost.code == 2
    assert "env.kwargs.api_key: a secret, which the run does not store: pass it again" in lost.err


@pytest.mark.slow
def test_no_secret_is_in_anything_that_is_written_when_such_a_run_goes_on(cli, monkeypatch):
    paths = crashed(cli, monkeypatch)
    kwargs = resolve("loud.yaml").recipe.env.kwargs
    again = [f"env.kwargs.{name}={json.dumps(kwargs[name])}" for name in ("url", "header", "note")]
    assert cli("resume", "loud", "env.kwargs.fails_at=100000", *again, IN_ARGV[-1], "--detach").code == 0
    assert status_at_the_end(paths) == "finished"
    changes = json.loads(paths.manifest.read_text())["sessions"][0]["changes"]
    assert changes == [["env.kwargs.fails_at", 40, 100000]]
    for page in (["report", "loud"], ["runs", "show", "loud"], ["runs", "export", "loud", "--csv", "metrics.csv"]):
        assert cli(*page).code == 0
    assert hits(cli.folder) == []


def test_a_recipe_keeps_what_only_looks_like_a_secret_and_loads_again(folder, monkeypatch):
    # Words of ours are never masked, even where a secret of the user's is the same word.
    monkeypatch.setenv("SESSION_KEY", "gymnasium")
    settings = ["env.kwargs={sutton_barto_reward: true}", "policy.hidden=[8]", "env.actions=[password, token]"]
    recipe = resolve("CartPole-v1:ppo", settings, engine="gymnasium").recipe
    (folder / "kept.yaml").write_text(dump_redacted_recipe(recipe))
    assert read_run_recipe(folder / "kept.yaml") == recipe


def test_a_masked_recipe_is_whole_yaml_and_names_what_it_lacks(cli):
    done = cli(
        "train", "tests.runs.canaries:Talkative-v0", "n_envs=4", "n_steps=8", "batch_size=32", "policy.hidden=[8]",
        "env.kwargs.api_key=c4naryWORD", "env.kwargs.note=plain words", "eval.final_episodes=4", "eval.max_envs=4",
        "--budget", "32", "--run-id", "one", "-q", "--full-budget",
    )  # fmt: skip
    assert done.code == 0, done.err
    paths = RunPaths(cli.folder / "runs/one")
    assert "c4naryWORD" not in paths.recipe.read_text()
    assert read_run_recipe(paths.recipe).env.kwargs == {"api_key": "***", "note": "plain words"}
    with pytest.raises(UserError, match=r"^env\.kwargs\.api_key: a secret, which the run does not store"):
        resume(paths, Continuation(budget="64"))
    assert "env.kwargs.api_key: a secret" in cli("eval", "one").err
    notes = []
    how = Continuation(budget="64", overrides=("env.kwargs.api_key=c4naryWORD",))
    resume(paths, how, announce=lambda summary: notes.extend(summary.notes))
    assert notes[0].startswith("resumed (exact) at 32 env_steps")
    assert notes[1:2] == ["changed budget: 32 env_steps -> 64 env_steps"]
    assert "c4naryWORD" not in paths.recipe.read_text() + paths.manifest.read_text() + paths.log.read_text()
