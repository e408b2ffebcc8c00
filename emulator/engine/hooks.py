"""What others do to an instance through its hooks: they know a token, not the instance."""

from __future__ import annotations

import msgspec

from emulator.core.inputs import HookResumed
from emulator.domain.hooks import HookRecord, HookStage, TokenKey
from emulator.engine.engine import Engine
from emulator.errors import HookNotFoundError, InstanceNotFound


async def holder(engine: Engine, token: TokenKey) -> HookRecord:
    """The hook that holds a token, also beyond the end of its instance.

    Raises:
        HookNotFoundError: nobody holds it.
    """
    engine.check_running()
    found = await engine.journal.holders([token])
    if token not in found or not found[token].holds_at(engine.now_ms()):
        raise HookNotFoundError(token=token.token)
    return found[token]


async def resume(
    engine: Engine, token: TokenKey, payload: msgspec.Raw, resume_id: str | None = None
) -> HookRecord:
    """Send a payload to whoever holds a token.

    Raises:
        HookNotFoundError: nobody takes payloads for it.
        HookResumeConflictError: the resume id came before, with another payload or for another hook.
        EngineStopped: it was not committed.
    """
    former: HookRecord | None = None
    while True:
        hook = await holder(engine, token)
        if hook.stage is not HookStage.LIVE or hook == former:
            raise HookNotFoundError(token=token.token)
        try:
            await engine.ask(hook.owner, HookResumed(hook.hook_id, payload, resume_id))
        except (HookNotFoundError, InstanceNotFound):
            former = hook  # it has changed hands since it was looked up, or is on its way out
        else:
            return hook
