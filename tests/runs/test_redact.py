"""Secrets become ***; everything else stays."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from gymlab.runs.redact import argv_secrets, keep_secret, redact, redact_argv, redact_tree, secrets_in

HF = "hf_" + "aB3dE6gH9jK2mN5pQ8sT"
HEX40 = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "text",
    [
        f"token is {HF}",
        "https://user:s3cr3t-canary@host.example/x",
        "postgresql+psycopg://s3cr3t-canary@db/x",
        "WANDB_API_KEY=s3cr3t-canary",
        "wandb.api-key: s3cr3t-canary  # a comment",
        '{"password": "s3cr3t-canary"}',
        "password='s3cr3t-canary with spaces'",
        "https://host/x?access_token=s3cr3t-canary&b=1",
        "Authorization: Bearer s3cr3t-canary",
        "authorization: basic s3cr3t-canary",
        "{'Authorization': 'Basic s3cr3t-canary'}",
        "aws AKIA" + "S3CR3TCANARY1234",
        "sk-" + "proj-s3cr3t-canary-0123456789",
        "ghp_" + "s3cr3tcanary0123456789",
        "-----BEGIN RSA PRIVATE KEY-----\ns3cr3t-canary\n-----END RSA PRIVATE KEY-----",
        "eyJhbGciOiJIUzI1NiJ9.s3cr3tcanarypayload.c2lnbmF0dXJl",
    ],
)
def test_secrets_in_texts_are_masked(text: str) -> None:
    clean = redact(text)
    assert "***" in clean
    assert "canary" not in clean.lower()
    assert HF not in clean


@pytest.mark.parametrize(
    "text",
    [
        "learning_rate: lin_3e-4  # tuned",
        "max_tokens: 512",
        "tokenizer=bpe",
        f"commit {HEX40}",
        "sha256: " + HEX40 + HEX40[:24],
        "https://host.example/path?x=1",
        "a@b.example wrote: keys are fine",
        "cartpole-v1-ppo-20261115-054200-ab12",
        "env:\n  id: CartPole-v1\n  kwargs: {key: left, gravity: -9.8}\n",
        "a basic environment, and basic understanding",
    ],
)
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


def test_values_of_secret_variables_are_masked_wherever_they_turn_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "plainwordcanary")
    monkeypatch.setenv("DEPLOY_KEY", "otherwordcanary")
    assert redact("x plainwordcanary y otherwordcanary") == "x *** y ***"


def test_the_current_folder_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", "/home/somebody/project")
    monkeypatch.setenv("TOKEN_FOLDER", "/tmp/")
    assert redact("/home/somebody/project and /tmp/x") == "/home/somebody/project and /tmp/x"


def test_command_lines_are_masked_and_stay_readable() -> None:
    argv = ["gymlab", "train", "CartPole-v1:ppo", "learning_rate=1e-3", "--seed", "3"]
    assert redact_argv(argv) == argv
    secret = ["--token", "abc", "--api-key=abc", "key=abc", "hub.key=abc", "--wandb-key", HEX40, HEX40, f"x={HEX40}"]
    assert redact_argv([*argv, *secret]) == [
        *argv,
        *("--token", "***", "--api-key=***", "key=***", "hub.key=***", "--wandb-key", "***", "***", "x=***"),
    ]


def test_nested_values_are_masked_by_name_and_by_look() -> None:
    tree = {"hub": {"token": "abc", "max_tokens": 7}, "urls": [f"https://u:{HF}@h/"], "seed": 3, "ok": None}
    assert redact_tree(tree) == {
        "hub": {"token": "***", "max_tokens": 7},
        "urls": ["https://***@h/"],
        "seed": 3,
        "ok": None,
    }


def test_a_secret_is_masked_however_it_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    value = 'it\'s a "canary"\\with ünïcode\tand more'
    monkeypatch.setenv("MY_TOKEN", value)
    for written in (value, repr([value]), ascii({1: value}), json.dumps({"a": value}), f"https://h/?q={quote(value)}"):
        assert "canary" not in redact(written)
    monkeypatch.setenv("MY_PRIVATE_KEY", "-----BEGIN KEY-----\ncanaryFIRSTLINE0\ncanarySECONDLINE\n-----END KEY-----")
    assert [redact(line) for line in ("x canaryFIRSTLINE0", "canarySECONDLINE y")] == ["x ***", "*** y"]


def test_what_is_found_secret_once_is_masked_from_then_on() -> None:
    tree = {"env": {"kwargs": {"api_key": "canaryword-1", "url": "https://me:canaryword-2@h/", "level": "plainword"}}}
    argv = ["train", "--token", "canaryword-3", "x.password=canaryword-4", "--note", "the secret: patience is all"]
    found = {*secrets_in(tree), *argv_secrets(argv)}
    assert {f"canaryword-{n}" for n in range(1, 5)} <= found
    assert not {"plainword", "patience"} & found
    keep_secret(found)
    told = redact("login with canaryword-1, canaryword-2, canaryword-3 and canaryword-4 failed: patience, plainword")
    assert told == "login with ***, ***, *** and *** failed: patience, plainword"
