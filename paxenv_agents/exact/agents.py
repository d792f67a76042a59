"""The exact learners that play in the engine, by their registered names."""

import dataclasses
from typing import Any, ClassVar

from jaxtyping import Array, Float

from paxenv_agents.exact import gradients, proximal, training
from paxenv_agents.exact.games import Params, Values
from paxenv_agents.exact.learner import RULES, ExactConfig, ExactLearner
from paxenv_agents.networks import options
from paxenv_agents.types import Hyperparameters


@dataclasses.dataclass(frozen=True)
class NaiveExact(ExactLearner):
    """Ascends its own value, as if the other stood still.

    Source: Foerster et al., LOLA (2018), section 3.
    """

    def learnt(
        self, hyper: Hyperparameters, values: Values, params: Params
    ) -> Float[Array, " logits"]:
        return training.naive(hyper["learning_rate"])(values, params, 0)


@dataclasses.dataclass(frozen=True)
class LOLAExactConfig(ExactConfig):
    """Options of `LOLAExact`.

    Attributes:
        lookahead_rate: Rate of the step that the other is taken to make, eta.
        form: Which published gradient: `"taylor"`, `"full"` or `"lookahead"`, see
            `paxenv_agents.exact.gradients.lola`.
    """

    lookahead_rate: float = 1.0
    form: str = "taylor"

    def __post_init__(self) -> None:
        options.check(self, {**RULES, "form": FORM})


FORM = options.Rule(
    lambda x: x in gradients.FORMS, f"one of {', '.join(gradients.FORMS)}"
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
    ) -> Float[Array, " logits"]:
        method = training.lola(
            hyper["learning_rate"], hyper["lookahead_rate"], self.config.form
        )
        return method(values, params, 0)


@dataclasses.dataclass(frozen=True)
class SOSConfig(ExactConfig):
    """Options of `SOS`.

    Attributes:
        lookahead_rate: Rate of the steps that everybody is taken to make.
        a: How far shaping may turn the joint direction, in (0, 1).
        b: Length of the joint naive gradient below which shaping fades, in (0, 1).
    """

    lookahead_rate: float = 1.0
    a: float = 0.5
    b: float = 0.1

    def __post_init__(self) -> None:
        options.check(self, {**RULES, "a": OPEN_SHARE, "b": OPEN_SHARE})


OPEN_SHARE = options.Rule(
    lambda x: options.is_real(x) and 0 < x < 1, "a number in (0, 1)"
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
    ) -> Float[Array, " logits"]:
        config = self.config
        method = training.sos(
            hyper["learning_rate"], hyper["lookahead_rate"], config.a, config.b
        )
        return method(values, params, 0)


@dataclasses.dataclass(frozen=True)
class POLAConfig(ExactConfig):
    """Options of `POLA`; `paxenv_agents.exact.proximal.pola` explains the steps.

    Attributes:
        learning_rate: Rate of the outer ascent.
        init_scale: Standard deviation of the logits at first.
        lookahead_rate: Rate of the inner ascent.
        outer_beta: Weight of the divergence from the own policy.
        inner_beta: Weight of the other's divergence from its policy.
        outer_steps: Steps of the outer ascent, at most.
        inner_steps: Steps of the inner ascent.
    """

    learning_rate: float = 0.3
    init_scale: float = 0.1
    lookahead_rate: float = 5.0
    outer_beta: float = 0.1
    inner_beta: float = 0.0
    outer_steps: int = 1000
    inner_steps: int = 1

    def __post_init__(self) -> None:
        options.check(self, {**RULES, **POLA_RULES})


POLA_RULES = {
    "outer_beta": options.WEIGHT,
    "inner_beta": options.WEIGHT,
    "outer_steps": options.COUNT,
    "inner_steps": options.COUNT,
}


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
    ) -> Float[Array, " logits"]:
        method = proximal.pola(
            hyper["learning_rate"],
            hyper["lookahead_rate"],
            outer_beta=hyper["outer_beta"],
            inner_beta=hyper["inner_beta"],
            outer_steps=self.config.outer_steps,
            inner_steps=self.config.inner_steps,
        )
        return method(values, params, 0)
