# SPDX-License-Identifier: Apache-2.0
"""A browser without a window, controlled over the DevTools protocol of Chromium, which runs the simulator's page."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request

from simulator import LONGEST_WAIT, eventually
from websocket import create_connection

PROGRAMS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


def program():
    """The path of a browser, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


def missing():
    """Why there is no browser, or None. Installs Debian's if it is missing and may be installed."""
    if program():
        return None
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return "there is no Chromium, and this user cannot install it with apt-get"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in [["update"], ["install", "--yes", "--no-install-recommends", "chromium"]]:
        result = subprocess.run(["apt-get", "-qq", *arguments], capture_output=True, text=True, env=environment)
        if result.returncode != 0:
            return f"apt-get {arguments[0]}: {result.stderr.strip()[-300:]}"
    return None if program() else "the package chromium has no program"


class Page:
    """A page in a browser of its own. Clicks are those of a mouse, and dialogs are answered as a person would."""

    def __init__(self, url):
        self.folder = tempfile.mkdtemp(dir=".")
        self.log = open(f"{self.folder}/browser.txt", "w+")
        self.process = subprocess.Popen(
            [program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-extensions", "--window-size=1400,1000",
             "--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={self.folder}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=self.log)
        port = eventually(self.port)
        pages = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json"))
        address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        self.socket = create_connection(address, timeout=LONGEST_WAIT)
        self.sent = 0
        # What the next dialogs are answered, and what went wrong on the page.
        self.answers, self.errors = [], []
        for domain in ["Page", "Runtime", "Log"]:
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && document.querySelectorAll('#buy option').length > 0")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def port(self):
        assert self.process.poll() is None, open(self.log.name).read()
        for line in open(self.log.name):
            if line.startswith("DevTools listening on ws://"):
                return line.split(":")[2].split("/")[0]

    def call(self, method, **parameters):
        """Calls a method of the protocol, and returns its result. Meanwhile it handles what the page reports."""
        self.sent += 1
        number = self.sent
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message}"
                return message["result"]
            self.handle(message)

    def handle(self, message):
        name, parameters = message.get("method"), message.get("params", {})
        if name == "Page.javascriptDialogOpening":
            # The result of the call comes later: nobody waits for it.
            self.sent += 1
            self.socket.send(json.dumps({"id": self.sent, "method": "Page.handleJavaScriptDialog", "params": {
                "accept": True, "promptText": self.answers.pop(0)}}))
        elif name == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"])
        elif name == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"])

    def value(self, expression):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, f"{expression}: {result}"
        return result["result"].get("value")

    def wait_for(self, expression):
        end = time.monotonic() + LONGEST_WAIT
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < end, f"{expression}: {self.value('document.body.innerText')}"
            time.sleep(0.02)

    def click(self, element):
        """Clicks in the middle of an element: an expression. Clicks again if the page put another element there just
        then."""
        hit = False
        while not hit:
            box = self.value(f"""(() => {{
                const found = {element};
                if (!found) return null;
                window.hit = false;
                document.addEventListener("click", event => window.hit = event.target.isEqualNode(found),
                    {{capture: true, once: true}});
                found.scrollIntoView({{block: "center"}});
                const box = found.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()""")
            assert box, f"there is no {element}: {self.value('document.body.innerText')}"
            for kind in ["mousePressed", "mouseReleased"]:
                self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)
            hit = self.value("window.hit")

    def type(self, element, text):
        """Types into a field: an expression."""
        self.click(element)
        self.call("Input.insertText", text=text)
