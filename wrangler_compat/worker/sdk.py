"""What else Cloudflare's Python SDK exports: names that Workers import, and that have little to do here."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast

from bindings import WorkflowEntrypoint
from bindings.convert import with_attributes
from wrangler_compat.worker import current
from wrangler_compat.worker.entrypoint import WorkerEntrypoint

if TYPE_CHECKING:
    from collections.abc import Generator

    from wrangler_compat.worker.headers import HeadersInit
    from wrangler_compat.worker.http import Body


class Context(Protocol):
    """What `ctx` can do, for annotations."""

    def waitUntil(self, other: Awaitable[Any]) -> None: ...  # noqa: N802


class RequestInitCfProperties(TypedDict, total=False):
    """What `cf` of a request may say to Cloudflare; nothing of it has an effect here."""

    apps: bool | None
    cacheEverything: bool | None
    cacheKey: str | None
    cacheTags: list[str] | None
    cacheTtl: int
    cacheTtlByStatus: dict[str, int]
    image: Any
    mirage: bool | None
    polish: str | None
    resolveOverride: str | None
    scrapeShield: bool | None
    webp: bool | None


class FetchKwargs(TypedDict, total=False):
    """The options of `fetch`, for annotations."""

    headers: HeadersInit | None
    body: Body
    method: str | None
    redirect: str | None
    cf: RequestInitCfProperties | None
    fetcher: object


class DurableObject:
    """The base of a Durable Object's class. It can be declared; a binding to one is not emulated."""

    def __init__(self, ctx: Any, env: Any) -> None:
        self.ctx = ctx
        self.env = env


def python_from_rpc(value: object) -> Any:
    """Give a value as it comes out of JavaScript there: dictionaries answer to attributes."""
    return with_attributes(value)


def python_to_rpc(value: Any) -> Any:
    """Give `value` itself.

    Raises:
        TypeError: Cloudflare's SDK does not send it.
    """
    _refuse_unsendable(value)
    return value


def _refuse_unsendable(value: object) -> None:
    if isinstance(value, tuple | bytearray) or inspect.isawaitable(value):
        raise TypeError(f"{type(cast('object', value))} cannot be sent over RPC.")
    parts: Iterable[object] = ()
    if isinstance(value, Mapping):
        parts = cast("Mapping[object, object]", value).values()
    elif isinstance(value, list | set | frozenset):
        parts = cast("Iterable[object]", value)
    for part in parts:
        _refuse_unsendable(part)


def import_from_javascript(module_name: str) -> Any:
    """Give what Python has of `cloudflare:workers`.

    Raises:
        ImportError: it is another module, which would be JavaScript's.
    """
    if module_name != "cloudflare:workers":
        raise ImportError(f"Failed to import '{module_name}': there is no JavaScript here.")
    return SimpleNamespace(
        env=current.env,
        waitUntil=current.wait_until,
        DurableObject=DurableObject,
        WorkerEntrypoint=WorkerEntrypoint,
        WorkflowEntrypoint=WorkflowEntrypoint,
    )


@contextmanager
def patch_env(
    values: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None, **more: Any
) -> Generator[None]:
    """Let `workers.env` have other values for a while.

    Raises:
        RuntimeError: no Worker runs.
    """
    given: dict[str, Any] = dict(cast("Any", values or {}))
    with current.patched(given | more):
        yield
