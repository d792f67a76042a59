"""What holds for the options of all learners."""

from paxenv import options
from paxenv_agents import registry


def configs_of_learners():
    kinds = [registry.find(name).load() for name in registry.agents()]
    return {kind.config_class for kind in kinds if hasattr(kind, "config_class")}


def test_every_option_of_every_learner_has_a_rule():
    bare = [
        (kind.__name__, name)
        for kind in configs_of_learners()
        for name, hint in options.hints(kind).items()
        if options.rule_of(hint) is None
    ]
    assert len(configs_of_learners()) > 8
    assert bare == []
