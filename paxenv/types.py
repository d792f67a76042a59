"""Types of the values that games take and return; shapes are those of one game.

`PyTree` stands for what has the structure that a game gives it: observations, joint
actions, params and states.
"""

from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

#: Whether something is so in one game.
Flag = Bool[Array, ""]
#: A whole number of one game, such as its clock; int32 unless a caller's is wider.
Count = Int[Array, ""]
Reward = Float[Array, ""]
#: A bare reward in games of one player, else one for each player, in player order.
Rewards = Reward | tuple[Reward, ...]
#: Named statistics of one game.
Statistics = dict[str, Float[Array, "..."] | Int[Array, "..."]]
#: What a step says of itself, by name; `Environment.step` lists the entries.
Info = dict[str, Any]
#: A picture on the host, red, green and blue last.
Picture = UInt8[np.ndarray, "height width 3"]
