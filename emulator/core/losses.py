"""The rules of a lost run: the process that ran the code has ended, and the emulator goes on.

Theory of operation
===================
It is what a recovery is, for one instance. Attempts under way have failed, with an error that says what became of the
process; `run()` begins again, in a new process, and replays. An instance that waits needs no code: the next timer or
event starts it.

Code that kills its process would do so again and again. So losses in a row are counted, and after some of them without a
step that has finished in between the instance fails. The count is not stored: it begins anew with the emulator.
"""

from __future__ import annotations

from typing import Final

from emulator.core import attempts, lifecycle, rollbacks
from emulator.core.decision import Decision
from emulator.core.inputs import RunLost
from emulator.core.state import InstanceState
from emulator.domain.status import InstanceStatus

MOST_LOSSES: Final = 3
"""How often in a row a lost run is begun again without progress."""


def run_lost(decision: Decision, loss: RunLost) -> None:
    """The run has gone, and with it all that it had under way."""
    state = decision.state
    if state.status is InstanceStatus.WAITING:
        decision.stop_run()
        return
    may_go_on = _count(state) <= MOST_LOSSES
    if state.status is InstanceStatus.ROLLING_BACK:
        rollbacks.lost(decision, loss.error, may_go_on=may_go_on)
        return
    attempts.fail_interrupted_attempts(decision, loss.error)
    # A step that has failed with its process is no progress.
    state.life.finished_at_loss = _finished(state)
    if state.status is InstanceStatus.WAITING_FOR_PAUSE:
        attempts.pause_now(decision)
    elif may_go_on:
        decision.stop_run()
        decision.start_run()
    else:
        lifecycle.run_failed(decision, loss.error)


def _count(state: InstanceState) -> int:
    """How many losses in a row this is, without a step that has finished in between."""
    life = state.life
    if _finished(state) > life.finished_at_loss:
        life.losses = 0
    life.losses += 1
    life.finished_at_loss = _finished(state)
    return life.losses


def _finished(state: InstanceState) -> int:
    return len(state.steps) - len(state.open)
