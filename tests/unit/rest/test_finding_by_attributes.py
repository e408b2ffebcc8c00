"""Listings of the instances that have attributes, in both APIs."""

from __future__ import annotations

import pytest

from tests.unit.rest.emulated import LOCAL, REMOTE, Emulated, emulated


async def crowd(server: Emulated) -> None:
    """Three instances with attributes, one without."""
    for id_, attributes in {
        "a": {"customer": "7", "city": "Ulm"},
        "b": {"customer": "7", "formula": "a=b"},
        "c": {"customer": "8", "city": "Ulm"},
    }.items():
        await server.result(
            "POST", f"{LOCAL}/waits/instances", {"id": id_, "attributes": attributes}
        )
    await server.create("waits", "d")


@pytest.mark.parametrize("api", [LOCAL, REMOTE])
@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("attribute=customer=7", ["b", "a"]),
        ("attribute=customer=7&attribute=city=Ulm", ["a"]),
        ("attribute=formula=a%3Db", ["b"]),
        ("attribute=customer=", []),
        ("attribute=city=Ulm&per_page=1&page=2", ["a"]),
        ("", ["d", "c", "b", "a"]),
    ],
)
async def test_a_listing_is_of_the_instances_that_have_all_the_attributes(
    api: str, query: str, ids: list[str]
) -> None:
    async with emulated() as server:
        await crowd(server)
        rows = await server.result("GET", f"{api}/waits/instances?{query}")
        assert [row["id"] for row in rows] == ids


async def test_a_listing_counts_and_shows_what_it_is_of() -> None:
    async with emulated() as server:
        await crowd(server)
        _, answer = await server.send("GET", f"{REMOTE}/waits/instances?attribute=customer=7")
        assert answer["result_info"]["total_count"] == 2
        shown = [row.get("attributes") for row in answer["result"]]
        assert shown == [{"customer": "7", "formula": "a=b"}, {"customer": "7", "city": "Ulm"}]
        [first, *_] = await server.result("GET", f"{REMOTE}/waits/instances")
        assert "attributes" not in first, "Cloudflare's rows have none"


@pytest.mark.parametrize("api", [LOCAL, REMOTE])
@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("attribute=customer", 'attribute: expected NAME=VALUE, such as "customer=7"'),
        ("attribute==7", 'attribute: expected NAME=VALUE, such as "customer=7"'),
        ("&".join(["attribute=a=b"] * 9), "attribute: at most 8 can be asked for, not 9"),
    ],
)
async def test_what_is_no_attribute_is_refused(api: str, query: str, problem: str) -> None:
    async with emulated() as server:
        status, answer = await server.send("GET", f"{api}/waits/instances?{query}")
        told = [each["message"] for each in answer["errors"] + answer["messages"]]
        assert (status, problem in told) == (400, True), told
