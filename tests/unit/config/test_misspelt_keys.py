"""Keys that nobody reads: told where the emulator knows all there are, left alone elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.errors import ConfigError
from wrangler_compat.config import load_config

WriteProject = Callable[[str], Path]

WORKFLOW = (
    "name, limits, concurrency, schedules, default_retention, jurisdiction, "
    "binding, class_name, script_name"
)
ENTRY = '"name": "a", "binding": "A", "class_name": "K"'
OTHERS = [
    "$schema",
    "account_id",
    "ai",
    "alias",
    "analytics_engine_datasets",
    "artifacts",
    "assets",
    "base_dir",
    "browser",
    "build",
    "cloudchamber",
    "compliance_region",
    "containers",
    "d1_databases",
    "data_blobs",
    "define",
    "dev",
    "dispatch_namespaces",
    "durable_objects",
    "find_additional_modules",
    "first_party_worker",
    "flagship",
    "hyperdrive",
    "images",
    "jsx_factory",
    "jsx_fragment",
    "keep_names",
    "keep_vars",
    "kv_namespaces",
    "legacy_env",
    "limits",
    "logfwdr",
    "logpush",
    "media",
    "migrations",
    "minify",
    "mtls_certificates",
    "no_bundle",
    "observability",
    "pages_build_output_dir",
    "pipelines",
    "placement",
    "preserve_file_names",
    "preview_urls",
    "previews",
    "python_modules",
    "queues",
    "r2_buckets",
    "ratelimits",
    "route",
    "routes",
    "rules",
    "secrets",
    "secrets_store_secrets",
    "send_email",
    "send_metrics",
    "services",
    "site",
    "stream",
    "streaming_tail_consumers",
    "tail_consumers",
    "text_blobs",
    "tsconfig",
    "unsafe",
    "upload_source_maps",
    "usage_model",
    "vectorize",
    "version_metadata",
    "vpc_services",
    "wasm_modules",
    "worker_loaders",
    "workers_dev",
]


def warnings_of(path: Path, environment: str | None = None) -> list[str]:
    """Each without the file."""
    warnings = load_config(path, environment).warnings
    assert all(each.startswith(f"{path}:") for each in warnings)
    return [each.removeprefix(f"{path}:") for each in warnings]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"workflow": []', '1:39: "workflow": perhaps "workflows" is meant.'),
        ('"trigger": {}', '1:38: "trigger": perhaps "triggers" is meant.'),
        (
            '"triggers": { "cron": [] }',
            "1:49: triggers.cron: there is no such setting; expected one of: crons.",
        ),
        (
            f'"workflows": [{{ {ENTRY}, "limits": {{ "step": 5 }} }}]',
            "1:111: workflows[0].limits.step: there is no such setting; expected one of: steps.",
        ),
        (
            f'"workflows": [{{ {ENTRY}, "concurrency": {{ "limt": 1 }} }}]',
            "1:116: workflows[0].concurrency.limt: there is no such setting; expected one of: limit.",
        ),
        (
            f'"workflows": [{{ {ENTRY}, "default_retention": {{ "sucess_retention": 1 }} }}]',
            (
                "1:134: workflows[0].default_retention.sucess_retention: there is no such setting; "
                "expected one of: success_retention, error_retention."
            ),
        ),
        (
            f'"workflows": [{{ {ENTRY}, "schedule": "* * * * *" }}]',
            f"1:103: workflows[0].schedule: there is no such setting; expected one of: {WORKFLOW}.",
        ),
        (
            '"exports": { "K": { "type": "workflow", "name": "a", "limit": {} } }',
            (
                "1:89: exports.K.limit: there is no such setting; expected one of: "
                "name, limits, concurrency, schedules, default_retention, jurisdiction, type."
            ),
        ),
    ],
)
def test_a_misspelt_key_of_the_wrangler_file_is_a_warning(
    write_project: WriteProject, text: str, told: str
) -> None:
    path = write_project(f'{{ "main": "src/entry.py", {text} }}')
    assert warnings_of(path) == [told]


def test_a_misspelt_key_of_an_environment_is_told_when_it_is_asked_for(
    write_project: WriteProject,
) -> None:
    path = write_project('{ "main": "src/entry.py", "env": { "test": { "workflow": [] } } }')
    assert warnings_of(path) == []
    assert warnings_of(path, "test") == ['1:58: "workflow": perhaps "workflows" is meant.']


def test_keys_that_concern_others_are_left_alone(write_project: WriteProject) -> None:
    others = ", ".join(f'"{name}": {{ "any": 1 }}' for name in OTHERS)
    path = write_project(
        f'{{ "main": "src/entry.py", {others}, "exports": {{ "D": {{ "type": "durable-object", "x": 1 }} }} }}'
    )
    assert warnings_of(path) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.workflow-emulator]\nfoo = 1\n", "2: tool.workflow-emulator.foo"),
        (
            '\n[tool.workflow-emulator.webhook."/hooks"]\nworkflow = "a"\n',
            "2: tool.workflow-emulator.webhook",
        ),
    ],
)
def test_a_misspelt_table_of_our_own_is_refused(
    write_project: WriteProject, text: str, told: str
) -> None:
    path = write_project('{ "main": "src/entry.py" }')
    file = path.with_name("pyproject.toml")
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.message == (
        f"{file}:{told}: there is no such setting; expected one of: env, webhooks."
    )
