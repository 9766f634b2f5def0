# SPDX-License-Identifier: Apache-2.0
"""A simulated App Store and a server as processes, commands, and a receiver of notifications."""

import contextlib
import json
import queue
import re
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# The longest wait for anything, in seconds. Only a fault of the simulator makes a test wait so long.
LONGEST_WAIT = 300


def eventually(found):
    """The first result of a function that is not None."""
    end = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < end:
        result = found()
        if result is not None:
            return result
        time.sleep(0.01)
    raise AssertionError("what a test waits for did not happen")


class Receiver:
    """A server that answers notifications with 200, and keeps their paths and signed payloads, bodies and headers."""

    def __init__(self):
        payloads = self.payloads = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                payloads.put((self.path, json.loads(body).get("signedPayload"), body, self.headers))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self):
        """Path and signed payload of the next notification that arrives."""
        return self.payloads.get(timeout=LONGEST_WAIT)[:2]


class Simulator:
    """`quittance simulate` on free ports, without faults; its clock stands still."""

    def __init__(self, program, *options):
        self.folder = Path(tempfile.mkdtemp(dir="."))
        arguments = ["--kind", "--speed", "0", "--seed", "1", "--out", str(self.folder), *options]
        for name in ["--port", "--sandbox-port", "--control-port"]:
            arguments += [name, "0"]
        log = open(self.folder / "log.txt", "w")
        self.process = subprocess.Popen([program, "simulate", *arguments], stdout=log, stderr=log)

        def is_ready():
            if self.process.poll() is not None:
                raise AssertionError((self.folder / "log.txt").read_text())
            return (self.folder / "simulator.env").exists() or None

        eventually(is_ready)
        self.values = json.loads((self.folder / "simulator.json").read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    @property
    def roots(self):
        """The roots as DER: of tokens, and of receipts."""
        return [(self.folder / name).read_bytes() for name in ["root.cer", "receipt-root.cer"]]

    def get_bytes(self, path):
        with urllib.request.urlopen(self.values["control"] + path) as response:
            return response.read()

    def get(self, path):
        return json.loads(self.get_bytes(path))

    def post(self, path, **members):
        request = urllib.request.Request(
            self.values["control"] + path, json.dumps(members).encode(), method="POST")
        try:
            with urllib.request.urlopen(request) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {members}: {error.read().decode()}") from error

    def now(self):
        """The virtual time in milliseconds."""
        return self.get("/clock")["now"]

    def add(self, name, **members):
        return self.post("/customers", name=name, **members)

    def buy(self, name, product, **members):
        """Buys a product of the example's catalogue, and returns the transaction id."""
        product = self.product(product)
        return self.post(f"/customers/{name}/buy", product=product, **members)["transactionId"]

    def product(self, name):
        return f"{self.values['bundleId']}.{name}"

    def advance(self, **members):
        return self.post("/clock/advance", **members)

    def receipt(self, name):
        return self.get_bytes(f"/customers/{name}/receipt")

    def orders(self, name):
        """The order ids of all transactions of a customer."""
        customer = self.get(f"/customers/{name}")
        transactions = customer["purchases"] + sum((one["transactions"] for one in customer["subscriptions"]), [])
        return [one["orderId"] for one in transactions if one.get("orderId")]


class Server:
    """`quittance serve` on a free port."""

    def __init__(self, program, *options):
        arguments = [program, "serve", "--port", "0", *options]
        self.lines = []
        self.process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            self.lines.append(line)
            if found := re.search(r'listens" address=(http://[0-9.]+:[0-9]+)', line):
                self.address = found[1]
                # The server would wait if nobody read its log.
                threading.Thread(target=self.read, daemon=True).start()
                return
        raise AssertionError("".join(self.lines))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()

    def read(self):
        with contextlib.suppress(ValueError):  # The end of the test closes the file.
            self.lines.extend(self.process.stdout)
