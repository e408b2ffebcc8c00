"""What Schemathesis is told of the emulator: names that exist, and when 500 is an answer.

Loaded by its command line (`SCHEMATHESIS_HOOKS`), not by pytest.
"""

from __future__ import annotations

from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response

WORKFLOWS = ("billing", "echo")
INSTANCES = ("one", "two", "*/5 * * * *-1786599900000")
IDS = ("id", "instance_id")


@schemathesis.hook  # pyright: ignore[reportUnknownMemberType]
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Let about half of the calls name a workflow that is there, and ids that come again."""
    path = case.path_parameters or {}
    if "workflow_name" in path and len(path["workflow_name"]) % 2:
        path["workflow_name"] = WORKFLOWS[len(path["workflow_name"]) % 4 // 2]
    if "instance_id" in path and len(path["instance_id"]) % 2:
        path["instance_id"] = INSTANCES[len(path["instance_id"]) % 3]
    if isinstance(case.body, dict):
        for key in IDS:
            given = case.body.get(key)
            if isinstance(given, str) and len(given) % 2:
                case.body[key] = INSTANCES[len(given) % 2]


@schemathesis.check
def not_crashed(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Hold that 500 is answered only where `wrangler dev` answers a mistake so."""
    if response.status_code >= 500:
        message = response.json()["errors"][0]["message"]
        assert message.startswith("WorkflowError: "), message
