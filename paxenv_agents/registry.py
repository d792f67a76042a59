"""Names of agents: strings until an agent is made, so importing starts no JAX."""

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paxenv.registry import closest, loaded, unknown_option

if TYPE_CHECKING:
    from paxenv_agents.agent import Agent, Game


@dataclasses.dataclass(frozen=True)
class AgentSpec:
    """One registered agent.

    Attributes:
        name: The name users write, such as `"TitForTat"`.
        entry_point: `"module:Class"`, where `Class.from_env(env, player=..., **config)`
            makes the agent.
        kwargs: Config that the name stands for; the caller's wins.
        summary: The rule in one line.
        source: Citation.
        classifier: Facts about the agent, such as `memory_depth` and `stochastic`.
        distribution: Of a plugin, the distribution that offers it.
    """

    name: str
    entry_point: str
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    summary: str = ""
    source: str = ""
    classifier: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    distribution: str = ""

    def load(self) -> Any:
        """Imports and returns the agent's class.

        Raises:
            PluginError: If another distribution offers it, and it does not load.
        """
        whose = f"the agent {self.name!r}"
        return loaded(self.entry_point, whose, self.distribution, "from_env")


class UnknownAgentError(ValueError):
    """A name that is no agent; the message lists the closest ones."""


class PairingError(ValueError):
    """An agent cannot play this seat; agents raise it with what they need."""


class MissingOptionsError(TypeError, ValueError):
    """Options that an agent needs and was not given.

    Attributes:
        missing: Their names.
    """

    def __init__(self, agent: str, missing: tuple[str, ...]) -> None:
        self.missing = missing
        example = ", ".join(f"{option}=..." for option in missing)
        super().__init__(
            f"{agent} needs {' and '.join(missing)}: "
            f"make_agent({agent!r}, env, {example})"
        )


_AGENTS: dict[str, AgentSpec] = {}
#: What Python says of a call with too few or unknown arguments.
_MISSING = re.compile(r"^(.+)\(\) missing \d+ required [a-z -]*arguments?: (.+)$")
_UNKNOWN = re.compile(r"^(.+)\(\) got an unexpected keyword argument '(\w+)'")


def register(spec: AgentSpec) -> None:
    """Adds an agent, replacing one of the same name."""
    _AGENTS[spec.name] = spec


def agents() -> dict[str, AgentSpec]:
    """Returns every registered agent by name, in alphabetical order."""
    return dict(sorted(_AGENTS.items()))


def find(name: str) -> AgentSpec:
    """Returns the agent of this name.

    Raises:
        UnknownAgentError: If there is none; names the closest ones.
    """
    if not isinstance(name, str):
        raise UnknownAgentError(
            f"the name of an agent must be a text such as 'PPO', got {name!r}"
        )
    if name in _AGENTS:
        return _AGENTS[name]
    near = closest(name, list(_AGENTS))
    hint = f"; did you mean {' or '.join(near)}?" if near else ";"
    raise UnknownAgentError(
        f"there is no agent {name!r}{hint} `paxrun list agents` shows all agents"
    )


def same(a: str, b: str) -> bool:
    """Returns whether two names mean one agent, as `PPO_memory` and `RecurrentPPO`."""
    if a == b or a not in _AGENTS or b not in _AGENTS:
        return a == b
    first, second = find(a), find(b)
    return (first.entry_point, first.kwargs) == (second.entry_point, second.kwargs)


def make_agent(name: str, env: "Game", player: int = 0, **config: Any) -> "Agent":
    """Makes the agent `name` for one seat of a game.

    Args:
        name: A registered name, such as `"PPO"` or `"TitForTat"`.
        env: The game, or a plain or vector environment of Gymnasium; only the seat's
            spaces and shapes are read.
        player: The seat, from 0.
        **config: Options of the agent.

    Raises:
        UnknownAgentError: If no agent has this name.
        PluginError: If another distribution offers it, and it does not load.
        PairingError: If the agent cannot play this seat; names those that can.
        UnknownOptionError: If the agent has no such option.
        MissingOptionsError: If one that it needs is missing.
        ValueError: If an option is refused.
    """
    from paxenv_agents.agent import WrongConfigError, seated

    spec, game = find(name), seated(env)
    made_by = spec.load()
    try:
        return made_by.from_env(game, player=player, **{**spec.kwargs, **config})
    except TypeError as error:
        wrong = _wrong_options(name, made_by, str(error))
        if wrong is None:
            raise
        raise wrong from error
    except WrongConfigError as error:
        # A name may stand for a class of another name.
        raise WrongConfigError(name, error.takes, error.config) from None
    except PairingError as error:
        able = ", ".join(playable(game, player))
        raise PairingError(
            f"{name} cannot play as player {player + 1} of {game.name}: {error}. "
            f"Agents that can: {able}"
        ) from error


