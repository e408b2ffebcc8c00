"""A project that is opened: configuration, user code, bindings, engine and application together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from emulator.domain import values
from emulator.domain.instance import InstanceKey
from emulator.engine.engine import Engine
from emulator.errors import WorkerLoadError
from emulator.journal.memory import MemoryJournal
from emulator.testing.clock import VirtualClock
from wrangler_compat.config import load_config
from wrangler_compat.project import journal_of, journal_path, open_project

WRANGLER = """{
  "name": "shop", "main": "src/entry.py", "compatibility_date": "2026-11-01",
  "vars": { "GREETING": "Hello" },
  "kv_namespaces": [{ "binding": "CACHE", "id": "1" }],
  "workflows": [
    { "name": "orders", "binding": "ORDERS", "class_name": "Orders", "limits": { "steps": 7 } },
    { "name": "mail", "binding": "MAIL", "class_name": "Mail", "script_name": "post" },
  ],
}"""
ENTRY = """
from workers import Response, WorkerEntrypoint, WorkflowEntrypoint, env

AT_IMPORT = env.GREETING


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("greet")
        async def greet():
            return f"{AT_IMPORT}, {event['payload']['name']}: {self.env.GREETING}"

        return await greet()


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        binding = self.ctx.exports.Orders if request.method == "PUT" else self.env.ORDERS
        instance = await binding.create(id="o-1", params=await request.json())
        return Response.json({"id": instance.id})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "entry.py").write_text(ENTRY)
    (tmp_path / "wrangler.jsonc").write_text(WRANGLER)
    return tmp_path


async def output_of(engine: Engine, instance_id: str) -> Any:
    def output(state: Any) -> Any:
        return state.output

    return bytes(await engine.until(InstanceKey("orders", instance_id), output))


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_request_starts_a_workflow_that_runs_the_users_class(
    folder: Path, method: str
) -> None:
    config = load_config(folder)
    async with open_project(config, MemoryJournal(), VirtualClock()) as project:
        transport = httpx.ASGITransport(project.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.request(method, "/", json={"name": "you"})
            assert answer.json() == {"id": "o-1"}
            assert await output_of(project.engine, "o-1") == b'"Hello, you: Hello"'
            listed = await client.get("/cdn-cgi/explorer/api/workflows")
            assert [each["name"] for each in listed.json()["result"]] == ["orders"]
        assert project.engine.definitions["orders"].step_limit == 7


async def test_a_workflow_of_another_script_is_said_not_to_be_emulated(folder: Path) -> None:
    async with open_project(load_config(folder), MemoryJournal(), VirtualClock()) as project:
        with pytest.raises(AttributeError, match="a workflow of the script post"):
            _ = project.worker.env.MAIL


async def test_unfinished_instances_are_counted_and_go_on(folder: Path) -> None:
    config, journal = load_config(folder), MemoryJournal()
    async with open_project(config, journal, VirtualClock()) as project:
        assert await project.unfinished() == 0
        await project.worker.env.ORDERS.create(id="left", params={"name": "me"})
    async with open_project(config, journal, VirtualClock()) as project:
        assert await output_of(project.engine, "left") == b'"Hello, me: Hello"'


async def test_a_class_that_is_missing_is_told(folder: Path) -> None:
    (folder / "src" / "entry.py").write_text("")
    with pytest.raises(WorkerLoadError, match="Orders"):
        async with open_project(load_config(folder), MemoryJournal()):
            pass


async def test_the_journal_is_in_the_projects_folder_unless_another_is_named(folder: Path) -> None:
    config = load_config(folder)
    assert journal_path(config) == folder / ".workflow-emulator" / "journal.sqlite"
    other = folder / "elsewhere"
    async with open_project(config, journal_of(config, other)):
        assert (other / "journal.sqlite").is_file()
    async with open_project(config, journal_of(config, ":memory:")):
        assert not (folder / ".workflow-emulator").exists()


NEEDS = """
from workers import WorkflowEntrypoint

class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("greet")
        async def greet():
            return "Hello"

        @step.do("shout")
        async def shout(greet):
            return greet.upper()

        @step.do("whisper", depends=[greet])
        async def whisper(text):
            return text.lower()

        try:
            return [await whisper(), await shout()]
        except TypeError as error:
            return [await whisper(), str(error)]
"""


@pytest.mark.parametrize(
    ("date", "shouted"),
    [
        ("2026-02-25", "HELLO"),
        ("2026-02-24", "Step has 1 non-ctx parameter(s) but no 'depends' list provided"),
    ],
)
async def test_before_the_date_of_the_flag_a_parameter_names_no_step(
    folder: Path, date: str, shouted: str
) -> None:
    (folder / "src" / "entry.py").write_text(NEEDS)
    (folder / "wrangler.jsonc").write_text(WRANGLER.replace("2026-11-01", date))
    async with open_project(load_config(folder), MemoryJournal()) as project:
        await project.worker.env.ORDERS.create(id="o-1")
        output = await output_of(project.engine, "o-1")
        assert values.decode(output) == ["hello", shouted]
