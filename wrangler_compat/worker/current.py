"""The Worker that runs in this process, for `from workers import env, waitUntil`.

On Cloudflare these two names of the module belong to whichever Worker imports it. A process of the emulator
runs one Worker, so one place holds its surroundings; tests may stack them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from wrangler_compat.worker.env import Env

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator, Mapping

    from wrangler_compat.worker.entrypoint import ExecutionContext


class Surroundings(NamedTuple):
    """What a Worker finds around itself."""

    env: Env
    ctx: ExecutionContext


_running: list[Surroundings] = []


@contextmanager
def running(env: Env, ctx: ExecutionContext) -> Generator[None]:
    """Let `workers.env` and `workers.waitUntil` mean these. Enter it before the Worker's module is imported."""
    _running.append(Surroundings(env, ctx))
    try:
        yield
    finally:
        _running.pop()


@contextmanager
def patched(values: Mapping[str, object]) -> Generator[None]:
    """Let `workers.env` have these values, too, as long as the context lasts.

    Raises:
        RuntimeError: no Worker runs.
    """
    here = _surroundings("patch_env")
    with running(Env({**vars(here.env), **values}, {}), here.ctx):
        yield


def _surroundings(name: str) -> Surroundings:
    if not _running:
        raise RuntimeError(f"`workers.{name}` means something only while a Worker runs.")
    return _running[-1]


class _CurrentEnv:
    """The environment of the Worker that runs, whenever an attribute is asked for."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and not _running:
            raise AttributeError(name)  # inspection, such as a test collector's, is no use of it
        return getattr(_surroundings("env").env, name)

    def __dir__(self) -> list[str]:
        return dir(_running[-1].env) if _running else []


env = _CurrentEnv()


def wait_until(awaitable: Awaitable[object]) -> None:
    """Let `awaitable` run on after the response is sent."""
    _surroundings("waitUntil").ctx.wait_until(awaitable)
