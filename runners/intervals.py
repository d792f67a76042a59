"""When something is due: intervals are met by crossing, never by divisibility."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Interval:
    """Due whenever the count of something crosses a multiple of `every`.

    Attributes:
        every: The interval, in steps or iterations; 0 is never.
        per_iteration: By how much an iteration advances the count: 1 counts
            iterations, `steps_per_iteration` counts environment steps.
    """

    every: int
    per_iteration: int = 1

    def __post_init__(self) -> None:
        if self.every < 0 or self.per_iteration < 1:
            raise ValueError(
                f"an interval needs every >= 0 and per_iteration >= 1, got {self}"
            )

    def is_due(self, iteration: int) -> bool:
        """Whether it is due after iteration number `iteration`, from 1.

        True if floor(after / every) > floor(before / every).
        """
        if self.every == 0 or iteration < 1:
            return False
        after = iteration * self.per_iteration
        return after // self.every > (after - self.per_iteration) // self.every

    def next_due(self, iteration: int) -> int | None:
        """Returns the first iteration after `iteration` at which it is due."""
        if self.every == 0:
            return None
        crossed = (iteration * self.per_iteration) // self.every + 1
        # Smallest i with i * per_iteration >= crossed * every.
        return -(-crossed * self.every // self.per_iteration)
