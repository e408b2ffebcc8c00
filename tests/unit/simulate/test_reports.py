"""What a report says beside its findings, and of calls that are no mistakes."""

from __future__ import annotations

from typing import Any

from bindings import WorkflowEntrypoint, get_run
from bindings.testing import simulate


class NamesNoBinding(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        webhook = step.create_webhook()
        await step.set_attributes({"address": webhook.url})

        @step.do("ask")
        async def ask() -> str:
            await step.set_attributes({"asked": "yes"})
            return webhook.url

        return [await ask(), await get_run(event["instanceId"]).attributes()]


def test_calls_that_name_no_binding_mean_the_same_in_a_replay() -> None:
    report = simulate(NamesNoBinding, seeds=24)
    assert report.findings == [], str(report)


class NeedsABank(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        return self.env.BANK


def test_a_workflow_that_fails_without_any_disturbance_is_told() -> None:
    report = simulate(NeedsABank, seeds=2)
    head, tail = str(report).splitlines()
    assert head == "NeedsABank: no findings in 2 runs"
    assert tail.startswith("  Where nothing disturbs it: AttributeError: ")


def test_one_that_does_not_fail_is_not_told() -> None:
    report = simulate(NeedsABank, seeds=2, env={"BANK": 1})
    assert (report.failure, str(report)) == (None, "NeedsABank: no findings in 2 runs")


class WaitsForApproval(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> Any:
        return await step.create_hook(token="approval")


def test_one_that_waits_for_what_never_comes_is_told() -> None:
    report = simulate(WaitsForApproval, seeds=2)
    assert report.failure == 'it does not end, for "token approval-1-1" waits'
    assert simulate(WaitsForApproval, seeds=2, payloads=[("approval", "yes")]).failure is None
