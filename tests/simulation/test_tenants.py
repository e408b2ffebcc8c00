"""Two tenants with the same ids, versions, tokens and types of events, for an hour: neither notices the other."""

from __future__ import annotations

import pytest

from bindings.dynamic import tenant_host
from emulator.domain import hooks
from emulator.domain.hooks import TokenKey
from emulator.engine import residents, tokens, turn
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


def shared_token(_: str, token: TokenKey) -> TokenKey:
    """The planted mistake in the tenants' host, and that of the engine beside."""
    return token


def no_scope(_: str) -> str:
    return ""


def test_the_law_is_broken_where_tenants_share_their_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant_host, "scoped_token", shared_token)
    for module in (hooks, residents, tokens, turn):
        monkeypatch.setattr(module, "scope_of", no_scope)
    alone, together = histories(0, ["acme"]), histories(0, TENANTS)
    with pytest.raises(LawBroken, match="seclusion"):
        moments.seclusion("acme", alone["acme"], together["acme"])
