"""Faults of learning that still learn: each is one line of the source, and a test that must fail where it is made."""

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    file: str  # below src/gymlab
    line: str  # as it is; it occurs once
    fault: str  # what it becomes
    test: str  # below tests


PROTOCOL = "training/test_protocol.py::test_"
MUTANTS = (
    Mutant(
        "memory is reset where learning sees an end, not where an episode begins",
        "networks/memory.py",
        "return jnp.concatenate([jnp.zeros_like(steps.fresh[:1]), steps.fresh[:-1]])",
        "return jnp.concatenate([jnp.zeros_like(steps.fresh[:1]), (steps.terminated | steps.truncated)[:-1]])",
        f"{PROTOCOL}memory_is_reset_where_an_episode_begins_not_where_learning_sees_an_end",
    ),
    Mutant(
        "a cut is valued with a reset memory",
        "experience/advantages.py",
        "where_rows(rollout.truncated, value(rollout.successor, replayed.carries), following)",
        "where_rows(rollout.truncated, value(rollout.successor, jax.tree.map(lambda x: 0 * x, replayed.carries)), "
        "following)",
        f"{PROTOCOL}a_cut_is_valued_with_the_memory_of_its_own_episode",
    ),
    Mutant(
        "the discounts of two reward streams are swapped",
        "experience/reward_streams.py",
        "gamma=jnp.stack([jnp.asarray(stream.gamma, jnp.float32) for stream in streams]),",
        "gamma=jnp.stack([jnp.asarray(stream.gamma, jnp.float32) for stream in reversed(streams)]),",
        "experience/test_reward_streams.py::test_each_stream_has_its_own_discount",
    ),
    Mutant(
        "a bonus ends with the episode",
        "experience/reward_streams.py",
        "jnp.where(episodic, values.next_values, values.following),",
        "values.next_values,",
        "experience/test_reward_streams.py::test_a_bonus_goes_on_into_the_next_episode",
    ),
    Mutant(
        "a sample of replay crosses the write head",
        "experience/replay_buffer.py",
        "starts = jnp.maximum(buffer.size - length + 1, 1)",
        "starts = jnp.maximum(buffer.size, 1)",
        "experience/test_replay_buffer.py::test_no_sequence_crosses_the_write_head",
    ),
    Mutant(
        "the clocks of learning start again on resume",
        "training/trainer.py",
        "counts = (clock.updates, clock.env_steps, clock.gradient_steps)",
        "counts = (clock.updates, clock.env_steps, 0)",
        f"{PROTOCOL}clocks_count_on_after_a_resume",
    ),
    Mutant(
        "one task's metrics overwrite another's",
        "training/agent.py",
        'return name if len(self.tasks) == 1 else f"{name}@{self.tasks[task]}"',
        "return name",
        f"{PROTOCOL}each_task_has_its_own_metrics_and_normaliser",
    ),
)
