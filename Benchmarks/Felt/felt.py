# SPDX-License-Identifier: Apache-2.0
"""Measures what a user of the server feels, and what its machine pays while little happens.

    python3 felt.py PROGRAM

Runs a release program of quittance with ledgers in files, sends it the notifications of a simulator over loopback, and
prints tables: how long a notification and an entitlement read take, memory, the time of a start, CPU time while nothing
happens, and the bytes of a year. Linux only, some ten minutes. Times include this client's own, some 0.1 ms."""

import concurrent.futures
import datetime
import http.server
import json
import math
import os
import pathlib
import platform
import random
import re
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Instructions"))
import instructions  # the feed, so that both measure the same notifications

SINGLE, PACED = 2000, 3000  # requests one at a time, and those at a rate
RATE = 50  # a second
KNOWN = (SINGLE + PACED) * 5 // 6  # customers who renew: of notifications that are timed, five of six are about them
NOTIFICATIONS, PURCHASES = 10_000, 10_000  # in the ledger when memory is read, and when the server starts again
SUBSCRIBERS = 200  # of a year
APPS = 20
STARTS = 5
SETTLING, IDLE = 30, 60  # seconds


# The feed

def start(days):
    """A time so many days ago, as the simulator reads it."""
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def feed(program, folder):
    """Notifications in their order: purchases, then renewals and further purchases to time, then purchases for the
    ledger of a start; and a simulator, which has ended, and the ids of the customers."""
    simulator = instructions.Simulator(program, folder, start(10))
    try:
        accounts = [simulator.buy(f"known{number}") for number in range(KNOWN)]
        before = simulator.sent(KNOWN)
        simulator.ask("POST", "/clock/advance", days=9)
        timed = simulator.sent(KNOWN)
        for number in range(PURCHASES - KNOWN):
            simulator.buy(f"new{number}")
        new = simulator.sent(PURCHASES - KNOWN)
    finally:
        simulator.end()
    bought = SINGLE + PACED - KNOWN
    timed += new[:bought]
    random.Random(1).shuffle(timed)
    return before, timed, new[bought:], accounts, simulator


def year(program, folder):
    """The notifications of a year with subscribers who pay each month, and their simulator, which has ended."""
    folder.mkdir()
    simulator = instructions.Simulator(program, folder, start(367))
    try:
        for number in range(SUBSCRIBERS):
            simulator.buy(f"{number}")
        for _ in range(12):
            simulator.ask("POST", "/clock/advance", hours=730)
    finally:
        simulator.end()
    taken, instructions.Receiver.bodies[:] = instructions.Receiver.bodies[:], []
    return taken, simulator


