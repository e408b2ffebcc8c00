"""What a test arranges for an instance: the modifier that `modify` hands out, and how steps are named there."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import Any, Self

from bindings.convert import options
from emulator.core.modifiers import Modifiers, Steps
from emulator.domain import values
from emulator.domain.failure import failure_of
from emulator.domain.names import check_event_type
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import InvalidInput

Selector = str | Mapping[str, Any]
"""A step: its name, or `{"name", "index": 1}`, where the index says the how-many-th use of the name is meant."""

_SELECTOR = {"name": "name", "index": "index"}
_EVENT = {"type": "type", "payload": "payload"}
PREFIX = "[WorkflowIntrospector]"
"""Where a message comes from (Cloudflare's words)."""


class Modifier:
    """What `modify` hands out: each method arranges one thing and gives the modifier back, to be awaited or not."""

    def __init__(self, modifiers: Modifiers) -> None:
        self.modifiers = modifiers

    def __await__(self) -> Generator[Any, Any, Self]:
        yield from ()
        return self

    def disable_sleeps(self, steps: Iterable[Selector] | None = None) -> Self:
        """Let all sleeps, or those listed, take no time."""
        return self._set(self.modifiers.with_skipped_sleeps(_steps(StepKind.SLEEP, steps)))

    def disable_retry_delays(self, steps: Iterable[Selector] | None = None) -> Self:
        """Let retries of all steps, or of those listed, follow at once. The journal shows the delays all the same."""
        return self._set(self.modifiers.with_skipped_delays(_steps(StepKind.DO, steps)))

    def mock_step_result(self, step: Selector, value: object) -> Self:
        """Let the step have this result; its callback is not called.

        Raises:
            InvalidInput: the step has a mocked result already.
            SerializationError: the value could not be the result of a step.
        """
        key = _step(StepKind.DO, step)
        result = values.encode(value, f'the mocked result of step "{key.label}"')
        return self._set(self.modifiers.with_result(key, result))

    def mock_step_error(
        self, step: Selector, error: BaseException, times: int | None = None
    ) -> Self:
        """Let every attempt of the step raise this error, or the next `times`, counted from the first attempt.

        Several calls add up. Retries follow the step's config. An error wins over a mocked result that is arranged later.

        Raises:
            InvalidInput: the step's result is mocked, or the error is no exception.
        """
        if not isinstance(error, BaseException):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(
                f'{PREFIX} mock_step_error() takes an exception, such as ConnectionError("down"), not {error!r}.'
            )
        key = _step(StepKind.DO, step)
        return self._set(self.modifiers.with_error(key, failure_of(error), _times(times)))

    def force_step_timeout(self, step: Selector, times: int | None = None) -> Self:
        """Let every attempt of the step time out at once, or the next `times`; counted with `mock_step_error`.

        Raises:
            InvalidInput: the step's result is mocked.
        """
        key = _step(StepKind.DO, step)
        return self._set(self.modifiers.with_timeout(key, _times(times)))

    def mock_event(self, event: Mapping[str, Any] | None = None, /, **keywords: Any) -> Self:
        """Let an event, a `type` and perhaps a `payload`, be there from the beginning.

        Raises:
            InvalidEventType: the type is missing or not allowed.
            SerializationError: the payload cannot be stored.
        """
        given = options(event, keywords, _EVENT, "mock_event()")
        event_type = check_event_type(given.get("type"))
        payload = None
        if "payload" in given:
            payload = values.encode(given["payload"], f'the payload of event "{event_type}"')
        return self._set(self.modifiers.with_event(event_type, payload))

    def force_event_timeout(self, step: Selector) -> Self:
        """Let this `wait_for_event` time out as soon as it begins."""
        return self._set(self.modifiers.with_event_timeout(_step(StepKind.WAIT, step)))

    def _set(self, modifiers: Modifiers) -> Self:
        self.modifiers = modifiers
        return self

    disableSleeps = disable_sleeps  # noqa: N815 - Cloudflare's JavaScript spelling
    disableRetryDelays = disable_retry_delays  # noqa: N815
    mockStepResult = mock_step_result  # noqa: N815
    mockStepError = mock_step_error  # noqa: N815
    forceStepTimeout = force_step_timeout  # noqa: N815
    mockEvent = mock_event  # noqa: N815
    forceEventTimeout = force_event_timeout  # noqa: N815


Change = Callable[[Modifier], Awaitable[object] | None]
"""What `modify` is given: a function, async or not, that arranges things by the modifier."""


async def apply(change: Change, modifier: Modifier) -> None:
    """Let a test arrange things by the modifier.

    Raises:
        InvalidInput: what shall arrange them is no function.
    """
    if not callable(change):
        raise InvalidInput(
            f"{PREFIX} What is arranged is given as a function of the modifier, such as `lambda m: m.disable_sleeps()`, "
            f"not {change!r}."
        )
    answer = change(modifier)
    if inspect.isawaitable(answer):
        await answer


def _steps(kind: StepKind, steps: Iterable[Selector] | None) -> Steps:
    return None if steps is None else frozenset(_step(kind, each) for each in steps)


def _step(kind: StepKind, selector: Selector) -> StepKey:
    return StepKey(kind, *named(selector, {}))


def named(selector: object, keywords: Mapping[str, Any]) -> tuple[str, int]:
    """The name and the index that a step is given by.

    Raises:
        InvalidInput: it is none.
    """
    if isinstance(selector, str):
        return selector, 1
    given = options(selector, keywords, _SELECTOR, "a step")
    name, index = given.get("name"), given.get("index", 1)
    if not isinstance(name, str) or not isinstance(index, int) or index < 1:
        raise InvalidInput(
            f'{PREFIX} A step is given by its name, or as {{"name", "index"}} with an index from 1, not {given!r}.'
        )
    return name, index


def _times(times: object) -> int | None:
    if times is None:
        return None
    if not isinstance(times, int) or isinstance(times, bool) or times < 1:
        raise InvalidInput(f"{PREFIX} times must be a whole number from 1, not {times!r}.")
    return times
