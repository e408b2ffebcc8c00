"""A whole configuration: what it resolves to, and every mistake with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.domain.limits import DAY_MS
from wrangler_compat.config import WorkerConfig, WorkflowConfig, load_config

FULL = """{
  "$schema": "node_modules/wrangler/config-schema.json",
  "name": "shop",
  "main": "src/entry.py",
  "compatibility_date": "2026-08-01",
  "compatibility_flags": ["python_workers"],
  "observability": { "enabled": "what we do not read, we do not judge" },
  "triggers": { "crons": ["0 * * * *"] },
  "vars": { "CURRENCY": "EUR", "LIMITS": { "daily": 3 } },
  "workflows": [
    {
      "name": "order", "binding": "ORDERS", "class_name": "Order",
      "limits": { "steps": 500 }, "concurrency": { "limit": 4 },
      "schedules": "*/5 * * * *",
      "default_retention": { "success_retention": "7 days", "error_retention": 60000 },
      "jurisdiction": "eu",
    },
    { "name": "refund", "binding": "REFUNDS", "class_name": "Refund", "script_name": "bank" },
  ],
  "kv_namespaces": [{ "binding": "CACHE", "id": "x" }],
  "queues": { "producers": [{ "binding": "MAIL", "queue": "mail" }], "consumers": [] },
  "durable_objects": { "bindings": [{ "name": "ROOM", "class_name": "Room" }] },
  "ai": { "binding": "AI" },
  "env": {
    "staging": {
      "vars": { "CURRENCY": "USD" },
      "workflows": [{ "name": "order-staging", "binding": "ORDERS", "class_name": "Order", "script_name": "shop-staging" }],
      "d1_databases": [{ "binding": "DB" }],
    },
    "production": { "name": "the-shop", "main": "src/production.py", "compatibility_flags": [], "triggers": { "crons": [] } },
    "other": {},
  },
}"""

WriteProject = Callable[[str], Path]


@pytest.fixture
def shop(write_project: WriteProject) -> Path:
    path = write_project(FULL)
    (path.parent / "src" / "production.py").touch()
    return path.parent


def load_with(write_project: WriteProject, keys: str) -> WorkerConfig:
    return load_config(write_project('{ "main": "src/entry.py", ' + keys + " }"))


def test_the_whole_of_what_is_read_is_resolved(shop: Path) -> None:
    config = load_config(shop)
    assert config == WorkerConfig(
        path=shop / "wrangler.jsonc",
        root=shop,
        main=shop / "src" / "entry.py",
        name="shop",
        environment=None,
        compatibility_date="2026-08-01",
        compatibility_flags=frozenset({"python_workers"}),
        workflows=(
            WorkflowConfig(
                name="order",
                class_name="Order",
                binding="ORDERS",
                step_limit=500,
                concurrency_limit=4,
                schedules=("*/5 * * * *",),
                success_retention_ms=604_800_000,
                error_retention_ms=60_000,
            ),
            WorkflowConfig(
                name="refund", class_name="Refund", binding="REFUNDS", script_name="bank"
            ),
        ),
        vars={"CURRENCY": "EUR", "LIMITS": {"daily": 3}},
        crons=("0 * * * *",),
        unsupplied={
            "CACHE": "a KV namespace",
            "MAIL": "a queue",
            "ROOM": "a Durable Object",
            "AI": "Workers AI",
        },
        suppliers={},
        warnings=(),
    )


def test_an_environment_inherits_the_script_and_repeats_its_bindings(shop: Path) -> None:
    config = load_config(shop, "staging")
    assert (config.name, config.main) == ("shop-staging", shop / "src" / "entry.py")
    assert config.compatibility_date == "2026-08-01"
    assert config.compatibility_flags == {"python_workers"}
    assert config.crons == ("0 * * * *",)
    assert config.vars == {"CURRENCY": "USD"}
    assert config.unsupplied == {"DB": "a D1 database"}


def test_a_script_name_that_is_the_script_itself_is_no_other_script(shop: Path) -> None:
    (workflow,) = load_config(shop, "staging").workflows
    assert (workflow.name, workflow.script_name) == ("order-staging", None)


def test_an_environment_may_set_what_it_would_inherit(shop: Path) -> None:
    config = load_config(shop, "production")
    assert (config.name, config.main) == ("the-shop", shop / "src" / "production.py")
    assert config.compatibility_flags == frozenset()
    assert config.crons == ()


def test_workflows_and_vars_that_an_environment_leaves_out_are_gone_with_a_warning(
    shop: Path,
) -> None:
    config = load_config(shop, "other")
    assert (config.workflows, config.vars) == ((), {})
    assert len(config.warnings) == 2
    assert (
        '"workflows" is at the top of the file, and environments do not inherit it'
        in config.warnings[0]
    )
    assert config.warnings[1].startswith(f"{shop / 'wrangler.jsonc'}:31:")


def test_toml_gives_the_same_configuration(tmp_path: Path) -> None:
    (tmp_path / "entry.py").touch()
    (tmp_path / "wrangler.toml").write_text(
        'name = "w"\nmain = "entry.py"\n[[workflows]]\nname = "a"\nbinding = "A"\nclass_name = "A"\n'
        'schedules = ["* * * * *"]\n[env.test]\nvars = { X = 1 }\n'
    )
    assert load_config(tmp_path).workflows == (
        WorkflowConfig(name="a", class_name="A", binding="A", schedules=("* * * * *",)),
    )
    assert load_config(tmp_path, "test").vars == {"X": 1}


def test_a_workflow_of_the_exports_map_has_a_class_and_no_binding(
    write_project: WriteProject,
) -> None:
    config = load_with(
        write_project,
        '"exports": { "Order": { "type": "workflow", "name": "order", "limits": { "steps": 5 } },'
        ' "Room": { "type": "durable-object", "name": 5 } }, "env": { "test": {} }',
    )
    expected = (WorkflowConfig(name="order", class_name="Order", step_limit=5),)
    assert config.workflows == expected
    assert load_config(config.path, "test").workflows == expected


def test_an_environment_with_exports_of_its_own_has_only_those(write_project: WriteProject) -> None:
    config = load_with(
        write_project,
        '"exports": { "Order": { "type": "workflow", "name": "order" } },'
        ' "env": { "test": { "exports": { "Order": { "type": "workflow", "name": "order-test" } } } }',
    )
    assert [workflow.name for workflow in load_config(config.path, "test").workflows] == [
        "order-test"
    ]


def test_one_class_may_back_two_workflows_and_one_workflow_two_bindings(
    write_project: WriteProject,
) -> None:
    config = load_with(
        write_project,
        """"workflows": [
            { "name": "a", "binding": "A", "class_name": "K" },
            { "name": "b", "binding": "B", "class_name": "K" },
            { "name": "a", "binding": "A_TOO", "class_name": "K" }
        ]""",
    )
    assert [(workflow.binding, workflow.name) for workflow in config.workflows] == [
        ("A", "a"),
        ("B", "b"),
        ("A_TOO", "a"),
    ]


def test_a_retention_in_a_unit_that_does_not_exist_is_a_warning(
    write_project: WriteProject,
) -> None:
    config = load_with(
        write_project,
        '"workflows": [{ "name": "a", "binding": "A", "class_name": "K", '
        '"default_retention": { "success_retention": "3 dayz" } }]',
    )
    assert config.workflows[0].success_retention_ms == 3
    (warning,) = config.warnings
    assert warning.endswith('got "3 dayz"; there is no unit "dayz", so that is milliseconds.')


def test_a_step_limit_above_productions_is_a_warning(write_project: WriteProject) -> None:
    config = load_with(
        write_project,
        '"workflows": [{ "name": "a", "binding": "A", "class_name": "K", "limits": { "steps": 25001 } }]',
    )
    assert config.workflows[0].step_limit == 25_001
    (warning,) = config.warnings
    assert warning == (
        f'{config.path}:1:112: "a" has a step limit of 25,001, which exceeds the production maximum of 25,000. '
        "This configuration may not work when deployed."
    )


def test_other_sections_of_any_shape_are_left_alone(write_project: WriteProject) -> None:
    config = load_with(
        write_project, '"kv_namespaces": "?", "queues": [], "ai": null, "services": [{}, 3]'
    )
    assert config.unsupplied == {}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", True),
        ('"compatibility_date": "2026-05-13"', False),
        ('"compatibility_date": "2026-05-14"', True),
        ('"compatibility_flags": ["workflows_replace_non_retryable_error_message"]', False),
        (
            '"compatibility_date": "2025-01-01", "compatibility_flags": ["workflows_preserve_non_retryable_error_message"]',
            True,
        ),
    ],
)
def test_the_message_of_a_non_retryable_error_is_kept_by_date_or_flag(
    write_project: WriteProject, keys: str, expected: bool
) -> None:
    assert load_with(write_project, keys).preserve_non_retryable_message is expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", True),
        ('"compatibility_date": "2026-02-24"', False),
        ('"compatibility_date": "2026-02-25"', True),
        (
            '"compatibility_date": "2026-08-01", "compatibility_flags": ["no_python_workflows_implicit_dependencies"]',
            False,
        ),
        (
            '"compatibility_date": "2025-01-01", "compatibility_flags": ["python_workflows_implicit_dependencies"]',
            True,
        ),
    ],
)
def test_dependencies_are_implicit_by_date_or_flag(
    write_project: WriteProject, keys: str, expected: bool
) -> None:
    assert load_with(write_project, keys).implicit_dependencies is expected


@pytest.mark.parametrize("is_first", [True, False])
def test_what_one_entry_of_a_workflow_sets_holds_for_all_of_them(
    write_project: WriteProject, is_first: bool
) -> None:
    plain = '{ "binding": "A", "name": "a", "class_name": "K" }'
    full = (
        '{ "binding": "B", "name": "a", "class_name": "K", "limits": { "steps": 3 }, "concurrency": { "limit": 2 },'
        ' "schedules": "0 * * * *", "default_retention": { "success_retention": "1 day" } }'
    )
    entries = [full, plain] if is_first else [plain, full]
    config = load_config(
        write_project(f'{{ "main": "src/entry.py", "workflows": [{", ".join(entries)}] }}')
    )
    for workflow in config.workflows:
        assert (workflow.step_limit, workflow.concurrency_limit) == (3, 2)
        assert workflow.schedules == ("0 * * * *",)
        assert workflow.success_retention_ms == DAY_MS


def test_two_entries_of_a_workflow_may_each_set_a_half_of_its_retention(
    write_project: WriteProject,
) -> None:
    entry = '"name": "a", "class_name": "K", "default_retention"'
    config = load_with(
        write_project,
        f'"workflows": [{{ "binding": "A", {entry}: {{ "success_retention": "1 day" }} }}, '
        f'{{ "binding": "B", {entry}: {{ "error_retention": "2 days" }} }}]',
    )
    for workflow in config.workflows:
        assert workflow.success_retention_ms == DAY_MS
        assert workflow.error_retention_ms == 2 * DAY_MS
