# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions and allocations of a request, which a busy machine does not change.

    python3 instructions.py PROGRAM [--keep]

Runs a release program of quittance under callgrind, sends it the notifications of a simulator and then requests of
each kind, and prints the counts beside the kept ones in kept.json. With --keep it replaces those. The program's
cryptography is left out: callgrind emulates a processor without the instructions that it uses. The server's work by
the second is counted with the requests, so that a busy machine, on which they take longer, gives a few percent more."""

import concurrent.futures
import glob
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import base64
import collections

HERE = pathlib.Path(__file__).resolve().parent
KEPT = HERE / "kept.json"
DIFFERENCE = 0.05  # of a count, beyond which a run says so
NOTABLE = 0.01  # of a request's instructions, above which an unspecialised function is named
KNOWN, NEW, FIRST = 400, 80, 240  # customers: of notifications that are counted, five of six are about known ones
PRODUCT = "com.example.notes.pro.monthly"
LIBRARY = [  # the modules whose generic functions are named
    "AppStoreModel", "AppStoreTrust", "DeflateCoding", "DocumentPacking", "InputForms", "LedgerPostgres",
    "LedgerSQLite", "PurchaseLedger", "PurchaseServer", "ReceiptCoding", "Reconciliation", "quittance",
]
# Swift's names begin with $s. Of the others, these are BoringSSL's.
CRYPTOGRAPHY = re.compile(r"BoringSSL|ecp_nistz|sha(1|256|512)_|^bn_|^EC|^EVP|beeu")
ALLOCATIONS = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"}


# The feed

class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes the notifications of the simulator."""
    protocol_version = "HTTP/1.1"
    bodies = []

    def do_POST(self):
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Simulator:
    """An App Store simulator without faults, whose keys and customers are the same in each run."""

    def __init__(self, program, folder, start="2026-11-15T00:00:00Z"):
        self.receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.receiver.daemon_threads = True
        threading.Thread(target=self.receiver.serve_forever, daemon=True).start()
        self.folder = folder / "simulator"
        self.process = subprocess.Popen(
            [program, "simulate", "--kind", "--seed", "1", "--speed", "0", "--start", start, "--port", "0",
             "--sandbox-port", "0", "--control-port", "0", "--out", self.folder, "--notify",
             f"http://127.0.0.1:{self.receiver.server_port}/notifications/v2"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait("the simulator", self.process, (self.folder / "simulator.env").exists)
        control = json.loads((self.folder / "simulator.json").read_text())["control"].split("//")[1]
        self.connection = http.client.HTTPConnection(control.rstrip("/"), timeout=600)

    def ask(self, method, path, **members):
        self.connection.request(method, path, json.dumps(members) if members else None)
        response = self.connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise SystemExit(f"The simulator answers {response.status} to {path}: {body[:300]!r}")
        return body

    def buy(self, name):
        """Makes a customer who buys, and returns the customer's id at the app."""
        account = json.loads(self.ask("POST", "/customers", name=name))["customer"]["appAccountToken"]
        self.ask("POST", f"/customers/{name}/buy", product=PRODUCT, deliver=False)
        return account

    def sent(self, count):
        """The next `count` notifications."""
        wait(f"{count} notifications", self.process, lambda: len(Receiver.bodies) >= count, 600)
        taken, Receiver.bodies[:count] = Receiver.bodies[:count], []
        return taken

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.receiver.shutdown()


def wait(what, process, is_there, seconds=120):
    end = time.monotonic() + seconds
    while not is_there():
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"Waited in vain for {what}")
        time.sleep(0.05)


def free_port():
    """A port that nobody listens on. Linux gives listeners and connections different ports, if enough are free. Of a
    port of the latter, a connection that tries whether the server listens can be connected to itself."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def kind(body):
    payload = json.loads(body)["signedPayload"].split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["notificationType"]


def feed(simulator):
    """Notifications that fill the ledger, those to count, and the ids and a receipt of customers."""
    accounts = [simulator.buy(f"known{number}") for number in range(KNOWN)]
    before = simulator.sent(KNOWN)
    leaving = [number for number in range(KNOWN) if number % 5 > 2]
    for number in leaving:
        simulator.ask("POST", f"/customers/known{number}/cancel")
    simulator.ask("POST", "/clock/advance", days=9)
    later = collections.defaultdict(list)
    for body in simulator.sent(len(leaving) + KNOWN):
        later[kind(body)].append(body)
    accounts += [simulator.buy(f"new{number}") for number in range(NEW + FIRST)]
    new = simulator.sent(NEW + FIRST)
    fifth = KNOWN // 5
    mixed = (later["DID_RENEW"][:3 * fifth] + later["DID_CHANGE_RENEWAL_STATUS"][:fifth] + later["EXPIRED"][:fifth]
             + new[:NEW])
    random.Random(1).shuffle(mixed)
    receipt = base64.b64encode(simulator.ask("GET", "/customers/known0/receipt")).decode()
    return before, mixed, new[NEW:], accounts, json.dumps({"receipt-data": receipt}).encode()


# The server

def configuration(simulator, folder):
    """The simulator's, with the real clock and without an App Store to ask."""
    values = json.loads((simulator.folder / "quittance.json").read_text())
    for name in ["simulatorClock", "appStoreServer", "sandboxAppStoreServer", "webhookSecretFile", "webhookNetworks"]:
        values.pop(name, None)
    for app in values["apps"]:
        app.pop("inAppPurchaseKey", None)
    values["database"] = f"sqlite:{folder}/ledger.sqlite"
    path = folder / "quittance.json"
    path.write_text(json.dumps(values))
    return path


class Server:
    """The program under callgrind, which counts nothing until it is told to."""

    def __init__(self, program, configuration, folder, port):
        self.folder, self.port = folder, port
        # Valgrind writes into the mask of sigsuspend, which libdispatch keeps in read-only memory.
        library = folder / "sigsuspend.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "sigsuspend.c"], check=True)
        # Stops the reading of the program's symbols, which some versions of valgrind cannot read.
        bare = folder / "program"
        subprocess.run(["strip", "-g", "-o", bare, program], check=True)
        for bundle in pathlib.Path(program).parent.glob("*.resources"):
            shutil.copytree(bundle, folder / bundle.name)
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--compress-strings=no",
             "--compress-pos=no", f"--callgrind-out-file={folder}/counts", bare, "serve", "--config", configuration,
             "--port", str(port)],
            env=os.environ | {"LD_PRELOAD": str(library)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.dumps = 0
        try:
            wait("the server", self.process, self.is_alive, 600)
        except BaseException:
            self.end()
            raise

    def is_alive(self):
        try:
            return bool(self.opened(1))
        except OSError:
            return False

    def opened(self, count):
        """Connections that have had an answer, so that what a connection costs is not counted."""
        connections = [http.client.HTTPConnection("127.0.0.1", self.port, timeout=600) for _ in range(count)]
        for connection in connections:
            connection.request("GET", "/health/live")
            connection.getresponse().read()
        return connections

    def control(self, *words):
        subprocess.run(["callgrind_control", *words, str(self.process.pid)], check=True, capture_output=True)

    def count(self, requests, connections):
        """Sends requests, and returns the counts of one of them."""
        opened = self.opened(connections)
        self.control("-z")
        statuses = send(opened, requests)
        if statuses != {200: len(requests)}:
            raise SystemExit(f"Not all answers are 200: {statuses}")
        self.dumps += 1
        self.control("--dump")
        return Counts(glob.glob(f"{self.folder}/counts.{self.dumps}-*"), len(requests))

    def end(self):
        self.process.terminate()
        self.process.wait()


def request(method, path, body=None, key=None):
    return method, path, body, {"Authorization": f"Bearer {key}"} if key else {}


def send(connections, requests):
    """Sends requests over connections, which it closes, and counts the statuses of the answers."""
    waiting, statuses = iter(requests), collections.Counter()
    lock = threading.Lock()

    def run(connection):
        while True:
            with lock:
                following = next(waiting, None)
            if following is None:
                return connection.close()
            connection.request(*following)
            response = connection.getresponse()
            response.read()
            with lock:
                statuses[response.status] += 1

    with concurrent.futures.ThreadPoolExecutor(len(connections)) as pool:
        list(pool.map(run, connections))
    return statuses


# The counts

class Counts:
    """What callgrind counted, by function, for one of several equal requests."""

    def __init__(self, files, requests):
        self.own, self.calls = collections.Counter(), collections.Counter()
        self.callees = collections.defaultdict(collections.Counter)
        for file in files:
            self.read(file)
        for counter in [self.own, self.calls, *self.callees.values()]:
            for name in counter:
                counter[name] /= requests
        self.instructions = sum(count for name, count in self.own.items() if not is_cryptography(name))
        self.allocations = sum(self.calls[name] for name in ALLOCATIONS)

    def read(self, file):
        function = callee = None
        is_call = False
        with open(file, errors="replace") as lines:
            for line in lines:
                if line.startswith("fn="):
                    function = line[3:].rstrip()
                elif line.startswith("cfn="):
                    callee = line[4:].rstrip()
                elif line.startswith("calls="):
                    self.calls[callee.split("'")[0]] += int(line[6:].split()[0])
                    is_call = True
                elif line[0] in "0123456789+-*":
                    words = line.split()
                    if is_call:
                        self.callees[function][callee] += int(words[1])
                        is_call = False
                    elif len(words) > 1:
                        self.own[function] += int(words[1])

    def unspecialised(self):
        """The generic functions of the library that took a notable part, with what they let the runtime do."""
        costs = collections.Counter()
        for name, count in self.own.items():
            if module(name):
                runtime = sum(cost for callee, cost in self.callees[name].items()
                              if not module(callee) and is_runtime(callee))
                costs[name.split("'")[0]] += count + runtime
        notable = [(name, cost) for name, cost in costs.most_common() if cost > NOTABLE * self.instructions]
        if not notable:
            return []
        texts = subprocess.run(
            ["swift-demangle", "--compact", "--simplified"], input="\n".join(name for name, _ in notable),
            capture_output=True, text=True, check=True).stdout.splitlines()
        return [(text, cost) for text, (_, cost) in zip(texts, notable)
                if re.search(r"<[A-Z]\d?(, [A-Z]\d?)*>\(", text) and "specialized" not in text]


def is_cryptography(name):
    return not name.startswith("$s") and CRYPTOGRAPHY.search(name) is not None


def module(name):
    """The module of the library that a function is of; `None` for others."""
    places = [(name.find(f"{len(known)}{known}"), known) for known in LIBRARY] if name.startswith("$s") else []
    found = [(place, known) for place, known in places if place >= 0]
    # The first module in a name is that of the function, unless it is an extension of the standard library.
    return min(found)[1] if found else None


def is_runtime(name):
    """Whether a function is the runtime's, or one of the standard library that calls nothing of the library back."""
    return not re.search(r"swift_task|Encod|Decod|^\$s(SE|Se)|Tj$", name) and (
        name.startswith(("$s", "swift_", "mem", "__mem")) or name in ALLOCATIONS)


def versions(program):
    """The versions on which the counts depend."""
    def first(command, pattern):
        return re.search(pattern, subprocess.run(command, capture_output=True, text=True, check=True).stdout)[1]

    resolved = HERE.parent.parent / "Package.resolved"
    pins = json.loads(resolved.read_text())["pins"] if resolved.exists() else []
    grdb = [pin["state"].get("version") for pin in pins if pin["identity"] == "grdb.swift"]
    return {
        "swift": first(["swift", "--version"], r"Swift version ([\w.]+)"),
        "GRDB": grdb[0] if grdb else None,
        # The system's, which the program loads too.
        "SQLite": sqlite3.sqlite_version,
        "valgrind": first(["valgrind", "--version"], r"valgrind-(\S+)"),
    }


def measure(program, folder):
    simulator = Simulator(program, folder)
    try:
        before, mixed, first, accounts, receipt = feed(simulator)
        path = configuration(simulator, folder)
    finally:
        simulator.end()
    server = Server(program, path, folder, free_port())
    try:
        key = subprocess.run(
            [program, "keys", "create", "--name", "counting", "--role", "server", "--config", path],
            capture_output=True, text=True, check=True).stdout.strip()
        notify = lambda bodies: [request("POST", "/notifications/v2", body) for body in bodies]
        get = lambda form, count: [
            request("GET", form.format(accounts[number % len(accounts)]), key=key) for number in range(count)]
        send(server.opened(32), notify(before))
        server.control("-i", "on")
        return {
            "notification": server.count(notify(mixed), 32),
            "first purchase": server.count(notify(first), 32),
            "entitlement": server.count(get("/v1/customers/{}/entitlements/pro", 1000), 32),
            "customer": server.count(get("/v1/customers/{}", 400), 32),
            "page of 100 events": server.count(get("/v1/events?limit=100", 40), 8),
            "known receipt": server.count([request("POST", "/verifyReceipt", receipt)] * 160, 8),
        }
    finally:
        server.end()


def compare(counts, kept):
    """Prints the counts beside the kept ones; false if one of them differs."""
    is_same = True
    title = "thousand instructions outside cryptography"
    print(f"{title:44}{'now':>10}{'kept':>10}{'':>9}{'allocations':>13}{'kept':>8}")
    for name, count in counts.items():
        old = kept.get("requests", {}).get(name) or {}
        now = {"instructions": round(count.instructions), "allocations": round(count.allocations)}
        ratios = {key: now[key] / old[key] for key in now if old.get(key)}
        differs = any(abs(ratio - 1) > DIFFERENCE for ratio in ratios.values())
        is_same = is_same and not differs
        shown = f"{old['instructions'] / 1000:,.0f}" if old.get("instructions") else "-"
        ratio = f"{ratios['instructions']:.2f} ×" if "instructions" in ratios else ""
        print(f"{name:44}{now['instructions'] / 1000:10,.0f}{shown:>10}{ratio:>9}{now['allocations']:13,}"
              f"{old.get('allocations') or '-':>8}" + ("  beyond 5 %" if differs else ""))
        for text, cost in count.unspecialised():
            print(f"    not specialised, {cost / count.instructions:.1%}: {text[:120]}")
    return is_same


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--keep"]
    if len(arguments) != 1:
        raise SystemExit(__doc__)
    missing = [tool for tool in ["valgrind", "callgrind_control", "strip", "cc"] if not shutil.which(tool)]
    if missing:
        return print(f"Instructions are not counted, because {' and '.join(missing)} is missing (Debian: valgrind)")
    kept = json.loads(KEPT.read_text())
    with tempfile.TemporaryDirectory() as folder:
        counts = measure(os.path.abspath(arguments[0]), pathlib.Path(folder))
    found = versions(arguments[0])
    if kept.get("versions") != found:
        print(f"The kept numbers are of {kept.get('versions')}, these of {found}")
    is_same = compare(counts, kept)
    if "--keep" in sys.argv:
        kept = {"versions": found, "requests": {
            name: {"instructions": round(count.instructions), "allocations": round(count.allocations)}
            for name, count in counts.items()}}
        KEPT.write_text(json.dumps(kept, indent=2) + "\n")
    elif not is_same:
        print("If the difference is meant, make instructions KEEP=--keep writes these numbers to kept.json")


if __name__ == "__main__":
    main()
