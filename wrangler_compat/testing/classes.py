"""What is under test: the project that a folder belongs to, or classes that a test has written itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from bindings import WorkflowEntrypoint
from emulator.errors import ConfigError
from wrangler_compat.config import WorkerConfig, WorkflowConfig, find_config, load_config
from wrangler_compat.worker.entrypoint import WorkerEntrypoint
from wrangler_compat.worker.loader import LoadedWorker, load_worker

Entrypoint = type[WorkflowEntrypoint] | type[WorkerEntrypoint]

_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Subject(NamedTuple):
    """A configuration, and how its classes are found."""

    config: WorkerConfig
    load: Callable[[WorkerConfig], LoadedWorker]


def project_of(folder: Path) -> Subject:
    """The project that a folder belongs to: that of the nearest wrangler file upwards. Or the project of such a file.

    Raises:
        ConfigError: there is none, or it is wrong.
    """
    return Subject(load_config(folder), load_worker)


def project_or_hint(folder: Path) -> Subject:
    """See `project_of`; where there is no project, say how else a test can name what it is about."""
    try:
        path = find_config(folder)
    except ConfigError as error:
        raise ConfigError(
            f"{error}\nGive the classes to test instead: @pytest.mark.workflows(classes=[MyWorkflow]), or workflows.add(MyWorkflow)."
        ) from None
    return project_of(path)


def check_classes(given: Sequence[object]) -> None:
    """Refuse what cannot be tested.

    Raises:
        ConfigError: something is neither a workflow's class nor a Worker's.
    """
    for each in given:
        if not (isinstance(each, type) and issubclass(each, WorkflowEntrypoint | WorkerEntrypoint)):
            raise ConfigError(
                f"{each!r} cannot be tested: what is given are classes, each a WorkflowEntrypoint or a WorkerEntrypoint."
            )


def project_from(classes: Sequence[Entrypoint], file: Path) -> Subject:
    """A project of these classes: workflows, each with a binding called after it, and at most one Worker.

    `OrderWorkflow` is bound as `ORDER_WORKFLOW`; the workflow is called `order-workflow`. `file` is where they come from.
    """
    workflows = {each.__name__: each for each in classes if issubclass(each, WorkflowEntrypoint)}
    workers = [each for each in classes if issubclass(each, WorkerEntrypoint)]
    if len(workers) > 1 or len(workflows) + len(workers) < len(classes):
        named = ", ".join(each.__name__ for each in classes)
        raise ConfigError(
            f"{named}: expected workflow classes of different names, and at most one Worker."
        )
    module = ModuleType(file.stem)
    loaded = LoadedWorker(module, workflows, workers[0] if workers else module)
    config = WorkerConfig(
        path=file,
        root=file.parent,
        main=file,
        name=file.stem,
        environment=None,
        compatibility_date=None,
        compatibility_flags=frozenset(),
        workflows=tuple(
            WorkflowConfig(_spelled(name, "-").lower(), name, _spelled(name, "_").upper())
            for name in workflows
        ),
        vars={},
        crons=(),
        unsupplied={},
        suppliers={},
        warnings=(),
    )

    def load(_: WorkerConfig) -> LoadedWorker:
        return loaded

    return Subject(config, load)


def _spelled(class_name: str, separator: str) -> str:
    return _WORD_ENDS.sub(separator, class_name)