def check_agent(agent: object, names: bool = False) -> None:
    """Raises ValueError for what is no agent; the message says how one is made.

    Args:
        agent: The argument `agent` of a function.
        names: Whether that function takes registered names too.
    """
    from paxenv_agents.agent import Agent

    if isinstance(agent, Agent):
        return
    wanted = "an agent or a registered name" if names else "an agent"
    got = repr(agent)
    if isinstance(agent, str):
        got = f"{agent!r}; make_agent({agent!r}, env) makes one"
    elif isinstance(agent, NamedAgent):
        got = f"what makes one: write {agent.name}.from_env(env)"
    elif isinstance(agent, type) and issubclass(agent, Agent):
        got = f"a class that makes one: write {agent.__name__}.from_env(env)"
    raise ValueError(f"agent must be {wanted}, got {got}")


def named(name: str) -> "type[Agent] | NamedAgent":
    """Returns what makes the agents of a registered name: their class where it can.

    A name that stands for a class and options of it, as `AllC` does for `Constant` and
    action 0, is a `NamedAgent`, which makes agents and knows its own as a class does.
    """
    from paxenv_agents.agent import Agent

    spec = find(name)
    made_by = spec.load()
    is_class = isinstance(made_by, type) and issubclass(made_by, Agent)
    return made_by if is_class and not spec.kwargs else NamedAgent(name)


@dataclasses.dataclass(frozen=True)
class NamedAgent:
    """A registered agent as a class would be: called, or by `from_env`, it makes one.

    `isinstance(agent, paxenv_agents.AllC)` holds for agents of its class that have the
    options of its name.

    Attributes:
        name: The registered name.
    """

    name: str

    def __call__(
        self, env: "Game", config: Any = None, *, player: int = 0, **options: Any
    ) -> "Agent":
        """Returns the agent as `from_env` does; `cfg` is another name of `config`."""
        if "cfg" in options:
            if config is not None:
                raise TypeError("cfg is another name of config: give one of them")
            config = options.pop("cfg")
        return self.from_env(env, config, player=player, **options)

    def from_env(
        self, env: "Game", config: Any = None, *, player: int = 0, **options: Any
    ) -> "Agent":
        """Returns the agent for one seat of a game, as `Agent.from_env` does."""
        from paxenv_agents.agent import config_and_seat

        config, player = config_and_seat(config, player)
        if isinstance(config, Mapping):
            options = {**config, **options}
        elif config is not None:
            options = {"config": config, **options}
        return make_agent(self.name, env, player, **options)

    def __instancecheck__(self, instance: Any) -> bool:
        spec = find(self.name)
        made_by = spec.load()
        if not (isinstance(made_by, type) and isinstance(instance, made_by)):
            return False
        options = (instance, getattr(instance, "config", None))
        return all(
            any(getattr(where, key, self) == value for where in options)
            for key, value in spec.kwargs.items()
        )


def playable(env: "Game", player: int = 0) -> list[str]:
    """Returns the names of the agents that can play a seat with default options."""
    return [name for name, spec in agents().items() if _fits(spec, env, player)]


def _wrong_options(name: str, agent_class: Any, said: str) -> Exception | None:
    """Returns what is wrong with an agent's options, None if that was not said."""
    config_class = getattr(agent_class, "config_class", None)
    classes = getattr(agent_class, "__mro__", ())
    makers: set[Any] = {agent_class.from_env, *classes, config_class} - {None}
    called = {getattr(maker, "__qualname__", "") for maker in makers}
    called |= {f"{maker}.__init__" for maker in called}
    missing, unknown = _MISSING.match(said), _UNKNOWN.match(said)
    if missing and missing[1] in called:
        return MissingOptionsError(name, tuple(re.findall(r"'(\w+)'", missing[2])))
    if unknown and unknown[1] in called:
        known = _option_names(agent_class if config_class is None else config_class)
        return unknown_option(name, unknown[2], known)
    return None


def _option_names(maker: Any) -> list[str]:
    if dataclasses.is_dataclass(maker):
        known = [field.name for field in dataclasses.fields(maker) if field.init]
    else:
        parameters = [*inspect.signature(maker).parameters.values()]
        if hasattr(maker, "from_env"):
            parameters += inspect.signature(maker.from_env).parameters.values()
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        known = [p.name for p in parameters if p.kind not in several]
    no_options = ("observation_space", "action_space", "env", "player", "config")
    return [name for name in dict.fromkeys(known) if name not in no_options]


def _fits(spec: AgentSpec, env: Any, player: int) -> bool:
    try:
        spec.load().from_env(env, player=player, **spec.kwargs)
    except (ValueError, TypeError, ImportError):
        return False
    except Exception:
        if spec.distribution:  # Somebody else's code may raise anything.
            return False
        raise
    return True
