"""`Workflow`: the binding, `env.MY_WORKFLOW`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from msgspec.structs import replace

from bindings.ambient import durable, here
from bindings.convert import js_dict, options
from bindings.hints import Hints
from bindings.hooks import Hook, HookInfo, durable_lookup, resume_hook_of
from bindings.host import Host, NewInstance
from bindings.instance import WorkflowInstance
from emulator.core.inputs import DeleteRequested
from emulator.domain import values
from emulator.domain.attributes import check_attributes
from emulator.domain.duration import retention_ms
from emulator.domain.hooks import HookRequest, check_token, min_retention
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import MAX_BATCH_INSTANCES, MAX_VALUE_BYTES
from emulator.domain.names import check_instance_id, check_new_instance_id, is_reserved_id
from emulator.domain.values import JsDict
from emulator.errors import (
    EmulatorError,
    EntityConflictError,
    HookConflictError,
    InstanceNotFound,
    InvalidBatch,
    InvalidHook,
    InvalidInstanceId,
    PayloadTooLarge,
)

_CREATE = {
    "id": "id",
    "attributes": "attributes",
    "hook": "hook",
    "min_retention": "min_retention",
    "minRetention": "min_retention",
    "experimental_hook": "experimental_hook",
    "experimental_min_retention": "experimental_min_retention",
    "experimental_minRetention": "experimental_min_retention",
    "params": "params",
    "retention": "retention",
    "location_hint": "location_hint",
    "locationHint": "location_hint",
}
_RETENTION = {
    "success_retention": "success_retention",
    "successRetention": "success_retention",
    "error_retention": "error_retention",
    "errorRetention": "error_retention",
}
_RETENTIONS = ("min_retention", "experimental_min_retention")
_HOOK = {
    "token": "token",
    "metadata": "metadata",
    "min_retention": "min_retention",
    "minRetention": "min_retention",
    "experimental_min_retention": "experimental_min_retention",
    "experimental_minRetention": "experimental_min_retention",
}
_BATCH = {"count": "count", "instances": "instances", **_CREATE}

ALREADY_EXISTS = (10405, "workflows.api.error.instance.already_exists")
DUPLICATE_IN_BATCH = (10415, "workflows.api.error.instance.duplicate_in_batch")
NOT_FOUND = (10400, "workflows.api.error.instance.not_found")
"""Codes and messages of the entries of `errors` (Cloudflare: REST API, workflows)."""

_INVALID_ID = "(instance.invalid_id) Instance ID is invalid"
"""What the newer calls say, which check ids in the API and not in the engine."""


class Workflow:
    """The binding to one workflow (Cloudflare: Workers API, Workflow)."""

    def __init__(self, host: Host, name: str) -> None:
        self._host = host
        self._name = name
        self._scope = ""

    def __repr__(self) -> str:
        return f"<Workflow {self._name}>"

    async def create(
        self, options_: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> WorkflowInstance:
        """Create an instance, with options as a dictionary or as keywords.

        `id` is made up if not given; `params` (an empty dictionary if not given, at most 1 MiB) is `event.payload`;
        `retention` is `{"success_retention", "error_retention"}`, durations of at most 30 days. `location_hint` is
        accepted and has no effect.

        `hook` is a token, or `{"token", "metadata"}`, that the instance holds from this moment on; another one that holds
        it is left alone, and none is created. `min_retention` (a duration, or a datetime with a time zone, of at most 30
        days) keeps the token from others beyond the end (Workflow SDK: atomic start). `attributes` are small texts by which
        people find the instance.

        In the body of a `run()` it is a durable step: a replay creates nothing again.

        Raises:
            InvalidInstanceId: the id is not allowed; None is none.
            HookConflictError: the token is taken; `.conflicting_run_id` says by whom.
            InstanceAlreadyExists: the id is taken, by an instance of whatever status.
            InvalidHook: the hook or its retention is not valid.
            InvalidRetention: a retention is no duration, or too long.
            SerializationError: the params cannot be stored; the message has the path to what is wrong.
            PayloadTooLarge: they are over 1 MiB.
        """
        given = options(options_, keywords, _CREATE, "create()")
        new = new_instance(given, await self._host.now_ms())
        [new] = await _with_parent([new])

        async def create() -> str:
            # One that was made up is taken too, if an earlier attempt of this step has got that far.
            may_be_taken = "id" in given or new.parent is not None
            [taken] = await self._host.create(self._name, [new], may_be_taken=may_be_taken)
            if taken is not None and not await self._is_mine(new):
                raise taken
            return new.id

        return self._instance(await durable(f"create {self._name}", create))

    async def _is_mine(self, new: NewInstance) -> bool:
        """Whether an earlier attempt of the same step has created it, whoever has its token by now."""
        if new.parent is None:
            return False
        try:
            report = await self._host.status(InstanceKey(self._name, new.id))
        except InstanceNotFound:
            return False
        return report.parent == new.parent

    async def create_batch(self, batch: Any = None, /, **keywords: Any) -> Any:
        """Create up to 100 instances in one commit; everything is checked before anything is written.

        A list of options gives a list of instances, without those whose id is taken or repeated. A dictionary, of
        `count` and the other options or of `instances`, gives `{"created": [...], "errors": [{"index", "id", "code",
        "message"}]}`.

        Raises:
            InvalidBatch: it is empty, over 100, or of another shape.
            InvalidInstanceId: an id is not allowed.
            HookConflictError: a token of a list is taken, or claimed twice; nothing is created. `.index` is its place. (In
                the other form that is an entry of `errors`, with `token`, `conflicting_run_id`, `conflicting_workflow`.)
            PayloadTooLarge: all params together are over 1 MiB.
        """
        if isinstance(batch, (list, tuple)):
            if keywords:
                raise TypeError("create_batch() with a list takes no other options.")
            return await self._create_list(list(cast("Sequence[Any]", batch)))
        if batch is not None and not isinstance(batch, Mapping):
            raise InvalidBatch
        return await self._create_detailed(
            options(cast("Any", batch), keywords, _BATCH, "create_batch()")
        )

    async def _create_list(self, items: list[Any]) -> list[WorkflowInstance]:
        if not items:
            raise InvalidBatch("batchCreate should have at least 1 instance")
        if len(items) > MAX_BATCH_INSTANCES:
            raise InvalidBatch(
                f"batchCreate only supports {MAX_BATCH_INSTANCES} instances at a time"
            )
        batch = await _with_parent(_new_instances(items, await self._host.now_ms()))

        async def create() -> list[str]:
            taken = await self._create(batch, is_whole=True)
            pairs = zip(batch, taken, strict=True)
            return [new.id for new, error in pairs if error is None]

        return [self._instance(each) for each in await durable(f"create {self._name}", create)]

    async def _create(
        self, batch: list[NewInstance], *, is_whole: bool
    ) -> list[EntityConflictError | None]:
        """Create them; for each None, or what stands in the way that no earlier attempt has created."""
        try:
            taken = await self._host.create(self._name, batch, may_be_taken=True, is_whole=is_whole)
        except HookConflictError as error:
            if not any([await self._is_mine(new) for new in batch]):
                raise
            taken = [error] * len(batch)
        results: list[EntityConflictError | None] = []
        seen: set[str] = set()
        for new, error in zip(batch, taken, strict=True):
            is_mine = error is None or (new.id not in seen and await self._is_mine(new))
            results.append(None if is_mine else error)
            seen.add(new.id)
        return results

    async def _create_detailed(self, given: dict[str, Any]) -> JsDict:
        try:
            batch = _new_instances(_instances(given), await self._host.now_ms())
        except InvalidInstanceId:
            raise InvalidInstanceId(_INVALID_ID) from None
        if any(is_reserved_id(new.id) for new in batch):
            raise InvalidInstanceId(_INVALID_ID)
        batch = await _with_parent(batch)

        async def create() -> list[Any]:
            taken = await self._create(batch, is_whole=False)
            return [[new.id for new in batch], _entries(batch, taken)]

        ids, errors = await durable(f"create {self._name}", create)
        failed = {error["index"] for error in errors}
        created = [self._instance(each) for index, each in enumerate(ids) if index not in failed]
        return js_dict(created=created, errors=[JsDict(error) for error in errors])

    async def resume_hook(
        self, token: str | Hook | HookInfo, payload: Any = None, /, *, resume_id: str | None = None
    ) -> HookInfo:
        """Send a payload to the run that holds a token, of whichever workflow (Workflow SDK: resumeHook).

        It is stored before this returns, and taken in the order of sending. Calls with the same `resume_id` and the same
        payload are one.

        Raises:
            HookNotFoundError: nobody takes payloads for the token: none holds it, or its run has ended.
            HookResumeConflictError: the `resume_id` came before, with another payload or for another hook.
            TypeValidationError: the payload does not match the hook's schema.
            InvalidHook: the hook is a webhook, or the `resume_id` is not valid.
            SerializationError: it cannot be stored; the message has the path to what is wrong.
            PayloadTooLarge: it is over 1 MiB.
            WorkflowContextError: this is the body of a `run()`: call it in a step.
        """
        return await resume_hook_of(self._host, self._scope, token, payload, resume_id)

    async def get_hook_by_token(self, token: str, /) -> HookInfo:
        """The hook that holds a token, also when its run has ended and only retains it. In the body of a `run()` a step.

        Raises:
            HookNotFoundError: nobody holds it.
        """
        return await durable_lookup(self._host, self._scope, token)

    async def get(self, id: str, /) -> WorkflowInstance:  # noqa: A002 - Cloudflare's parameter name
        """The handle of an instance that exists.

        Raises:
            InstanceNotFound: there is none of this id.
            InvalidInstanceId: no instance can have this id.
        """
        key = InstanceKey(self._name, check_instance_id(id))
        await self._host.status(key)
        return WorkflowInstance(self._host, key)

    async def delete_batch(self, ids: Sequence[str], /) -> JsDict:
        """Remove up to 100 instances, whatever they do.

        Gives `{"deleted": [{"id"}], "errors": [{"id", "code", "message"}]}`, an entry for every position of `ids`.

        Raises:
            InvalidBatch: it is no list, empty, or over 100.
            InvalidInstanceId: an id is not allowed; nothing is removed.
        """
        if not isinstance(ids, (list, tuple)):
            raise InvalidBatch
        if not ids:
            raise InvalidBatch("(body) batchDeleteInstances should have at least 1 instance")
        if len(ids) > MAX_BATCH_INSTANCES:
            raise InvalidBatch(
                f"(body) batchDeleteInstances only supports {MAX_BATCH_INSTANCES} instances at a time"
            )
        try:
            ids = [check_instance_id(each) for each in ids]
        except InvalidInstanceId:
            raise InvalidInstanceId(_INVALID_ID) from None
        # All at once: a caller that is cancelled leaves no half of it undone.
        distinct = list(dict.fromkeys(ids))
        keys = [InstanceKey(self._name, each) for each in distinct]
        results = await asyncio.gather(
            *(self._host.ask(key, DeleteRequested()) for key in keys), return_exceptions=True
        )
        missing: set[str] = set()
        for each, result in zip(distinct, results, strict=True):
            if isinstance(result, InstanceNotFound):
                missing.add(each)
            elif result is not None:
                raise result
        code, message = NOT_FOUND
        return js_dict(
            deleted=[js_dict(id=each) for each in ids if each not in missing],
            errors=[
                js_dict(id=each, code=code, message=message) for each in ids if each in missing
            ],
        )

    def _instance(self, id: str) -> WorkflowInstance:  # noqa: A002
        return WorkflowInstance(self._host, InstanceKey(self._name, id))

    resumeHook = resume_hook  # noqa: N815 - the Workflow SDK's spelling
    getHookByToken = get_hook_by_token  # noqa: N815
    createBatch = create_batch  # noqa: N815 - Cloudflare's JavaScript spelling
    deleteBatch = delete_batch  # noqa: N815


def host_of(workflow: Workflow) -> Host:
    """Whoever runs the instances behind a binding."""
    return workflow._host  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no business of users


def rehosted(workflow: Workflow, host: Host) -> Workflow:
    """A binding to the same workflow, by way of another host."""
    return Workflow(host, workflow._name)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


async def _with_parent(batch: list[NewInstance]) -> list[NewInstance]:
    """In the body of a `run()`: give them the mark of the call, which an attempt that follows a crash knows them by."""
    place = here.get()
    if place is None or place.body is None:
        return batch
    mark, *ids = await durable("create", lambda: _ids(batch))
    parent = f"{place.key.workflow}/{place.key.id}/{mark}"
    return [replace(new, id=id_, parent=parent) for new, id_ in zip(batch, ids, strict=True)]


async def _ids(batch: list[NewInstance]) -> list[str]:
    """A mark, and the ids of the batch: those that were made up stay the same in every replay."""
    return [str(uuid4()), *(new.id for new in batch)]


def _entries(
    batch: list[NewInstance], taken: list[EntityConflictError | None]
) -> list[dict[str, Any]]:
    """The entries of `errors` of a batch."""
    errors: list[dict[str, Any]] = []
    seen: set[str] = set()
    for index, (new, error) in enumerate(zip(batch, taken, strict=True)):
        if isinstance(error, HookConflictError):
            fields = {name: getattr(error, name) for name in error.fields}
            errors.append(
                {"index": index, "id": new.id, "code": error.code, "message": error.message}
                | fields
            )
        elif error is not None:
            code, message = DUPLICATE_IN_BATCH if new.id in seen else ALREADY_EXISTS
            errors.append({"index": index, "id": new.id, "code": code, "message": message})
        seen.add(new.id)
    return errors


def _new_instances(items: list[Any], now_ms: int) -> list[NewInstance]:
    batch = [new_instance(options(item, {}, _CREATE, "create_batch()"), now_ms) for item in items]
    size_bytes = sum(values.size_bytes(new.params) for new in batch)
    if size_bytes > MAX_VALUE_BYTES:
        raise PayloadTooLarge(
            f"The params of the batch are {size_bytes} bytes; together they may be {MAX_VALUE_BYTES} (1 MiB)."
        )
    return batch


def new_instance(given: dict[str, Any], now_ms: int) -> NewInstance:
    """Check the options of one instance.

    Raises:
        InvalidInput: one of them is not valid.
    """
    retention = options(given.get("retention"), {}, _RETENTION, "retention")
    return NewInstance(
        check_new_instance_id(given["id"]) if "id" in given else str(uuid4()),
        values.encode(given.get("params", {}), "params"),
        _retention_ms(retention, "success_retention"),
        _retention_ms(retention, "error_retention"),
        _hook(given, now_ms),
        _attributes(given.get("attributes")),
    )


def instance_asked_for(given: Mapping[str, Any], now_ms: int) -> NewInstance:
    """Check the options of one instance that somebody sends, in any of the spellings.

    Raises:
        InvalidInput: one of them is not valid, or unknown.
    """
    try:
        return new_instance(options(given, {}, _CREATE, "create()"), now_ms)
    except EmulatorError:
        raise
    except TypeError as error:  # what is only a wrong call in Python
        raise InvalidHook(str(error)) from error


def _attributes(given: object) -> dict[str, str] | None:
    if given is None:
        return None
    checked = check_attributes(given)
    return {name: value for name, value in checked.items() if value is not None}


def _hook(given: dict[str, Any], now_ms: int) -> HookRequest | None:
    """The token that an instance claims, wherever its parts are given (Workflow SDK, both spellings)."""
    retentions = [given[name] for name in _RETENTIONS if given.get(name) is not None]
    hooks = [given[name] for name in ("hook", "experimental_hook") if given.get(name) is not None]
    if not hooks:
        if retentions:
            raise InvalidHook("min_retention needs a hook: there is no token to retain.")
        return None
    hook = _same(hooks, "hook")
    if isinstance(hook, str):
        hook = {"token": hook}
    told = options(hook, {}, _HOOK, "hook")
    retentions += [told[name] for name in _RETENTIONS if told.get(name) is not None]
    retained = None
    if retentions:
        given_retention = _same(retentions, "min_retention")
        retained = min_retention(given_retention, now_ms)
        _hints.duration(f"create(), min_retention={given_retention!r}", given_retention)
    return HookRequest(
        "",
        check_token(told.get("token")),
        values.encode(told.get("metadata"), "the metadata of the hook"),
        retained,
    )


def _same(given: list[Any], what: str) -> Any:
    first, *others = given
    if any(other != first for other in others):
        raise InvalidHook(f"{what} is given twice, as {given!r}.")
    return first


def _retention_ms(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    length_ms = retention_ms(value)
    _hints.duration(f"create(), {name}={value!r}", value)
    return length_ms


_hints = Hints()
"""Of the process: whoever creates instances, each hint is said once."""


def _instances(given: dict[str, Any]) -> list[Any]:
    """The options of each instance of a detailed batch."""
    if "count" in given:
        count = given["count"]
        if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
            raise InvalidBatch("(body) count must be a positive integer")
        if count > MAX_BATCH_INSTANCES:
            raise InvalidBatch(
                f"(body) batchCreate only supports {MAX_BATCH_INSTANCES} instances at a time"
            )
        common = {
            name: value for name, value in given.items() if name not in ("count", "instances", "id")
        }
        return [common] * count
    listed = given.get("instances")
    if not isinstance(listed, (list, tuple)):
        raise InvalidBatch
    instances = cast("Sequence[Any]", listed)
    if not 0 < len(instances) <= MAX_BATCH_INSTANCES:
        raise InvalidBatch("(body) Batch size exceeds maximum allowed")
    return list(instances)
