"""Cloudflare's introspectors: to look into instances, and to arrange what happens to them (Workers, test APIs, workflows).

    async with introspect_workflow_instance(workflows.env.ORDERS, "order-1") as order:
        await order.modify(lambda m: m.disable_sleeps().mock_step_result("charge", {"ok": True}))
        await workflows.env.ORDERS.create(id="order-1")
        await order.wait_for_status("complete")

The calls and the texts are Cloudflare's, the messages of their errors too. Three things differ: a falsy result is mocked
like any other; what can never happen is an error and not a wait without end; and a mock for a step that never ran, often a
wrong name, is reported at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from bindings import Workflow
from bindings.convert import js_dict
from emulator.core.effects import ReceivedEvent
from emulator.core.inputs import DeleteRequested
from emulator.core.modifiers import Modifiers
from emulator.core.state import HookState, InstanceState, StepState
from emulator.domain import values
from emulator.domain.entries import channel
from emulator.domain.failure import Failure, exception_of
from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.domain.values import JsDict
from emulator.errors import Conflict, InstanceNotFound, InvalidInput
from emulator.projection.rendering import REDACTED
from wrangler_compat.testing.host import TestedWorkflow
from wrangler_compat.testing.leftovers import Leftover, check_used, leftovers, steps_run
from wrangler_compat.testing.modifier import PREFIX, Change, Modifier, apply, named
from wrangler_compat.testing.project import TestProject, status_of

T = TypeVar("T")


class InstanceIntrospector:
    """Looks into one instance, which need not exist yet. Made by `introspect_workflow_instance`."""

    def __init__(self, project: TestProject, key: InstanceKey, shared: Modifiers) -> None:
        self._project = project
        self._key = key
        self._shared = shared
        self._is_disposed = False

    @property
    def id(self) -> str:
        """The instance's id."""
        return self._key.id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        unused, ran = await self._wipe()
        if error is None:
            check_used(unused, f'instance "{self.id}"', ran)

    async def modify(self, change: Change) -> Self:
        """Arrange things for the instance; attempts, sleeps and waits that have begun are not touched."""
        modifier = Modifier(self._modifiers())
        await apply(change, modifier)
        await self._project.arrange(self._key, modifier.modifiers)
        return self

    async def wait_for_step_result(
        self, step: Mapping[str, Any] | str | None = None, /, **keywords: Any
    ) -> Any:
        """Wait until a `do` step, or a wait for an event, has its result, and give it; redacted if it is sensitive.

        Raises:
            Exception: the step has failed; this is its error.
            AssertionError: it has not run, and will not.
        """
        name, index = named(step, keywords)
        keys = [StepKey(kind, name, index) for kind in (StepKind.DO, StepKind.WAIT)]

        def ended(state: InstanceState) -> list[StepState] | None:
            steps = [state.steps[key] for key in keys if key in state.steps]
            return [step for step in steps if step.finished_seq] or (
                [] if state.is_terminal else None
            )

        what = f'have a result of step "{keys[0].label}"'
        found = await self._project.until_answered(self._key, ended, what)
        if not found:
            ran = steps_run(await self._ran())
            raise AssertionError(
                f'instance {self.id} has ended; step "{keys[0].label}" never did. {ran}'
            )
        return _result(found[0])

    async def wait_for_status(self, status: str) -> None:
        """Wait until the instance has this status.

        Raises:
            InvalidInput: there is no such status.
            AssertionError: it has ended with another, or nothing can happen any more.
        """
        wanted = status_of(status)
        if wanted is InstanceStatus.QUEUED:
            return

        def reached(state: InstanceState) -> InstanceStatus | None:
            return state.status if state.status is wanted or state.is_terminal else None

        found = await self._project.until_answered(self._key, reached, f"become {wanted}")
        if found is not wanted:
            raise AssertionError(
                f"{PREFIX} The Workflow instance {self.id} has reached status '{found}'. This is a finite status that "
                f"prevents it from ever reaching the expected status of '{wanted}'."
            )

    async def wait_for_sleep(
        self, step: Mapping[str, Any] | str | None = None, /, **keywords: Any
    ) -> JsDict:
        """Wait until the instance sleeps, in this step or in any; gives the step's `name` and `index`.

        Raises:
            AssertionError: it will not.
        """
        any_step = step is None and not keywords
        key = None if any_step else StepKey(StepKind.SLEEP, *named(step, keywords))

        def asleep(state: InstanceState) -> list[StepKey] | None:
            open_sleeps = [each for each in state.open if each.kind is StepKind.SLEEP]
            found = [each for each in open_sleeps if key in (None, each)]
            return found or ([] if state.is_terminal else None)

        found = await self._project.until_answered(self._key, asleep, "sleep")
        if not found:
            raise AssertionError(f"instance {self.id} has ended, and does not sleep.")
        return js_dict(name=found[0].name, index=found[0].count)

    async def wait_for_hook(self, token: str | None = None) -> JsDict:
        """Wait until the instance waits for a payload of this hook, or of any; gives its `token`, `hook_id`, `metadata`.

        Raises:
            AssertionError: it will not.
        """

        def waiting(state: InstanceState) -> list[HookState] | None:
            awaited = {step.event_type for step in state.open.values()}
            found = [
                hook
                for hook in state.hooks.values()
                if token in (None, hook.token) and channel(hook.hook_id) in awaited
            ]
            return found or ([] if state.is_terminal else None)

        which = "a hook" if token is None else f'the hook "{token}"'
        found = await self._project.until_answered(self._key, waiting, f"wait for {which}")
        if not found:
            raise AssertionError(f"instance {self.id} has ended, and does not wait for {which}.")
        hook = found[0]
        metadata = values.decode(hook.metadata)
        return js_dict(token=hook.token, hook_id=hook.hook_id, metadata=metadata)

    async def get_output(self) -> Any:
        """What `run()` returned.

        Raises:
            Conflict: it has not.
        """
        state = await self._status(InstanceStatus.COMPLETE, "output", "an output")
        assert state.output is not None
        return values.decode(state.output)

    async def get_error(self) -> JsDict:
        """`{"name", "message"}` of what `run()` raised.

        Raises:
            Conflict: it has raised nothing.
        """
        state = await self._status(InstanceStatus.ERRORED, "error", "error information")
        assert state.error is not None
        return js_dict(name=state.error.name, message=state.error.message)

    async def dispose(self) -> None:
        """Remove the instance, so that its id is free for another test, and what was arranged for it. Idempotent.

        Raises:
            AssertionError: something was arranged and not used, as for a step that never ran.
        """
        unused, ran = await self._wipe()
        check_used(unused, f'instance "{self.id}"', ran)

    async def unused(self) -> set[Leftover]:
        """What was arranged and has not been used."""
        arranged = self._modifiers()
        return await self._ask(
            lambda state: leftovers(arranged, state), without=leftovers(arranged, None)
        )

    async def _wipe(self) -> tuple[set[Leftover], list[StepKey]]:
        """Dispose; gives what was arranged for this instance alone and not used, and the steps that have run."""
        if self._is_disposed:
            return set(), []
        self._is_disposed = True
        unused = await self.unused() - leftovers(self._shared, None)
        ran = await self._ran()
        await self._project.remember(self._key)
        with suppress(InstanceNotFound):  # never created, or deleted by the test
            await self._project.on_engine(lambda engine: engine.ask(self._key, DeleteRequested()))
        await self._project.arrange(self._key, None)
        return unused, ran

    async def _ran(self) -> list[StepKey]:
        return await self._ask(lambda state: list(state.steps), without=[])

    async def _ask(self, question: Callable[[InstanceState], T], *, without: T) -> T:
        """Answer a question about the instance, or say what holds without one."""
        try:
            return await self._project.on_engine(lambda engine: engine.read(self._key, question))
        except InstanceNotFound:
            return without

    async def _status(self, wanted: InstanceStatus, what: str, there_is: str) -> InstanceState:
        state = await self._project.on_engine(
            lambda engine: engine.read(self._key, lambda state: state)
        )
        if state.status is not wanted:
            raise Conflict(
                f'Cannot retrieve {what}: Workflow instance is in status "{state.status}" but must be "{wanted}" '
                f"to have {there_is} available"
            )
        return state

    def _modifiers(self) -> Modifiers:
        return self._project.arrangements.of(self._key) or Modifiers()

    waitForStepResult = wait_for_step_result  # noqa: N815 - Cloudflare's JavaScript spelling
    waitForStatus = wait_for_status  # noqa: N815
    waitForSleep = wait_for_sleep  # noqa: N815
    waitForHook = wait_for_hook  # noqa: N815
    getOutput = get_output  # noqa: N815
    getError = get_error  # noqa: N815


