"""Which lines of a stack are the user's, for logs and findings."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final

from emulator.domain.failure import text_of
from emulator.domain.names import is_unicode
from emulator.errors import EmulatorError

_ROOT: Final = Path(__file__).parents[2]
_NOT_THE_USERS: Final = (
    *(str(_ROOT / name) for name in ("emulator", "bindings", "wrangler_compat")),
    str(Path(os.__file__).parent),
    "<",
)

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def is_the_users(file: str) -> bool:
    """Whether a file of code is neither the emulator's nor Python's."""
    return not file.startswith(_NOT_THE_USERS)


def traceback_of(error: BaseException) -> ExcInfo | None:
    """What to log of an exception: its traceback from the first line on that is the user's.

    Of a refusal of ours up to the last one, for where in the emulator it was made is of no use to the user. Of one that tells by a note what it comes from, the note. None for one of ours that no line of the user's has raised: the
    message says it all. And for one whose text no UTF-8 has: who writes the log, or sends it, would fail with it.
    """
    _forget_earlier_raises(error)
    trace = error.__traceback__
    while trace is not None and not is_the_users(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    has_notes = bool(getattr(error, "__notes__", None))
    if trace is None and isinstance(error, EmulatorError) and not has_notes:
        return None
    if not all(is_unicode(text_of(each)) for each in _chain(error)):
        return None
    if isinstance(error, EmulatorError):
        trace = _up_to_the_users(trace)
    return type(error), error, trace or (None if has_notes else error.__traceback__)


def _forget_earlier_raises(error: BaseException) -> None:
    """Cut off what the traceback has of earlier times.

    Python adds to the traceback of an object that is raised again, as a mock does whose `side_effect` is one exception: each
    attempt would show those before it, and hold what their frames hold. Each time begins where the engine has caught it.
    """
    link = caught = error.__traceback__
    while caught is not None and link is not None:
        later = link.tb_next
        if later is not None and later.tb_frame.f_code is caught.tb_frame.f_code:
            link.tb_next = None
        link = link.tb_next


def _up_to_the_users(trace: TracebackType | None) -> TracebackType | None:
    """A copy of a traceback that ends with its last line that is the user's."""
    links: list[TracebackType] = []
    while trace is not None:
        links.append(trace)
        trace = trace.tb_next
    kept: TracebackType | None = None
    for link in reversed(links):
        if kept is not None or is_the_users(link.tb_frame.f_code.co_filename):
            kept = TracebackType(kept, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return kept


def _chain(error: BaseException) -> list[BaseException]:
    """An exception, and those that it came from."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and not any(link is each for each in chain):
        chain.append(link)
        link = link.__cause__ or link.__context__
    return chain
