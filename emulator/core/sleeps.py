"""The rules of `step.sleep` and `step.sleep_until`.

A sleep's end is an instant, fixed when it starts. Neither the duration nor the instant is part of its identity, so a
replay that computes another one gets the first (Cloudflare's local engine keys sleeps by duration, and throws on a
finished `sleepUntil`). A pause moves the end of a sleep, not of a `sleep_until`.
"""

from __future__ import annotations

from emulator.core.decision import Decision
from emulator.core.inputs import SleepRequested, WakeUpRequested
from emulator.core.state import StepState
from emulator.domain.entries import SleepCompleted, SleepStarted
from emulator.domain.limits import DAY_MS, MAX_SLEEP_MS
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKind
from emulator.errors import EmulatorError, InvalidDuration, PastWakeTime


def sleep_requested(decision: Decision, request: SleepRequested) -> None:
    """`run()` asks for a sleep that is not over."""
    step = decision.state.open.get(request.step)
    if step is None:
        refusal = _refusal(request, decision.now_ms)
        if refusal is not None:
            decision.reject(request.step, refusal)
            return
        step = _start(decision, request)
    elif step.due_ms is not None and step.due_ms > decision.now_ms:
        decision.arm_again(step)
    assert step.due_ms is not None
    modifiers = decision.state.modifiers
    if step.due_ms <= decision.now_ms or (
        modifiers is not None and modifiers.skips_sleep(step.key)
    ):
        sleep_over(decision, step)


def wake_up(decision: Decision, request: WakeUpRequested) -> None:
    """Somebody ends sleeps before their time (Workflow SDK: wakeUp). Those of a finished instance are over."""
    state = decision.state
    sleeps = [
        step
        for step in state.open.values()
        if step.key.kind is StepKind.SLEEP
        and (request.labels is None or step.key.label in request.labels)
    ]
    if state.is_terminal or state.status is InstanceStatus.ROLLING_BACK:
        sleeps = []
    for step in sleeps:
        sleep_over(decision, step)
    decision.told = len(sleeps)


def _refusal(request: SleepRequested, now_ms: int) -> EmulatorError | None:
    """Why a new sleep may not end at the instant that it names. Durations are checked where they are read."""
    if request.until_ms is None:
        return None
    if request.until_ms < now_ms:
        return PastWakeTime()
    if request.until_ms - now_ms > MAX_SLEEP_MS:
        days = MAX_SLEEP_MS // DAY_MS
        return InvalidDuration(
            f'sleep "{request.step.name}" cannot end that late: the maximum is {days} days'
        )
    return None


def _start(decision: Decision, request: SleepRequested) -> StepState:
    if request.until_ms is not None:
        fact = SleepStarted(request.until_ms - decision.now_ms, request.until_ms, until=True)
    else:
        assert request.duration_ms is not None
        fact = SleepStarted(request.duration_ms, decision.now_ms + max(request.duration_ms, 0))
    decision.record(request.step, fact)
    if fact.wake_ms > decision.now_ms:
        decision.arm(request.step, fact.wake_ms)
    return decision.state.open[request.step]


def sleep_over(decision: Decision, step: StepState) -> None:
    """The instant has come."""
    decision.disarm(step.key)
    decision.record(step.key, SleepCompleted())
    if decision.state.status not in (InstanceStatus.QUEUED, InstanceStatus.PAUSED):
        decision.go_on(step)
