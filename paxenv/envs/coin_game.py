"""The coin game: a social dilemma of two players on a torus."""

import dataclasses
import functools
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int8, Key, PyTree, UInt32

from paxenv import metrics, spaces
from paxenv.environment import Environment, Frame
from paxenv.envs import coin_draws, coin_metrics, coin_rules, coin_views
from paxenv.envs.coin_rules import CoinRules, Draws, Scalar
from paxenv.game import game
from paxenv.params import GameParams
from paxenv.types import Flag, Info, Picture, Rewards, Statistics

PAYOFF = ((1.0, 1.0, -2.0), (1.0, 1.0, -2.0))
VIEWS = ("swapped", "shared")
BOUNDARY_REWARDS = ("keep", "zero")
NUM_EXTRA_PLANES = 3
Actions = tuple[Scalar, Scalar]
#: Planes in a layout, or the index of a view.
Seen = Int8[Array, "..."] | Float[Array, "..."] | Scalar
_BOOLS = ("start_overlap", "egocentric", "reset_consumes_step", "extra_planes")


class EnvParams(GameParams):
    """Numbers of a coin game.

    Attributes:
        payoff_matrix: Rewards, `[2, 3]`: a row for red and a row for blue, of what
            the player earns by taking a red coin, by taking a blue coin, and when
            the other takes a coin of the player's own colour.
    """

    payoff_matrix: Float[Array, "2 3"] = PAYOFF  # type: ignore[assignment]


class CoinState(struct.PyTreeNode):
    """State of a coin game.

    Attributes:
        board: The board in one word, see `coin_rules.pack`. uint32 scalar.
        played: Steps of this inner episode, int32, with `reset_consumes_step`; else ().
        last_rewards: Rewards of the last step `[2]`, with `extra_planes`; else ().
    """

    board: UInt32[Array, ""]
    played: PyTree = ()
    last_rewards: PyTree = ()


