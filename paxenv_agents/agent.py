"""The agent protocol: act, remember, update. Acting never changes a training state."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, TypeGuard

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv
from jaxtyping import Array, Float, Int, Key, Num, PyTree

from paxenv import keys
from paxenv.auto_reset import AutoResetWrapper
from paxenv.environment import Environment, native
from paxenv.params import GameParams
from paxenv.single_player import SinglePlayer
from paxenv_agents.types import (
    Acted,
    KeyLike,
    MemoryState,
    Sample,
    Stats,
    Terms,
    TrainingState,
)


class WrongConfigError(ValueError):
    """What was given as an agent's options is nothing of this kind.

    Attributes:
        takes: What the agent takes.
        config: What it was given.
    """

    def __init__(self, agent: str, takes: str, config: Any) -> None:
        self.takes, self.config = takes, config
        got = repr(config)
        if any(isinstance(x, jax.Array | np.ndarray) for x in jax.tree.leaves(config)):
            got = (
                f"arrays in {type(config).__name__}: numbers of a game belong to those "
                "who play it, an agent is made without them"
            )
        super().__init__(f"{agent} takes a {takes}, got {got}")


#: Where an agent sits: a native game, as it is or wrapped, or a plain or vector
#: environment of Gymnasium.
Game = Environment | SinglePlayer | AutoResetWrapper | gymnasium.Env | VectorEnv


class GymnasiumSeat:
    """The one seat of a Gymnasium environment, read as a native game's.

    Questions that only a native game answers go to the game inside, where there is one,
    as in the environments of this package.

    Attributes:
        name: What the environment is called.
        num_players: 1.
    """

    num_players = 1

    def __init__(self, env: gymnasium.Env | VectorEnv) -> None:
        if isinstance(env, VectorEnv):
            spaces = env.single_observation_space, env.single_action_space
        else:
            spaces = env.observation_space, env.action_space
        self._spaces = spaces
        self._native = getattr(env.unwrapped, "native", None)
        self.name = str(env)

    def observation_space(self, player: int = 0) -> gymnasium.Space:
        """Returns what the agent sees in one game."""
        del player
        return self._spaces[0]

    def action_space(self, player: int = 0) -> gymnasium.Space:
        """Returns what the agent does in one game."""
        del player
        return self._spaces[1]

    def __getattr__(self, name: str) -> Any:
        native = self.__dict__.get("_native")
        if native is None or name.startswith("__"):
            raise AttributeError(f"{self.__dict__.get('name')} has no {name}")
        return getattr(native[0], name)


def seated(env: "Game | GymnasiumSeat") -> Any:
    """Returns the game of which `from_env` reads a seat; a native game stays as it is.

    Args:
        env: A native game, or a plain or vector environment of Gymnasium.

    Raises:
        ValueError: If it is neither.
    """
    return GymnasiumSeat(env) if is_gymnasium(env) else native(env)


def is_gymnasium(env: object) -> TypeGuard[gymnasium.Env | VectorEnv]:
    """Returns whether an object is a plain or vector environment of Gymnasium."""
    return isinstance(env, gymnasium.Env | VectorEnv)


def num_players(env: Any) -> int:
    """Returns the players of a game, those that sit inside a one-player game too."""
    while env.num_players == 1 and hasattr(env, "env"):
        env = env.env
    return env.num_players


def config_and_seat(config: Any, player: int) -> tuple[Any, int]:
    """Returns (config, player) that `from_env` was given: a number is the seat.

    Raises:
        TypeError: If both of them are seats.
    """
    if not isinstance(config, int | np.integer) or isinstance(config, bool):
        return config, player
    if player != 0:
        raise TypeError(f"player is given twice: {config} and {player}")
    return None, int(config)


#: The axis of `batch_policy`: games played at once against the same co-players.
GAMES = "games"


class AgentType(abc.ABCMeta):
    """The type of agents' classes: called with an environment they are `from_env`.

    `PPO(env=env, cfg=config)` and `PPO(env, config, actor_class, critic_class)` are
    `PPO.from_env` with the same arguments; `cfg` is another name of `config`.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if "env" in kwargs or (args and _is_place(args[0])):
            if "cfg" in kwargs:
                if "config" in kwargs:
                    raise TypeError("cfg is another name of config: give one of them")
                kwargs["config"] = kwargs.pop("cfg")
            make: Any = cls
            return make.from_env(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def _is_place(value: Any) -> bool:
    return is_gymnasium(value) or callable(getattr(value, "observation_space", None))


@dataclasses.dataclass(frozen=True)
class Agent(metaclass=AgentType):
    """A player: code and static options here, numbers in its training state.

    One training state serves many games at once while memory is batched over them.
    The unbatched methods are for one game; `batch_*` are their `vmap` over games.
    Agents are hashable, so that they can be static arguments of `jax.jit`.

    Attributes:
        observation_space: The seat's observation space.
        action_space: The seat's action space.
        greedy: Whether to act deterministically (`dataclasses.replace` gives a copy).
    """

    observation_space: gymnasium.Space = dataclasses.field(hash=False)
    action_space: gymnasium.Space = dataclasses.field(hash=False)
    _: dataclasses.KW_ONLY
    greedy: bool = False

    #: Whether `update` changes anything.
    learns: ClassVar[bool] = False
    #: Whether it learns from what it has just played; else from a replay of its own.
    on_policy: ClassVar[bool] = True
    #: Whether samples must hold what each step led to (replay).
    stores_final_obs: ClassVar[bool] = False

    @property
    def recurrent(self) -> bool:
        """Whether memory persists from step to step: then data keeps its order."""
        return False

    @property
    def stores_hiddens(self) -> Literal["all", "first"]:
        """Which hidden states a sample holds."""
        return "all"

    @property
    def traced_options(self) -> tuple[str, ...]:
        """Options of `config` that only enter arithmetic: no program depends on them.

        Programs that `paxenv_agents.structure.jit` compiles get them as arrays.
        """
        return ()

    @property
    def mixes_games(self) -> bool:
        """Whether its play in a game depends on the games that are played at once."""
        return False

    @classmethod
    def from_env(
        cls, env: Game, config: Any = None, *, player: int = 0, **options: Any
    ) -> Self:
        """Returns the agent for one seat of a game.

        All agents take the same arguments: those of PPO and those of TitForTat.

        Args:
            env: The game; or a plain or vector environment of Gymnasium.
            config: Options by name, or the config of a learner, its `config_class`;
                None for the defaults. A whole number is the seat: `from_env(env, 1)`
                is `from_env(env, player=1)`.
            player: The seat, from 0.
            **options: Options by name, such as `greedy`; they win over `config`.

        Raises:
            ValueError: If `config` is nothing of this kind, an option is refused, or
                the spaces do not fit.
            TypeError: If an option is unknown or missing.
        """
        config, player = config_and_seat(config, player)
        return cls.for_seat(seated(env), player, **cls.fields_of(config, options))

    @classmethod
    def fields_of(cls, config: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the fields of the agent that `from_env` was asked for.

        Args:
            config: Options by name, or None.
            options: Options by name; they win.

        Raises:
            ValueError: If `config` is nothing of this kind.
        """
        if not isinstance(config, Mapping | None):
            raise WrongConfigError(cls.__name__, "mapping of options by name", config)
        return {**(config or {}), **options}

    @classmethod
    def for_seat(cls, env: Environment, player: int, **fields: Any) -> Self:
        """Returns the agent for one seat of a native game; reads the seat's spaces.

        `from_env` calls it; an agent that reads more of a game does it here.

        Args:
            env: The game.
            player: The seat, from 0.
            **fields: Fields of the agent.
        """
        return cls(env.observation_space(player), env.action_space(player), **fields)

    @property
    def privileges(self) -> frozenset[str]:
        """What it is told beyond its own experience: of `"co_players"`, `"play"` and
        `"trajs"`. An agent with any of these gets `update(..., context=Context)`.
        """
        return frozenset()

    @property
    def hidden_size(self) -> int:
        """Length H of `memory.hidden`."""
        return 0

    def init_hidden(self, num_envs: int) -> Float[Array, "E H"]:
        """Returns the opening hidden states of `num_envs` games, float32 `[E, H]`."""
        return jnp.zeros((num_envs, self.hidden_size), jnp.float32)

    def init_state(self, key: KeyLike) -> TrainingState:
        """Returns a fresh training state; empty for fixed strategies."""
        del key
        return TrainingState()

    def init_memory(
        self, key: Key[Array, ""], hidden: Float[Array, " H"]
    ) -> MemoryState:
        """Returns the memory of one game at the opening of a trial.

        Args:
            key: The lane's key. An agent that draws at the opening folds it.
            hidden: `[H]`.
        """
        return MemoryState(hidden=hidden, key=key)

    def make_initial_state(
        self, key: KeyLike, init_hidden: Float[Array, " H"]
    ) -> tuple[TrainingState, MemoryState]:
        """Returns a fresh training state and the memory of one game.

        Args:
            key: Consumed; the state draws from it, the memory's key is folded from it.
            init_hidden: `[H]`, one row of `init_hidden(num_envs)`.
        """
        memory = self.init_memory(jax.random.fold_in(key, 2), init_hidden)
        return self.init_state(key), memory

    @abc.abstractmethod
    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        """Chooses one action and returns (action, state unchanged, memory)."""

    def value(
        self, state: TrainingState, obs: PyTree, memory: MemoryState
    ) -> Float[Array, ""]:
        """Returns the value estimate of an observation, without a draw."""
        del state, obs, memory
        return jnp.zeros((), jnp.float32)

    def evaluate(self, state: TrainingState, sample: Sample) -> Terms:
        """Returns (log_probs, values, entropies), each `[T, E]`, of a sample.

        Pure and differentiable in `state.params`; equal to the stored behaviour as
        long as the state is the one that played.
        """
        raise NotImplementedError(f"{type(self).__name__} does not learn")

    def update(
        self, traj: Sample, last_obs: PyTree, state: TrainingState, memory: MemoryState
    ) -> tuple[TrainingState, MemoryState, Stats]:
        """Learns from `traj`, `[T, E, ...]`, and returns (state, memory, stats).

        Args:
            traj: The experience.
            last_obs: What the players see after it, `[E, ...]`.
            state: The training state; its key is advanced.
            memory: Memory of the E games.
        """
        del traj, last_obs
        return state, memory, {}

    def rollout_length(self, num_games: int) -> int:
        """Returns the steps that each game of a stream plays between two updates.

        Args:
            num_games: Games played at once; a learner that counts steps over all of
                them plays fewer of each.
        """
        del num_games
        return 128

    def planned(self, num_updates: int) -> "Agent":
        """Returns the agent that knows how often it will update, for its schedules."""
        del num_updates
        return self

    def check_batch(self, num_steps: int, num_games: int) -> None:
        """Raises ValueError if an update cannot split a batch `[T, E]` as it must."""
        del num_steps, num_games

    def sized(self, num_games: int) -> "Agent":
        """Returns the agent for batches of this many games; most agents ignore it.

        Engines call it once for all the games that a slot learns from together.
        """
        del num_games
        return self

    def grouped(self, num_games: int) -> "Agent":
        """Returns the agent for batches made of groups of this many games.

        A group is what `batch_policy` plays at once: games against the same
        co-players. Lineups call it; only an agent that `mixes_games` needs it.
        """
        del num_games
        return self

    def end_inner_episode(
        self, state: TrainingState, memory: MemoryState
    ) -> MemoryState:
        """Returns the memory with which the next inner episode opens; draws nothing."""
        del state
        return memory

    def reset_memory(self, memory: MemoryState, eval: bool = False) -> MemoryState:
        """Returns the memory with which a trial opens."""
        del eval
        return memory.replace(hidden=jnp.zeros_like(memory.hidden))

    def observe_params(
        self, memory: MemoryState, params: GameParams, player: Int[Array, ""] | int
    ) -> MemoryState:
        """Returns the memory of one game with what the agent may know of its numbers.

        Engines call it once for each game, at the opening of a trial and after
        `reset_memory`. Most agents know only what they observe and return the memory as
        it is; those that learn from exact values read the payoff here. This knowledge
        stays in the memory, because games whose numbers may differ share a training
        state.

        Args:
            memory: The memory with which the trial opens; its structure is kept.
            params: The game's numbers.
            player: The seat in the game, from 0.
        """
        del params, player
        return memory

    def policy_params(self, params: PyTree) -> PyTree:
        """Returns the part of the parameters that `policy` uses."""
        return params

    def batch_init(
        self, key: KeyLike, hidden: Float[Array, "E H"]
    ) -> tuple[TrainingState, MemoryState]:
        """Returns one training state and the memory of E games.

        Args:
            key: Consumed; lane i of the memory gets `fold_in(fold_in(key, 2), i)`.
            hidden: `[E, H]`.
        """
        lane_keys = keys.folds(jax.random.fold_in(key, 2), hidden.shape[0])
        return self.init_state(key), jax.vmap(self.init_memory)(lane_keys, hidden)

    def batch_policy(
        self, state: TrainingState, obs: PyTree, memory: MemoryState
    ) -> tuple[Num[Array, "E ..."], TrainingState, MemoryState]:
        """`policy` over games: obs and memory are `[E, ...]`, the state is shared."""
        return jax.vmap(
            self.policy, in_axes=(None, 0, 0), out_axes=(0, None, 0), axis_name=GAMES
        )(state, obs, memory)

    def batch_end_inner(self, state: TrainingState, memory: MemoryState) -> MemoryState:
        """`end_inner_episode` over games."""
        return jax.vmap(self.end_inner_episode, in_axes=(None, 0), axis_name=GAMES)(
            state, memory
        )

    def batch_reset(self, memory: MemoryState, eval: bool = False) -> MemoryState:
        """`reset_memory` over games; `eval` is static."""
        return jax.vmap(lambda m: self.reset_memory(m, eval))(memory)

    def batch_observe_params(
        self, memory: MemoryState, params: GameParams, player: Int[Array, ""] | int
    ) -> MemoryState:
        """`observe_params` over games, which share the numbers."""
        return jax.vmap(self.observe_params, in_axes=(0, None, None))(
            memory, params, player
        )

    def batch_value(
        self, state: TrainingState, obs: PyTree, memory: MemoryState
    ) -> Float[Array, " E"]:
        """`value` over games."""
        return jax.vmap(self.value, in_axes=(None, 0, 0), axis_name=GAMES)(
            state, obs, memory
        )
