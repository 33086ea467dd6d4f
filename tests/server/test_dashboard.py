"""The dashboard in a real Chromium, through its whole main path.

With LAXITY_SCREENSHOTS=FOLDER the pictures of the documentation are taken on the way.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from laxity.server.dashboard import build_dashboard
from laxity.server.serving import Server
from laxity.server.testing import ScriptedService
from server.conftest import TOKEN, Client, scripted

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="Chromium is missing: apt-get install chromium chromium-driver",
)


@pytest.fixture
def dashboard(service: ScriptedService) -> Iterator[Server]:
    with Server(service, "127.0.0.1:0", token=TOKEN, period=0.3) as running:
        yield running


class Browser:
    """Chromium, waited for by conditions."""

    def __init__(self, url: str) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        assert CHROMIUM is not None
        options.binary_location = CHROMIUM
        for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
            options.add_argument(f"--{flag}")
        options.add_argument("--window-size=1360,980")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.url = url

    def open(self, path: str = "") -> None:
        self.driver.get(self.url + path)

    def find(self, css: str) -> Any:
        return self.driver.find_element("css selector", css)

    def text(self, css: str) -> str:
        """As the page has it, which may be drawn anew at any moment."""
        return str(
            self.driver.execute_script(
                "return (document.querySelector(arguments[0]) || {innerText: ''}).innerText", css
            )
        )

    def click(self, css: str) -> None:
        self.wait(lambda: self.driver.execute_script(_CLICK, css))

    def press(self, css: str) -> Any:
        """As a hand does it, which a page's question does not interrupt; returns the question."""
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.expected_conditions import alert_is_present
        from selenium.webdriver.support.wait import WebDriverWait

        def pressed() -> bool:
            try:
                self.find(css).click()
            except StaleElementReferenceException:  # drawn anew between finding and pressing
                return False
            return True

        self.wait(pressed)
        return WebDriverWait(self.driver, 20).until(alert_is_present())

    def type(self, css: str, text: str) -> None:
        field = self.find(css)
        field.clear()
        field.send_keys(text)

    def wait(self, condition: Callable[[], Any], seconds: float = 20.0) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, f"it did not happen; the page: {self.text('body')}"
            time.sleep(0.05)

    def shown(self, css: str) -> bool:
        return bool(self.driver.execute_script(_SHOWN, css))

    def top(self, css: str) -> float:
        return self._side(css, "top")

    def bottom(self, css: str) -> float:
        return self._side(css, "bottom")

    def _side(self, css: str, side: str) -> float:
        box = self.driver.execute_script(
            "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", css
        )
        return float(box[side])

    def errors(self) -> list[str]:
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]

    def asked(self) -> set[str]:
        """Every address the page has asked for."""
        import json

        found = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.add(message["params"]["request"]["url"])
        return found

    def picture(self, name: str) -> None:
        folder = os.environ.get("LAXITY_SCREENSHOTS")
        if folder:
            time.sleep(1.0)  # let the charts settle
            self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))


_CLICK = """
const found = document.querySelector(arguments[0]);
if (!found) return false;
found.click();
return true;
"""
_SHOWN = """
const found = document.querySelector(arguments[0]);
return found !== null && found.getClientRects().length > 0;
"""


@pytest.fixture
def browser(dashboard: Server) -> Iterator[Browser]:
    browser = Browser(dashboard.url)
    yield browser
    browser.driver.quit()


