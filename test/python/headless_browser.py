"""A headless Chromium, driven over a pair of pipes by its DevTools protocol: no port, no driver, no package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any


def chromium() -> str | None:
    """Return the browser's path, or nothing where there is none."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


class Browser:
    """One browser with one page. What the page logs, throws and loads is kept."""

    def __init__(self, width: int = 1280, height: int = 900, *, dark: bool = False, scripts: bool = True) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._events: list[dict[str, Any]] = []
        self._number = 0
        self._session = ""
        self._buffer = b""
        commands_read, self._commands = os.pipe()
        self._answers, answers_write = os.pipe()
        command = [
            chromium() or "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            f"--window-size={width},{height}",
            "about:blank",
        ]
        # The browser reads commands from 3 and writes answers to 4.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{commands_read} 4>&{answers_write}', "browser", *command],
            pass_fds=(commands_read, answers_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_read)
        os.close(answers_write)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.set_dark(dark)
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._commands)  # the browser ends with its commands
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"])[:2000])
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(json.dumps(parameters["args"])[:2000])
        elif method == "Log.entryAdded":
            self.problems.append(json.dumps(parameters["entry"])[:2000])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        self._events.append(event)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") != self._number:
                self._note(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def open(self, page: Path) -> float:
        """Open a file and return the seconds until it has loaded."""
        self._events.clear()
        began = time.monotonic()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._note(self._receive())
        return time.monotonic() - began

    def evaluate(self, expression: str) -> Any:
        """Return what an expression gives in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def set_dark(self, dark: bool) -> None:
        """Prefer dark or light colours."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def _place(self, selector: str, right: float, down: float) -> tuple[float, float]:
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'});"
            " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )
        return box[0] + box[2] * right, box[1] + box[3] * down

    def hover(self, selector: str, right: float = 0.5, down: float = 0.5) -> None:
        """Move the pointer over an element, to a share of its width and height."""
        x, y = self._place(selector, right, down)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, selector: str, begin: float, end: float, down: float = 0.5) -> None:
        """Press on an element, move, and let go; a click where both shares are equal."""
        x, y = self._place(selector, begin, down)
        until, _ = self._place(selector, end, down)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
        if until != x:
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=(x + until) / 2, y=y, button="left", buttons=1)
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=until, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=until, y=y, button="left", clickCount=1)

    def key(self, key: str) -> None:
        """Press a key where the focus is."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path) -> None:
        """Write the whole page as a picture."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))
