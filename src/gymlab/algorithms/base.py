"""What an algorithm is: a settings class and a few pure functions over a state of its own making."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from gymlab.algorithms.optimizers import MakeOptimizer, Optimizer, OptimizerState
from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.types import Array, Decision, Rollout, Spaces, Tree
from gymlab.networks.actor_critic import ActorCritic
from gymlab.networks.encoders import FlattenEncoder, MakeEncoder
from gymlab.networks.flat_network import FlatNetwork, Params
from gymlab.networks.settings import PolicySettings

Metrics = dict[str, Array]  # scalars, by catalogue name
Hyper = dict[str, Array]  # scheduled values, as numbers


class Algorithm(ABC):
    """Its methods are traced by JAX. Observations and rewards are normalised before they get here."""

    Settings: ClassVar[type[AlgorithmSettings]]

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

    @abstractmethod
    def update(self, state: Tree, rollouts: tuple[Rollout, ...], hp: Hyper, key: Array) -> tuple[Tree, Metrics]:
        """Learn from one rollout per env group."""


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
