"""Take the documentation's pictures of the dashboard anew: a real run under real load.

    .venv/bin/python tools/pictures.py [FOLDER]      # docs/images unless told otherwise

`laxity run` carries src/laxity/bench/shop.py on two cores; Chromium looks after 150 seconds.
Needs Java, and Debian's packages chromium and chromium-driver.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from laxity.bench.running import Running

ROOT = Path(__file__).parent.parent
PIPELINE = ROOT / "src" / "laxity" / "bench" / "shop.py"
FLAGS = ("--master", "local[2]", "--name", "shop", "--target", "outages=300ms")
"""One target is tighter than this machine can always keep, to show where the time went."""
SETTINGS = """
[laxity]
latency_period = "1min"  # so that the pictures do not show how Spark warmed up
"""
WARM = 150.0
WIDE, PHONE = (1280, 880), (390, 844)
SHOWN = """
const found = document.querySelector(arguments[0]);
return found !== null && found.getClientRects().length > 0;
"""

LOOKS = (
    # name, address, what must be there, size, theme
    ("dashboard-overview", "/", "#row-fraud .trend", WIDE, "light"),
    ("dashboard-dark", "/", "#row-fraud .trend", WIDE, "dark"),
    ("dashboard-query", "/?query=outages", "#latency .trace", (1280, 1150), "light"),
    ("dashboard-query-dark", "/?query=outages", "#latency .trace", (1280, 1150), "dark"),
    ("dashboard-timeline", "/?view=timeline", "#timeline-chart .trace", (1280, 560), "light"),
    ("dashboard-events", "/?view=events", "#events table", (1280, 560), "light"),
    ("dashboard-phone", "/", "#row-fraud", PHONE, "dark"),
    ("dashboard-phone-query", "/?query=outages", "#latency .trace", PHONE, "dark"),
)


@contextmanager
def chromium() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        sys.exit("Chromium is missing: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{flag}")
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield browser
    finally:
        browser.quit()


def take(browser: Any, url: str, folder: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    for name, path, there, (width, height), theme in LOOKS:
        phone = (width, height) == PHONE
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": width,
                "height": height,
                "deviceScaleFactor": 2 if phone else 1,
                "mobile": phone,
            },
        )
        browser.get(url)
        browser.execute_script("localStorage.setItem('laxity-theme', arguments[0])", theme)
        browser.get(url + path)
        until = time.monotonic() + 30
        while not browser.execute_script(SHOWN, there):
            if time.monotonic() > until:
                sys.exit(f"{name}: {there} did not appear")
            time.sleep(0.1)
        time.sleep(3.0)  # let the charts settle
        browser.save_screenshot(str(folder / f"{name}.png"))
        print(folder / f"{name}.png")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="laxity-pictures-") as scratch:
        settings = Path(scratch, "settings.toml")
        settings.write_text(SETTINGS)
        flags = (
            *FLAGS,
            "--settings",
            str(settings),
            "--checkpoints",
            f"file://{scratch}/checkpoints",
        )
        conf = ("spark.driver.memory=2g", "spark.sql.shuffle.partitions=2")
        with Running(PIPELINE, Path(scratch), *flags, conf=conf) as running:
            time.sleep(WARM)
            with chromium() as browser:
                take(browser, running.url, folder)


if __name__ == "__main__":
    main()
