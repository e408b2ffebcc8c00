"""`HttpWorkflow`: the binding in another process, over HTTP.

    async with HttpWorkflow("http://127.0.0.1:8787", "orders") as orders:
        instance = await orders.create(params={"sku": "mug"})
        await instance.send_event(type="payment", payload={"amount_cents": 2400})

It is the binding that a Worker has, down to the exceptions, on a host that asks a running emulator (see `bindings.wire`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, TypeVar, cast

import httpx
import msgspec

from bindings import wire
from bindings.host import (
    WEBHOOK_PATH,
    Chunk,
    ChunkSource,
    EventSource,
    NewInstance,
    StatusReport,
    StreamReport,
)
from bindings.workflow import Workflow
from emulator.core.inputs import Input
from emulator.domain.hooks import HookRecord, TokenKey
from emulator.domain.http import check_api_token, encode_path
from emulator.domain.instance import InstanceKey
from emulator.domain.names import check_workflow_name
from emulator.errors import ConfigError, EmulatorError, EngineStopped, EntityConflictError
from emulator.projection.events import EventFilter
from emulator.timing.clock import SystemClock

_TIMEOUT: Final = httpx.Timeout(60, connect=5)  # an answer may wait for a rollback
_FORBIDDEN: Final = 403

T = TypeVar("T")


class HttpWorkflow(Workflow):
    """The binding to the workflow `name` of the emulator at `url`.

    `token` is that of `--api-token`; `transport` replaces the network, as in tests. Connections are kept until `close`,
    or to the end of an `async with`. Beside what the methods of `Workflow` raise, all of them raise `EngineStopped` when
    no emulator answers, and `ConfigError` when it does not let this process in, or no header can hold the token.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._connection = _Connection(url, token, transport)
        super().__init__(HttpHost(self._connection), check_workflow_name(name))

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._connection.close()

    async def __aenter__(self) -> HttpWorkflow:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class HttpHost:
    """The emulator behind a connection."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    async def create(
        self,
        workflow: str,
        given: Sequence[NewInstance],
        *,
        may_be_taken: bool,  # noqa: ARG002 - the other side looks, whoever says that it need not
        is_whole: bool = False,
    ) -> list[EntityConflictError | None]:
        """See `Host`."""
        body = msgspec.json.encode(wire.NewInstances(list(given), is_whole))
        path = (workflow, "instances")
        created = await self._connection.ask("POST", path, wire.Created, body)
        refusals = [each and wire.exception_of(each) for each in created.refusals]
        return cast("list[EntityConflictError | None]", refusals)

    async def ask(self, key: InstanceKey, item: Input) -> Any:
        """See `Host`."""
        body = wire.ask_to_json(item)
        return (await self._connection.ask("POST", _path(key), wire.Told, body)).answer

    async def find(self, instance_id: str) -> InstanceKey | None:
        """See `Host`."""
        body = msgspec.json.encode(instance_id)
        return (await self._connection.ask("POST", ("find",), wire.Found, body)).key

    async def hook(self, token: TokenKey) -> HookRecord:
        """See `Host`."""
        body = msgspec.json.encode(token)
        return await self._connection.ask("POST", ("holder",), HookRecord, body)

    async def resume_hook(
        self,
        token: TokenKey,
        payload: msgspec.Raw,
        resume_id: str | None,
        checked_by: str | None = None,
    ) -> HookRecord:
        """See `Host`."""
        body = msgspec.json.encode(wire.Resume(token, payload, resume_id, checked_by))
        return await self._connection.ask("POST", ("resume",), HookRecord, body)

    async def now_ms(self) -> int:
        """See `Host`. The emulator's own time may differ a little."""
        return SystemClock().now_ms()

    def webhook_url(self, token: str) -> str:
        """See `Host`."""
        return self._connection.url + WEBHOOK_PATH + encode_path(token)

    async def status(self, key: InstanceKey) -> StatusReport:
        """See `Host`."""
        return await self._connection.ask("GET", _path(key), StatusReport)

    async def ended(self, key: InstanceKey) -> None:
        """See `Host`."""
        while not (await self._connection.ask("GET", (*_path(key), "end"), wire.Waited)).ended:
            pass

    def events(self, key: InstanceKey, wanted: EventFilter) -> EventSource:
        """See `Host`."""
        return _Events(self._connection, key, wanted)

    async def streams(self, key: InstanceKey) -> list[StreamReport]:
        """See `Host`."""
        path = (*_path(key), "streams")
        return (await self._connection.ask("GET", path, wire.StreamList)).streams

    async def stream(self, key: InstanceKey, namespace: str) -> StreamReport:
        """See `Host`."""
        path = (*_path(key), "streams", namespace, "info")
        return await self._connection.ask("GET", path, StreamReport)

    def chunks(self, key: InstanceKey, namespace: str, start_index: int) -> ChunkSource:
        """See `Host`."""
        return _Chunks(self._connection, key, namespace, start_index)


