"""What an algorithm is: a settings class and a few pure functions over a state of its own making."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

from gymlab.algorithms.optimizers import MakeOptimizer, Optimizer, OptimizerState
from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.types import Array, Decision, PolicyInputs, Replayed, Rollout, Spaces, Tree
from gymlab.experience.advantages import Batch, gae_batch
from gymlab.networks.actor_critic import ActorCritic, NetworkTrace
from gymlab.networks.encoders import FlattenEncoder, MakeEncoder
from gymlab.networks.flat_network import FlatNetwork, Params
from gymlab.networks.settings import PolicySettings

Metrics = dict[str, Array]  # scalars, by catalogue name
# Scheduled values as numbers, `progress` (0 to 1), and as integers the clocks `update`, `env_steps`, `gradient_steps`.
Hyper = dict[str, Array]
LearnsFrom = Literal["rollout", "replay"]


class ReplayPlan(NamedTuple):
    """How an algorithm that learns from replay uses its buffer; every number is compiled in."""

    capacity: int  # steps per env, rounded up to whole rollouts
    minibatches: int  # per update, all drawn before the first gradient step
    sequences: int  # per minibatch
    length: int = 1  # steps of a sequence


class Algorithm(ABC):
    """Its methods are traced by JAX. Observations and rewards are normalised before they get here."""

    Settings: ClassVar[type[AlgorithmSettings]]
    has_memory: ClassVar[bool] = False  # whether what a policy does depends on what its carry holds of earlier steps
    learns_from: ClassVar[LearnsFrom] = "rollout"  # what `update` gets: each group's rollout, or minibatches of replay

    def __init__(
        self,
        settings: Any,
        policy: PolicySettings,
        spaces: Spaces,
        encoder: MakeEncoder = FlattenEncoder,
        optimizer: MakeOptimizer | None = None,  # None: the settings name it
    ) -> None:
        self.settings = settings
        self.policy_settings = policy
        self.spaces = spaces
        self.encoder = encoder
        self.optimizer = Optimizer(settings, optimizer)

    def notes(self) -> list[str]:
        """What a user should know of these settings on this env, printed when a run starts."""
        return []

    @abstractmethod
    def init(self, key: Array, n_envs: tuple[int, ...]) -> Tree:
        """The state before the first update (weights, optimiser, buffers), given each group's number of envs."""

    @abstractmethod
    def weights(self, state: Tree) -> Tree:
        """The part of the state that acting needs."""

    @abstractmethod
    def with_weights(self, state: Tree, weights: Tree) -> Tree:
        """The state with other weights, all else kept."""

    def forget_open_episodes(self, state: Tree) -> Tree:
        """Called when a resumed run could not restore its envs: what was kept of unfinished episodes is void."""
        return state

    @abstractmethod
    def initial_carry(self, n_envs: int) -> Tree:
        """The carry at the start of an episode, for each env; () when there is none."""

    @abstractmethod
    def act(self, weights: Tree, obs: Tree, carry: Tree, key: Array, greedy: Array | bool = False) -> Decision:
        """Choose an action for each env."""

    def replay_plan(self) -> ReplayPlan:
        """The buffer of an algorithm that learns from replay."""
        raise NotImplementedError(f"{type(self).__name__} learns from {self.learns_from}")

    def is_learning(self, hp: Hyper) -> Array | bool:
        """Whether updates learn yet, from the clocks in `hp`; until then `warm_up` is called instead of `update`."""
        del hp
        return True

    def warm_up(self, state: Tree, rollouts: tuple[Rollout, ...], hp: Hyper, key: Array) -> Tree:
        """The state after a rollout of the phase before learning: statistics may move, the weights do not."""
        del rollouts, hp, key
        return state

    @abstractmethod
    def update(self, state: Tree, experience: tuple[Rollout, ...], hp: Hyper, key: Array) -> tuple[Tree, Metrics]:
        """Learn from one rollout per env group or, from replay, from the minibatches of each group.

        A minibatch of replay is a Rollout of (length, sequences) steps per env group, the minibatches stacked on a
        leading axis; its carry is () and its `last_obs` the last successor.
        """


class LearnerState(NamedTuple):
    params: Params
    optimiser: OptimizerState
    buffers: Tree = ()  # what an algorithm keeps from one rollout to the next


class ActorCriticAlgorithm(Algorithm):
    """An algorithm over one actor-critic network.

    To change a shipped one's loss, subclass it (`class MyPPO(PPOAlgorithm)` with its own `loss`) and name it
    in a recipe: `./my_ppo.py:MyPPO: {learning_rate: 1e-3}`.
    """

    def __init__(
        self,
        settings: Any,
        policy: PolicySettings,
        spaces: Spaces,
        encoder: MakeEncoder = FlattenEncoder,
        optimizer: MakeOptimizer | None = None,  # None: the settings name it
    ) -> None:
        super().__init__(settings, policy, spaces, encoder, optimizer)
        self.network = FlatNetwork(lambda key: ActorCritic(key, spaces, policy, encoder))

    def init(self, key: Array, n_envs: tuple[int, ...]) -> LearnerState:
        params = self.network.init(key)
        return LearnerState(params, self.optimizer.init(params), self.initial_buffers(n_envs))

    def initial_buffers(self, n_envs: tuple[int, ...]) -> Tree:
        del n_envs
        return ()

    def weights(self, state: LearnerState) -> Params:
        return state.params

    def with_weights(self, state: LearnerState, weights: Params) -> LearnerState:
        return state._replace(params=weights)

    def initial_carry(self, n_envs: int) -> Tree:
        return self.network(self.network.shapes).initial_carry(n_envs)

    def act(self, weights: Params, obs: Tree, carry: Tree, key: Array, greedy: Array | bool = False) -> Decision:
        return self.network(weights).act(obs, carry, key, greedy)

    def replay(self, weights: Params, steps: PolicyInputs) -> Replayed:
        """The policy over time. Losses, values and statistics get distributions and values from here and nowhere else.

        One that has memory overrides this and the two below, with `networks.memory`.
        """
        return Replayed(*self.network(weights).both(steps.obs))

    def value(self, weights: Params, obs: Tree, carry: Tree, fresh: Array | None = None) -> Array:
        """V of single observations, each from its carry, which is reset where `fresh`."""
        del carry, fresh
        return self.network(weights).value(obs)

    def look(self, weights: Params, obs: Tree, carry: Tree) -> NetworkTrace:
        """The network from inside, over single observations, each from its carry."""
        del carry
        return self.network(weights).look(obs)

    def gae_batch(self, weights: Params, rollouts: tuple[Rollout, ...], hp: Hyper) -> Batch:
        """All groups' transitions with their generalised advantage estimates."""
        replay = partial(self.replay, weights)
        return gae_batch(replay, partial(self.value, weights), rollouts, hp["gamma"], hp["gae_lambda"])
