"""Learning with opponent-learning awareness, from sampled games."""

import dataclasses
from typing import Annotated, Any, ClassVar, Self

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from paxenv.environment import where
from paxenv.options import (
    Count,
    Natural,
    Positive,
    Share,
    Weight,
    Widths,
    documented,
    one_of,
    option,
)
from paxenv_agents import structure
from paxenv_agents.engine.context import Context
from paxenv_agents.learners.lookahead import Lookahead, Seat, logit_share
from paxenv_agents.learners.policy_gradient import PolicyGradient
from paxenv_agents.networks.actor_critic import NetworkConfig
from paxenv_agents.ops import policy_gradient
from paxenv_agents.types import (
    Hyperparameters,
    KeyLike,
    MemoryState,
    Sample,
    Stats,
    TrainingState,
)


@documented
@dataclasses.dataclass(frozen=True)
class LOLAConfig(NetworkConfig):
    """Options of `LOLA`.

    The default network is linear in the observation: on one-hot observations a softmax
    over one row of logits per state. The other options of networks are those of
    `PPOConfig`.
    """

    learning_rate: Weight = option(0.2, "Step size of the agent's own optimiser.")
    lr_in: Weight = option(
        0.6,
        "Step size of the co-players' look-ahead, which is plain gradient ascent on "
        "the logit of a probability. A softmax over two logits moves their difference "
        "by twice a step, so each of the two moves by half of this step.",
    )
    optimizer: Annotated[str, one_of("adam", "sgd")] = option(
        "adam", 'The agent\'s own optimiser, `"adam"` or `"sgd"`.'
    )
    num_lookaheads: Natural = option(
        1, "Gradient steps that co-players are expected to take; 0: a naive learner."
    )
    gamma: Share = option(0.96, "Discount of a step, in all players' objectives.")
    use_baseline: bool = option(
        True, "Whether objectives have a baseline, which lowers variance without bias."
    )
    shaping: bool = option(
        True,
        "Whether the agent's gradient flows through the look-ahead. If not, it is a "
        "naive learner against the co-players after their steps.",
    )
    opponent_modelling: bool = option(
        False,
        "Whether the co-players' policies are fitted to their actions; their "
        "parameters are then never read.",
    )
    model_steps: Count = option(100, "Optimiser steps of such a fit.")
    model_lr: Positive = option(0.1, "Adam's step size in such a fit.")
    num_rollout_games: Count | None = option(
        None, "Games that LOLA plays for each estimate; None: as many as the run plays."
    )
    value_coeff: Weight = option(1.0, "Weight of the value error.")
    max_grad_norm: Positive | None = option(
        None, "Norm at which gradients are clipped; None: not clipped."
    )
    adam_eps: Positive = option(
        0.1,
        "Adam's epsilon. With a small one, noise in the gradients of states that are "
        "hardly visited becomes full steps.",
    )
    n_steps: Count = option(128, "Steps of a rollout in endless play.")
    hidden_sizes: Widths = option(
        (), "Widths of the hidden layers; `()` is a linear policy."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))


def fitted_opponent(
    model: PolicyGradient,
    key: KeyLike,
    seen: Sample,
    num_steps: int,
    learning_rate: float,
) -> TrainingState:
    """Returns the model under which the observed actions are the most likely.

    Minimises the mean of -log pi(action | observation) over the valid steps by Adam,
    from fresh parameters. In states that were never seen the model keeps its first
    policy, which is nearly uniform. The value estimates are not fitted.

    Args:
        model: An agent for the co-player's seat, for its network.
        key: Of the fresh parameters; consumed.
        seen: The co-player's observations and actions, `[T, E, ...]`.
        num_steps: Steps of Adam over the whole sample.
        learning_rate: Its step size.
    """
    state = model.init_state(key)
    weights = seen.with_flags().valid.astype(jnp.float32)
    optimiser = optax.adam(learning_rate)

    def loss(params: PyTree) -> jax.Array:
        log_probs, _, _ = model.evaluate(state.replace(params=params), seen)
        return -policy_gradient.weighted_mean(log_probs, weights)

    def step(carry: Any, nothing: None) -> tuple[Any, None]:
        del nothing
        params, opt_state = carry
        updates, opt_state = optimiser.update(jax.grad(loss)(params), opt_state)
        return (optax.apply_updates(params, updates), opt_state), None

    opening = (state.params, optimiser.init(state.params))
    (params, _), _ = jax.lax.scan(step, opening, None, num_steps)
    return state.replace(params=params)


