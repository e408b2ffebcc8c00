"""The wheel, built as for a release, installed apart, and run from an empty folder.

The flat layout hides a file that the wheel lacks: from the project's folder everything is importable anyway. So the installed
copy is run with nothing of the project in reach.
"""

import json
import os
import socket
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parents[2]
PACKAGES = ("emulator", "bindings", "wrangler_compat")
PATHS = "workflow_emulator.pth"
RULES = "wrangler_compat/check/rules.md"
SHIMS = ("asgi", "js", "pyodide", "workers")
POLLS_MAX = 300
POLL_S = 0.1

WRANGLER = """{
  // the smallest project
  "name": "tiny",
  "main": "src/entry.py",
  "compatibility_date": "2026-11-01",
  "compatibility_flags": ["python_workers", "python_workflows"],
  "workflows": [{ "name": "tiny", "binding": "TINY", "class_name": "Tiny" }],
}
"""
ENTRY = """
from workers import Response, WorkerEntrypoint, WorkflowEntrypoint


class Tiny(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("double")
        async def double():
            return event["payload"]["number"] * 2

        return await double()


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.method == "POST":
            await self.env.TINY.create(id="tiny-1", params=await request.json())
            return Response.json({}, status=202)
        instance = await self.env.TINY.get("tiny-1")
        return Response.json(await instance.status())
"""
TYPED_ENTRY = """
from typing import Any

import asgi
from js import JSON
from pyodide.ffi import to_js
from workers import Response, WorkerEntrypoint, WorkflowEntrypoint
from workers.workflows import NonRetryableError


class Tiny(WorkflowEntrypoint):
    async def run(self, event: Any, step: Any) -> int:
        raise NonRetryableError("no")


class Default(WorkerEntrypoint):
    async def fetch(self, request: Any) -> Response:
        return Response(JSON.stringify(to_js({"handler": repr(asgi.fetch)})))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    run([*command, "--directory", str(folder)], cwd=ROOT)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed command, in a fresh venv."""
    home = tmp_path_factory.mktemp("apart") / "venv"
    venv.create(home, with_pip=True)
    run([str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel)], cwd=home)
    return home / "bin" / "workflow-emulator"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "wrangler.jsonc").write_text(WRANGLER, encoding="utf-8")
    (tmp_path / "src" / "entry.py").write_text(ENTRY, encoding="utf-8")
    return tmp_path


def run(command: list[str], *, cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    """Ours, without what could put the project's folder on the path."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def shipped(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_the_three_packages_a_path_and_nothing_else(wheel: Path) -> None:
    assert {name.partition("/")[0] for name in shipped(wheel)} == {*PACKAGES, PATHS}


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    source = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shipped(wheel) - {PATHS} == source


def test_the_wheel_holds_what_is_not_python(wheel: Path) -> None:
    names = shipped(wheel)
    typed = (*PACKAGES, *(f"wrangler_compat/pythonpath/{shim}" for shim in SHIMS))
    assert {f"{package}/py.typed" for package in typed} <= names
    assert any(name.startswith("emulator/journal/") and name.endswith(".sql") for name in names)
    assert any(name.startswith("wrangler_compat/pythonpath/workers/") for name in names)


def test_the_installed_command_explains_itself(command: Path, tmp_path: Path) -> None:
    assert "dev" in run([str(command), "--help"], cwd=tmp_path)


def test_a_plain_script_imports_workers(command: Path, tmp_path: Path) -> None:
    script = "from workers import WorkflowEntrypoint; import asgi, js, pyodide.ffi"
    run([str(command.with_name("python")), "-c", script], cwd=tmp_path)


def test_what_is_installed_beside_comes_before_the_folder_of_workers(
    command: Path, tmp_path: Path
) -> None:
    script = "import sys, wrangler_compat; print(wrangler_compat.__file__, *sys.path, sep='\\n')"
    file, *path = run([str(command.with_name("python")), "-c", script], cwd=tmp_path).splitlines()
    site_packages = Path(file).parents[1]
    folder = site_packages / "wrangler_compat" / "pythonpath"
    assert path.index(str(site_packages)) < path.index(str(folder))


def test_an_editor_finds_workers(command: Path, project: Path) -> None:
    (project / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', encoding="utf-8")
    (project / "src" / "entry.py").write_text(TYPED_ENTRY, encoding="utf-8")
    python = str(command.with_name("python"))
    said = run([sys.executable, "-m", "pyright", "--pythonpath", python], cwd=project)
    assert "0 errors, 0 warnings" in said


def test_a_finding_links_to_a_file_that_is_installed(command: Path, project: Path) -> None:
    nap = ENTRY.replace(
        '@step.do("double")', 'await step.sleep("nap", 30)\n\n        @step.do("double")'
    )
    (project / "src" / "entry.py").write_text(nap, encoding="utf-8")
    done = subprocess.run(
        [str(command), "check", "--json"],
        cwd=project,
        env=environment(),
        capture_output=True,
        check=False,
    )
    [finding] = json.loads(done.stdout)
    link: str = finding["link"]
    address, _, anchor = link.partition("#")
    assert address.endswith(RULES)
    assert f'<a id="{anchor}"></a>' in Path(urlsplit(address).path).read_text("utf-8")


def test_the_installed_command_runs_a_project(command: Path, project: Path) -> None:
    with server(command, project) as (process, url):
        await_answer(process, f"{url}/cdn-cgi/explorer/api/workflows", lambda _: True)
        started = httpx.post(url, json={"number": 21})
        assert started.status_code == 202
        status = await_answer(process, url, lambda status: status["status"] == "complete")
        assert status["output"] == 42
        page = httpx.get(f"{url}/cdn-cgi/local/explorer/workflows/tiny/instances/tiny-1")
        assert (page.status_code, "double-1" in page.text) == (200, True)


@contextmanager
def server(command: Path, project: Path) -> Generator[tuple[subprocess.Popen[bytes], str]]:
    """`workflow-emulator dev` in the project's folder, on a free port. Its output is shown when the test fails."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    process = subprocess.Popen(
        [str(command), "dev", ".", "--port", str(port)], cwd=project, env=environment()
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def await_answer(
    process: subprocess.Popen[bytes], url: str, wanted: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Ask until the answer is the wanted one. A server that has ended gives none."""
    for _ in range(POLLS_MAX):
        with suppress(httpx.TransportError):
            response = httpx.get(url)
            if response.is_success and wanted(response.json()):
                return response.json()
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the server ended with {process.wait(timeout=POLL_S)}")
    pytest.fail(f"{url} did not answer as wanted")
