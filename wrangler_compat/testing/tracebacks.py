"""What pytest shows of an exception: the lines of the user, and not those of the emulator and of Python that lie between."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Final, cast

from emulator.engine.frames import is_the_users

_PYTESTS: Final = ("pytest", "_pytest", "pluggy", "pytest_asyncio")


def shorten(error: BaseException) -> bool:
    """Take all lines but the user's out of the tracebacks of an exception, and of those that it came from.

    What no line of the user's has a part in says nothing that the exception's own text does not: it is left out of the chain. An
    exception that itself has no such line keeps its traceback; says whether it has one.
    """
    links = list(_links(error))
    for link in links:
        cause, context = link.__cause__, link.__context__
        if cause is not None and not _is_telling(cause):
            link.__cause__ = None  # this hides the context, too
        elif context is not None and cause is None and not _is_telling(context):
            link.__suppress_context__ = True
    for link in links:
        link.__traceback__ = _users_lines(link.__traceback__) or link.__traceback__
    return _has_users_line(error)


def _links(error: BaseException) -> Generator[BaseException]:
    """An exception, and all that it came from or holds."""
    seen: dict[int, BaseException] = {}
    waiting = [error]
    while waiting:
        link = waiting.pop()
        if id(link) not in seen:
            seen[id(link)] = link
            yield link
            waiting += [each for each in (link.__cause__, link.__context__) if each is not None]
            if isinstance(link, BaseExceptionGroup):
                waiting += cast("BaseExceptionGroup[BaseException]", link).exceptions


def _users_lines(trace: TracebackType | None) -> TracebackType | None:
    lines: list[TracebackType] = []
    while trace is not None:
        if _is_users(trace):
            lines.append(trace)
        trace = trace.tb_next
    kept = None
    for line in reversed(lines):
        kept = TracebackType(kept, line.tb_frame, line.tb_lasti, line.tb_lineno)
    return kept


def _is_telling(error: BaseException) -> bool:
    return any(_has_users_line(link) for link in _links(error))


def _has_users_line(error: BaseException) -> bool:
    return _users_lines(error.__traceback__) is not None


def _is_users(trace: TracebackType) -> bool:
    frame = trace.tb_frame
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    return is_the_users(frame.f_code.co_filename) and package not in _PYTESTS
