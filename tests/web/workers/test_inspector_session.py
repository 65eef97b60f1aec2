"""An episode taken apart: every number is training's own, and what the policy would say is what `predict` says."""

import jax
import numpy as np
import pytest

import gymlab
from gymlab.core.errors import UserError
from gymlab.core.types import Replayed, Rollout
from gymlab.experience import advantages
from gymlab.media import policy_player
from gymlab.media.episode_trace import read_csv
from gymlab.networks.distributions import Categorical
from gymlab.web.workers.inspector_session import InspectorSession
from gymlab.web.workers.step_table import EpisodeRequest
from tests.web.workers.made import run_of


@pytest.fixture(scope="module")
def cart(made_runs, tmp_path_factory):
    session = InspectorSession(run_of(made_runs, "cart"), tmp_path_factory.mktemp("pictures"))
    yield session
    session.close()


@pytest.fixture(scope="module")
def episode(cart):
    return cart.episode(EpisodeRequest(sampled=True), "e0")


def network_and_policy(session):
    policy = session.player.policy(session.loaded("best").policy)
    return session.player.agent.algorithm.network(policy.weights), policy


def test_returns_and_advantages_are_the_code_of_training():
    assert policy_player.advantages is advantages


def test_gae_is_what_the_algorithm_would_have_learnt_from(cart, episode):
    rows = episode["rows"]
    network, policy = network_and_policy(cart)

    def column(name, dtype):
        return np.array([row[name] for row in rows], dtype)[:, None]

    obs = cart.player.agent.normalising.observe(policy.normaliser, column("observation", np.float32))
    ends = {name: column(name, bool) for name in ("terminated", "truncated")}
    assert ends["terminated"][-1, 0]  # so that no successor counts
    rollout = Rollout(**dict.fromkeys(Rollout._fields, ()))._replace(
        obs=obs, action=column("action", int), log_prob=column("log_prob", np.float32), successor=obs, last_obs=obs[-1],
        fresh=ends["terminated"],
        train_reward=column("train_reward", np.float32), **ends,
    )  # fmt: skip
    settings = cart.player.return_settings
    batch = advantages.gae_batch(
        lambda steps: Replayed((), network.value(steps.obs)),
        lambda obs, *_: network.value(obs),
        (rollout,),
        settings.gamma,
        settings.lam,
    )
    assert [row["gae"] for row in rows] == pytest.approx(np.asarray(batch.advantage).tolist(), abs=1e-5)
    one_step = [r["train_reward"] + settings.gamma * n - r["value"]
                for r, n in zip(rows, [*(r["value"] for r in rows[1:]), 0.0], strict=True)]  # fmt: skip
    assert [row["td_error"] for row in rows] == pytest.approx(one_step, abs=1e-5)


def test_a_row_tells_what_the_env_gave_what_was_stacked_and_what_the_network_saw(cart, episode):
    rows = episode["rows"]
    _, policy = network_and_policy(cart)
    mean, var = (np.asarray(part) for part in policy.normaliser.obs[1:])
    for t, row in enumerate(rows):
        stack = [rows[max(0, t - back)]["raw"] for back in (2, 1, 0)]
        assert row["observation"] == pytest.approx(np.concatenate(stack).tolist())
        seen = np.clip((np.array(row["observation"]) - mean) / np.sqrt(var + 1e-8), -10, 10)
        assert row["network_input"] == pytest.approx(seen.tolist(), abs=1e-4)
        assert row["components"] == pytest.approx({"env": 1.0, "time": -0.05})
        assert row["reward"] == 1.0
        assert row["train_reward"] == pytest.approx(0.95)
        assert row["log_prob"] == pytest.approx(np.log(row["probability"]), rel=1e-5)
        p = np.array(row["probabilities"])
        assert row["entropy"] == pytest.approx(-(p * np.log(p)).sum(), rel=1e-4)


def test_every_number_seen_has_a_name_bounds_and_its_place_in_the_stack(cart):
    parts = cart.facts()["components"]
    assert [(part["name"], part["back"]) for part in parts[:5]] == [
        ("cart position", 2), ("cart velocity", 2), ("pole angle", 2), ("pole angular velocity", 2),
        ("cart position", 1),
    ]  # fmt: skip
    assert (parts[0]["low"], parts[0]["high"], parts[1]["low"]) == (pytest.approx(-4.8), pytest.approx(4.8), None)
    assert cart.facts()["labels"] == ["left", "right"]


def test_there_is_a_picture_of_every_step_and_of_the_end(cart, episode):
    assert len(episode["env_files"]) == len(episode["rows"]) + 1
    first = (cart._folder / episode["env_files"][0]).read_bytes()
    last = (cart._folder / episode["env_files"][-1]).read_bytes()
    assert first[:8] == last[:8] == b"\x89PNG\r\n\x1a\n"
    assert first != last


