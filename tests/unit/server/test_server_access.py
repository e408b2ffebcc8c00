"""Who may ask the server, and where a request goes."""

from __future__ import annotations

from base64 import b64encode

import httpx
import pytest

from bindings.wire import TAIL_INDEX
from tests.unit.rest.emulated import LOCAL, REMOTE, emulated
from wrangler_compat.inspector.urls import HOME, workflow_url
from wrangler_compat.server import Access, is_loopback

TOKEN = "s3cret"


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8787", "127.0.0.1:1", "127.8.9.1", "[::1]:8787", "shop.localhost"],
)
async def test_a_name_of_this_machine_is_welcome(host: str) -> None:
    async with emulated() as server:
        response = await server.client.get("/cdn-cgi/health", headers={"host": host})
        assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8787", "10.0.0.1", "localhost.evil.example", "[", ""]
)
@pytest.mark.parametrize("path", [LOCAL, REMOTE, HOME, "/", "/cdn-cgi/health"])
async def test_any_other_host_is_refused_everywhere(host: str, path: str) -> None:
    async with emulated() as server:
        response = await server.client.get(path, headers={"host": host})
        assert response.status_code == 403
        assert "Host" in response.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "",
        "http://localhost.evil.example",
        "http://[",
        "localhost",
        "file://",
        "https://evil.example\x00http://localhost",
    ],
)
@pytest.mark.parametrize("path", [LOCAL, REMOTE, HOME, "/"])
async def test_a_page_of_another_machine_is_refused_everywhere(origin: str, path: str) -> None:
    async with emulated() as server:
        for method in ("GET", "OPTIONS"):
            response = await server.client.request(method, path, headers={"origin": origin})
            assert response.status_code == 403
            assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"host": "evil.example"}])
async def test_a_page_of_another_machine_starts_nothing(headers: dict[str, str]) -> None:
    # What a browser sends unasked: a form, or a script that does not wait for the answer.
    plain = headers | {"content-type": "text/plain"}
    async with emulated() as server:
        for url in (f"{LOCAL}/echo/instances", f"{REMOTE}/echo/instances", workflow_url("echo")):
            response = await server.client.post(url, content=b"{}", headers=plain)
            assert response.status_code == 403
        assert await server.result("GET", f"{LOCAL}/echo/instances") == []


@pytest.mark.parametrize(
    ("destination", "site", "expected"),
    [
        ("image", "cross-site", 403),
        ("iframe", "cross-site", 403),
        ("script", "cross-site", 403),
        ("document", "cross-site", 200),
        ("image", "same-origin", 200),
        ("document", "none", 200),
    ],
)
async def test_a_page_of_another_site_may_link_but_not_include(
    destination: str, site: str, expected: int
) -> None:
    headers = {"sec-fetch-dest": destination, "sec-fetch-site": site}
    async with emulated() as server:
        assert (await server.client.get("/", headers=headers)).status_code == expected
        # Following a link to an API can do something, such as fire a schedule.
        reads = 403 if site == "cross-site" else 200
        assert (await server.client.get(LOCAL, headers=headers)).status_code == reads


async def test_a_page_of_this_machine_may_read_the_answer() -> None:
    async with emulated() as server:
        origin = "http://localhost:5173"
        preflight = await server.client.options(LOCAL, headers={"origin": origin})
        assert preflight.status_code == 204
        answer = await server.client.get(LOCAL, headers={"origin": origin})
        assert answer.status_code == 200
        for response in (preflight, answer):
            assert response.headers["access-control-allow-origin"] == origin
            assert TAIL_INDEX in response.headers["access-control-expose-headers"]


async def test_a_preflight_allows_what_a_page_of_this_machine_asks_for() -> None:
    async with emulated() as server:
        asked = {
            "origin": "http://localhost:5173",
            "access-control-request-method": "PATCH",
            "access-control-request-headers": "x-trace",
        }
        response = await server.client.options(LOCAL, headers=asked)
        assert (response.status_code, response.content) == (204, b"")
        assert "PATCH" in response.headers["access-control-allow-methods"]
        assert response.headers["access-control-allow-headers"] == "x-trace"
        assert response.headers["vary"] == "Origin"


async def test_without_an_origin_nothing_is_allowed_to_pages() -> None:
    async with emulated() as server:
        for method in ("GET", "OPTIONS"):
            response = await server.client.request(method, LOCAL)
            assert "access-control-allow-origin" not in response.headers


