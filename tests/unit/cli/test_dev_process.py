"""`workflow-emulator dev` from outside: what it says, what it answers, how it ends."""

from __future__ import annotations

import resource
import signal
import socket
from pathlib import Path

import httpx
import pytest

from tests.unit.cli.process import ENTRY, PATIENCE_S, WRANGLER, dev, fails, write_project

INSTANCES = "/cdn-cgi/explorer/api/workflows/orders/instances"

STUBBORN = """
import asyncio
import threading
import time

from workers import Response, WorkerEntrypoint, WorkflowEntrypoint

begun = threading.Event()


async def swallow():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        kept = asyncio.create_task(swallow())

        @step.do("block")
        def block():
            begun.set()
            time.sleep(3600)

        try:
            await block()
        except asyncio.CancelledError:
            await swallow()


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.method == "POST":
            print("the loop is held", flush=True)
            time.sleep(3600)
        return Response(str(begun.is_set()))
"""


def test_it_says_what_it_found_and_serves_it(tmp_path: Path) -> None:
    with dev(write_project(tmp_path)) as server:
        assert "shop (wrangler.jsonc)" in server.said
        assert "workflow orders: class Orders in src/entry.py" in server.said
        assert "env.CACHE is a KV namespace: not emulated" in server.said
        assert "unfinished" not in server.said
        assert server.get("/").text == "first"
        assert server.get("/cdn-cgi/health").json() == {"status": "ok"}
        assert server.end() == 0


def test_unfinished_instances_go_on_at_the_next_start(tmp_path: Path) -> None:
    folder = write_project(tmp_path)
    with dev(folder) as server:
        assert server.post(INSTANCES, {"id": "o-1"}).status_code == 200
        assert server.end(signal.SIGTERM) == 0
    with dev(folder) as server:
        assert "1 unfinished instance will go on" in server.said
        [step] = server.get(f"{INSTANCES}/o-1").json()["result"]["steps"]
        assert (step["name"], step["finished"]) == ("nap-1", False)


def test_a_second_one_on_the_same_folder_names_the_first(tmp_path: Path) -> None:
    folder = write_project(tmp_path)
    with dev(folder) as server:
        port = server.port
        for arguments in ((), ("--port", str(port))):
            code, said = fails(folder, *arguments)
            assert code == 1
            assert f"in use by process {server.process.pid} (http://127.0.0.1:{port})" in said


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port: int = other.getsockname()[1]
        code, said = fails(write_project(tmp_path), "--port", str(port))
    assert code == 1
    assert f"Cannot listen on localhost:{port}: Address already in use" in said
    assert "Traceback" not in said


def test_a_host_that_is_none_is_told(tmp_path: Path) -> None:
    # A label of 64 characters is no name, so nobody is asked for it.
    host = f"{'a' * 64}.invalid"
    code, said = fails(write_project(tmp_path), "--host", host, "--api-token", "s3cret")
    assert code == 1
    assert said.startswith(f"Error: There is no host {host}: ")
    assert said.endswith("Choose another with --host.\n")


def test_a_mistake_in_the_configuration_is_told_plainly(tmp_path: Path) -> None:
    folder = write_project(tmp_path, wrangler='{ "main": 1 }')
    code, said = fails(folder)
    assert code == 1
    assert said.startswith(f"Error: {folder}/wrangler.jsonc:")
    assert "Traceback" not in said


def test_a_class_that_is_missing_is_told_plainly(tmp_path: Path) -> None:
    code, said = fails(write_project(tmp_path, entry=""))
    assert code == 1
    assert said.startswith(
        "Error: wrangler.jsonc names the workflow class Orders, which does not exist"
    )
    assert "Traceback" not in said


def test_an_import_that_fails_shows_the_users_frames_only(tmp_path: Path) -> None:
    folder = write_project(tmp_path, entry="import prices\n")
    (tmp_path / "src" / "prices.py").write_text("RATE = 1 / 0\n")
    code, said = fails(folder)
    assert code == 1
    assert said.startswith("Traceback (most recent call last):\n")
    assert [line.strip() for line in said.splitlines() if "File " in line] == [
        f'File "{folder}/src/entry.py", line 1, in <module>',
        f'File "{folder}/src/prices.py", line 1, in <module>',
    ]
    assert said.endswith("ZeroDivisionError: division by zero\n")


def test_a_file_that_does_not_parse_shows_the_line(tmp_path: Path) -> None:
    code, said = fails(write_project(tmp_path, entry="def broken(:\n"))
    assert code == 1
    assert "def broken(:" in said
    assert "emulator" not in said


