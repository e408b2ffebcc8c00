"""Importing a project's main module and finding its classes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import bindings
from emulator.errors import NonRetryableError, WorkerLoadError
from wrangler_compat.config import WorkerConfig, load_config
from wrangler_compat.worker import current
from wrangler_compat.worker.entrypoint import ExecutionContext, WorkerEntrypoint
from wrangler_compat.worker.env import Env, make_env
from wrangler_compat.worker.http import Response
from wrangler_compat.worker.loader import load_worker, project_imports

ENTRY = """
import rates
from workers import Response, WorkerEntrypoint, WorkflowEntrypoint

class Order(WorkflowEntrypoint):
    rate = rates.RATE
    async def run(self, event, step): ...

class Refund(WorkflowEntrypoint):
    async def run(self, event, step): ...

class Plain: ...

class Default(WorkerEntrypoint):
    async def fetch(self, request): return Response("hi")
"""


def write_project(
    root: Path,
    entry: str,
    class_name: str = "Order",
    rate: str = "RATE = 1",
    main: str = "src/entry.py",
) -> WorkerConfig:
    (root / "src").mkdir(parents=True)
    (root / main).write_text(entry)
    (root / "src" / "rates.py").write_text(rate)
    (root / "wrangler.jsonc").write_text(
        f'{{ "main": "{main}", "workflows": [{{ "name": "w", "binding": "W", "class_name": "{class_name}" }},'
        ' { "name": "far", "binding": "FAR", "class_name": "Far", "script_name": "far-away" }] }'
    )
    return load_config(root)


def test_the_workflow_classes_and_the_default_class_are_found(tmp_path: Path) -> None:
    config = write_project(tmp_path, ENTRY)
    with project_imports(config):
        loaded = load_worker(config)
    assert list(loaded.workflows) == ["Order"]
    assert loaded.workflows["Order"] is loaded.module.Order
    assert loaded.default is loaded.module.Default
    assert issubclass(loaded.module.Default, WorkerEntrypoint)
    assert loaded.module.Response is Response


def test_two_projects_are_loaded_one_after_the_other_and_nothing_is_left(tmp_path: Path) -> None:
    before = list(sys.path), set(sys.modules)
    for rate in (1, 2):
        config = write_project(tmp_path / str(rate), ENTRY, rate=f"RATE = {rate}")
        with project_imports(config):
            assert load_worker(config).module.Order.rate == rate
            assert rate == sys.modules["rates"].RATE
    assert sys.path == before[0]
    assert not {"entry", "rates", "workers"} & (set(sys.modules) - before[1])


def test_a_main_called_like_a_module_of_python_gets_another_name(tmp_path: Path) -> None:
    config = write_project(tmp_path, ENTRY, main="src/json.py")
    with project_imports(config):
        assert load_worker(config).module.__name__ == "json_2"
        assert load_worker(config).module.__name__ == "json_3"
    assert not {"json_2", "json_3"} & set(sys.modules)


@pytest.mark.parametrize(
    ("class_name", "problem"),
    [("Ordr", "does not exist"), ("Plain", "is not a subclass of WorkflowEntrypoint")],
)
def test_a_class_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path, class_name: str, problem: str
) -> None:
    config = write_project(tmp_path, ENTRY, class_name)
    with project_imports(config), pytest.raises(WorkerLoadError) as caught:
        load_worker(config)
    assert caught.value.message == (
        f"wrangler.jsonc names the workflow class {class_name}, which {problem} in {config.main}. "
        "Workflow classes there: Order, Refund."
    )


def test_a_default_that_is_no_entrypoint_is_refused(tmp_path: Path) -> None:
    config = write_project(tmp_path, ENTRY + "\nclass Default: ...\n")
    with project_imports(config), pytest.raises(WorkerLoadError, match="Default is not a subclass"):
        load_worker(config)


def test_without_a_default_class_the_module_has_the_handlers(tmp_path: Path) -> None:
    entry = ENTRY.replace("class Default(", "class Other(") + "\nasync def on_fetch(request): ...\n"
    config = write_project(tmp_path, entry)
    with project_imports(config):
        loaded = load_worker(config)
    assert loaded.default is loaded.module


@pytest.mark.parametrize(
    ("entry", "kind", "shown"),
    [
        ("import no_such_module_anywhere", ModuleNotFoundError, "no_such_module_anywhere"),
        ("def broken(:", SyntaxError, "invalid syntax"),
        ("1 / 0", ZeroDivisionError, "division by zero"),
        ("import rates", NameError, "undefined_name"),
    ],
)
def test_what_the_import_raises_is_raised_as_it_is(
    tmp_path: Path, entry: str, kind: type[Exception], shown: str
) -> None:
    config = write_project(tmp_path, entry, rate="undefined_name")
    with project_imports(config):
        with pytest.raises(kind, match=shown):
            load_worker(config)
        assert "entry" not in sys.modules


def test_the_workers_module_and_the_stand_ins_give_our_objects(tmp_path: Path) -> None:
    names = "File, FormData, Headers, Request, Response, WorkerEntrypoint, WorkflowEntrypoint, env, fetch, handler, waitUntil"
    entry = f"""
