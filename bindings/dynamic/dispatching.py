"""`dispatch_workflow`: what an instance of a dynamic workflow does with a loader of the user's (Cloudflare: dynamic-workflows)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bindings.dynamic.envelope import opened
from bindings.entrypoint import WorkflowEntrypoint
from bindings.step import WorkflowStep
from emulator.domain.instance import id_in_scope
from emulator.domain.values import JsDict

LoadRunner = Callable[..., Any]
"""Called with `metadata`, `env` and `ctx` at every run; gives an object with a `run(event, step)`. It may be async."""


async def dispatch_workflow(
    entrypoint: WorkflowEntrypoint, event: JsDict, step: WorkflowStep, load_runner: LoadRunner
) -> Any:
    """Run an instance by the runner that is loaded for its metadata.

    The runner's event has the tenant's params as `payload` and the tenant's id as `instanceId`. What the loader or the
    runner raises is raised as it is.

    Raises:
        MissingDispatcherMetadataError: the instance was not created through `wrap_workflow_binding`.
        TypeError: the loader gave something without a `run`.
    """
    metadata, params = opened(event["payload"])
    runner = load_runner(metadata=metadata, env=entrypoint.env, ctx=entrypoint.ctx)
    if inspect.isawaitable(runner):
        runner = await runner
    if not callable(getattr(runner, "run", None)):
        raise TypeError(f"The loader must give an object with a run(event, step), not {runner!r}.")
    own = JsDict({**event, "payload": params, "instanceId": id_in_scope(event["instanceId"])})
    result = runner.run(own, step)
    return await result if inspect.isawaitable(result) else result
