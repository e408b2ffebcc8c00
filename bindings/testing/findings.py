"""What a simulation has found, in words that a newcomer understands."""

from __future__ import annotations

from typing import Final, NamedTuple

from emulator.testing.asking import Place

ADVICE: Final = {
    "runs-twice": "Give the call an idempotency key that is the same in every attempt, such as the order's id.",
    "outside-step": "Do it in a step: only a step's result is remembered.",
    "key-changes": "Make the key of the event or of a step's result, so that every attempt has the same one.",
    "crash-changes-result": "A step may use only the event and the results of other steps, and must not change them; "
    "what it finds out, it has to return.",
    "state-outside-steps": "What a callback changes outside itself (a list, an attribute, a global, another step's "
    "result) is gone in a replay, because the callback is not called again. Return it from the step. Timers of the code's "
    "own around a step (asyncio.timeout, asyncio.wait_for) do the same: wait for the step beside a step.sleep.",
    "depends-on-clock": "Read the clock in a step, or use event['timestamp'].",
    "depends-on-chance": "Draw it in a step, and use the step's result.",
    "depends-on-set-order": "The order of a set differs between processes. Use sorted(…) or a list.",
    "not-awaited": "Write `await` before it.",
    "swallows-cancellation": "Catch Exception, which asyncio.CancelledError is not, or raise it again.",
    "looks-like-seconds": 'A bare number is milliseconds. Write "30 seconds" if seconds are meant.',
    "never-ends": "Wait for steps, sleeps and events only: nothing else survives a crash.",
}
"""What to do, by the code of a finding."""


class Finding(NamedTuple):
    """One mistake: a stable code, where it is, a sentence, and the seed whose run shows it."""

    code: str
    place: Place | None
    sentence: str
    seed: int

    @property
    def advice(self) -> str:
        """What to do about it."""
        return ADVICE[self.code]

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.code}: {self.sentence}\n    {self.advice}\n    (seed {self.seed})"


class Report:
    """The findings of a simulation, each mistake once. `runs` is how many seeds have been run.

    `failure` is what the workflow fails with where nothing disturbs it, or what it waits for in vain, as a text; None if it
    comes to its end.
    """

    def __init__(self, workflow: str) -> None:
        self.workflow = workflow
        self.runs = 0
        self.failure: str | None = None
        self.findings: list[Finding] = []
        self._known: set[tuple[str, object]] = set()

    def add(self, finding: Finding, subject: object) -> None:
        """Take a finding in, unless the same mistake, about the same `subject`, is known."""
        if (finding.code, subject) not in self._known:
            self._known.add((finding.code, subject))
            self.findings.append(finding)

    def has(self, *codes: str) -> bool:
        """Whether there is a finding with one of these codes."""
        return any(finding.code in codes for finding in self.findings)

    def __str__(self) -> str:
        many = len(self.findings)
        lines = [
            f"{self.workflow}: {many or 'no'} finding{'s' * (many != 1)} in {self.runs} runs",
            *(f"  {finding}" for finding in self.findings),
        ]
        if self.failure is not None:
            lines.append(f"  Where nothing disturbs it: {self.failure}")
        return "\n".join(lines)