@dataclasses.dataclass(frozen=True)
class LOLA(PolicyGradient):
    """Ascends its value at the parameters to which its co-players' next steps lead.

    An update has `num_lookaheads` steps of look-ahead: fresh games are played, and
    every co-player that learns takes a plain gradient step on its own DiCE objective.
    Then more games are played against the co-players after these steps, and LOLA's own
    optimiser takes one step on its own DiCE objective, whose gradient flows through all
    of the above. That part of the gradient shapes the co-players. The games have the
    same numbers as the run's, and draws of their own; only opponent modelling reads the
    experience given to `update`.

    Co-players that do not learn take no step. Those that learn must have an `evaluate`
    that is differentiable in their parameters, or be modelled.

    Source: Foerster et al., Learning with Opponent-Learning Awareness (2018);
    Foerster, Farquhar et al., DiCE (2018), section 5 (LOLA-DiCE).
    """

    config: LOLAConfig = LOLAConfig()  # pyright: ignore[reportIncompatibleVariableOverride]

    hyper: ClassVar[tuple[str, ...]] = (
        *("learning_rate", "lr_in", "gamma", "value_coeff", "max_grad_norm"),
    )

    @property
    def privileges(self) -> frozenset[str]:
        """With opponent modelling it reads no co-player's parameters, only actions."""
        if self.config.opponent_modelling:
            return frozenset({"trajs", "play"})
        return frozenset({"co_players", "play"})

    def optimiser(self) -> optax.GradientTransformation:
        if self.config.optimizer == "sgd":
            return optax.identity()
        return super().optimiser()

    def planned(self, num_updates: int) -> Self:
        del num_updates
        return self

    def check_batch(self, num_steps: int, num_games: int) -> None:
        del num_steps, num_games

    def initial_hyper(self) -> Hyperparameters:
        return self.traced(*self.hyper)

    @structure.compiled_method
    def update(
        self,
        traj: Sample,
        last_obs: PyTree,
        state: TrainingState,
        memory: MemoryState,
        *,
        context: Context | None = None,
    ) -> tuple[TrainingState, MemoryState, Stats]:
        """Takes one step and returns (state, memory, stats).

        Against several opponents at once the objective is the mean over them. Stats are
        those of the last rollouts, after the look-ahead: `loss/total`, `loss/value`,
        `return_mean` (the discounted return), `rollout_steps` (steps played for this
        update beyond those given), and `grad_norm`, `learning_rate`.

        Args:
            traj: The experience; its steps are counted, and opponent modelling reads
                it.
            last_obs: Not used.
            state: The training state; its key is advanced.
            memory: Comes back unchanged.
            context: The co-players and a way to play; the engine gives it.

        Raises:
            ValueError: At trace time, if there is no context, or a learning co-player
                has no differentiable policy.
        """
        del last_obs
        if context is None:
            raise ValueError(
                "LOLA.update needs context=, by which it plays against its co-players: "
                "engines of native games give it, loops over other environments cannot"
            )
        told, key = context, jax.random.fold_in(state.key, 0)

        def loss(params: PyTree) -> tuple[jax.Array, Stats]:
            losses, stats = told.each(lambda one: self.loss(params, state, one, key))
            return jnp.mean(losses), jax.tree.map(jnp.mean, stats)

        grads, stats = jax.grad(loss, has_aux=True)(state.params)
        rate = state.hyper["learning_rate"]
        params, opt_state, norm = self.descended(
            state.hyper, state.params, state.opt_state, grads, rate
        )
        steps = jnp.sum(traj.with_flags().valid, dtype=jnp.int32)
        learnt = state.replace(
            params=params,
            opt_state=opt_state,
            key=jax.random.fold_in(state.key, 1),
            timesteps=state.timesteps + steps,
        )
        changes = (state.hyper["enabled"] > 0) & (steps > 0)
        stats = {**stats, "grad_norm": norm, "learning_rate": rate}
        return where(changes, learnt, state), memory, stats

    def loss(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        params: PyTree,
        state: TrainingState,
        context: Context,
        key: Key[Array, ""],
    ) -> tuple[Float[Array, ""], Stats]:
        """Returns (-own objective after the look-ahead + value_coeff * value error, its
        parts) against one opponent.

        Args:
            params: What it is differentiated by.
            state: The own training state.
            context: Of one opponent.
            key: Of all draws; folded.
        """
        config, hyper, own = self.config, state.hyper, context.index
        key = jax.random.fold_in(key, context.opponent)
        games = Lookahead(
            context,
            self._seats(state, context, jax.random.fold_in(key, 1)),
            hyper["gamma"],
            config.use_baseline,
            config.num_rollout_games,
        )
        rollout_keys = jax.random.split(
            jax.random.fold_in(key, 0), config.num_lookaheads + 1
        )
        before = (*games.params[:own], params, *games.params[own + 1 :])
        rates = self._rates(hyper, games)
        after = games.ahead(before, rollout_keys[:-1], rates)
        if not config.shaping:
            after = jax.lax.stop_gradient(after)
        after = (*after[:own], params, *after[own + 1 :])
        samples = games.rollout(rollout_keys[-1], after)
        objective, returns = games.objective(own, after, samples)
        weights = returns.valid.astype(jnp.float32)
        error = policy_gradient.weighted_mean(
            jnp.square(returns.targets - returns.values), weights
        )
        total = hyper["value_coeff"] * error - objective
        return total, {
            "loss/total": total,
            "loss/value": error,
            "return_mean": jnp.mean(returns.targets[0]),
            "rollout_steps": (config.num_lookaheads + 1.0) * jnp.sum(weights[:, 0]),
        }

    def _seats(
        self, state: TrainingState, context: Context, key: jax.Array
    ) -> tuple[Seat | None, ...]:
        """Returns whom it takes for the learners, itself included."""
        if self.config.opponent_modelling:
            theirs = self._models(context, key)
        else:
            theirs = [
                Seat(_differentiable(one.agent), one.state) if one.learns else None
                for one in context.co_players
            ]
        theirs[context.index] = Seat(self, state)
        return tuple(theirs)

    def _models(self, context: Context, key: jax.Array) -> list[Seat | None]:
        config, seats = self.config, []
        for i, (slot, seen) in enumerate(
            zip(context.lineup.slots, context.trajs, strict=True)
        ):
            if seen is None or i == context.index:
                seats.append(None)
                continue
            model = dataclasses.replace(
                self,
                observation_space=slot.agent.observation_space,
                action_space=slot.agent.action_space,
            )
            fit = fitted_opponent(
                model,
                jax.random.fold_in(key, i),
                seen,
                config.model_steps,
                config.model_lr,
            )
            seats.append(Seat(model, fit))
        return seats

    def _rates(
        self, hyper: Hyperparameters, games: Lookahead
    ) -> tuple[jax.Array | None, ...]:
        """Returns the co-players' step sizes; 0 for those whose learning is off."""
        rates: list[jax.Array | None] = []
        for i, seat in enumerate(games.seats):
            if seat is None or i == games.context.index:
                rates.append(None)
                continue
            learns = seat.state.hyper.get("enabled", jnp.ones(())) > 0
            share = logit_share(seat.agent.action_space)
            rates.append(share * hyper["lr_in"] * learns)
        return tuple(rates)


def _differentiable(agent: Any) -> Any:
    if not agent.on_policy:
        raise ValueError(
            f"LOLA cannot look ahead of {type(agent).__name__}, which has no policy "
            "gradient: set opponent_modelling=True"
        )
    return agent
