"""Dynamic workflows: the code of many tenants, published and loaded while the project runs (see docs/dynamic.md)."""

from bindings.dynamic.code import Code
from bindings.dynamic.dispatching import dispatch_workflow
from bindings.dynamic.processes import ProcessLimits
from bindings.dynamic.store import CodeStore, Publication, code_store
from bindings.dynamic.tenants import create_dynamic_workflow_entrypoint
from bindings.dynamic.wrapping import wrap_workflow_binding
from emulator.errors import (
    DynamicCodeConflictError,
    DynamicCodeError,
    DynamicCodeNotFoundError,
    MissingDispatcherMetadataError,
)

__all__ = [
    "Code",
    "CodeStore",
    "DynamicCodeConflictError",
    "DynamicCodeError",
    "DynamicCodeNotFoundError",
    "MissingDispatcherMetadataError",
    "ProcessLimits",
    "Publication",
    "code_store",
    "create_dynamic_workflow_entrypoint",
    "dispatch_workflow",
    "wrap_workflow_binding",
]