class WorkflowIntrospector:
    """Looks into all instances that a workflow creates from now on. Made by `introspect_workflow`."""

    def __init__(self, project: TestProject, workflow: str) -> None:
        self._project = project
        self._workflow = workflow
        self._modifiers = Modifiers()
        self._introspectors: dict[InstanceKey, InstanceIntrospector] = {}
        self._is_disposed = False
        project.arrangements.capture(workflow, self._modifiers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        unused, ran = await self._wipe()
        if error is None:
            check_used(unused, f'workflow "{self._workflow}"', ran)

    async def modify_all(self, change: Change) -> Self:
        """Arrange things for every instance that is created from now on."""
        modifier = Modifier(self._modifiers)
        await apply(change, modifier)
        self._modifiers = modifier.modifiers
        self._project.arrangements.capture(self._workflow, self._modifiers)
        return self

    async def get(self) -> list[InstanceIntrospector]:
        """The instances created since, in their order, each with an introspector of its own."""
        for key in self._project.arrangements.captured(self._workflow) or ():
            if key not in self._introspectors:
                introspector = InstanceIntrospector(self._project, key, self._modifiers)
                self._introspectors[key] = introspector
        return list(self._introspectors.values())

    async def dispose(self) -> None:
        """Remove the instances, and capture no more. Idempotent.

        Raises:
            AssertionError: something was arranged and not used in any of the instances, as for a step that never ran.
        """
        unused, ran = await self._wipe()
        check_used(unused, f'workflow "{self._workflow}"', ran)

    async def _wipe(self) -> tuple[set[Leftover], list[StepKey]]:
        if self._is_disposed:
            return set(), []
        self._is_disposed = True
        introspectors = await self.get()
        self._project.arrangements.release(self._workflow)
        unused = leftovers(self._modifiers, None)
        own: set[Leftover] = set()
        ran: dict[StepKey, None] = {}
        for each in introspectors:
            unused &= await each.unused()
            found, steps = await each._wipe()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - two halves of one thing
            own |= found
            ran |= dict.fromkeys(steps)
        return unused | own, list(ran)

    modifyAll = modify_all  # noqa: N815 - Cloudflare's JavaScript spelling


def introspect_workflow_instance(binding: Workflow, id: str) -> InstanceIntrospector:  # noqa: A002 - Cloudflare's name
    """Look into an instance, best before it is created: then all that is arranged holds from its beginning.

    `binding` is what the harness gives, such as `workflows.env.ORDERS`.

    Raises:
        InvalidInput: one of the two is missing, or the binding is another's.
    """
    if not binding or not id:
        raise InvalidInput(f"{PREFIX} Workflow binding and instance id are required.")
    tested = _tested(binding)
    return InstanceIntrospector(tested.project, InstanceKey(tested.name, id), Modifiers())


def introspect_workflow(binding: Workflow) -> WorkflowIntrospector:
    """Look into every instance that is created from now on.

    Raises:
        InvalidInput: there is no binding, or it is another's.
        Conflict: somebody does so already.
    """
    if not binding:
        raise InvalidInput(f"{PREFIX} Workflow binding is required.")
    tested = _tested(binding)
    if tested.project.arrangements.captured(tested.name) is not None:
        raise Conflict(
            f'Workflow "{tested.name}" already has an active introspection session for binding "{tested.binding}".'
        )
    return WorkflowIntrospector(tested.project, tested.name)


def _tested(binding: Workflow) -> TestedWorkflow:
    if not isinstance(binding, TestedWorkflow):
        raise InvalidInput(
            f"{PREFIX} {binding!r} is no binding of a test harness; take it from its `env`."
        )
    return binding


def _result(step: StepState) -> Any:
    outcome = step.outcome
    if isinstance(outcome, Failure):
        raise exception_of(outcome)
    if step.config is not None and step.config.sensitive is not None:
        return REDACTED
    stored = outcome.payload if isinstance(outcome, ReceivedEvent) else outcome
    return values.decode(stored) if isinstance(stored, msgspec.Raw) else None