from workers import {names}
from workers.workflows import NonRetryableError
from js import JSON, Object, console
from pyodide.ffi import create_proxy, to_js

class Order(WorkflowEntrypoint): ...
"""
    config = write_project(tmp_path, entry)
    with project_imports(config):
        module = load_worker(config).module
    assert module.NonRetryableError is NonRetryableError
    assert module.WorkflowEntrypoint is bindings.WorkflowEntrypoint
    assert module.env is current.env
    assert module.waitUntil is current.wait_until


def test_env_is_there_while_the_module_is_imported(tmp_path: Path) -> None:
    config = write_project(tmp_path, ENTRY + "\nfrom workers import env\nKEY = env.API_KEY\n")
    with (
        current.running(Env({"API_KEY": "secret"}, {}), ExecutionContext()),
        project_imports(config),
    ):
        assert load_worker(config).module.KEY == "secret"


async def test_a_supplier_is_found_beside_the_main_module_or_from_the_root(tmp_path: Path) -> None:
    config = write_project(tmp_path, ENTRY)
    (tmp_path / "src" / "beside.py").write_text("def make(): return 'beside'")
    (tmp_path / "from_root").mkdir()
    (tmp_path / "from_root" / "fakes.py").write_text(
        "async def make(variables): return 'from root'"
    )
    (tmp_path / "pyproject.toml").write_text(
        '[tool.workflow-emulator.env]\nA = "beside:make"\nB = "from_root.fakes:make"\n'
    )
    config = load_config(tmp_path)
    with project_imports(config):
        env = await make_env(config, {})
    assert (env.A, env.B) == ("beside", "from root")


@pytest.mark.parametrize("folder", ["python_modules", "src/vendor"])
def test_packages_that_are_deployed_are_found_after_installed_ones(
    tmp_path: Path, folder: str
) -> None:
    config = write_project(tmp_path, "import deployed\nimport click\n" + ENTRY)
    for package in ("deployed", "click"):
        (tmp_path / folder / package).mkdir(parents=True)
        (tmp_path / folder / package / "__init__.py").write_text("IS_DEPLOYED = True")
    with project_imports(config):
        module = load_worker(config).module
    assert module.deployed.IS_DEPLOYED
    assert not hasattr(module.click, "IS_DEPLOYED")


@pytest.mark.parametrize(
    ("main", "entry", "rate", "note"),
    [
        ("entry.py", "import pandaz", "", f"install it for {sys.executable}."),
        (
            "entry.py",
            "from rates import RATE\nPRICE = 1",
            "from entry import PRICE",
            "entry.py is still being imported then: the two modules import each other.",
        ),
        (
            "workers.py",
            "from workers import WorkflowEntrypoint",
            "",
            "Cloudflare's module is called workers, too: give workers.py another name, such as entry.py.",
        ),
    ],
)
def test_an_import_that_fails_has_a_note_that_says_why(
    main: str, entry: str, rate: str, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "workers", raising=False)
    config = write_project(tmp_path, entry, rate=rate, main=f"src/{main}")
    with project_imports(config), pytest.raises(ImportError) as caught:
        load_worker(config)
    [said] = caught.value.__notes__
    assert said.endswith(note)


def test_an_import_that_python_explains_has_no_note(tmp_path: Path) -> None:
    config = write_project(tmp_path, "from rates import TAXES")
    with project_imports(config), pytest.raises(ImportError) as caught:
        load_worker(config)
    assert not hasattr(caught.value, "__notes__")