@pytest.mark.parametrize("name", ["cart", "bandit", "custom"])
def test_the_table_is_byte_for_byte_the_one_that_the_command_line_writes(made_runs, name, cli, tmp_path, monkeypatch):
    monkeypatch.setenv("GYMLAB_RUNS", str(made_runs))
    session = InspectorSession(run_of(made_runs, name), tmp_path)
    session.episode(EpisodeRequest(), "e0")
    session.close()
    for arguments in (["inspect", name, "--csv", "a.csv"], ["export", name, "--table", "a.csv"]):
        done = cli(*arguments)
        assert done.code == 0, done.err
        assert (cli.folder / "a.csv").read_bytes() == (tmp_path / "e0.csv").read_bytes()
        (cli.folder / "a.csv").unlink()


def test_the_page_s_rows_are_those_of_the_csv(cart, episode):
    written = read_csv(cart._folder / "e0.csv")
    assert [list(row) for row in written[:1]] == [list(row) for row in episode["rows"][:1]]
    assert written == [dict(row) for row in episode["rows"]]


def test_what_if_nothing_changes_says_what_the_policy_said(cart, episode):
    row = episode["rows"][3]
    told = cart.what_if("e0", 3)
    assert told["probabilities"] == row["probabilities"]
    assert told["value"] == row["value"]


def test_what_if_something_changes_says_what_predict_does(made_runs, cart, episode, monkeypatch):
    monkeypatch.setenv("GYMLAB_RUNS", str(made_runs))
    loaded, (network, policy) = gymlab.load("cart/best"), network_and_policy(cart)
    actions = set()
    for angle in (-1.0, 1.0):
        observation = list(episode["rows"][0]["observation"])
        observation[8:12] = [5 * angle, 3 * angle, angle, 3 * angle]
        told = cart.what_if("e0", 0, observation)
        action, _ = loaded.predict(np.array(observation, np.float32))
        assert told["action"] == int(action) == int(np.argmax(told["probabilities"]))
        seen = cart.player.agent.normalising.observe(policy.normaliser, np.array([observation], np.float32))
        chosen = network.distribution(seen)
        assert isinstance(chosen, Categorical)
        assert told["probabilities"] == pytest.approx(np.exp(np.asarray(chosen.log_p[0])).tolist(), rel=1e-5)
        actions.add(tuple(told["probabilities"]))
    assert len(actions) == 2
    with pytest.raises(UserError, match="shape"):
        cart.what_if("e0", 0, [1.0, 2.0])


def test_a_forced_action_changes_the_episode_from_its_step_on_and_not_before(cart, episode):
    rows = episode["rows"]
    other = 1 - rows[4]["action"]
    forced = cart.episode(EpisodeRequest(sampled=True, forced={4: other}), "e1")["rows"]
    known = [column for column in rows[0] if column not in ("return_to_go", "advantage", "gae")]  # they know the future
    for t in range(4):
        assert {c: forced[t][c] for c in known} == {c: rows[t][c] for c in known}
    assert forced[4]["action"] == other
    assert forced[4]["probability"] == pytest.approx(rows[4]["probabilities"][other], rel=1e-5)
    assert forced[5]["raw"] != rows[5]["raw"]
    cart.forget("e1")
    with pytest.raises(UserError, match="run it again"):
        cart.what_if("e1", 0)


def test_attribution_is_the_slope_that_small_changes_show(cart, episode):
    row = episode["rows"][2]
    found = cart.attribution("e0", 2)
    for place in (8, 9, 10, 11):
        ways = []
        for sign in (1, -1):
            observation = list(row["observation"])
            observation[place] += sign * 1e-2
            told = cart.what_if("e0", 2, observation)
            ways.append((np.log(told["probabilities"][row["action"]]), told["value"]))
        slopes = (np.array(ways[0]) - np.array(ways[1])) / 2e-2
        assert found["policy"][place] == pytest.approx(slopes[0], abs=2e-3)
        assert found["value"][place] == pytest.approx(slopes[1], abs=2e-2)
    assert np.abs(found["policy"]).max() > 1e-3


def test_choices_have_no_gradient_and_it_says_so(made_runs, tmp_path):
    session = InspectorSession(run_of(made_runs, "lake"), tmp_path)
    session.episode(EpisodeRequest(max_steps=2), "e0")
    with pytest.raises(UserError, match="no gradient"):
        session.attribution("e0", 0)
    session.close()


def test_dict_observations_and_several_choices_at_once_are_told_part_by_part(made_runs, tmp_path):
    session = InspectorSession(run_of(made_runs, "custom"), tmp_path)
    row = session.episode(EpisodeRequest(max_steps=2), "e0")["rows"][0]
    assert [part["path"] for part in session.facts()["components"]] == [("kind",), ("position", 0), ("position", 1)]
    assert [len(choices) for choices in row["distribution"]["choices"]] == [3, 2]
    best = [int(np.argmax(choices)) for choices in row["distribution"]["choices"]]
    assert row["action"] == best  # greedy
    told = session.what_if("e0", 0, {"kind": (row["observation"]["kind"] + 1) % 3, "position": [0.9, -0.9]})
    assert told["distribution"] != row["distribution"]
    assert jax.tree.structure(session.attribution("e0", 0)["value"]) is not None
    session.close()
