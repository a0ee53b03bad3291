"""Chromium, driven over its pipe by the DevTools protocol: pages at a width, in light or dark, and what they log."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["CHROMIUM", "Browser"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """A browser with one page, without a network.

    Attributes
    ----------
    log
        What the pages have logged, the errors of their scripts, and what they have asked of other hosts.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self._shown: tuple[int, int, bool] | tuple[()] = ()
        self._ids = itertools.count(1)
        self._events: list[dict[str, Any]] = []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        command = [
            str(CHROMIUM), "--headless=new", "--disable-gpu", *root, f"--user-data-dir={self._profile.name}",
            "--no-first-run", "--disable-background-networking", "--allow-file-access-from-files",
            # One process draws all pages, one after the other: half of the seconds of a browser that many use.
            "--in-process-gpu", "--disable-software-rasterizer", "--process-per-site", "--disable-extensions",
            "--disable-features=BackForwardCache,SpareRendererForSitePerProcess", "--remote-debugging-pipe",
            "--host-resolver-rules=MAP * ~NOTFOUND", "about:blank",
        ]  # fmt: skip

        def pipes() -> None:  # the protocol is spoken over the descriptors 3 and 4
            copies = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
            for copy, descriptor in zip(copies, (3, 4), strict=True):
                os.dup2(copy, descriptor)

        self._process = subprocess.Popen(
            command, close_fds=False, preexec_fn=pipes, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        # A site remembers light or dark, and would not ask again.
        forget = "try { localStorage.clear() } catch { }"
        self.call("Page.addScriptToEvaluateOnNewDocument", source=forget)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        number = next(self._ids)
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": number, "method": method, "params": parameters} | session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._in, 1 << 16)
            assert read, "the browser has ended"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        found = json.loads(message)
        if "method" in found:
            self._events.append(found)
            self._note(found["method"], found["params"])
        return found

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.log.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.log.append(" ".join(str(each.get("value", each.get("description"))) for each in about["args"]))
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.log.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        elif event == "Network.requestWillBeSent" and not about["request"]["url"].startswith(
            ("file:", "data:", "blob:")
        ):
            self.log.append(f"asked for {about['request']['url']}")

    def show(self, width: int, *, dark: bool = False, height: int = 900) -> None:
        """Have pages shown at a width, in light or dark. What is so already is not laid out again."""
        if self._shown[:2] != (width, height):
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
            self.call("Emulation.setDeviceMetricsOverride", **size)
        if self._shown[2:] != (dark,):
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._shown = (width, height, dark)

    def open(self, page: Path, anchor: str = "") -> None:
        """Open a file and wait until it is loaded."""
        self._events.clear()
        self.call("Page.navigate", url=page.as_uri() + anchor)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._read()

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, of a promise what it resolves to."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()
