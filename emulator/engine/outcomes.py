"""What user code waits for, and the order in which it hears of it.

Theory of operation
===================
Outcomes are handed over one at a time, in the order in which the journal has them, with room for the code to react in
between: then a race between two steps has the same winner in every replay. The room is a number of passes of the event
loop; it begins only when everything that the code has asked is committed, for what it asks may have ended earlier.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from emulator.core.effects import Outcome
from emulator.domain.failure import Failure, exception_of
from emulator.domain.steps import StepKey
from emulator.errors import EmulatorError

PASSES_BETWEEN_OUTCOMES = 12
"""Passes of the loop between two outcomes. A task that waits through `gather`, `wait` and `wait_for` needs a few."""

PASSES_BEFORE_REPLAY = 6
"""Passes of the loop before an outcome that the journal had already. Each task inside a task asks one pass later."""


class Outcomes:
    """The futures of one incarnation, and what they are settled with.

    `stirs` hears that the code is about to move, `quiet` that it may have nothing more to do. `causes` are the errors
    behind the failures, as far as they are in memory; `told` is the error that the code was told last.
    """

    def __init__(self, stirs: Callable[[], None], quiet: Callable[[], None]) -> None:
        self.causes: dict[StepKey, BaseException] = {}
        self.told: Exception | None = None
        self._stirs = stirs
        self._quiet = quiet
        self._loop = asyncio.get_running_loop()
        self._expected: dict[StepKey, asyncio.Future[Outcome]] = {}
        self._unanswered = 0
        self._waiting: list[tuple[int, StepKey, Outcome]] = []
        self._is_under_way = False
        self._is_stalled = False
        self._is_closed = False

    # what the code asks

    def expect(self, step: StepKey, future: asyncio.Future[Outcome]) -> None:
        """The code asks for a step: nothing is handed over before that is committed, which `heard` says."""
        self._expected[step] = future
        self._stirs()
        self._unanswered += 1

    def hold(self) -> None:
        """Hand over nothing until `heard` has been called once more."""
        self._unanswered += 1

    def heard(self) -> None:
        """Something that was asked has been decided and committed."""
        self._unanswered -= 1
        if self._unanswered == 0 and self._is_stalled:
            self._is_stalled = False
            self._loop.call_soon(self._pass, PASSES_BETWEEN_OUTCOMES)

    def give_up(self, step: StepKey, future: asyncio.Future[Outcome]) -> None:
        """The code has cancelled what it waited for."""
        if self._expected.get(step) is future:
            del self._expected[step]

    @property
    def are_all_awaited(self) -> bool:
        """Whether the code waits for something, and everything that it has asked is committed and handed over."""
        return bool(self._expected) and not (self._unanswered or self._is_under_way)

    # what it is told

    def add(self, finished_seq: int, step: StepKey, outcome: Outcome) -> None:
        """Hand over the outcome of a step, after those that came before it."""
        if not (self._is_under_way or self._unanswered) and len(self._expected) == 1:
            # The code waits for nothing else, so nothing can come before it.
            self._stirs()
            self._settle(step, outcome)
            return
        heapq.heappush(self._waiting, (finished_seq, step, outcome))
        if not self._is_under_way:
            # Not at once: in a replay the code may still be on its way to a step that ended earlier.
            self._is_under_way = True
            self._loop.call_soon(self._pass, PASSES_BEFORE_REPLAY if self._unanswered else 0)

    def reject(self, step: StepKey, error: EmulatorError) -> None:
        """Raise a refusal where the step was asked for."""
        future = self._expected.pop(step, None)
        if future is not None and not future.done():
            future.set_exception(error)

    def close(self) -> None:
        """Hand over nothing more."""
        self._is_closed = True
        self._expected.clear()
        self._waiting.clear()
        self.told = None

    def _pass(self, left: int) -> None:
        if self._is_closed:
            return
        if self._unanswered:
            self._is_stalled = True  # until all is `heard`
        elif left:
            self._loop.call_soon(self._pass, left - 1)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        self._is_under_way = False
        while self._waiting:
            _, step, outcome = heapq.heappop(self._waiting)
            self._stirs()
            self._settle(step, outcome)
            if self._waiting or self._expected:
                self._is_under_way = True
                self._loop.call_soon(self._pass, PASSES_BETWEEN_OUTCOMES)
                return
        self._quiet()  # nobody else looks again when the last outcome led to nothing

    def _settle(self, step: StepKey, outcome: Outcome) -> None:
        future = self._expected.pop(step, None)
        if future is None or future.done():
            return
        if isinstance(outcome, Failure):
            error = exception_of(outcome)
            error.__cause__ = self.causes.pop(step, None)
            self.told = error
            future.set_exception(error)
        else:
            future.set_result(outcome)
