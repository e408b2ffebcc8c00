"""`Workflow`: the binding, `env.MY_WORKFLOW`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from bindings.convert import js_dict, options
from bindings.host import Host, NewInstance
from bindings.instance import WorkflowInstance
from emulator.core.inputs import DeleteRequested
from emulator.domain import values
from emulator.domain.duration import retention_ms
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import MAX_BATCH_INSTANCES, MAX_VALUE_BYTES
from emulator.domain.names import check_instance_id, check_new_instance_id, is_reserved_id
from emulator.domain.values import JsDict
from emulator.errors import InstanceNotFound, InvalidBatch, InvalidInstanceId, PayloadTooLarge

_CREATE = {
    "id": "id",
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

    def __repr__(self) -> str:
        return f"<Workflow {self._name}>"

    async def create(
        self, options_: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> WorkflowInstance:
        """Create an instance, with options as a dictionary or as keywords.

        `id` is made up if not given; `params` (an empty dictionary if not given, at most 1 MiB) is `event.payload`;
        `retention` is `{"success_retention", "error_retention"}`, durations of at most 30 days. `location_hint` is
        accepted and has no effect.

        Raises:
            InvalidInstanceId: the id is not allowed; None is none.
            InstanceAlreadyExists: the id is taken, by an instance of whatever status.
            InvalidRetention: a retention is no duration, or too long.
            SerializationError: the params cannot be stored; the message has the path to what is wrong.
            PayloadTooLarge: they are over 1 MiB.
        """
        given = options(options_, keywords, _CREATE, "create()")
        new = _new_instance(given)
        [taken] = await self._host.create(self._name, [new], may_be_taken="id" in given)
        if taken is not None:
            raise taken
        return self._instance(new.id)

    async def create_batch(self, batch: Any = None, /, **keywords: Any) -> Any:
        """Create up to 100 instances in one commit; everything is checked before anything is written.

        A list of options gives a list of instances, without those whose id is taken or repeated. A dictionary, of
        `count` and the other options or of `instances`, gives `{"created": [...], "errors": [{"index", "id", "code",
        "message"}]}`.

        Raises:
            InvalidBatch: it is empty, over 100, or of another shape.
            InvalidInstanceId: an id is not allowed.
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
        batch = _new_instances(items)
        taken = await self._host.create(self._name, batch, may_be_taken=True)
        return [
            self._instance(new.id) for new, error in zip(batch, taken, strict=True) if error is None
        ]

    async def _create_detailed(self, given: dict[str, Any]) -> JsDict:
        try:
            batch = _new_instances(_instances(given))
        except InvalidInstanceId:
            raise InvalidInstanceId(_INVALID_ID) from None
        if any(is_reserved_id(new.id) for new in batch):
            raise InvalidInstanceId(_INVALID_ID)
        taken = await self._host.create(self._name, batch, may_be_taken=True)
        created: list[WorkflowInstance] = []
        errors: list[JsDict] = []
        seen: set[str] = set()
        for index, (new, error) in enumerate(zip(batch, taken, strict=True)):
            if error is None:
                created.append(self._instance(new.id))
            else:
                code, message = DUPLICATE_IN_BATCH if new.id in seen else ALREADY_EXISTS
                errors.append(js_dict(index=index, id=new.id, code=code, message=message))
            seen.add(new.id)
        return js_dict(created=created, errors=errors)

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
            for each in ids:
                check_instance_id(each)
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

    createBatch = create_batch  # noqa: N815 - Cloudflare's JavaScript spelling
    deleteBatch = delete_batch  # noqa: N815


def host_of(workflow: Workflow) -> Host:
    """Whoever runs the instances behind a binding."""
    return workflow._host  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no business of users


def rehosted(workflow: Workflow, host: Host) -> Workflow:
    """A binding to the same workflow, by way of another host."""
    return Workflow(host, workflow._name)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _new_instances(items: list[Any]) -> list[NewInstance]:
    batch = [_new_instance(options(item, {}, _CREATE, "create_batch()")) for item in items]
    size_bytes = sum(values.size_bytes(new.params) for new in batch)
    if size_bytes > MAX_VALUE_BYTES:
        raise PayloadTooLarge(
            f"The params of the batch are {size_bytes} bytes; together they may be {MAX_VALUE_BYTES} (1 MiB)."
        )
    return batch


def _new_instance(given: dict[str, Any]) -> NewInstance:
    retention = options(given.get("retention"), {}, _RETENTION, "retention")
    return NewInstance(
        check_new_instance_id(given["id"]) if "id" in given else str(uuid4()),
        values.encode(given.get("params", {}), "params"),
        _optional_retention_ms(retention.get("success_retention")),
        _optional_retention_ms(retention.get("error_retention")),
    )


def _optional_retention_ms(value: object) -> int | None:
    return None if value is None else retention_ms(value)


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
