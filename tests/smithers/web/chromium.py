"""A real browser without a screen, and the live view in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

T = TypeVar("T")
PATIENCE = 20.0
# Without these it looks for hosts that have nothing to do with what is tested.
_ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--window-size=1200,900", "--lang=en-US", "--disable-dev-shm-usage"),
)


class Chromium:
    """A browser with one page."""

    def __init__(self, profile: Path, browser: str, driver: str) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(executable_path=driver)
        self._driver = webdriver.Chrome(options=options, service=service)

    def open(self, url: str) -> None:
        """Open an address. One that differs in the part after `#` alone does not load anew."""
        self._driver.get(url)

    def page(self, view: View, route: str) -> None:
        """Go to a page of the view that was visited before."""
        self.open(f"{view.address}/#/{route}")

    def visit(self, view: View, route: str = "overview") -> None:
        """Visit the view by the address that it printed, and go to a page when it is live."""
        self.open("about:blank")
        self.open(view.url)
        self.wait(lambda: self.text("#link") == "live")
        self.page(view, route)

    def find(self, selector: str) -> list[WebElement]:
        """Return the elements that are in the page now."""
        return self._driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        """Return the text that is seen in the first such element, nothing where there is none."""
        try:
            return self._driver.find_element(By.CSS_SELECTOR, selector).text
        except (NoSuchElementException, StaleElementReferenceException):
            return ""

    def texts(self, selector: str) -> list[str]:
        try:
            return [element.text for element in self.find(selector)]
        except StaleElementReferenceException:
            return []

    def shows(self, *texts: str, within: str = "main") -> None:
        """Wait until all the texts are seen."""
        self.wait(lambda: all(text in self.text(within) for text in texts), texts)

    def lacks(self, text: str, within: str = "main") -> None:
        """Wait until the text is not seen any more."""
        self.wait(lambda: text not in self.text(within), text)

    def press(self, selector: str, label: str) -> None:
        """Press the button or follow the link with this text, once it can be pressed."""

        def pressed() -> bool:
            for element in self.find(selector):
                if element.text == label and element.is_enabled():
                    element.click()
                    return True
            return False

        self.wait(pressed, label)

    def type(self, selector: str, text: str) -> None:
        self._driver.find_element(By.CSS_SELECTOR, selector).send_keys(text)

    def key(self, *keys: str) -> None:
        """Press keys wherever the focus is."""
        self._driver.switch_to.active_element.send_keys(*keys)

    def script(self, code: str, *arguments: object) -> Any:
        return self._driver.execute_script(code, *arguments)  # pyright: ignore

    def set_size(self, width: int, height: int) -> None:
        """Give the page this much room, also less than a window can have."""
        self._command(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def reset_size(self) -> None:
        self._command("Emulation.clearDeviceMetricsOverride", {})

    def prefer(self, scheme: str) -> None:
        """Prefer `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._command("Emulation.setEmulatedMedia", {"features": [feature]})

    def complaints(self) -> list[str]:
        """Return what the browser has logged since last asked: errors, and what the policy of the
        page forbade."""
        answer = self._driver.execute("getLog", {"type": "browser"})  # pyright: ignore
        entries: list[dict[str, str]] = answer["value"]
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def dialog(self) -> str | None:
        """Return the text of an alert that is open."""
        try:
            return str(self._driver.switch_to.alert.text)
        except WebDriverException:
            return None

    def accept(self) -> None:
        """Agree to what is asked in an alert."""
        self.wait(lambda: self.dialog() is not None)
        self._driver.switch_to.alert.accept()

    def wait(self, condition: Callable[[], bool], what: object = "") -> None:
        """Wait until the page has come to what is expected: it cannot be told by an event."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if condition():
                    return
            except StaleElementReferenceException:
                pass  # it was put in the place of another just now
            assert time.monotonic() < end, f"not so after {PATIENCE} s: {what}\n{self.text('body')}"
            time.sleep(0.03)

    def quit(self) -> None:
        self._driver.quit()

    def _command(self, name: str, parameters: dict[str, Any]) -> None:
        self._driver.execute_cdp_cmd(name, parameters)  # pyright: ignore


class View:
    """`smithers ui` as a process; `address` is where it is, `url` with the token."""

    def __init__(self, path: Path, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "smithers", "ui", "--path", str(path), *options],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self.address, _, self.token = self.url.partition("/?token=")
        self.port = self.address.rpartition(":")[2]

    def end(self) -> int:
        """End it as Ctrl-C does; return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(20)
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()


@contextmanager
def viewing(path: Path, *options: str) -> Generator[View, None, None]:
    """Serve the database of a directory."""
    view = View(path, *options)
    try:
        yield view
    finally:
        view.end()