@needs_chromium
def test_the_main_path(browser: Browser, service: ScriptedService) -> None:
    # Overview: queries and tenants at a glance.
    browser.open()
    browser.wait(lambda: "alerts" in browser.text("#overview table.queries"))
    assert "800 ms" in browser.text("#row-alerts")
    assert "overloaded" in browser.text("#row-alerts")
    assert "66.7 %" in browser.text("#row-alerts")
    assert "reports" in browser.text("#overview table.tenants")
    assert "1 query in trouble" in browser.text("#health")

    # A query: latency against its target, where the time went, plan and stages.
    browser.click("#row-alerts a")
    browser.wait(lambda: browser.shown("#query"))
    browser.wait(lambda: browser.text("#query h1") == "alerts")
    browser.wait(lambda: browser.shown("#latency .scatterlayer .trace"))
    browser.wait(lambda: "20 of 60 results missed" in browser.text("#behind"))
    assert "waited behind bulk" in browser.text("#behind")
    assert "with every batch" in browser.text("#plan")
    assert "120 ms" in browser.text("#stages")
    browser.wait(lambda: browser.shown("#phases .barlayer .trace"))
    assert browser.bottom("#phases") <= browser.top("#behind")
    assert browser.bottom("#behind") <= browser.top("#stages")

    # A change without the token is not taken, and the page asks for it.
    browser.type("#target", "500ms")
    browser.click("#target-set")
    browser.wait(lambda: browser.shown("#token-dialog"))
    assert service.queries["alerts"].target == 0.8
    browser.type("#token", TOKEN)
    browser.click("#token-use")
    browser.wait(lambda: not browser.shown("#token-dialog"))

    # With it, everything is changed live.
    browser.click("#target-set")
    browser.wait(lambda: service.queries["alerts"].target == 0.5)
    browser.wait(lambda: "500 ms" in browser.text("#query-numbers"))
    browser.click("#pause")
    browser.wait(lambda: service.queries["alerts"].paused)
    browser.wait(lambda: browser.text("#pause") == "Resume")
    browser.click("#pause")
    browser.wait(lambda: not service.queries["alerts"].paused)
    browser.type("#target", "soon")
    browser.click("#target-set")
    browser.wait(lambda: "not a duration" in browser.text("#change-note"))
    browser.click("#target-none")
    browser.wait(lambda: service.queries["alerts"].target is None)

    # Timeline and events.
    browser.click("#to-timeline")
    browser.wait(lambda: browser.shown("#timeline-chart .barlayer .trace"))
    browser.click("#to-events")
    browser.wait(lambda: "best effort" in browser.text("#events"))
    assert "overloaded" in browser.text("#events")

    # A tenant's cap.
    browser.click("#to-overview")
    browser.wait(lambda: browser.shown("[data-cap=reports]"))
    prompt = browser.press("[data-cap=reports]")
    prompt.send_keys("2")
    prompt.accept()
    browser.wait(lambda: service.caps == {"reports": 2})

    # Dark and light.
    before = browser.driver.execute_script("return document.documentElement.dataset.theme")
    browser.click("#theme")
    browser.wait(
        lambda: (
            browser.driver.execute_script("return document.documentElement.dataset.theme") != before
        )
    )

    # The browser complained of nothing but the one refusal, and asked nobody else.
    assert [e for e in browser.errors() if "401" not in e and "400" not in e] == []
    foreign = {u for u in browser.asked() if not u.startswith((browser.url, "data:", "blob:"))}
    assert foreign == set()


@needs_chromium
def test_on_a_phone_nothing_runs_over_the_edge(browser: Browser) -> None:
    browser.driver.set_window_size(390, 844)
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True},
    )
    for path, css in (("", "#row-alerts"), ("/?query=alerts", "#latency .trace")):
        browser.open(path)
        browser.wait(lambda css=css: browser.shown(css))  # type: ignore[misc]
        width = browser.driver.execute_script("return document.documentElement.scrollWidth")
        assert width <= 390


def test_every_script_is_served_from_here(dashboard: Server) -> None:
    client = Client(dashboard.url, None)
    page = client.get("/")
    assert page.status == 200
    policy = page.headers["content-security-policy"]
    assert "script-src 'self' 'sha256-" in policy
    assert "unsafe-eval" not in policy
    import re

    for source in re.findall(r'(?:src|href)="([^"]+)"', page.body.decode()):
        assert source.startswith("/")


def test_nothing_can_be_posted_to_the_dashboard(dashboard: Server) -> None:
    answer = Client(dashboard.url)("POST", "/_dash-update-component", {})
    assert answer.status == 405


def test_all_callbacks_run_in_the_browser() -> None:
    """A client must not cost the server a callback."""
    app, _ = build_dashboard(1.0)
    flask = app.app.wsgi_app if hasattr(app, "app") else None  # type: ignore[attr-defined]
    assert flask is not None
    import json

    with app.app.test_client() as client:  # type: ignore[attr-defined]
        callbacks = json.loads(client.get("/_dash-dependencies").data)
    assert callbacks
    assert all(c["clientside_function"] for c in callbacks)


def test_two_servers_in_one_process() -> None:
    with (
        Server(scripted(), "127.0.0.1:0", token=TOKEN) as one,
        Server(scripted(), "127.0.0.1:0", token=TOKEN) as two,
    ):
        assert Client(one.url).get("/").status == Client(two.url).get("/").status == 200
    assert threading.active_count() < 50
