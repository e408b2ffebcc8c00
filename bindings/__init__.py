"""Cloudflare's Python API for Workflows, over the emulator's engine."""

from bindings.entrypoint import WorkflowEntrypoint
from bindings.hooks import (
    BaseHook,
    Hook,
    HookInfo,
    define_hook,
    get_hook_by_token,
    resume_hook,
)
from bindings.instance import WorkflowInstance
from bindings.lifecycle import register_lifecycle_hooks
from bindings.run import Run, get_run
from bindings.step import WorkflowStep
from bindings.streams import WorkflowReadable, WorkflowWritable
from bindings.subscription import WorkflowSubscription
from bindings.webhook import WebhookRequest
from bindings.workflow import Workflow
from emulator.errors import (
    FatalError,
    HookConflictError,
    HookDisposedError,
    HookNotFoundError,
    NonRetryableError,
    RetryableError,
)

__all__ = [
    "BaseHook",
    "FatalError",
    "Hook",
    "HookConflictError",
    "HookDisposedError",
    "HookInfo",
    "HookNotFoundError",
    "NonRetryableError",
    "RetryableError",
    "Run",
    "WebhookRequest",
    "Workflow",
    "WorkflowEntrypoint",
    "WorkflowInstance",
    "WorkflowReadable",
    "WorkflowStep",
    "WorkflowSubscription",
    "WorkflowWritable",
    "define_hook",
    "get_hook_by_token",
    "get_run",
    "register_lifecycle_hooks",
    "resume_hook",
]