class _Connection:
    """Requests to one emulator, and what its answers mean."""

    def __init__(
        self, url: str, token: str | None, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self.url = url.rstrip("/")
        headers = {} if token is None else {"authorization": f"Bearer {check_api_token(token)}"}
        # Not through a proxy of the environment: the emulator is near.
        self._client = httpx.AsyncClient(
            headers=headers, timeout=_TIMEOUT, trust_env=False, transport=transport
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(
        self, method: str, path: tuple[str, ...], answer: type[T], body: bytes | None = None
    ) -> T:
        """Send a request, and read an answer of a type.

        Raises:
            EmulatorError: it is refused.
        """
        response = await self.send(method, path, body=body)
        try:
            return msgspec.json.decode(await self._whole(response), type=answer)
        except msgspec.DecodeError as error:
            raise self._stranger(response) from error

    async def send(
        self,
        method: str,
        path: tuple[str, ...],
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        accepted: str = "*/*",
    ) -> httpx.Response:
        """Send a request; the answer, of an `accepted` type, is not read yet.

        Raises:
            EmulatorError: it is refused.
        """
        url = "/".join((self.url + wire.PREFIX, *map(encode_path, path)))
        headers = {"accept": accepted}
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            request = self._client.build_request(
                method, url, params=list(query), content=body, headers=headers
            )
            response = await self._client.send(request, stream=True)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL):
            raise ConfigError(f"{self.url} is no address such as http://localhost:8787.") from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise EngineStopped(
                f"No emulator answers at {self.url}: start one with `workflow-emulator dev`."
            ) from error
        except httpx.TransportError as error:
            raise self.broken(error) from error
        if response.is_success:
            return response
        raise self._refusal(response, await self._whole(response))

    def broken(self, error: httpx.TransportError) -> EngineStopped:
        """What is raised when a connection ends before an answer does."""
        return EngineStopped(
            f"The emulator at {self.url} broke off ({error!r}): what was asked may have happened or not."
        )

    async def _whole(self, response: httpx.Response) -> bytes:
        try:
            return await response.aread()
        except httpx.TransportError as error:
            raise self.broken(error) from error
        finally:
            await response.aclose()

    def _refusal(self, response: httpx.Response, body: bytes) -> EmulatorError:
        if response.status_code == _FORBIDDEN:
            return ConfigError(
                f"The emulator at {self.url} does not let this process in: give its token. It says: {body.decode(errors='replace')}"
            )
        try:
            return wire.exception_of(msgspec.json.decode(body, type=wire.Refused).refusal)
        except msgspec.DecodeError:
            return self._stranger(response)

    def _stranger(self, response: httpx.Response) -> EngineStopped:
        return EngineStopped(
            f"What answers at {self.url} is no workflow-emulator of this version (HTTP {response.status_code})."
        )


class _Frames:
    """What an emulator sends, frame by frame, out of a stream that is opened again wherever it has broken off."""

    def __init__(self, connection: _Connection, path: tuple[str, ...]) -> None:
        self._connection = connection
        self._path = path
        self._response: httpx.Response | None = None
        self._parts: AsyncGenerator[list[dict[str, str]]] | None = None
        self._last: dict[str, str] | None = None

    def query(self) -> list[tuple[str, str]]:
        """From where on."""
        raise NotImplementedError

    async def open(self) -> None:
        """Begin, or go on."""
        accepted = "text/event-stream"
        self._response = await self._connection.send(
            "GET", self._path, self.query(), None, accepted
        )
        self._parts = _parts(self._response)

    async def next(self) -> list[dict[str, str]]:
        """Wait for frames; none at all is the end. What is cut off in the middle is asked for again by the next call."""
        try:
            frames = await self._next()
        except BaseException:
            await self.close()
            raise
        if not frames:
            await self.close()
        return frames

    async def close(self) -> None:
        """Hang up. Idempotent."""
        parts, self._parts = self._parts, None
        response, self._response = self._response, None
        if parts is not None:
            await parts.aclose()
        if response is not None:
            await response.aclose()

    async def _next(self) -> list[dict[str, str]]:
        if self._last is None:
            frames = await self._receive()
            if frames[-1]["event"] in (wire.END, wire.REFUSED):
                self._last = frames.pop()
            if frames:
                return frames
        assert self._last is not None, "a stream of no frames has a last one"
        if self._last["event"] == wire.END:
            return []
        refusal, self._last = self._last["data"], None
        raise wire.exception_of(msgspec.json.decode(refusal, type=wire.Refusal))

    async def _receive(self) -> list[dict[str, str]]:
        if self._parts is None:
            await self.open()
        assert self._parts is not None, "just opened"
        try:
            frames = await anext(self._parts, None)
        except httpx.TransportError as error:
            raise self._connection.broken(error) from error
        if frames is None:
            raise EngineStopped("The emulator has ended the stream.")
        return frames


class _Events(_Frames):
    """The events of one instance."""

    def __init__(self, connection: _Connection, key: InstanceKey, wanted: EventFilter) -> None:
        super().__init__(connection, (*_path(key), "subscribe"))
        self._cursor = wanted.cursor
        self._types = wanted.types

    def query(self) -> list[tuple[str, str]]:
        query = [("cursor", str(self._cursor))]
        if self._types != EventFilter().types:
            query.append(("filter", ",".join(sorted(self._types))))
        return query

    async def more(self) -> list[dict[str, Any]]:
        """See `EventSource`."""
        frames = await self.next()
        if frames:
            self._cursor = int(frames[-1]["id"])
        return [msgspec.json.decode(frame["data"]) for frame in frames]


class _Chunks(_Frames):
    """The chunks of one stream."""

    def __init__(
        self, connection: _Connection, key: InstanceKey, namespace: str, start_index: int
    ) -> None:
        super().__init__(connection, (*_path(key), "streams", namespace))
        self._start_index = start_index

    def query(self) -> list[tuple[str, str]]:
        return [("startIndex", str(self._start_index))]

    async def more(self) -> list[Chunk]:
        """See `ChunkSource`."""
        chunks = [msgspec.json.decode(each["data"], type=Chunk) for each in await self.next()]
        if chunks:
            self._start_index = chunks[-1].index + 1
        return chunks


async def _parts(response: httpx.Response) -> AsyncGenerator[list[dict[str, str]]]:
    """The frames of an answer, as many at once as have come."""
    text = b""
    async for part in response.aiter_bytes():
        frames, text = wire.split_frames(text + part)
        if frames:
            yield frames


def _path(key: InstanceKey) -> tuple[str, ...]:
    return (key.workflow, "instances", key.id)
