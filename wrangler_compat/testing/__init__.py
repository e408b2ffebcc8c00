"""Testing workflows offline: no server, no waiting, a real engine in virtual time.

pytest finds the fixture `workflows` by itself (`wrangler_compat.testing.plugin`); what a test imports is here. Names are
looked up when they are used, since pytest imports this package at every start.
"""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from wrangler_compat.testing.introspection import (
        InstanceIntrospector,
        WorkflowIntrospector,
        introspect_workflow,
        introspect_workflow_instance,
    )
    from wrangler_compat.testing.project import Response, TestProject, open_project

__all__ = [
    "InstanceIntrospector",
    "Response",
    "TestProject",
    "WorkflowIntrospector",
    "introspect_workflow",
    "introspect_workflow_instance",
    "open_project",
]

_HOMES = {
    "InstanceIntrospector": "introspection",
    "WorkflowIntrospector": "introspection",
    "introspect_workflow": "introspection",
    "introspect_workflow_instance": "introspection",
    "Response": "project",
    "TestProject": "project",
    "open_project": "project",
}
"""The module of each name."""


def __getattr__(name: str) -> typing.Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
