"""The inspector in a real browser: what its script does, which no other test can see.

Chromium and ChromeDriver are optional on a developer's machine, never in CI.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.unit.cli.process import Dev, dev, write_project

pytestmark = pytest.mark.skipif(
    (shutil.which("chromium") is None or shutil.which("chromedriver") is None)
    and "CI" not in os.environ,
    reason="needs Chromium and ChromeDriver",
)

PATIENCE_S = 30
API = "/cdn-cgi/local/explorer/api/workflows/orders/instances"
PAGE = "/cdn-cgi/local/explorer/workflows/orders"
OPTIONS = (
    "--headless",
    "--no-sandbox",  # a container has no user namespaces
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
ENTRY = """
from workers import WorkerEntrypoint, WorkflowEntrypoint


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        @step.do("reserve")
        async def reserve():
            return "<b>mug</b>"

        await reserve()
        payment = await step.wait_for_event("await payment", "payment", timeout="1 hour")
        return payment["payload"]


class Default(WorkerEntrypoint):
    pass
"""


class Browser:
    """A window of Chromium."""

    def __init__(self, chrome: Chrome, serving: Dev) -> None:
        self.chrome = chrome
        self._serving = serving

    def open(self, path: str) -> None:
        """Open a page."""
        self.chrome.get(self._serving.url + path)

    def find(self, selector: str) -> WebElement:
        """The first element that a selector matches."""
        return self.chrome.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector: str) -> None:
        """Click on something; once more if it is replaced at that very moment."""

        def clicked() -> bool:
            self.find(selector).click()
            return True

        self.becomes(clicked)

    def press(self, selector: str) -> None:
        """Press the mouse button on something, and hold it; once more if it is replaced at that very moment."""

        def pressed() -> bool:
            ActionChains(self.chrome).click_and_hold(self.find(selector)).perform()
            return True

        self.becomes(pressed)

    def release(self) -> None:
        """Let the mouse button go."""
        ActionChains(self.chrome).release().perform()

    def asks_again_when(self, happens: Callable[[], object]) -> None:
        """Let something happen, and wait until the page has been asked for again."""
        before = self._times_asked()
        happens()
        self.becomes(lambda: self._times_asked() > before)

    def _times_asked(self) -> int:
        script = "return performance.getEntriesByType('resource').length"
        return self.chrome.execute_script(script)  # pyright: ignore[reportUnknownMemberType]

    def becomes(self, condition: Callable[[], bool]) -> None:
        """Wait for something to be so."""
        WebDriverWait(
            self.chrome,
            PATIENCE_S,
            poll_frequency=0.05,
            ignored_exceptions=[NoSuchElementException, StaleElementReferenceException],
        ).until(lambda _: condition())

    def shows(self, text: str) -> None:
        """Wait for a text."""
        self.becomes(lambda: text in self.find("body").text)

    def complaints(self) -> list[str]:
        """What the browser's console says: errors of the script, what the policy forbids."""
        return [entry["message"] for entry in self.chrome.get_log("browser")]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Dev]:
    with dev(write_project(tmp_path, ENTRY), "--persist-to", ":memory:") as process:
        yield process


@pytest.fixture
def browser(serving: Dev, tmp_path: Path) -> Iterator[Browser]:
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for each in (*OPTIONS, f"--user-data-dir={tmp_path / 'chromium'}"):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options, ChromeService(shutil.which("chromedriver")))
    try:
        yield Browser(chrome, serving)
    finally:
        chrome.quit()


def test_a_page_follows_its_instance_and_leaves_alone_what_somebody_does(
    serving: Dev, browser: Browser
) -> None:
    browser.open(PAGE)
    browser.shows("No instances yet.")

    serving.post(API, {"id": "o-1"})
    browser.shows("o-1")

    browser.click('a[href$="/instances/o-1"]')
    browser.shows("await payment-1")
    browser.click("#step-1 summary")
    browser.shows('"<b>mug</b>"')
    payload = browser.find('form[action$="/event"] textarea')
    payload.send_keys('{"amount": 3}')
    assert browser.find('form[action$="/event"]').is_displayed()

    serving.post(f"{API}/o-1/events/other", 1)
    browser.click('form[action$="/event"] button')
    browser.shows('"amount": 3')
    browser.becomes(lambda: browser.chrome.title == "o-1: complete")
    assert not browser.find('form[action$="/event"]').is_displayed(), "it has ended"
    assert browser.complaints() == []


def test_a_click_is_not_lost_when_the_page_changes_meanwhile(
    serving: Dev, browser: Browser
) -> None:
    serving.post(API, {"id": "o-1"})
    browser.open(PAGE)
    browser.shows("1 waiting")

    browser.press("h1")
    browser.asks_again_when(lambda: serving.post(API, {"id": "o-2"}))
    browser.release()
    browser.shows("2 waiting")

    browser.press('a[href$="/instances/o-1"]')
    browser.asks_again_when(lambda: serving.post(API, {"id": "o-3"}))
    browser.release()
    browser.shows("await payment-1")
    assert browser.complaints() == []


def test_what_is_open_and_typed_stays_when_the_page_changes(serving: Dev, browser: Browser) -> None:
    serving.post(API, {"id": "o-1"})
    browser.open(f"{PAGE}/instances/o-1")
    browser.shows("await payment-1")
    browser.click("#step-1 summary")
    payload = browser.find('form[action$="/event"] textarea')
    payload.send_keys("[1, ")

    serving.post(f"{API}/o-1/events/payment", 7)
    browser.becomes(lambda: browser.chrome.title == "o-1: complete")
    browser.becomes(lambda: browser.find("#step-1").get_attribute("open") is not None)
    assert payload.get_attribute("value") == "[1, "
    assert browser.complaints() == []


def test_a_page_whose_instance_is_deleted_says_so(serving: Dev, browser: Browser) -> None:
    serving.post(API, {"id": "o-1"})
    browser.open(f"{PAGE}/instances/o-1")
    browser.shows("await payment-1")
    serving.post(f"{API}/batch/delete", {"instances": ["o-1"]})
    browser.shows('Instance "o-1" does not exist')
