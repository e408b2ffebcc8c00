"""The timer wheel against a dictionary, step by step."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from emulator.timing.wheel import Timer, TimerWheel

START_MS = 1_767_225_600_000
DELAYS_MS = st.one_of(
    st.integers(-100, 200),
    st.integers(0, 700_000),
    st.integers(-(10**11), 10**12),
    st.sampled_from([64**level + offset for level in range(1, 8) for offset in (-1, 0, 1)]),
)
STEPS_MS = st.one_of(st.integers(0, 200), st.integers(0, 10**6), st.integers(0, 10**12))


class WheelAgainstDictionary(RuleBasedStateMachine):
    timers: Bundle[Timer[int]] = Bundle("timers")

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = START_MS
        self.wheel: TimerWheel[int] = TimerWheel(self.now_ms)
        self.due_ms_of: dict[int, int] = {}  # by number, in the order of scheduling
        self.scheduled = 0

    def schedule_at(self, due_ms: int) -> Timer[int]:
        self.scheduled += 1
        self.due_ms_of[self.scheduled] = due_ms
        return self.wheel.schedule(due_ms, self.scheduled)

    @rule(target=timers, delay_ms=DELAYS_MS)
    def schedule(self, delay_ms: int) -> Timer[int]:
        return self.schedule_at(self.now_ms + delay_ms)

    @rule(target=timers, timer=timers)
    def schedule_for_the_time_of_another(self, timer: Timer[int]) -> Timer[int]:
        return self.schedule_at(timer.due_ms)

    @rule(timer=timers)
    def cancel(self, timer: Timer[int]) -> None:
        self.wheel.cancel(timer)
        self.due_ms_of.pop(timer.item, None)

    @rule(timer=consumes(timers))
    def cancel_twice(self, timer: Timer[int]) -> None:
        self.cancel(timer)
        self.cancel(timer)

    @rule(step_ms=STEPS_MS)
    def advance(self, step_ms: int) -> None:
        self.now_ms += step_ms
        expected = sorted(
            (number for number, due_ms in self.due_ms_of.items() if due_ms <= self.now_ms),
            key=lambda number: self.due_ms_of[number],
        )
        assert [timer.item for timer in self.wheel.advance(self.now_ms)] == expected
        for number in expected:
            del self.due_ms_of[number]

    @rule()
    def advance_to_the_next_wake(self) -> None:
        wake_ms = self.wheel.next_wake_ms()
        if wake_ms is not None:
            self.advance(wake_ms - self.now_ms)

    @rule(step_ms=st.integers(1, 10**12))
    def advance_backwards(self, step_ms: int) -> None:
        assert self.wheel.advance(self.now_ms - step_ms) == []

    @invariant()
    def both_hold_as_many(self) -> None:
        assert len(self.wheel) == len(self.due_ms_of)

    @invariant()
    def the_next_wake_is_not_after_any_timer(self) -> None:
        wake_ms = self.wheel.next_wake_ms()
        if not self.due_ms_of:
            assert wake_ms is None
        else:
            assert wake_ms is not None
            assert self.now_ms <= wake_ms <= max(self.now_ms, min(self.due_ms_of.values()))


TestWheelAgainstDictionary = WheelAgainstDictionary.TestCase
TestWheelAgainstDictionary.settings = settings(max_examples=100, stateful_step_count=40)
