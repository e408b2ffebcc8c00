"""Whether a folder's wrangler file, its main module and its workflow classes are there. Nothing is imported."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from emulator.errors import WorkerLoadError
from wrangler_compat.check.checking import parse, read_source
from wrangler_compat.check.scopes import read_scopes
from wrangler_compat.config import WorkerConfig, load_config
from wrangler_compat.config.locate import FILE_NAMES

_PYTHON = "python_workers"
"""The compatibility flag of Workers that are written in Python."""


def check_project(folder: Path) -> list[str]:
    """Check what the project at `folder` says of its workflows; a folder without a wrangler file is no project.

    Gives what is no mistake here, but worth a look before the project is deployed.

    Raises:
        ConfigError: the wrangler file has mistakes.
        WorkerLoadError: a class that it names is not in the main module.
    """
    if not any((folder / name).is_file() for name in FILE_NAMES):
        return []
    config = load_config(folder)
    names = _names_in(config.main)
    missing = [each for each in _classes_of(config) if names is not None and each not in names]
    if missing:
        raise WorkerLoadError(
            "\n".join(
                f"{config.path} names the workflow class {each}, which does not exist in {config.main}."
                + "".join(
                    f" Did you mean {near}?" for near in get_close_matches(each, names or (), 1)
                )
                for each in missing
            )
        )
    warnings = [*config.warnings]
    if _PYTHON not in config.compatibility_flags:
        warnings.append(
            f'{config.path}: compatibility_flags has no "{_PYTHON}", without which a Python Worker cannot be deployed.'
        )
    return warnings


def _classes_of(config: WorkerConfig) -> list[str]:
    """The workflow classes of the Worker's own."""
    own = (each.class_name for each in config.workflows if each.script_name is None)
    return [*dict.fromkeys(own)]


def _names_in(main: Path) -> set[str] | None:
    """The names that a module has, as far as can be read; None where that cannot be: of `import *`, of `__getattr__`."""
    names = read_scopes(parse(read_source(main), str(main))).bindings.keys()
    return None if names & {"*", "__getattr__"} else {*names}
