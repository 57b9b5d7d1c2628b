"""A headless Chromium, driven over its debugging pipe: no driver program, no port, no packages."""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = float(os.environ.get("EASYDEL_BROWSER_PATIENCE", "60"))  # seconds for one answer; a busy machine is slow
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
KEYS = {"Enter": (13, "\r"), "Escape": (27, None), "ArrowUp": (38, None), "Tab": (9, None)}


def program():
    """The browser of this machine, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class BrowserError(Exception):
    pass


class Chromium:
    """The browser. Messages are JSON with a NUL after each; it reads from descriptor 3 and writes to 4."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        pipes = [*os.pipe(), *os.pipe()]
        read_theirs, self.write_fd, self.read_fd, write_theirs = [fcntl.fcntl(p, fcntl.F_DUPFD_CLOEXEC, 10) for p in pipes]
        for pipe in pipes:
            os.close(pipe)

        def connect():
            os.dup2(read_theirs, 3)
            os.dup2(write_theirs, 4)

        self.log = open(pathlib.Path(self.profile.name) / "log.txt", "w+")
        # Root may not use the sandbox, and containers have a small /dev/shm.
        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--force-color-profile=srgb", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"],
            close_fds=False, preexec_fn=connect, stdout=self.log, stderr=self.log)
        os.close(read_theirs)
        os.close(write_theirs)
        self.next_id = 0
        self.buffer = b""
        self.events = []

    def close(self):
        with contextlib.suppress(BrowserError, OSError):
            self.call("Browser.close")
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read_fd)
        os.close(self.write_fd)
        self.log.close()
        self.profile.cleanup()

    def call(self, method, session=None, **parameters):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._read(deadline, method)
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _read(self, deadline, method):
        while b"\0" not in self.buffer:
            if not select.select([self.read_fd], [], [], max(0, deadline - time.monotonic()))[0]:
                raise BrowserError(f"{method}: no answer within {PATIENCE} s")
            piece = os.read(self.read_fd, 1 << 20)
            if not piece:
                self.log.seek(0)
                raise BrowserError(f"{method}: the browser ended. {self.log.read()[-2000:]}")
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)


class Page:
    """A tab with storage of its own."""

    def __init__(self, browser, url, width=1280, height=800, dark=False):
        self.browser = browser
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.prefer("dark" if dark else "light")
        self.open(url)

    def call(self, method, **parameters):
        return self.browser.call(method, session=self.session, **parameters)

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)

    def open(self, url):
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise BrowserError(f"{url}: {failed}")
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def prefer(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def js(self, expression):
        """The value of an expression; a promise is waited for."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in got:
            details = got["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]) + f"\nin: {expression}")
        return got["result"].get("value")

    def until(self, condition):
        """Waits until a condition of the page holds."""
        return self.js(f"""new Promise((resolve, reject) => {{
          const start = performance.now();
          const look = () => {{
            let value;
            try {{ value = ({condition}); }} catch (error) {{ value = false; }}
            if (value) resolve(value);
            else if (performance.now() - start > {PATIENCE * 500}) reject(new Error("never: " + {json.dumps(condition)}));
            else setTimeout(look, 10);
          }};
          look();
        }})""")

    def click(self, selector):
        """A click of the mouse in the middle of the element, which must be what is seen there."""
        at = self.js(f"""(() => {{
          const node = document.querySelector({json.dumps(selector)});
          if (!node) throw new Error("no element " + {json.dumps(selector)});
          node.scrollIntoView({{block: "nearest"}});
          const r = node.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;
          const seen = document.elementFromPoint(x, y);
          if (!node.contains(seen)) throw new Error({json.dumps(selector)} + " is under " + (seen && (seen.id || seen.className || seen.tagName)));
          return {{x, y}};
        }})()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="none" if kind == "mouseMoved" else "left", clickCount=1, **at)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, shift=False):
        code, text = KEYS[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, file):
        self.js("document.fonts.ready.then(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))))")
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(file).write_bytes(base64.b64decode(data))

    def _events(self, method):
        return [e["params"] for e in self.browser.events if e.get("method") == method and e.get("sessionId") == self.session]

    def requested(self):
        """The addresses that this page asked for, or tried to."""
        return [e["request"]["url"] for e in self._events("Network.requestWillBeSent")]

    def complaints(self):
        """Exceptions that nobody caught, and what the content policy refused."""
        thrown = [e["exceptionDetails"].get("exception", {}).get("description", "") or e["exceptionDetails"]["text"]
                  for e in self._events("Runtime.exceptionThrown")]
        return thrown + [e["entry"]["text"] for e in self._events("Log.entryAdded") if e["entry"]["source"] in ("security", "javascript")]
