"""The HTTP client of the commands: Cloudflare's REST API, as an emulator answers it.

Whatever goes wrong is a `click.ClickException` with one line that says what to do; the command then ends with 1.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple, cast

import click
import httpx

from emulator.domain.http import check_api_token, encode_path
from emulator.errors import ConfigError
from wrangler_compat.cli.wording import LATEST, Json, printable, sentences

_NO_BODY: Final = object()
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_QUERY: Final[Mapping[str, object]] = MappingProxyType({})
WORKFLOWS: Final = "/client/v4/accounts/local/workflows"
_FORBIDDEN: Final = 403
_TIMEOUT: Final = httpx.Timeout(60, connect=5)  # an answer may wait for a rollback


class NotReached(click.ClickException):
    """No emulator answers."""


class Page(NamedTuple):
    """Rows of a listing, and what the API says of it (`page`, `total_pages`, `total_count`)."""

    rows: list[Json]
    info: Json


class Client:
    """A connection to an API of the emulator at `url`, below `prefix`. A `with` block closes it."""

    def __init__(self, url: str, token: str | None = None, prefix: str = WORKFLOWS) -> None:
        self._url = url.rstrip("/")
        self._prefix = prefix
        headers = {} if token is None else {"authorization": f"Bearer {_checked(token)}"}
        # Not through a proxy of the environment: the emulator is near.
        self._http = httpx.Client(headers=headers, timeout=_TIMEOUT, trust_env=False)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def ask(
        self,
        method: str,
        *path: str,
        query: Mapping[str, object] = _NO_QUERY,
        body: object = _NO_BODY,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Any:
        """Send a request below the prefix; the `result` of the answer. Parameters that are None are not sent.

        Raises:
            NotReached: no emulator answers.
            ClickException: it refuses; the message is the server's.
        """
        return self._envelope(method, path, query, body, headers)["result"]

    def page(self, *path: str, query: Mapping[str, object]) -> Page:
        """Read one page of a listing. Parameters that are None are not sent."""
        envelope = self._envelope("GET", path, query, _NO_BODY)
        return Page(envelope["result"], envelope["result_info"])

    def resolve(self, workflow: str, instance_id: str) -> str:
        """The id that is meant: `latest` is the newest instance's.

        Raises:
            ClickException: there are no instances.
        """
        if instance_id != LATEST:
            return instance_id
        rows, _ = self.page(workflow, "instances", query={"per_page": 1})
        if not rows:
            raise click.ClickException(f'The workflow "{workflow}" has no instances.')
        return rows[0]["id"]

    def detail(self, workflow: str, instance_id: str) -> Json:
        """Everything there is to see of an instance."""
        return self.ask("GET", workflow, "instances", instance_id)

    def ask_plainly(self, method: str, *path: str, body: object = _NO_BODY) -> Any:
        """Send a request to an API that answers without an envelope; the whole answer.

        Raises:
            NotReached: no emulator answers.
            ClickException: it refuses; the message is the server's.
        """
        response = self._send(method, path, {}, body)
        try:
            answer: Any = response.json()
            if response.is_success:
                return answer
            # Who may not ask at all is told so in an envelope.
            text: str = (answer.get("refusal") or answer["errors"][0])["message"]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise self._stranger(response.status_code) from None
        raise self._refused(response.status_code, text)

    def _envelope(
        self,
        method: str,
        path: tuple[str, ...],
        query: Mapping[str, object],
        body: object,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Json:
        response = self._send(method, path, query, body, headers)
        try:
            envelope: Json = response.json()
            if envelope["success"]:
                return envelope
            # The errors are Cloudflare's codes; the messages, ours, say what is the matter.
            told: list[Json] = envelope["messages"] or envelope["errors"]
            text = sentences(each["message"] for each in told)
        except (ValueError, LookupError, TypeError):
            raise self._stranger(response.status_code) from None
        raise self._refused(response.status_code, text)

    @contextmanager
    def opened(
        self, *path: str, query: Mapping[str, object], accepted: str
    ) -> Generator[httpx.Response]:
        """Open an answer of the binding's API, to be read piece by piece, of the `accepted` type.

        Parameters that are None are not sent.

        Raises:
            NotReached: no emulator answers, or it breaks off.
            ClickException: it refuses; the message is the server's.
        """
        headers = {"accept": accepted}
        with (
            self._clear_errors(),
            self._http.stream(
                "GET", self._url_of(path), params=_given(query), headers=headers
            ) as response,
        ):
            if not response.is_success:
                raise self._refusal(response.status_code, response.read())
            if not response.headers.get("content-type", "").startswith(accepted):
                raise self._stranger(response.status_code)
            yield response

    def _refusal(self, status: int, body: bytes) -> click.ClickException:
        try:
            told: Json = json.loads(body)
            text: str = (
                told["refusal"]["message"] if "refusal" in told else told["errors"][0]["message"]
            )
        except (ValueError, LookupError, TypeError):
            return self._stranger(status)
        return self._refused(status, text)

    def _stranger(self, status: int) -> NotReached:
        return NotReached(
            f"What answers at {self._url} is no workflow-emulator (HTTP {status}): give its address with --url."
        )

    def _refused(self, status: int, text: str) -> click.ClickException:
        if status == _FORBIDDEN:
            text += ": give the emulator's token with --token, or in WORKFLOW_EMULATOR_API_TOKEN."
        return click.ClickException(printable(" ".join(text.split())))

    def _url_of(self, path: tuple[str, ...]) -> str:
        return "/".join((self._url + self._prefix, *map(encode_path, path)))

    def _send(
        self,
        method: str,
        path: tuple[str, ...],
        query: Mapping[str, object],
        body: object,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> httpx.Response:
        # Not httpx's own JSON: it cannot write a lone surrogate, and the server shall say that.
        content = None if body is _NO_BODY else json.dumps(body)
        if content is not None:
            headers = {"content-type": "application/json", **headers}
        with self._clear_errors():
            return self._http.request(
                method,
                self._url_of(path),
                params=_given(query),
                content=content,
                headers=[(name.encode(), value.encode()) for name, value in headers.items()],
            )

    @contextmanager
    def _clear_errors(self) -> Generator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise NotReached(
                f"No emulator answers at {self._url}: start one with `workflow-emulator dev`, or give its address with --url."
            ) from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL):
            raise click.ClickException(
                f"--url {self._url} is no address such as http://localhost:8787."
            ) from None
        except UnicodeEncodeError as error:
            raise click.ClickException(
                f"{printable(error.object)} cannot be sent: it is no text in UTF-8."
            ) from None
        except httpx.LocalProtocolError as error:  # an argument, as a header
            raise click.ClickException(f"That cannot be sent: {error}") from None
        except httpx.TransportError as error:
            raise NotReached(f"The emulator at {self._url} broke off: {error}") from None


def _checked(token: str) -> str:
    try:
        return check_api_token(token)
    except ConfigError as error:
        raise click.ClickException(error.message) from None


def _given(query: Mapping[str, object]) -> dict[str, list[str]]:
    """The parameters that are not None; one that is a tuple is repeated."""
    given: dict[str, list[str]] = {}
    for name, value in query.items():
        several = cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,))
        given[name] = [str(each) for each in several if each is not None]
    return given