def test_others_may_connect_only_with_a_token(tmp_path: Path) -> None:
    code, said = fails(write_project(tmp_path), "--host", "0.0.0.0")
    assert code == 2
    assert "--api-token" in said


HANGING_UP = pytest.param(
    signal.SIGHUP,
    marks=pytest.mark.skipif(
        signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, reason="the tests run under nohup"
    ),
)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, HANGING_UP])
def test_it_ends_at_once_whatever_user_code_does(tmp_path: Path, signal_number: int) -> None:
    with dev(write_project(tmp_path, entry=STUBBORN)) as server:
        server.post(INSTANCES, {"id": "o-1"})
        for _ in range(1_000):
            if server.get("/").text == "True":
                break
        else:
            pytest.fail("the step did not start")
        assert server.end(signal_number, within_s=2) == 0


def test_it_ends_at_once_while_user_code_holds_the_loop(tmp_path: Path) -> None:
    request = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    with (
        dev(write_project(tmp_path, entry=STUBBORN)) as server,
        socket.create_connection(("127.0.0.1", server.port)) as connection,
    ):
        connection.sendall(request)
        server.await_line("the loop is held")
        assert ", in Default.fetch: " in server.await_line("has held the event loop")
        assert server.end(within_s=2) == 0


EXITING = """
import asyncio
import sys

from workers import WorkerEntrypoint, WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        async def part():
            sys.exit(3)

        @step.do("exit")
        async def exit():
            await asyncio.gather(part())

        await exit()


class Default(WorkerEntrypoint):
    pass
"""


def test_an_exit_in_a_task_of_the_project_says_where_it_was_called(tmp_path: Path) -> None:
    with dev(write_project(tmp_path, entry=EXITING)) as server:
        server.post(INSTANCES, {"id": "o-1"})
        assert server.process.wait(PATIENCE_S) == 3
        said = server.rest()
        assert "sys.exit() was called: the emulator ends" in said
        assert "in part\n    sys.exit(3)" in said


def test_an_engine_that_cannot_write_ends_the_process_with_its_reason(tmp_path: Path) -> None:
    with dev(write_project(tmp_path)) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        server.post(INSTANCES, {"id": "o-1"})
        assert server.process.wait(PATIENCE_S) == 1
        assert "The engine has stopped: The journal" in server.rest()


LIFESPAN = """
import asyncio

from workers import WorkerEntrypoint, WorkflowEntrypoint, asgi


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        await step.sleep("nap", "1 hour")


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await asyncio.Event().wait()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here"})


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return await asgi.fetch(app, request, self.env)
"""


def test_neither_does_an_application_without_an_end_hold_it_up(tmp_path: Path) -> None:
    with dev(write_project(tmp_path, entry=LIFESPAN)) as server:
        assert server.get("/").text == "here"
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        server.post(INSTANCES, {"id": "o-1"})
        assert server.process.wait(PATIENCE_S) == 1


def test_reload_starts_anew_when_a_file_changes(tmp_path: Path) -> None:
    folder = write_project(tmp_path)
    with dev(folder, "--reload") as server:
        assert server.get("/").text == "first"
        server.post(INSTANCES, {"id": "o-1"})
        (folder / "src" / "entry.py").write_text(ENTRY.replace("first", "second"))
        server.await_listening()
        assert "Changed: src/entry.py" in server.said
        assert "1 unfinished instance will go on" in server.said
        assert server.get("/").text == "second"
        assert server.end() == 0


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, HANGING_UP])
def test_reload_leaves_no_process_behind(tmp_path: Path, signal_number: int) -> None:
    folder = write_project(tmp_path)
    with dev(folder, "--reload") as server:
        assert server.end(signal_number) == 0
        with pytest.raises(httpx.ConnectError):
            server.get("/")


def test_reload_outlives_code_that_does_not_import(tmp_path: Path) -> None:
    folder = write_project(tmp_path)
    with dev(folder, "--reload") as server:
        (folder / "src" / "entry.py").write_text("1 / 0")
        server.await_line("ZeroDivisionError")
        (folder / "src" / "entry.py").write_text(ENTRY.replace("first", "third"))
        server.await_listening()
        assert server.get("/").text == "third"


def test_requests_are_told_when_that_is_asked_for(tmp_path: Path) -> None:
    for arguments, is_told in (((), False), (("--access-log",), True)):
        with dev(write_project(tmp_path), *arguments) as server:
            server.get("/a-path")
            server.end()
            assert ("/a-path" in server.rest()) is is_told


def test_the_token_is_asked_for(tmp_path: Path) -> None:
    with dev(write_project(tmp_path, wrangler=WRANGLER), "--api-token", "s3cret") as server:
        assert server.get(INSTANCES).status_code == 403
        assert server.get("/").status_code == 200