class EmptyStore(http.server.BaseHTTPRequestHandler):
    """An App Store that has sent no notification."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b'{"notificationHistory":[],"hasMore":false}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


# The server

class Server:
    """The program, ready to be asked."""

    def __init__(self, program, configuration):
        self.port = instructions.free_port()
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            [program, "serve", "--config", configuration, "--port", str(self.port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.is_ready():
            if self.process.poll() is not None or time.perf_counter() > begin + 60:
                raise SystemExit("The server does not become ready")
            time.sleep(0.001)
        self.seconds = time.perf_counter() - begin

    def is_ready(self):
        try:
            return Connection(self.port).ask(get("/health/ready")) == 200
        except OSError:
            return False

    @property
    def memory(self):
        """The process's memory in MiB: all, and without the pages of files."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return [int(re.search(rf"{name}:\s+(\d+)", text)[1]) / 1024 for name in ["VmRSS", "RssAnon"]]

    @property
    def cpu_time(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        # Fields 14 and 15 of proc_pid_stat(5), counted after the name, which may hold any character.
        return sum(map(int, text.rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.terminate()
        self.process.wait()


class Connection:
    """A connection of a client that sends a request in a single piece."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request):
        """Sends a request, reads the whole answer, and returns its status."""
        self.socket.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.received()
        head, body = answer.split(b"\r\n\r\n", 1)
        missing = int(re.search(rb"(?i)\ncontent-length: *(\d+)", head)[1]) - len(body)
        while missing > 0:
            missing -= len(self.received())
        return int(head.split()[1])

    def received(self):
        piece = self.socket.recv(65536)
        if not piece:
            raise ConnectionError("The server closed the connection")
        return piece


def get(path, key=None):
    credentials = f"Authorization: Bearer {key}\r\n" if key else ""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{credentials}\r\n".encode()


def post(body):
    return (f"POST /notifications/v2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def expect(status):
    if status != 200:
        raise SystemExit(f"An answer is {status}")


# The measurements

def one_at_a_time(port, requests):
    """The milliseconds of requests on a single connection."""
    connection, times = Connection(port), []
    for request in requests:
        begin = time.perf_counter()
        expect(connection.ask(request))
        times.append((time.perf_counter() - begin) * 1000)
    return times


def at_a_rate(port, requests, rate, connections=16):
    """The milliseconds of requests at a rate, each from the moment at which it was to be sent, so that a slow answer
    does not make the next request wait unseen."""
    begin = time.perf_counter() + 0.1

    def run(first):
        connection, times = Connection(port), []
        for number in range(first, len(requests), connections):
            due = begin + number / rate
            # A sleep ends a little late.
            time.sleep(max(0, due - time.perf_counter() - 0.0005))
            while time.perf_counter() < due:
                pass
            expect(connection.ask(requests[number]))
            times.append((time.perf_counter() - due) * 1000)
        return times

    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        return [milliseconds for times in pool.map(run, range(connections)) for milliseconds in times]


def send(port, bodies, connections=8):
    """Sends notifications as fast as the server takes them."""
    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        list(pool.map(lambda first: one_at_a_time(port, list(map(post, bodies[first::connections]))),
                      range(connections)))


def starts(program, configuration, ledger=None):
    """The seconds of some starts; of a ledger that each of them makes, if its file is given."""
    times = []
    for _ in range(STARTS):
        if ledger:
            remove(ledger)
        server = Server(program, configuration)
        times.append(server.seconds)
        server.end()
    return times


def remove(ledger):
    for file in ledger.parent.glob(ledger.name + "*"):
        file.unlink()


def size(ledger):
    """The bytes of a ledger whose server has ended, which moved all of the log into the file."""
    return sum(file.stat().st_size for file in [ledger, ledger.with_name(ledger.name + "-wal")] if file.exists())


def idle_minutes(program, simulator, folder):
    """The CPU seconds of a minute in which nothing happens, with one app and with many. Each app has a key, by which
    the server asks the App Store what it missed."""
    store = http.server.ThreadingHTTPServer(("127.0.0.1", 0), EmptyStore)
    store.daemon_threads = True
    threading.Thread(target=store.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{store.server_port}"
    app = json.loads((simulator.folder / "quittance.json").read_text())["apps"][0]
    seconds = []
    for count in [1, APPS]:
        path = folder_configuration(simulator, folder / f"idle{count}")
        values = json.loads(path.read_text())
        values["apps"] = [app | {"bundleId": f"{app['bundleId']}.n{number}"} for number in range(count)]
        path.write_text(json.dumps(values | {"appStoreServer": address, "sandboxAppStoreServer": address}))
        server = Server(program, path)
        time.sleep(SETTLING)
        before = server.cpu_time
        time.sleep(IDLE)
        seconds.append((server.cpu_time - before) * 60 / IDLE)
        server.end()
    store.shutdown()
    return seconds


def folder_configuration(simulator, folder):
    folder.mkdir(exist_ok=True)
    return instructions.configuration(simulator, folder)


def flush(folder, count=500):
    """The milliseconds of a flush of 4 KB to the disk, without which no notification is acknowledged."""
    times = []
    with open(folder / "flush", "wb", buffering=0) as file:
        for _ in range(count):
            begin = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - begin) * 1000)
    return times


def bytes_of_year(program, folder):
    """The bytes a subscriber of a year's ledger, without those of an empty one, and the notifications a subscriber."""
    notifications, simulator = year(program, folder)
    path, ledger = instructions.configuration(simulator, folder), folder / "ledger.sqlite"
    Server(program, path).end()
    empty = size(ledger)
    server = Server(program, path)
    send(server.port, notifications)
    server.end()
    return (size(ledger) - empty) / SUBSCRIBERS, len(notifications) / SUBSCRIBERS


def measure(program, folder):
    """The rows of both tables: times, and all else."""
    say("Signing the notifications …")
    before, timed, further, accounts, simulator = feed(program, folder)
    path, ledger = instructions.configuration(simulator, folder), folder / "ledger.sqlite"
    say("Starting with a new ledger …")
    new = starts(program, path, ledger)
    remove(ledger)
    server = Server(program, path)
    time.sleep(SETTLING)
    resting = server.memory
    say("Sending the first purchases …")
    send(server.port, before)
    key = subprocess.run(
        [program, "keys", "create", "--name", "felt", "--role", "server", "--config", path],
        capture_output=True, text=True, check=True).stdout.strip()
    random.Random(2).shuffle(accounts)
    reads = [get(f"/v1/customers/{accounts[number % KNOWN]}/entitlements/pro", key) for number in range(PACED)]
    notifications = list(map(post, timed))
    say("Timing notifications and reads …")
    times = {
        "a notification, one at a time": one_at_a_time(server.port, notifications[:SINGLE]),
        f"a notification, {RATE} a second": at_a_rate(server.port, notifications[SINGLE:], RATE),
        "an entitlement read, one at a time": one_at_a_time(server.port, reads[:SINGLE]),
        f"an entitlement read, {RATE} a second": at_a_rate(server.port, reads, RATE),
        "a flush of 4 KB to the disk": flush(folder),
    }
    rest = NOTIFICATIONS - len(before) - len(timed)
    send(server.port, further[:rest])
    time.sleep(SETTLING)
    after = server.memory
    send(server.port, further[rest:])
    server.end()
    say("Starting with the full ledger …")
    full = starts(program, path)
    say("Measuring a year …")
    bytes_kept, notified = bytes_of_year(program, folder / "year")
    say("Doing nothing for some minutes …")
    idle = idle_minutes(program, simulator, folder)
    rows = {
        "memory at rest after the start": mebibytes(resting),
        f"… after {NOTIFICATIONS:,} notifications": mebibytes(after),
        "from the start until ready, with a new ledger": milliseconds(new),
        f"… with a ledger of {PURCHASES:,} purchases": milliseconds(full),
        "CPU time of an idle minute, one app": f"{idle[0]:.2f} s",
        f"… {APPS} apps": f"{idle[1]:.2f} s",
        f"on disk, a monthly subscriber's year of {notified:.1f} notifications": f"{bytes_kept / 1024:.1f} KiB",
    }
    return times, rows


def mebibytes(memory):
    return "{:.0f} MiB, of which {:.0f} MiB are not pages of files".format(*memory)


def milliseconds(seconds):
    least, middle, most = (part * 1000 for part in [min(seconds), statistics.median(seconds), max(seconds)])
    return f"{middle:.0f} ms ({least:.0f} to {most:.0f})"


def percentile(times, share):
    return sorted(times)[math.ceil(share * len(times)) - 1]


def processor():
    """The processor's name, and what tells apart those of the same name."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.MULTILINE))
    numbers = ", ".join(f"{name} {found[name]}" for name in ["cpu family", "model"] if name in found)
    return f"{found.get('model name', platform.machine())} ({numbers}), {os.cpu_count()} cores"


def say(text):
    print(text, file=sys.stderr)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    program = os.path.abspath(sys.argv[1])
    # On the project's disk, since /tmp may be in memory.
    disk = HERE.parent / ".build"
    disk.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=disk) as folder:
        times, rows = measure(program, pathlib.Path(folder))
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{processor()}, Linux {platform.release()}, {version}, SQLite {sqlite3.sqlite_version}, "
          f"Python {platform.python_version()}\n")
    print("| what | p50 | p99 | longest |\n|---|---:|---:|---:|")
    for what, all_times in times.items():
        cells = [percentile(all_times, 0.5), percentile(all_times, 0.99), max(all_times)]
        print(f"| {what} | " + " | ".join(f"{cell:.2f} ms" for cell in cells) + " |")
    print("\n| what | measured |\n|---|---:|")
    for what, measured in rows.items():
        print(f"| {what} | {measured} |")


if __name__ == "__main__":
    main()
