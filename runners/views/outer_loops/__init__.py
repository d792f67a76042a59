"""Loops one level above training: an inner loop is repeated, changed and searched."""

from runners.search.dims import SearchDim
from runners.search.outer_options import ESConfig, OuterConfig
from runners.views.outer_loops.es_runner import ESRunner
from runners.views.outer_loops.handle import AgentHandle
from runners.views.outer_loops.inner_loop import Hook
from runners.views.outer_loops.outer_runner import OnlineRunner, OuterRunner

__all__ = [
    "AgentHandle",
    "ESConfig",
    "ESRunner",
    "Hook",
    "OnlineRunner",
    "OuterConfig",
    "OuterRunner",
    "SearchDim",
]
