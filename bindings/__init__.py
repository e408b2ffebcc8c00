"""Cloudflare's Python API for Workflows, over the emulator's engine."""

from bindings.entrypoint import WorkflowEntrypoint
from bindings.instance import WorkflowInstance
from bindings.step import WorkflowStep
from bindings.streams import WorkflowReadable, WorkflowWritable
from bindings.subscription import WorkflowSubscription
from bindings.workflow import Workflow
from emulator.errors import NonRetryableError

__all__ = [
    "NonRetryableError",
    "Workflow",
    "WorkflowEntrypoint",
    "WorkflowInstance",
    "WorkflowReadable",
    "WorkflowStep",
    "WorkflowSubscription",
    "WorkflowWritable",
]
