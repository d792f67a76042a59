"""The exact learners that play in the engine, by their registered names."""

import dataclasses
from typing import Annotated, Any, ClassVar

import jax

from paxenv.options import Count, Rule, Weight, documented, is_real, one_of, option
from paxenv_agents.exact import gradients, proximal, training
from paxenv_agents.exact.games import Params, Values
from paxenv_agents.exact.learner import ExactConfig, ExactLearner
from paxenv_agents.types import Hyperparameters

OpenShare = Annotated[
    float, Rule(lambda x: is_real(x) and 0 < x < 1, "a number in (0, 1)")
]


@dataclasses.dataclass(frozen=True)
class NaiveExact(ExactLearner):
    """Ascends its own value, as if the other stood still.

    Source: Foerster et al., LOLA (2018), section 3.
    """

    def learnt(
        self, hyper: Hyperparameters, values: Values, params: Params
    ) -> jax.Array:
        return training.naive(hyper["learning_rate"])(values, params, 0)


@documented
@dataclasses.dataclass(frozen=True)
class LOLAExactConfig(ExactConfig):
    """Options of `LOLAExact`."""

    lookahead_rate: Weight = option(
        1.0, "Rate of the step that the other is taken to make, eta."
    )
    form: Annotated[str, one_of(*gradients.FORMS)] = option(
        "taylor",
        'Which published gradient: `"taylor"`, `"full"` or `"lookahead"`, see '
        "`paxenv_agents.exact.gradients.lola`.",
    )


@dataclasses.dataclass(frozen=True)
class LOLAExact(ExactLearner):
    """Ascends its own value through the naive step that it makes the other take.

    Source: Foerster et al., Learning with Opponent-Learning Awareness (2018).
    """

    config: Any = LOLAExactConfig()

    config_class: ClassVar[Any] = LOLAExactConfig

    def initial_hyper(self) -> Hyperparameters:
        return self.traced("learning_rate", "lookahead_rate")

    def learnt(
        self, hyper: Hyperparameters, values: Values, params: Params
    ) -> jax.Array:
        method = training.lola(
            hyper["learning_rate"], hyper["lookahead_rate"], self.config.form
        )
        return method(values, params, 0)


@documented
@dataclasses.dataclass(frozen=True)
class SOSConfig(ExactConfig):
    """Options of `SOS`."""

    lookahead_rate: Weight = option(
        1.0, "Rate of the steps that everybody is taken to make."
    )
    a: OpenShare = option(
        0.5, "How far shaping may turn the joint direction, in (0, 1)."
    )
    b: OpenShare = option(
        0.1, "Length of the joint naive gradient below which shaping fades, in (0, 1)."
    )


@dataclasses.dataclass(frozen=True)
class SOS(ExactLearner):
    """Stable Opponent Shaping: LOLA that stays where naive learning would stay.

    Its share of shaping is that of two players who both learn like this.

    Source: Letcher et al., Stable Opponent Shaping in Differentiable Games (2019).
    """

    config: Any = SOSConfig()

    config_class: ClassVar[Any] = SOSConfig

    def initial_hyper(self) -> Hyperparameters:
        return self.traced("learning_rate", "lookahead_rate")

    def learnt(
        self, hyper: Hyperparameters, values: Values, params: Params
    ) -> jax.Array:
        config = self.config
        method = training.sos(
            hyper["learning_rate"], hyper["lookahead_rate"], config.a, config.b
        )
        return method(values, params, 0)


@documented
@dataclasses.dataclass(frozen=True)
class POLAConfig(ExactConfig):
    """Options of `POLA`; `paxenv_agents.exact.proximal.pola` explains the steps."""

    learning_rate: float = option(0.3, "Rate of the outer ascent.")
    init_scale: float = option(0.1, "Standard deviation of the logits at first.")
    lookahead_rate: Weight = option(5.0, "Rate of the inner ascent.")
    outer_beta: Weight = option(0.1, "Weight of the divergence from the own policy.")
    inner_beta: Weight = option(
        0.0, "Weight of the other's divergence from its policy."
    )
    outer_steps: Count = option(1000, "Steps of the outer ascent, at most.")
    inner_steps: Count = option(1, "Steps of the inner ascent.")


@dataclasses.dataclass(frozen=True)
class POLA(ExactLearner):
    """Proximal LOLA: steps measured in policies, each solved by an ascent of its own.

    Source: Zhao et al., Proximal Learning with Opponent-Learning Awareness (2022).
    """

    config: Any = POLAConfig()

    config_class: ClassVar[Any] = POLAConfig

    def initial_hyper(self) -> Hyperparameters:
        return self.traced(
            "learning_rate", "lookahead_rate", "outer_beta", "inner_beta"
        )

    def learnt(
        self, hyper: Hyperparameters, values: Values, params: Params
    ) -> jax.Array:
        method = proximal.pola(
            hyper["learning_rate"],
            hyper["lookahead_rate"],
            outer_beta=hyper["outer_beta"],
            inner_beta=hyper["inner_beta"],
            outer_steps=self.config.outer_steps,
            inner_steps=self.config.inner_steps,
        )
        return method(values, params, 0)
