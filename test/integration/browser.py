"""Chromium without a window, driven by its DevTools protocol over a pair of pipes."""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

import pytest

import waiting

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
needed = pytest.mark.skipif(not PROGRAM, reason="chromium is not installed")


class Browser:
    """One page in a browser of its own."""

    def __init__(self):
        self.dir = waiting.scratch("browser")
        theirs_in, self.out = os.pipe()
        self.input, theirs_out = os.pipe()

        def move():
            # The browser reads at descriptor 3 and writes to 4.
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--remote-debugging-pipe", "--user-data-dir=" + self.dir, "about:blank"],
            pass_fds=(3, 4), preexec_fn=move, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=self.dir))
        os.close(theirs_in)
        os.close(theirs_out)
        self.pending, self.last, self.session, self.complaints = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def receive(self):
        end = time.monotonic() + waiting.DEADLINE
        while b"\0" not in self.pending:
            assert time.monotonic() < end, "the browser says nothing"
            if select.select([self.input], [], [], 0.2)[0]:
                got = os.read(self.input, 1 << 20)
                assert got, "the browser has ended"
                self.pending += got
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.last += 1
        order = {"id": self.last, "method": method, "params": params}
        if self.session:
            order["sessionId"] = self.session
        os.write(self.out, json.dumps(order).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            if answer.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.complaints.append(answer["params"])

    def look(self, width, height=900, scheme="light"):
        """Sets the size of the window and what the reader prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression):
        return waiting.wait_for(lambda: self.value(expression), expression)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=9)

    def picture(self, path):
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self.out)
            os.close(self.input)
        self.process.terminate()
        self.process.wait(waiting.DEADLINE)
        waiting.discard(self.dir)