@game
class CoinGame(Environment):
    """Two players collect coins, and hurt each other by taking the wrong ones.

    Description:
        A red and a blue player move at the same time on a torus with a red and a blue
        coin. Every coin is worth 1 to whoever takes it, and costs the other player 2
        if it was of the other's colour. Leaving the other's coins alone is to
        cooperate. A taken coin reappears in a uniformly drawn cell.

    Observation:
        Four planes over the cells: the player itself, the other player, its own coin,
        the other's coin. int8, flat `(height * width * 4,)` with the planes as the
        last axis, or another `layout`; or one number, `observation="index"`, see
        `coin_views.index`. By default the torus is shifted so that the player stands
        in the middle (`egocentric`). `view="shared"` shows both players red, blue,
        red coin, blue coin.

    Action:
        `Discrete(5)`: 0 right (column + 1), 1 left (column - 1), 2 up (row + 1),
        3 down (row - 1), 4 stay; pictures have row 0 at the bottom. `Discrete(4)`,
        without stay, by `num_actions=4`.

    Reward:
        From `params.payoff_matrix`; a player takes every coin in its cell, and both
        are paid when both reach a coin, unless `tie` says otherwise.

    End:
        Only by time, or at random with `random_ends`.

    Versions:
        v0.

    Source:
        Lerer & Peysakhovich (2017), with the rewards of Foerster et al., LOLA (2018);
        two coins and the inner/outer clock as in Lu et al., M-FOS (2022), and Pax.

    Differences from Pax:
        The reward of an inner episode's last step is paid (the preset `pax2022` pays
        none), the last board of an inner episode is in `info["final_obs"]`,
        statistics are int32, and the labels CS and DS are not exchanged.

    Attributes:
        num_inner_steps: Steps of an inner episode.
        height: Rows; at least three cells in all, at most 16 a side.
        width: Columns.
        coins: `"per_player"` or `"single"`, see `CoinRules`.
        spawn: `"any"` or `"off_agents"`, see `CoinRules`.
        start_overlap: Whether the players may open on the same cell.
        tie: `"both"`, `"first"` or `"random"`, see `CoinRules`.
        num_actions: 5, or 4 for no stay.
        observation: `"one_hot"` or `"index"`.
        layout: Of one-hot observations: `"flat"`, `"HWC"`, `"CHW"`, `"flat_CHW"`.
        egocentric: Whether a player sees itself in the middle.
        view: `"swapped"`, own things first; `"shared"`, red things first.
        boundary_reward: `"zero"` pays nothing in the last step of an inner episode.
        reset_consumes_step: Whether the last step of an inner episode is no step of
            play: nobody moves and nothing is paid.
        extra_planes: Adds three planes, float32: the own and the other's last reward,
            and 1 everywhere where the next step is the one that a reset consumes.
    """

    num_inner_steps: int = 16
    _: dataclasses.KW_ONLY
    height: int = 3
    width: int = 3
    coins: str = "per_player"
    spawn: str = "any"
    start_overlap: bool = True
    tie: str = "both"
    num_actions: int = 5
    observation: str = "one_hot"
    layout: str = "flat"
    egocentric: bool = True
    view: str = "swapped"
    boundary_reward: str = "keep"
    reset_consumes_step: bool = False
    extra_planes: bool = False

    name: ClassVar[str] = "CoinGame"
    reports_metrics: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = self.rules
        spaces.check_encoding(self.observation)
        for option, known in (
            ("num_actions", (4, 5)),
            ("layout", coin_views.LAYOUTS),
            ("view", VIEWS),
            ("boundary_reward", BOUNDARY_REWARDS),
            *((o, (False, True)) for o in _BOOLS),
        ):
            value = getattr(self, option)
            if value not in known or isinstance(value, bool) != (option in _BOOLS):
                raise ValueError(f"{option} must be one of {known}, got {value!r}")
        if self.egocentric and self.view == "shared":
            raise ValueError("a shared view has no middle: use egocentric=False")
        if self.reset_consumes_step and self.num_inner_steps < 2:
            raise ValueError(
                "reset_consumes_step needs num_inner_steps >= 2, got "
                f"{self.num_inner_steps}: one step is the reset"
            )
        if self.extra_planes and not self.reset_consumes_step:
            raise ValueError("extra_planes needs reset_consumes_step=True")
        if self.observation == "index":
            self._check_index(rules)

    @functools.cached_property
    def rules(self) -> CoinRules:
        """The options that decide what happens on the board."""
        return CoinRules(
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(CoinRules)}
        )

    @property
    def num_players(self) -> int:
        return 2

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    def action_names(self, player: int = 0) -> tuple[str, ...]:
        """Returns the names of a player's actions, in order."""
        return coin_rules.ACTION_NAMES[: self.num_actions]

    def make_observation_space(self, player: int) -> gymnasium.Space:
        if self.observation == "index":
            n = coin_views.num_indices(self.rules, self.egocentric)
            return gymnasium.spaces.Discrete(n, dtype=np.int32)
        low = np.zeros((self.rules.num_cells, self._num_planes))
        high = np.ones_like(low)
        if self.extra_planes:
            low[:, 4:6], high[:, 4:6] = -np.inf, np.inf
        dtype = np.float32 if self.extra_planes else np.int8
        low, high = (
            np.asarray(coin_views.arrange(self.rules, bound, self.layout), dtype)
            for bound in (low, high)
        )
        return gymnasium.spaces.Box(low, high, dtype=dtype)

    def make_action_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Discrete(self.num_actions, dtype=np.int32)

    def draw(self, key: Key[Array, ""]) -> Draws:
        return coin_draws.draw(self.rules, key)

    def reset_game(
        self, draws: Draws, params: EnvParams
    ) -> tuple[tuple[Seen, Seen], CoinState]:
        board = coin_rules.pack(self.rules, coin_rules.opening(self.rules, draws))
        zeros = jnp.zeros((2,), jnp.result_type(float))
        game = CoinState(
            board=board,
            played=jnp.zeros((), jnp.int32) if self.reset_consumes_step else (),
            last_rewards=zeros if self.extra_planes else (),
        )
        return self._observe(game), game

    def step_game(
        self, draws: Draws, game: CoinState, actions: Actions, params: EnvParams
    ) -> tuple[tuple[Seen, Seen], CoinState, Rewards, Flag, Info]:
        before = coin_rules.unpack(self.rules, game.board)
        board, takes = coin_rules.transition(self.rules, draws, before, actions)
        if self.reset_consumes_step:
            playing = game.played < self.num_inner_steps - 1
            board = jax.tree.map(lambda a, b: jnp.where(playing, a, b), board, before)
            takes = jax.tree.map(lambda take: take & playing, takes)
            game = game.replace(played=game.played + 1)
        rewards = coin_rules.rewards(params.payoff_matrix, takes)
        if self.extra_planes:
            last = jnp.stack(rewards).astype(game.last_rewards.dtype)
            game = game.replace(last_rewards=last)
        game = game.replace(board=coin_rules.pack(self.rules, board))
        report = coin_metrics.report(takes, rewards)
        return self._observe(game), game, rewards, jnp.zeros((), bool), report

    def metrics_init(self) -> metrics.Accumulator:
        return coin_metrics.init()

    def metrics_update(
        self, acc: metrics.Accumulator, obs_before: PyTree, actions: PyTree, info: Info
    ) -> metrics.Accumulator:
        return coin_metrics.update(acc, info)

    def metrics_final(self, acc: metrics.Accumulator) -> Statistics:
        return coin_metrics.final(acc)

    def render_ansi(self, frame: Frame) -> str:
        from paxenv.rendering import coin_game as picture

        clock = self.num_inner_steps, self.num_outer_steps
        return picture.text(self.rules, frame, clock, self.action_names(0))

    def render_rgb(self, frame: Frame) -> Picture:
        from paxenv.rendering import coin_game as picture

        return picture.rgb(self.rules, frame)

    @property
    def _num_planes(self) -> int:
        return coin_views.NUM_PLANES + (NUM_EXTRA_PLANES if self.extra_planes else 0)

    def _check_index(self, rules: CoinRules) -> None:
        if self.extra_planes:
            raise ValueError("extra_planes holds rewards, which are no index")
        if coin_views.num_indices(rules, self.egocentric) >= 2**31:
            raise ValueError(
                f"a grid of {self.height}x{self.width} has too many boards for "
                'observation="index": use "one_hot"'
            )

    def _transition(
        self, key: jax.Array, draws: Any, state: Any, actions: Any, params: Any
    ) -> tuple[Any, Any, Any, jax.Array, dict[str, Any]]:
        obs, state, rewards, done, info = super()._transition(
            key, draws, state, actions, params
        )
        if self.boundary_reward == "zero":
            rewards = tuple(jnp.where(info["inner_done"], 0.0, r) for r in rewards)
            info["metrics"]["welfare"] = rewards[0] + rewards[1]
        return obs, state, rewards, done, info

    def _observe(self, game: CoinState) -> tuple[jax.Array, jax.Array]:
        board = coin_rules.unpack(self.rules, game.board)
        if self.view == "shared":
            seen = self._see(board, game, 0, 0)
            return seen, self._see(board, game, 0, 1) if self.extra_planes else seen
        return self._see(board, game, 0, 0), self._see(board, game, 1, 1)

    def _see(
        self, board: coin_rules.Board, game: CoinState, seat: int, player: int
    ) -> jax.Array:
        """Returns what a player sees; `seat` is whose colours come first."""
        view = coin_views.look(self.rules, board, seat, self.egocentric)
        if self.observation == "index":
            return coin_views.index(self.rules, view, self.egocentric)
        planes = coin_views.one_hot(self.rules, view)
        if self.extra_planes:
            resets_next = game.played == self.num_inner_steps - 1
            own, other = game.last_rewards[player], game.last_rewards[1 - player]
            extra = jnp.stack([own, other, resets_next]).astype(jnp.float32)
            extra = jnp.broadcast_to(extra, (planes.shape[0], NUM_EXTRA_PLANES))
            planes = jnp.concatenate([planes.astype(jnp.float32), extra], axis=1)
        return coin_views.arrange(self.rules, planes, self.layout)
