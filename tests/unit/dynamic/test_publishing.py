"""The code store: a version is never bound again, and nothing is stored of what is refused."""

from __future__ import annotations

import asyncio

import pytest

from bindings.dynamic import (
    CodeStore,
    DynamicCodeConflictError,
    DynamicCodeError,
    DynamicCodeNotFoundError,
)
from bindings.dynamic.code import code_of
from emulator.errors import InvalidInput
from emulator.journal.memory import MemoryJournal
from emulator.journal.port import Journal
from emulator.journal.sqlite import SqliteJournal
from tests.unit.dynamic.dispatcher import saying

ONE, TWO = saying("one"), saying("two")


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest) -> CodeStore:
    journal: Journal = MemoryJournal() if request.param == "memory" else SqliteJournal(":memory:")
    await journal.open()
    times = iter(range(1, 1_000))
    return CodeStore(journal.codes, lambda: next(times))


async def test_a_version_keeps_its_code(store: CodeStore) -> None:
    first = await store.publish("acme", "billing", "v1", ONE)
    assert first.is_new
    again = await store.publish("acme", "billing", "v1", ONE)
    assert (again.is_new, again.version) == (False, first.version)
    with pytest.raises(DynamicCodeConflictError, match='Version "v1" of "billing"'):
        await store.publish("acme", "billing", "v1", TWO)
    assert await store.versions() == [first.version]
    assert await store.get(first.version.hash) == code_of(ONE)


async def test_of_two_that_publish_one_version_at_once_one_is_first(store: CodeStore) -> None:
    results = await asyncio.gather(
        *(store.publish("acme", "billing", "v1", code) for code in (ONE, TWO, ONE)),
        return_exceptions=True,
    )
    assert [isinstance(each, DynamicCodeConflictError) for each in results] == [False, True, False]
    assert len(await store.versions()) == 1


async def test_what_does_not_compile_leaves_nothing(store: CodeStore) -> None:
    with pytest.raises(DynamicCodeError):
        await store.publish("acme", "billing", "v1", "def f(:")
    with pytest.raises(DynamicCodeError):
        await store.put("def f(:")
    assert await store.versions() == []
    with pytest.raises(DynamicCodeNotFoundError, match='"acme" has published no workflow'):
        await store.find("acme", "billing")


async def test_the_version_published_last_is_the_newest_whatever_it_is_called(
    store: CodeStore,
) -> None:
    for version, code in (("v2", ONE), ("v1", TWO)):
        await store.publish("acme", "billing", version, code)
    await store.publish("zenith", "billing", "v3", ONE)
    assert (await store.find("acme", "billing")).version == "v1"
    assert (await store.find("acme", "billing", "v2")).hash == code_of(ONE).hash
    with pytest.raises(DynamicCodeNotFoundError, match=r'no version "v3".*There are: v2, v1'):
        await store.find("acme", "billing", "v3")


@pytest.mark.parametrize(
    "label",
    [
        ("a/b", "billing", "v1"),
        ("", "billing", "v1"),
        ("acme", "-x", "v1"),
        ("acme", "billing", "v/1"),
    ],
)
async def test_names_that_could_be_mistaken_are_refused(
    store: CodeStore, label: tuple[str, str, str]
) -> None:
    with pytest.raises(InvalidInput):
        await store.publish(*label, ONE)
    assert await store.versions() == []
