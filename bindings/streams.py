"""Output streams, as user code sees them: `WorkflowWritable` inside a workflow, `WorkflowReadable` outside."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any

from bindings.convert import js_dict
from bindings.host import Chunk, Host
from emulator.domain import values
from emulator.domain.instance import InstanceKey
from emulator.domain.names import check_stream_name
from emulator.domain.values import JsDict
from emulator.engine.steps import StepContext
from emulator.engine.tasks import is_in_run
from emulator.errors import InvalidStream, WorkflowContextError


class WorkflowWritable:
    """What `step.get_writable()` gives: one stream of the instance, to write to from `run()` and from its steps.

    `async with` closes it at the end, unless the block has raised: another attempt may go on writing.
    """

    def __init__(self, context: StepContext, namespace: str) -> None:
        self._context = context
        self._namespace = namespace

    @property
    def namespace(self) -> str:
        """The name of the stream."""
        return self._namespace

    async def write(self, chunk: Any) -> None:
        """Append a chunk, any value that a step could return, of at most 1 MiB. When this returns it is stored for good.

        A step that is tried again writes its chunks again; each has the step and the attempt with it. In `run()` itself
        a write is a step of its own, and happens once.

        Raises:
            StreamError: the stream is closed, or the attempt that writes is over.
            SerializationError: the chunk cannot be stored; the message has the path to what is wrong.
            PayloadTooLarge: it is over 1 MiB.
        """
        await self._context.write(self._namespace, chunk)

    async def close(self) -> None:
        """Let it take no more chunks, whoever writes. Idempotent."""
        await self._context.close_stream(self._namespace)

    async def __aenter__(self) -> WorkflowWritable:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()


class WorkflowReadable:
    """What `instance.readable()` gives: an async iterator of the chunks that are stored, then of those that come.

    It ends when the stream is closed or the instance has ended. A read that is cancelled loses no chunk.
    """

    def __init__(self, host: Host, key: InstanceKey, namespace: str, start_index: int) -> None:
        self._host = host
        self._key = key
        self._namespace = namespace
        self._source = host.chunks(key, namespace, start_index)
        self._ready: deque[Chunk] = deque()
        self._has_ended = False
        self._asking = asyncio.Lock()

    async def tail_index(self) -> int:
        """The index of the last chunk that is stored now; -1 if there is none.

        Raises:
            InstanceNotFound: the instance is gone.
        """
        _check_place()
        return (await self._host.stream(self._key, self._namespace)).tail_index

    async def records(self) -> AsyncGenerator[JsDict]:
        """The chunks with what is known of them: `{"index", "value", "step", "attempt"}`.

        `step` is the label of the step whose callback wrote it, such as `charge-1`; it and `attempt` are None for a chunk
        that `run()` itself wrote.
        """
        while self._ready or await self._fill():
            chunk = self._ready.popleft()
            yield js_dict(
                index=chunk.index,
                value=values.decode(chunk.value),
                step=chunk.step,
                attempt=chunk.attempt,
            )

    async def close(self) -> None:
        """Give up the rest. Idempotent."""
        self._has_ended = True
        self._ready.clear()
        await self._source.close()

    async def _fill(self) -> bool:
        """Wait for chunks; False at the end."""
        _check_place()
        async with self._asking:
            if not self._ready and not self._has_ended:
                self._ready.extend(await self._source.more())
                self._has_ended = not self._ready
            return bool(self._ready)

    def __aiter__(self) -> WorkflowReadable:
        return self

    async def __anext__(self) -> Any:
        if not (self._ready or await self._fill()):
            raise StopAsyncIteration
        return values.decode(self._ready.popleft().value)

    async def __aenter__(self) -> WorkflowReadable:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    tailIndex = tail_index  # noqa: N815 - as JavaScript spells it


def writable(context: StepContext, namespace: object) -> WorkflowWritable:
    """The writable of a stream; None is the default one.

    Raises:
        InvalidStream: no stream can have this name.
    """
    name = check_stream_name(namespace)
    context.use_streams()
    return WorkflowWritable(context, name)


def check_start_index(index: object) -> int:
    """Accept the index at which to begin.

    Raises:
        InvalidStream: it is no whole number.
    """
    if not isinstance(index, int) or isinstance(index, bool):
        raise InvalidStream(f"start_index must be a whole number, not {index!r}")
    return index


def _check_place() -> None:
    if is_in_run():
        raise WorkflowContextError(
            "run() cannot read a stream: in a replay it would read something else. Read it in a step."
        )
