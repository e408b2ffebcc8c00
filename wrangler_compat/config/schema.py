"""The part of wrangler's schema that concerns workflows, with wrangler's rules (Cloudflare: Wrangler, configuration)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from emulator.errors import InvalidWorkflowName

SETTINGS = ("limits", "concurrency", "schedules", "default_retention", "jurisdiction")
"""What only the script that defines a workflow may set."""

Text: TypeAlias = Annotated[str, Meta(min_length=1, description="a non-empty string")]
Positive: TypeAlias = Annotated[int, Meta(ge=1, description="a positive integer")]
WorkflowName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[a-zA-Z0-9_][a-zA-Z0-9_-]{0,63}\Z",
        description=f"a valid name. {InvalidWorkflowName().message.rstrip('.')}",
    ),
]
Day: TypeAlias = Annotated[
    str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}\Z", description='a date in quotes, such as "2026-08-01"')
]
Crons: TypeAlias = Annotated[
    list[Text], Meta(min_length=1, description="a non-empty list of cron expressions")
]
RetentionTime: TypeAlias = Annotated[
    Positive | Text,
    Meta(description='a positive number of milliseconds or a duration such as "7 days"'),
]


class Limits(msgspec.Struct, forbid_unknown_fields=True):
    steps: Positive | None = None


class Concurrency(msgspec.Struct, forbid_unknown_fields=True):
    limit: Positive | None = None


class DefaultRetention(msgspec.Struct, forbid_unknown_fields=True):
    success_retention: RetentionTime | None = None
    error_retention: RetentionTime | None = None


class WorkflowSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a workflow is declared with, wherever that stands."""

    name: WorkflowName
    limits: Limits | None = None
    concurrency: Concurrency | None = None
    schedules: Text | Crons | None = None
    default_retention: DefaultRetention | None = None
    jurisdiction: Literal["eu", "fedramp", "us"] | None = None


class WorkflowBinding(WorkflowSettings, kw_only=True):
    """An entry of `workflows`."""

    binding: Text
    class_name: Text
    script_name: Text | None = None


class WorkflowExport(WorkflowSettings, kw_only=True):
    """An entry of `exports` that is a workflow."""

    type: Literal["workflow"]


class Triggers(msgspec.Struct, forbid_unknown_fields=True):
    crons: list[Text] | None = None


class Section(msgspec.Struct, kw_only=True):
    """The top of the file, or one `env.<NAME>`. What else stands there is for others."""

    name: Text | None = None
    main: Text | None = None
    compatibility_date: Day | None = None
    compatibility_flags: list[Text] | None = None
    workflows: list[dict[str, object]] | None = None
    exports: dict[str, dict[str, object]] | None = None
    vars: dict[str, object] | None = None
    triggers: Triggers | None = None
    env: dict[str, dict[str, object]] | None = None
