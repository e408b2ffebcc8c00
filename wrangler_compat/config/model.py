"""What the configuration comes to for one environment: everything resolved, nothing left to look up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class WorkflowConfig:
    """A workflow that the Worker defines, or that it binds from another script.

    An entry of `exports` has no `binding`: it is reached by `ctx.exports.<class_name>`.
    `script_name` is None where the Worker defines the workflow itself, a retention where nothing is said of it.
    """

    name: str
    class_name: str
    binding: str | None = None
    script_name: str | None = None
    step_limit: int | None = None
    concurrency_limit: int | None = None
    schedules: tuple[str, ...] = ()
    success_retention_ms: int | None = None
    error_retention_ms: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """A Worker's configuration in one environment.

    `vars` has the values of `.dev.vars` or `.env` in it. `unsupplied` names the bindings that are not
    emulated, each with its kind, such as "a KV namespace"; `suppliers` says, as `module:factory`, where
    the project gets its stand-ins. Without a `compatibility_date` the Worker runs as of today.
    """

    path: Path
    root: Path
    main: Path
    name: str
    environment: str | None
    compatibility_date: str | None
    compatibility_flags: frozenset[str]
    workflows: tuple[WorkflowConfig, ...]
    vars: Mapping[str, object]
    crons: tuple[str, ...]
    unsupplied: Mapping[str, str]
    suppliers: Mapping[str, str]
    warnings: tuple[str, ...]

    @property
    def preserve_non_retryable_message(self) -> bool:
        """Whether a NonRetryableError keeps its message (Cloudflare: Compatibility flags)."""
        return self._enabled(
            "workflows_preserve_non_retryable_error_message",
            "workflows_replace_non_retryable_error_message",
            since="2026-05-14",
        )

    @property
    def implicit_dependencies(self) -> bool:
        """Whether a step's parameters name the steps it depends on (Cloudflare: Compatibility flags)."""
        return self._enabled(
            "python_workflows_implicit_dependencies",
            "no_python_workflows_implicit_dependencies",
            since="2026-02-25",
        )

    def _enabled(self, flag: str, off: str, *, since: str) -> bool:
        if flag in self.compatibility_flags:
            return True
        recent = self.compatibility_date is None or self.compatibility_date >= since
        return recent and off not in self.compatibility_flags