async def test_head_tells_what_get_would_and_answers_tell_their_length() -> None:
    async with emulated() as server:
        for path in (LOCAL, REMOTE, "/cdn-cgi/health", f"{LOCAL}/nope"):
            got = await server.client.get(path)
            assert int(got.headers["content-length"]) == len(got.content)
            head = await server.client.head(path)
            assert head.status_code == got.status_code
            assert head.headers["content-length"] == got.headers["content-length"]


async def test_a_method_that_is_not_there_is_refused_with_those_that_are() -> None:
    async with emulated() as server:
        response = await server.client.patch(f"{REMOTE}/echo/instances")
        assert response.status_code == 405
        assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
        assert "PATCH" in response.json()["errors"][0]["message"]


async def test_it_is_no_proxy() -> None:
    async with emulated() as server:
        response = await server.client.request("CONNECT", "/")
        assert (response.status_code, response.json()["success"]) == (405, False)


async def test_a_server_for_others_takes_any_host_and_its_own_pages_only() -> None:
    async with emulated(Access(TOKEN, only_loopback=False)) as server:
        own = {"host": "box.example:8787", "origin": "http://box.example:8787"}
        foreign = {"host": "box.example:8787", "origin": "http://evil.example"}
        nobody = {"host": "", "origin": "null"}
        assert (await server.client.get("/cdn-cgi/health", headers=own)).status_code == 200
        assert (await server.client.get("/cdn-cgi/health", headers=nobody)).status_code == 403
        assert (await server.client.get("/cdn-cgi/health", headers=foreign)).status_code == 403


@pytest.mark.parametrize("path", [LOCAL, REMOTE])
async def test_with_a_token_the_apis_want_it(path: str) -> None:
    async with emulated(Access(TOKEN)) as server:
        for given in (None, "Bearer wrong", TOKEN, f"Basic {TOKEN}", "Bearer s3crét"):
            given_headers = [] if given is None else [(b"authorization", given.encode())]
            response = await server.client.get(path, headers=httpx.Headers(given_headers))
            assert response.status_code == 403
            assert response.json()["errors"] == [{"code": 10000, "message": "Authentication error"}]
        for scheme in ("Bearer", "bearer"):
            headers = {"authorization": f"{scheme} {TOKEN}"}
            assert (await server.client.get(path, headers=headers)).status_code == 200


async def test_with_a_token_the_inspector_wants_it_as_a_password() -> None:
    async with emulated(Access(TOKEN)) as server:
        for wrong in (None, ("", "wrong"), (TOKEN, ""), ("", "s3crét")):
            response = await server.client.get(HOME, auth=wrong)
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Basic ")
        as_password = b64encode(f"x:{TOKEN}".encode()).decode()
        bearers = (f"Bearer {TOKEN}", f"Bearer {as_password}")
        for broken in ("Basic", "Basic ?", "Basic czNjcmV0", *bearers):
            response = await server.client.get(HOME, headers={"authorization": broken})
            assert response.status_code == 401
        assert (await server.client.get(HOME, auth=("anybody", TOKEN))).status_code == 200
        response = await server.client.post(workflow_url("echo"))
        assert response.status_code == 401
        assert await server.engine.journal.status_counts("echo") == {}


async def test_the_inspector_answers_at_its_address_of_before_and_without_a_slash() -> None:
    async with emulated() as server:
        for path in ("/cdn-cgi/explorer", "/cdn-cgi/explorer/"):
            assert (await server.client.get(path)).headers["location"] == HOME
        assert (await server.client.get(HOME.rstrip("/"))).status_code == 200


async def test_the_worker_and_the_health_check_want_no_token() -> None:
    async with emulated(Access(TOKEN)) as server:
        for path in ("/cdn-cgi/health", "/", "/client/v4x"):
            assert (await server.client.get(path)).status_code == 200


async def test_whatever_is_no_api_goes_to_the_worker_as_it_came() -> None:
    async with emulated() as server:
        for path in ("/", "/a//b/", "/cdn-cgi/local/explorers", "/client/v4x"):
            assert (await server.client.get(path)).text == path


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("::1", True), ("127.1.2.3", True), ("0.0.0.0", False), ("", False)],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
