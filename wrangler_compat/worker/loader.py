"""Imports a project's main module and finds its entrypoints.

`pythonpath/` comes first on `sys.path`, so that `import workers` finds the re-exports there and not an
installed SDK, which works in Pyodide only; then the folder of the main module, whose files are what is
deployed. After what is installed come the packages that are deployed with them, where Cloudflare's tools
put them: they are built for Pyodide, so an installed one is better. The project's root comes last, for the
suppliers of `pyproject.toml`.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bindings import WorkflowEntrypoint
from emulator.errors import WorkerLoadError
from wrangler_compat.worker.entrypoint import WorkerEntrypoint

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import ModuleType

    from wrangler_compat.config import WorkerConfig

PYTHONPATH = Path(__file__).parents[1] / "pythonpath"


class LoadedWorker(NamedTuple):
    """What was found: the workflow classes by class name, and the owner of the handlers (see `Worker`)."""

    module: ModuleType
    workflows: dict[str, type[WorkflowEntrypoint]]
    default: object


@contextmanager
def project_imports(config: WorkerConfig) -> Generator[None]:
    """Let the project's modules be imported, here and by its own functions later; forget them afterwards."""
    paths, modules = list(sys.path), dict(sys.modules)
    folders = (PYTHONPATH, config.main.parent)
    sys.path[:0] = [str(folder) for folder in folders]
    packages = (config.root / "python_modules", config.main.parent / "vendor")
    sys.path += [str(folder) for folder in (*packages, config.root)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = paths
        for name in set(sys.modules) - set(modules):
            if _is_within(sys.modules[name], (*folders, config.root)):
                del sys.modules[name]


def load_worker(config: WorkerConfig) -> LoadedWorker:
    """Import the main module, within `project_imports`. What the import raises is raised as it is.

    Raises:
        WorkerLoadError: a class of the configuration is not there, or is no entrypoint.
    """
    module = _import_file(config.main)
    workflows = {
        workflow.class_name: _workflow_class(module, workflow.class_name, config)
        for workflow in config.workflows
        if workflow.script_name is None
    }
    default: object = getattr(module, "Default", module)
    if default is not module and not (
        isinstance(default, type) and issubclass(default, WorkerEntrypoint)
    ):
        raise WorkerLoadError(f"{config.main}: Default is not a subclass of WorkerEntrypoint.")
    return LoadedWorker(module, workflows, default)


def _import_file(path: Path) -> ModuleType:
    """Import `path` by its own name, or a numbered one where that is taken."""
    candidates = itertools.chain(
        [path.stem], (f"{path.stem}_{number}" for number in itertools.count(2))
    )
    name = next(
        name
        for name in candidates
        if name not in sys.modules | dict.fromkeys(sys.stdlib_module_names)
    )
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, ImportError) and (note := _what_an_import_lacks(error, path, name)):
            error.add_note(note)
        raise
    return module


def _what_an_import_lacks(error: ImportError, main: Path, name: str) -> str | None:
    """What to do about an import that fails while the main module is imported as `name`; None if Python says enough."""
    if error.name == name and (PYTHONPATH / name).is_dir():
        return f"Cloudflare's module is called {name}, too: give {main.name} another name, such as entry.py."
    if error.name == name:
        return f"{main.name} is still being imported then: the two modules import each other."
    if isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name:
        return (
            f"There is no such file beside {main}, and no such package where the emulator runs: "
            f"install it for {sys.executable}."
        )
    return None


def _workflow_class(
    module: ModuleType, class_name: str, config: WorkerConfig
) -> type[WorkflowEntrypoint]:
    found = getattr(module, class_name, None)
    if isinstance(found, type) and issubclass(found, WorkflowEntrypoint):
        return found
    known = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, WorkflowEntrypoint)
        and value is not WorkflowEntrypoint
    ]
    problem = "does not exist" if found is None else "is not a subclass of WorkflowEntrypoint"
    raise WorkerLoadError(
        f"{config.path.name} names the workflow class {class_name}, which {problem} in {config.main}. "
        f"Workflow classes there: {', '.join(known) or 'none'}."
    )


def _is_within(module: ModuleType, folders: tuple[Path, ...]) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or "site-packages" in Path(file).parts:
        return False
    return any(Path(file).is_relative_to(folder) for folder in folders)
