"""The numbers of the rules: which behaviour an instance was created under.

A journal is replayed by the rules that it was written under. So a change of the engine that would lead a running instance
astray gets a number here; an instance keeps the number that was current when it was created, and a rule that has changed
asks for it (see docs/logic-flags.md):

    if state.creation.logic >= 2: ...   # what the number 2 says
    else: ...                           # as it was before
"""

from __future__ import annotations

from typing import Final

LOGIC: Final[dict[int, str]] = {
    1: "The rules of the first release.",
}
"""Every number, and what has changed with it. A number is never taken away and never means anything else."""

CURRENT_LOGIC: Final = max(LOGIC)
"""What new instances are created with."""
