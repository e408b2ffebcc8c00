"""A browser without JavaScript: it reads pages, follows links, and posts forms with all the fields that they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

import httpx

_POSTED = {"origin": "http://localhost", "content-type": "application/x-www-form-urlencoded"}


@dataclass
class Form:
    """A form of a page, by the text of its last button."""

    action: str
    fields: dict[str, str] = field(default_factory=dict[str, str])
    button: str = ""


class Page(HTMLParser):
    """A page: its text, links by text, forms by button. `shown` are the texts of elements by class."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__()
        self.status = response.status_code
        self.url = str(response.url.raw_path, "ascii")
        self.headers = response.headers
        self.source = response.text
        self.text = ""
        self.links: dict[str, str] = {}
        self.forms: dict[str, list[Form]] = {}
        self.shown: dict[str, list[str]] = {}
        self._form: Form | None = None
        self._open: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(response.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        given = dict(attrs)
        if tag in ("meta", "link", "input"):
            if tag == "input" and self._form is not None and given.get("type") != "checkbox":
                self._form.fields[given["name"] or ""] = given.get("value") or ""
            return
        if tag == "form":
            self._form = Form(given["action"] or "")
        self._open.append((tag, given, ""))

    def handle_data(self, data: str) -> None:
        """A text, which belongs to every element that is open."""
        self.text += data
        self._open = [(tag, given, text + data) for tag, given, text in self._open]

    def handle_endtag(self, tag: str) -> None:
        """An element ends; every one that was begun has to."""
        opened, given, text = self._open.pop()
        assert opened == tag, f"<{opened}> is closed by </{tag}>"
        for name in (given.get("class") or "").split():
            self.shown.setdefault(name, []).append(" ".join(text.split()))
        if tag == "a":
            self.links[" ".join(text.split())] = given["href"] or ""
        elif tag == "textarea" and self._form is not None:
            self._form.fields[given["name"] or ""] = text
        elif tag == "button" and self._form is not None:
            self._form.button = text
        elif tag == "form" and self._form is not None:
            self.forms.setdefault(self._form.button, []).append(self._form)
            self._form = None


class Browser:
    """Where somebody is."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._page: Page | None = None

    @property
    def page(self) -> Page:
        """The page that is shown."""
        assert self._page is not None
        return self._page

    async def visit(self, url: str) -> Page:
        """Open a page."""
        return self._show(await self._client.get(url))

    async def follow(self, link: str) -> Page:
        """Follow a link of the page."""
        return await self.visit(self.page.links[link])

    async def press(self, button: str, at: int = 0, /, **typed: str) -> Page:
        """Press a button of the page, with something typed into the fields of its form."""
        form = self.page.forms[button][at]
        response = await self._client.post(
            form.action, content=urlencode(form.fields | typed), headers=_POSTED
        )
        if response.status_code == 303:
            response = await self._client.get(response.headers["location"])
        return self._show(response)

    def _show(self, response: httpx.Response) -> Page:
        self._page = Page(response)
        return self._page
