"""The unmodified `cloudflare` SDK drives the emulator, and finds everything where its types say."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TypedDict

import cloudflare
import httpx
import pytest
from cloudflare import Cloudflare

from tests.unit.cli.process import Dev
from tests.wire.wrangler import ACCOUNT

ID = "invoice-1"


class Billing(TypedDict):
    """What names the workflow."""

    account_id: str
    workflow_name: str


@pytest.fixture
def client(server: Dev) -> Iterator[Cloudflare]:
    """A client that asks once, not three times."""
    url = f"http://127.0.0.1:{server.port}/client/v4"
    with Cloudflare(api_token="dev-token", base_url=url, max_retries=0) as made:
        yield made


def waiting(server: Dev) -> None:
    """Wait until the instance waits for its event."""
    url = f"{server.url}/cdn-cgi/explorer/api/workflows/billing/instances/{ID}"
    with httpx.Client() as asking:
        while asking.get(url).json()["result"]["status"] != "waiting":
            pass


def test_the_sdk_finds_workflows_and_versions(client: Cloudflare) -> None:
    workflows = client.workflows
    assert [each.name for each in workflows.list(account_id=ACCOUNT, per_page=1)] == [
        "billing",
        "echo",
    ]
    found = workflows.get("billing", account_id=ACCOUNT)
    assert (found.class_name, found.script_name) == ("Billing", "shop")
    assert isinstance(found.created_on, datetime)
    [version] = workflows.versions.list("billing", account_id=ACCOUNT)
    described = workflows.versions.get(version.id, account_id=ACCOUNT, workflow_name="billing")
    assert described.workflow_id == found.id
    graph = workflows.versions.graph(version.id, account_id=ACCOUNT, workflow_name="billing")
    assert graph.graph is None


def test_a_deployment_is_answered_and_changes_nothing(client: Cloudflare) -> None:
    workflows = client.workflows
    before = workflows.get("billing", account_id=ACCOUNT)
    updated = workflows.update(
        "billing",
        account_id=ACCOUNT,
        class_name="Billing",
        script_name="shop",
        limits={"steps": 5},
    )
    assert updated.id == before.id
    assert workflows.get("billing", account_id=ACCOUNT) == before
    [version] = workflows.versions.list("billing", account_id=ACCOUNT)
    assert version.limits is not None
    assert version.limits.steps == 10_000


def test_the_sdk_drives_an_instance(server: Dev, client: Cloudflare) -> None:
    instances = client.workflows.instances
    own = Billing(account_id=ACCOUNT, workflow_name="billing")
    created = instances.create(
        "billing", account_id=ACCOUNT, instance_id=ID, params='{"n": 1}', location_hint="weur"
    )
    assert created.id == ID
    waiting(server)
    detail = instances.get(ID, **own)
    assert (detail.status, detail.params, detail.trigger.source) == ("waiting", {"n": 1}, "api")
    assert [type(each).__name__ for each in detail.steps] == [
        "StepUnionMember0",
        "StepUnionMember3",
    ]
    assert instances.get(ID, **own, simple="true").steps == []
    step = instances.step(ID, **own, name="charge-1", type="step")
    assert step.output == {"charged": {"n": 1}}
    instances.status.edit(ID, **own, status="pause")
    instances.status.edit(ID, **own, status="resume")
    instances.status.edit(ID, **own, status="restart", from_={"name": "charge", "type": "do"})
    waiting(server)
    sent = instances.events.create("approval", **own, instance_id=ID, body={"by": "me"})
    assert sent.instance_id == ID
    instances.events.create("odd type/x", **own, instance_id=ID, body=None)


def test_the_sdk_walks_over_many_instances(client: Cloudflare) -> None:
    instances = client.workflows.instances
    made = instances.bulk("echo", account_id=ACCOUNT, body=[{"instance_id": "a"}, {}, {}])
    ids = {each.id for each in made}
    assert len(ids) == 3
    since = datetime(2026, 1, 1, tzinfo=UTC)
    walked = instances.list("echo", account_id=ACCOUNT, per_page=2, date_start=since)
    assert {each.id for each in walked} == ids
    client.workflows.delete("echo", account_id=ACCOUNT)
    assert list(instances.list("echo", account_id=ACCOUNT)) == []


def test_refusals_are_the_sdks_own_exceptions(client: Cloudflare) -> None:
    instances = client.workflows.instances
    create = partial(instances.create, "echo", account_id=ACCOUNT)
    create(instance_id="taken")
    with pytest.raises(cloudflare.BadRequestError) as taken:
        create(instance_id="taken")
    assert taken.value.errors[0].code == 10405
    with pytest.raises(cloudflare.BadRequestError, match="body"):
        create(instance_id="bad id!")
    with pytest.raises(cloudflare.NotFoundError, match=r"workflow\.not_found"):
        client.workflows.get("nope", account_id=ACCOUNT)
    with pytest.raises(cloudflare.NotFoundError, match=r"instance\.not_found"):
        instances.get("nope", account_id=ACCOUNT, workflow_name="echo")
