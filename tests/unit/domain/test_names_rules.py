"""What may name a workflow, an instance, a step and a type of event."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.domain.names import (
    check_event_type,
    check_instance_id,
    check_new_instance_id,
    check_step_name,
    check_workflow_name,
    is_reserved_id,
)
from emulator.errors import (
    InvalidEventType,
    InvalidInput,
    InvalidInstanceId,
    InvalidStepName,
    InvalidWorkflowName,
)

CRON_ID = "*/30 * * * *-1786001400000"


@pytest.mark.parametrize(
    ("check", "longest", "error"),
    [
        (check_workflow_name, 64, InvalidWorkflowName),
        (check_new_instance_id, 100, InvalidInstanceId),
        (check_event_type, 100, InvalidEventType),
    ],
)
def test_the_three_plain_names_share_one_alphabet(
    check: Callable[[object], str], longest: int, error: type[InvalidInput]
) -> None:
    for good in ("a", "_a", "9", "A-b_C-", "a" * longest):
        assert check(good) == good
    for bad in (
        "",
        "-a",
        "a.b",
        "a:b",
        "a b",
        "\u00e9",
        "a\n",
        "\u0663",
        "a" * (longest + 1),
        7,
        None,
        b"a",
        ["a"],
    ):
        with pytest.raises(error) as caught:
            check(bad)
        assert caught.value.message == error().message


def test_a_bad_instance_id_has_cloudflares_message() -> None:
    with pytest.raises(InvalidInstanceId) as caught:
        check_new_instance_id("a.b")
    assert caught.value.message == "Workflow instance has invalid id"
    assert caught.value.name == "WorkflowError"
    assert caught.value.code == "instance.invalid_id"


@pytest.mark.parametrize("instance_id", ["a", "-a", CRON_ID, "a" * 271, "1,2 #_"])
def test_a_lookup_takes_the_ids_of_scheduled_instances_too(instance_id: str) -> None:
    assert check_instance_id(instance_id) == instance_id


@pytest.mark.parametrize("instance_id", ["", "a" * 272, "a.b", "a\n", "\u00e9", None, 3])
def test_a_lookup_refuses_what_no_instance_is_called(instance_id: object) -> None:
    with pytest.raises(InvalidInstanceId) as caught:
        check_instance_id(instance_id)
    assert caught.value.message == "Workflow instance has invalid id"


@pytest.mark.parametrize(
    ("instance_id", "is_reserved"),
    [
        ("batch", True),
        ("terminate", True),
        ("terminateAll", True),
        ("cf_" + "0f" * 32, True),
        ("cf_" + "0F" * 32, False),
        ("cf_" + "0" * 63, False),
        ("cf_" + "0" * 65, False),
        ("batches", False),
        ("Batch", False),
        ("", False),
    ],
)
def test_ids_that_cloudflare_keeps_for_itself_are_known(
    instance_id: str, is_reserved: bool
) -> None:
    assert is_reserved_id(instance_id) is is_reserved


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a\x7fb",
        "\u0437\u0430\u043a\u0430\u0437 \U0001f600",
        "__proto__",
        "n" * 256,
        "\U0001f600" * 128,
        "\u00e9" * 256,
    ],
)
def test_a_step_may_have_almost_any_name(name: str) -> None:
    assert check_step_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["n" * 257, "\U0001f600" * 128 + "x", "\ud800", "a\nb", "a\tb", "\x00", "\x1f", 5, None],
)
def test_a_bad_step_name_has_cloudflares_message(name: object) -> None:
    with pytest.raises(InvalidStepName) as caught:
        check_step_name(name)
    assert caught.value.message == (
        f'Step name "{name}" exceeds max length (256 chars) or invalid characters found'
    )
    assert caught.value.name == "WorkflowFatalError"
