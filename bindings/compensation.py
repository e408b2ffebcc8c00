"""`step.with_rollback`, `.undo` and `step.rollback_all`: compensation that the workflow itself calls.

The older Python design. A step declared with `with_rollback` and an `undo` handler is remembered once it has succeeded;
`rollback_all` undoes what has succeeded, newest first, each handler as a durable step of its own. It happens only when
it is called; `rollback=` on `step.do` is the form that Cloudflare's engine calls by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from emulator.errors import InvalidStep

Run = Callable[[str, Callable[..., Any], Mapping[str, Any] | None], Awaitable[Any]]
"""Runs a function as a step: its name, the function, its config."""


class _Undo(NamedTuple):
    handler: Callable[..., Any]
    config: Mapping[str, Any] | None


class Undoable:
    """A step that can be undone. Call it to run it; declare how with `@step.undo()`."""

    def __init__(self, name: str) -> None:
        self._step_name = name
        self.step: Callable[[], Awaitable[Any]] | None = None
        self._undo: _Undo | None = None

    async def __call__(self) -> Any:
        """Run the step."""
        assert self.step is not None, "set where it is declared"
        return await self.step()

    def undo(
        self, config: Mapping[str, Any] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare how to undo it: a function that gets, by parameter name, `error` and `output`."""

        def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
            unknown = set(inspect.signature(handler).parameters) - {"error", "output"}
            if unknown:
                names = ", ".join(sorted(unknown))
                raise InvalidStep(
                    f'Undo for "{self._step_name}" takes {names}; it can take error and output.'
                )
            self._undo = _Undo(handler, config)
            return handler

        return declare

    async def roll_back(self, run: Run, error: BaseException | None, output: Any) -> None:
        """Undo it, as a step."""
        if self._undo is None:
            return
        handler = self._undo.handler
        known = {"error": error, "output": output}
        arguments = {name: known[name] for name in inspect.signature(handler).parameters}

        def undo() -> Any:
            return handler(**arguments)

        async def undo_on_the_loop() -> Any:
            return await handler(**arguments)

        chosen = undo_on_the_loop if inspect.iscoroutinefunction(handler) else undo
        await run(f"undo {self._step_name}", chosen, self._undo.config)


async def undo_all(
    done: list[tuple[Undoable, Any]],
    run: Run,
    error: BaseException | None,
    *,
    continue_on_error: bool,
) -> None:
    """Undo what has been done, newest first. The first handler that fails stops it, unless told to go on.

    Raises:
        ExceptionGroup: several handlers failed, with `continue_on_error`; of a single one its own error.
    """
    failures: list[Exception] = []
    while done:
        step, output = done.pop()
        try:
            await step.roll_back(run, error, output)
        except Exception as failure:
            if not continue_on_error:
                raise
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("Several undo handlers failed", failures)
