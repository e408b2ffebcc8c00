"""What a tenant's code asks of instances from its process: answered with the host of the tenant, which knows no others.

What it asks is checked as if a stranger had asked it. The questions of a run live no longer than the run: whoever has let
go of that wants no answers.
"""

from __future__ import annotations

import asyncio
import weakref
from contextlib import nullcontext
from typing import Any, Final

import msgspec

from bindings.dynamic import messages
from bindings.dynamic.child_host import not_here
from bindings.dynamic.messages import HostCall, told_of
from bindings.dynamic.processes import TenantProcess
from bindings.host import Host
from bindings.wire import Found, ask_from_json
from emulator.core.inputs import AttributesRequested, Input, TerminateRequested, WakeUpRequested
from emulator.domain import values
from emulator.domain.attributes import check_attributes
from emulator.domain.hooks import HookRecord, TokenKey, check_resume_id, check_token
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import MAX_LOOKUP_ID_CHARS
from emulator.domain.names import check_reason
from emulator.errors import InstanceNotFound, InvalidInput

MOST_QUESTIONS: Final = 20_000
"""How many a run may have asked at a time."""


class HostService:
    """Answers what one run of a process asks."""

    def __init__(self, process: TenantProcess, host: Host | None) -> None:
        self._process = process
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._asked: dict[int, asyncio.Task[None]] = {}

    def live_with(self, run: object) -> None:
        """Give up what is not answered when `run` has gone, which may be in any thread."""
        weakref.finalize(run, _close_soon, self._loop, self).atexit = False

    def hear(self, asked: messages.AskHost, size_bytes: int) -> None:
        """Take a question in."""
        if asked.ask in self._asked:
            self._process.kill("has asked twice under one number and was killed")
            return
        if len(self._asked) >= MOST_QUESTIONS:
            self._process.kill(f"has asked more than {MOST_QUESTIONS} questions at a time")
            return
        self._process.carry(size_bytes)
        task = asyncio.create_task(self._answer(asked.run, asked.ask, asked.call))
        self._asked[asked.ask] = task
        task.add_done_callback(lambda _: self._done(asked.ask, size_bytes))

    def abandon(self, ask: int) -> None:
        """Nobody wants the answer any more."""
        if ask in self._asked:
            self._asked[ask].cancel()

    def close(self) -> None:
        """Give up what is not answered."""
        for task in self._asked.values():
            task.cancel()

    def _done(self, ask: int, size_bytes: int) -> None:
        self._asked.pop(ask, None)
        self._process.carry(-size_bytes)

    async def _answer(self, run: int, ask: int, call: HostCall) -> None:
        # The end of an instance may be far away.
        room = nullcontext() if isinstance(call, messages.EndCall) else self._process.answering
        async with room:
            answer = await self._made(run, ask, call)
            async with self._process.turn():
                self._process.say(answer)

    async def _made(
        self, run: int, ask: int, call: HostCall
    ) -> messages.HostAnswer | messages.HostError:
        try:
            if self._host is None:
                raise not_here("host")
            answer = msgspec.Raw(msgspec.json.encode(await _ask(self._host, call)))
        except Exception as error:
            return messages.HostError(run, ask, told_of(error))
        return messages.HostAnswer(run, ask, answer)


async def _ask(host: Host, call: HostCall) -> Any:
    match call:
        case messages.InputCall():
            return await host.ask(_key(call), _input(call.body))
        case messages.StatusCall():
            return await host.status(_key(call))
        case messages.EndCall():
            return await host.ended(_key(call))
        case messages.FindCall():
            return Found(await host.find(call.id) if _can_be_id(call.id) else None)
        case messages.HookCall():
            return _shown(await host.hook(_token(call.token)))
        case messages.ResumeCall():
            where = f'the payload for the hook "{call.token}"'
            payload = values.encode(values.decode(call.payload), where)
            resume_id = None if call.resume_id is None else check_resume_id(call.resume_id)
            return _shown(await host.resume_hook(_token(call.token), payload, resume_id))


def _key(call: messages.InputCall | messages.StatusCall | messages.EndCall) -> InstanceKey:
    if not _can_be_id(call.id):
        raise InstanceNotFound(f"No instance has an id of {len(call.id)} characters.")
    return InstanceKey(call.workflow, call.id)


def _can_be_id(instance_id: str) -> bool:
    """Whether it is worth looking for."""
    return len(instance_id) <= MAX_LOOKUP_ID_CHARS


def _input(body: str) -> Input:
    """What a `Run` and `set_attributes` ask."""
    item = ask_from_json(body.encode())
    match item:
        case TerminateRequested():
            if item.reason is not None:
                check_reason(item.reason)
        case AttributesRequested():
            check_attributes(item.changes)
        case WakeUpRequested():
            pass
        case _:
            raise InvalidInput(f"A tenant's process cannot ask for {type(item).__name__}.")
    return item


def _token(token: str) -> TokenKey:
    """The token, in the scope that the tenant's host puts it into."""
    return TokenKey("", check_token(token))


def _shown(record: HookRecord) -> HookRecord:
    """A hook's schema is the name of a class of the emulator's process."""
    return msgspec.structs.replace(record, schema=None)


def _close_soon(loop: asyncio.AbstractEventLoop, service: HostService) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(service.close)
