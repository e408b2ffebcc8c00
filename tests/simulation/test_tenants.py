"""Two tenants with the same ids, versions and types of events, for an hour: neither notices the other."""

from __future__ import annotations

import pytest

from bindings.dynamic import tenant_host
from emulator.testing.laws import moments
from emulator.testing.laws.breach import LawBroken
from tests.simulation.tenancy import histories

TENANTS = ("acme", "zenith")
SEEDS = 12


@pytest.mark.parametrize("number", range(SEEDS))
def test_a_tenant_is_alone_in_its_world(number: int) -> None:
    together = histories(number, TENANTS)
    for tenant in TENANTS:
        assert len(together[tenant]) > 100, "something has happened"
        moments.seclusion(tenant, histories(number, [tenant])[tenant], together[tenant])


def shared_id(tenant: str, instance_id: str) -> str:
    """The planted mistake."""
    return f"all:{instance_id}"


def test_the_law_is_broken_where_tenants_share_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_host, "scoped_id", shared_id)
    alone, together = histories(0, ["acme"]), histories(0, TENANTS)
    with pytest.raises(LawBroken, match="seclusion"):
        moments.seclusion("acme", alone["acme"], together["acme"])
