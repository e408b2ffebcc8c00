"""The server as a process: both loopbacks, a port that is taken, and its end while clients are connected."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.unit.cli.process import dev, fails, write_project
from wrangler_compat.cli.options import DevOptions
from wrangler_compat.cli.serving import bind

INSTANCES = "/cdn-cgi/explorer/api/workflows/orders/instances"
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
THOUGHTFUL = """
import asyncio

from workers import Response, WorkerEntrypoint, WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        await step.sleep("nap", "1 hour")


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        print("it thinks", flush=True)
        await asyncio.sleep(0.1)
        return Response("thought")
"""


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as bound:
            bound.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_it_listens_on_every_loopback_there_is(tmp_path: Path) -> None:
    addresses = ["127.0.0.1", *(["[::1]"] if has_ipv6() else [])]
    with dev(write_project(tmp_path)) as server:
        for address in addresses:
            url = f"http://{address}:{server.port}/cdn-cgi/health"
            assert httpx.get(url).json() == {"status": "ok"}


def test_a_port_that_is_taken_is_told_with_the_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said = fails(write_project(tmp_path), "--port", port)
        assert code == 1
        assert f"Cannot listen on localhost:{port}: Address already in use" in said
        assert "--port" in said


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_that_is_being_answered_is_answered_before_the_end(
    tmp_path: Path, signal_number: int
) -> None:
    with (
        dev(write_project(tmp_path, entry=THOUGHTFUL)) as server,
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        client.sendall(REQUEST)
        server.await_line("it thinks")
        assert server.end(signal_number, within_s=2) == 0
        assert b"thought" in client.makefile("rb").read()


def test_streams_and_idle_connections_do_not_hold_up_the_end(tmp_path: Path) -> None:
    with dev(write_project(tmp_path)) as server:
        server.post(INSTANCES, {"id": "o-1"})
        url = f"{server.url}{INSTANCES}/o-1/subscribe"
        with (
            socket.create_connection(("127.0.0.1", server.port)),
            httpx.stream("GET", url, timeout=30) as stream,
        ):
            lines = stream.iter_lines()
            assert next(lines)
            assert server.end(signal.SIGTERM, within_s=2) == 0


async def test_what_is_accepted_is_answered_without_waiting_for_an_acknowledgement(
    tmp_path: Path,
) -> None:
    options = DevOptions(tmp_path, 0, None, None, None, False, 1, False, False, False, None, False)
    accepted: asyncio.Queue[int] = asyncio.Queue()

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken: socket.socket = writer.get_extra_info("socket")
        await accepted.put(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with ExitStack() as opened:
        for bound in bind(options, opened):
            host, port = bound.getsockname()[:2]
            async with await asyncio.start_server(take, sock=bound):
                _, writer = await asyncio.open_connection(host, port)
                assert await accepted.get() == 1
                writer.close()
                await writer.wait_closed()
