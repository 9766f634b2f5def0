# SPDX-License-Identifier: Apache-2.0
"""Uses the console of `quittance demo` in a browser, as a person does. `console.py PROGRAM CHECK [FOLDER]` makes one of
the checks below, and prints a JSON document about it. With a folder, `views` leaves its screenshots there."""

import base64
import contextlib
import http.client
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import browser
from simulator import LONGEST_WAIT, eventually

TALL, WIDTHS, SCHEMES = 900, [1280, 360], ["light", "dark"]


def missing():
    """Why there is no browser with its driver, or None. Installs Debian's if they are missing and may be installed."""
    if reason := browser.missing():
        return reason
    if shutil.which("chromedriver"):
        return None
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return "there is no chromedriver, and this user cannot install it with apt-get"
    arguments = ["apt-get", "-qq", "install", "--yes", "--no-install-recommends", "chromium-driver"]
    result = subprocess.run(
        arguments, capture_output=True, text=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    return None if shutil.which("chromedriver") else f"apt-get install: {result.stderr.strip()[-300:]}"


def request(url, key=None, body=None, method=None):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method)) as response:
        return json.loads(response.read())


class Demo:
    """`quittance demo` on free ports, whose clock stands still, and the keys of each role."""

    def __init__(self, program):
        self.program, self.folder = program, Path(tempfile.mkdtemp(dir="."))
        log = open(self.folder / "log.txt", "w+")
        ports = ["--port", "--control-port", "--production-port", "--sandbox-port", "--console-port"]
        self.process = subprocess.Popen(
            [program, "demo", "--speed", "0", "--out", str(self.folder), *sum([[port, "0"] for port in ports], [])],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def address():
            text = (self.folder / "log.txt").read_text()
            assert self.process.poll() is None, text
            # The last line of what a demo prints.
            found = re.search(r"[Cc]onsole.*?(http://[0-9.]+:[0-9]+)", text) if "Ctrl-C" in text else None
            return found and found[1]

        self.console = eventually(address)
        self.control = json.loads((self.folder / "simulator.json").read_text())["control"]
        self.server = self.key("server")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def command(self, *arguments):
        arguments = [self.program, *arguments, "--config", str(self.folder / "quittance.json")]
        return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.strip()

    def key(self, role):
        return self.command("keys", "create", "--name", f"{role} of Eva", "--role", role)

    def revoke(self, key):
        self.command("keys", "revoke", key)

    def ask(self, path, body=None, method=None):
        return request(self.console + path, self.server, body, method)

    def play(self, path, **members):
        return request(self.control + path, body=members)

    def populate(self):
        """Customers for the questions of support, over four months."""
        for name, environment in [("bert", "Production"), ("cleo", "Production"), ("dora", "Production"),
                                  ("tess", "Sandbox")]:
            token = self.play("/customers", name=name, environment=environment)["customer"]["appAccountToken"]
            self.ask(f"/v1/customers/{token}/attributes", {"attributes": {"made": {"value": "yes"}}}, "PATCH")
            self.ask(f"/v1/customers/{token}/aliases", {"alias": name})
        self.buy("bert", "pro.monthly")
        self.buy("dora", "lifetime")
        self.buy("tess", "pro.monthly")
        self.buy("anna", "coins")
        self.advance(93)
        self.play("/customers/bert/billing/break")
        self.play("/customers/dora/refund")
        self.advance(20)
        self.buy("anna", "pro.yearly")
        self.buy("cleo", "pro.monthly")
        self.advance(8)
        self.play("/customers/cleo/cancel")
        self.advance(3)
        self.ask("/v1/customers/anna/attributes", {"attributes": {"$email": {"value": "Anna@Example.com"}}}, "PATCH")

    def buy(self, name, product):
        self.play(f"/customers/{name}/buy", product=f"com.example.notes.{product}")

    def advance(self, days):
        self.play("/clock/advance", days=days)


class Altering:
    """A server that forwards to the console, and changes the JSON of its answers."""

    def __init__(self, console, change):
        host = urllib.parse.urlsplit(console).netloc

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                connection = http.client.HTTPConnection(host)
                keys = {name: value for name, value in self.headers.items() if name == "Authorization"}
                connection.request("GET", self.path, headers=keys)
                response = connection.getresponse()
                body = response.read()
                if self.path.startswith("/v1/") and response.status == 200:
                    body = json.dumps(change(self.path, json.loads(body))).encode()
                self.send_response(response.status)
                for name, value in response.getheaders():
                    if name not in ["Content-Length", "Connection", "Transfer-Encoding", "Date", "Server"]:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Console:
    """The console in a browser without a window."""

    def __init__(self, url):
        # These are here, and not above, because this script says itself that the browser is missing.
        from selenium import webdriver
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys

        self.by, self.keys, self.url = By, Keys, url + "/"
        options = webdriver.ChromeOptions()
        options.binary_location = browser.program()
        for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        self.driver.set_script_timeout(LONGEST_WAIT)
        # The statuses of refusals that a check provokes: the browser logs them.
        self.refused = []
        self.look()

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        try:
            if not failure:
                self.inspect()
        finally:
            self.driver.quit()

    def inspect(self):
        """Fails if the browser logged anything but the refusals that a check provokes, or a request went elsewhere."""
        for entry in self.driver.get_log("browser"):
            assert any(f"status of {one}" in entry["message"] for one in self.refused), entry
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                assert url.startswith((self.url, "data:", "chrome:", "about:")), url

    def look(self, width=1280, scheme="light", medium=""):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": TALL, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "media": medium, "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def value(self, script, *arguments):
        return self.driver.execute_script(f"return {script}", *arguments)

    def wait(self, script, *arguments):
        end = time.monotonic() + LONGEST_WAIT
        while not (found := self.value(script, *arguments)):
            assert time.monotonic() < end, f"{script} {arguments}: {self.text()[:3000]}"
            time.sleep(0.02)
        return found

    def text(self):
        return self.value("document.body.innerText")

    def shows(self, *words):
        for word in words:
            self.wait("document.body.innerText.includes(arguments[0])", word)

    def settle(self):
        self.wait("!document.querySelector('.wait, [aria-busy=true]')")

    def press(self, label, within="body"):
        """Clicks a button by its label."""
        self.wait("""(() => {
            const found = [...document.querySelectorAll(arguments[1] + " button")].find((one) =>
                one.textContent === arguments[0] && !one.disabled && one.checkVisibility());
            if (found) found.click();
            return Boolean(found);
        })()""", label, within)

    def fill(self, name, text, kind="field"):
        """Types into a field, or chooses what has the text."""
        element = self.wait("document.getElementById(arguments[0])", f"{kind}-{name}" if kind else name)
        if element.tag_name == "select":
            options = element.find_elements(self.by.TAG_NAME, "option")
            next(one for one in options if text in one.get_attribute("textContent")).click()
        elif element.get_attribute("type") == "checkbox":
            element.click()
        else:
            element.clear()
            element.send_keys(text)

    def sign_in(self, key):
        self.driver.get(self.url)
        self.fill("key", key, None)
        self.press("Sign in")

    def open(self, key):
        self.sign_in(key)
        self.wait("document.getElementById('find')")
        self.settle()

    def find(self, words, *shown):
        self.fill("find", words, None)
        self.press("Find")
        self.shows(*shown)
        self.settle()

    def title(self):
        return self.value("document.querySelector('h1').textContent")

    def done(self, undo=None):
        """Waits for the result of a panel, undoes it, and closes the panel."""
        self.wait("document.querySelector('dialog .done, dialog .failure .problem')")
        result = self.value("document.querySelector('dialog').innerText")
        assert "Done." in result, result
        if undo:
            self.press(undo, "dialog")
            self.shows("It is undone.")
        self.press("Close", "dialog")
        self.settle()
        return result

    def picture(self, path):
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        image = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        Path(path).write_bytes(base64.b64decode(image["data"]))

    def is_wide(self):
        """Whether the page is wider than its window."""
        return self.value("document.documentElement.scrollWidth > document.documentElement.clientWidth")

    def violations(self):
        """What axe-core finds on the page."""
        found = importlib.util.find_spec("axe_playwright_python").submodule_search_locations[0]
        source = Path(found, "axe.min.js").read_text()
        # Not as an element: the page permits no script but its own.
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": source})
        return self.driver.execute_async_script("""const done = arguments[0];
            axe.run().then((found) => done(found.violations.map((one) => [one.id, one.nodes[0].html])));""")


# MARK: - Checks


def visit(demo, console):
    """What a person does, from signing in to signing out."""
    console.refused = [401, 404]
    key = demo.key("support")
    console.sign_in("qt_wrong")
    console.shows("does not accept this key")
    console.open(key)
    console.shows("Newest customers", "support of Eva")

    # Each kind of id finds anna.
    ids = demo.ask("/v1/customers/anna")
    transaction = ids["purchases"][-1]
    order = request(f"{demo.control}/customers/anna")["subscriptions"][0]["transactions"][0]["orderId"]
    for words in ["anna", ids["ids"][0], "anna@example.COM", "ANNA@Example.com", transaction["transactionId"],
                  transaction["originalTransactionId"]]:
        console.find("nobody at all", "Searched for")
        console.find(words, "What you can do")
        assert console.title() == "anna", f"{words}: {console.title()}"
    # A beginning that only one has opens the customer, and another one lists them.
    console.find("cle", "What you can do")
    assert console.title() == "cleo"
    demo.ask("/v1/customers/dora/aliases", {"alias": "annex"})
    console.find("an", "Customers")
    console.press("anna", "main")
    console.shows("What you can do")
    console.find("anna@", "Type the whole e-mail address.")
    console.find("MV5G8XK2PQ", "Is it an order id?")
    console.press("Ask the App Store")
    console.shows("No such order")
    console.find(order, "Is it an order id?")
    console.press("Ask the App Store")
    console.shows("What you can do")
    assert console.title() == "anna"

    # The words and the time line are those of the server.
    answer = demo.ask("/v1/support/anna")["items"][0]
    bands = marks = 0
    for one in answer["environments"]:
        console.shows(*one["sentences"])
        bands += sum(len(entry.get("bands", [])) for entry in one["timeline"])
        marks += sum(len(entry.get("marks", [])) for entry in one["timeline"])
    rows = console.value("[...document.querySelectorAll('figure tbody tr')].length")
    assert rows == bands + marks, (rows, bands, marks)
    drawn = set(console.value("[...document.querySelectorAll('figure [data-state]')].map((one) => one.dataset.state)"))
    assert drawn == {band["state"] for one in answer["environments"] for entry in one["timeline"]
                     for band in entry.get("bands", [])}, drawn

    # A document, decoded and with its checks.
    console.press("Document", "main")
    console.shows("✓ passed", "originalTransactionId")
    console.press("Close", "dialog")

    # A gift, its event, its entry on the audit list, and its end.
    console.find("dora", "What you can do")
    console.shows("Nothing.")
    console.press("Give days…")
    console.fill("entitlement", "pro")
    console.fill("until", "0d")
    console.shows("Type a number of days")
    console.fill("until", "30d")
    console.fill("reason", "an outage")
    # A name of blanks is none.
    console.fill("by", "  ")
    console.press("Give days", "dialog")
    console.wait("document.activeElement.id === 'field-by'")
    console.fill("by", "Eva")
    console.shows("dora may use pro until", "at once and without paying")
    console.press("Give days", "dialog")
    console.done()
    console.shows("gift: made", "an outage", "runs", "gave pro until")
    assert demo.ask("/v1/customers/dora/entitlements/pro")["isActive"]
    console.press("Audit")
    console.shows("gave pro", "Eva", "an outage")
    console.press("dora", "main")
    console.shows("What you can do")
    console.press("End…")
    # The tab remembers the name.
    assert console.value("document.getElementById('field-by').value") == "Eva"
    console.fill("reason", "it is over")
    console.press("End a gift", "dialog")
    console.done("Give it again")
    console.press("End a gift…")
    console.fill("reason", "at last")
    console.press("End a gift", "dialog")
    console.done()
    assert not demo.ask("/v1/customers/dora/entitlements/pro")["isActive"]

    # The way back, and nothing of it in the address.
    console.driver.back()
    console.wait("document.querySelector('h1')?.textContent === 'Audit'")
    assert console.driver.current_url == console.url, console.driver.current_url
    console.press("Sign out")
    console.shows("forgotten the key")
    assert console.value("sessionStorage.length + localStorage.length + document.cookie.length") == 0
    console.driver.refresh()
    console.wait("document.getElementById('key')")
    return {"orders": [order], "bands": bands, "marks": marks}


def panels(demo, console):
    """Every panel, and what it undoes. Each asks for a reason and a name, which are on the audit list once."""
    console.refused = [404]
    console.open(demo.key("server"))
    pro = "/v1/customers/anna/entitlements/pro"
    done = []

    def act(title, undo=None, during=None, twice=False, **fields):
        console.press(title + "…")
        who, why = f"Eva {len(done)}", f"reason {len(done)}"
        for name, text in {**fields, "reason": why, "by": who}.items():
            console.fill(name, text)
        console.wait("document.querySelector('.effect p')")
        console.press("Go on" if twice else title, "dialog")
        if twice:
            console.shows("Nobody can undo it")
            console.press("Yes, do it", "dialog")
        if during:
            console.wait("document.querySelector('dialog .done')")
            during()
        done.append([title, console.done(undo)])
        found = [one for one in demo.ask("/v1/audit")["items"] if one.get("by") == who]
        assert sorted(one["reason"] for one in found) == [why, *[f"undone: {why}"] * bool(undo)], (title, found)
        if any(one.get("customerId") for one in found):
            console.shows(who, why)

    console.find("anna", "What you can do")
    lost = lambda: check(not demo.ask(pro)["isActive"])
    act("Deny a purchase", "Allow it again", lost, purchase="pro.")
    check(demo.ask(pro)["isActive"])
    act("Deny a purchase", purchase="pro.")
    act("Allow a denied purchase", purchase="pro.")
    check(demo.ask(pro)["isActive"])
    console.press("Move a purchase…")
    console.fill("to", "nobody")
    console.fill("reason", "an old account")
    console.press("Move a purchase", "dialog")
    console.shows("No customer has the id", "Tick the box")
    console.fill("isNew", "")
    console.shows("a new customer with it is made")
    console.press("Cancel", "dialog")
    act("Move a purchase", "Move it back to anna", lost, purchase="pro.", to="dora")
    check(demo.ask(pro)["isActive"])
    attributes = lambda: json.dumps(demo.ask("/v1/customers/anna/attributes"))
    act("Set an attribute", "Set it back", lambda: check("gold" in attributes()), attribute="plan", value="gold")
    check("gold" not in attributes())
    act("Read from the App Store", purchase="pro.")
    act("Extend at Apple", twice=True, purchase="pro.", days="7")
    demo.ask("/v1/customers/anna/aliases", {"alias": "anna.old"})
    console.press("Refresh")
    console.shows("anna.old")
    act("Take an id off", "Add the id again", id="anna.old")
    check("anna.old" in demo.ask("/v1/customers/anna")["ids"])
    demo.ask("/v1/customers/merged/grants", {"entitlement": "pro", "forever": True, "why": "a tester"})
    demo.ask("/v1/customers/anna/aliases", {"alias": "merged"})
    console.press("Refresh")
    console.shows("merged")
    act("Undo a merge", id="merged")
    check("merged" not in demo.ask("/v1/customers/anna")["ids"])
    check("Undo a merge" not in console.text())
    act("Give days", "End this gift", entitlement="pro")
    act("Give days", entitlement="pro")
    act("End a gift", "Give it again")
    console.press("Audit")
    console.shows("moved a purchase", "set an attribute", "read from the App Store", "extended at Apple",
                  "took an id off", "undid a merge")

    # Several events tell of a refund, and one of them that it took the access.
    demo.play("/customers/cleo/refund")
    demo.advance(1)
    console.find("cleo", "purchase: refunded")
    rows = console.value("[...document.querySelectorAll('tr')].map((one) => one.innerText)")
    lost = [row for row in rows if "− pro" in row]
    assert len(lost) == 1 and "purchase: refunded" in lost[0], lost
    check("Extend at Apple" not in console.text())
    return {"done": done}


def check(claim):
    assert claim


def roles(demo, console):
    """A role sees what it may do, and a key that is revoked is noticed."""
    console.refused = [401]
    console.sign_in(demo.key("client"))
    console.shows("A client key is for apps")
    console.open(demo.key("read"))
    console.find("anna", "Ids")
    assert "What you can do" not in console.text() and "End…" not in console.text()
    console.press("Sign out")
    key = demo.key("support")
    console.open(key)
    console.find("anna", "What you can do")
    demo.revoke(key)
    begun = time.monotonic()
    console.shows("The key is no longer valid")
    assert "anna" not in console.text()
    return {"noticedAfter": round(1000 * (time.monotonic() - begun))}


def keyboard(demo, console):
    """The same by Tab, Enter and letters alone."""
    from selenium.webdriver.common.action_chains import ActionChains
    keys = console.keys

    def send(*what):
        ActionChains(console.driver).send_keys(*what).perform()

    def to(label, kind="button"):
        """Presses Tab until what has the focus has this label, and shows a focus."""
        for _ in range(200):
            name, tag = console.value("""(() => { const one = document.activeElement;
                const label = one.getAttribute("aria-label") ?? one.labels?.[0]?.textContent ?? one.textContent;
                return [label, one.localName];
            })()""")
            if label in name and tag == kind:
                return check(console.value("document.activeElement.matches(':focus-visible')"))
            send(keys.TAB)
        raise AssertionError(f"Tab never reaches {label}")

    key = demo.key("support")
    console.driver.get(console.url)
    console.wait("document.getElementById('key')")
    to("Key", "input")
    send(key, keys.ENTER)
    console.shows("Overview")
    console.settle()
    to("Find a customer", "input")
    send("dora", keys.ENTER)
    console.shows("What you can do")
    console.settle()
    to("Give days…")
    send(keys.ENTER)
    for label, text in [("For how long", ""), ("Reason", "an outage"), ("Your name", "Eva")]:
        to(label, "input")
        send(text)
    to("Give days")
    send(keys.ENTER)
    console.shows("Done.")
    to("End this gift")
    send(keys.ENTER)
    console.shows("It is undone.")
    to("Close")
    send(keys.ENTER)
    console.settle()
    to("Give days…")
    send(keys.ENTER)
    send(keys.ESCAPE)
    console.wait("!document.querySelector('dialog')")
    # The panel gives the focus back.
    check("Give days" in console.value("document.activeElement.textContent"))
    to("The time line as a table", "summary")
    send(keys.ENTER)
    console.shows("Transaction")
    to("Sign out")
    send(keys.ENTER)
    console.shows("forgotten the key")
    return {}


def views(demo, console, folder=None):
    """Every page in both widths, light, dark and on paper: none is too wide, and axe-core finds nothing."""
    console.refused = [404]
    found, seen = [], []
    key = demo.key("support")

    def look(name, isPage=True):
        for width in WIDTHS:
            for scheme in SCHEMES:
                console.look(width, scheme)
                seen.append(f"{name}-{width}-{scheme}")
                if console.is_wide():
                    found.append([seen[-1], "wider than its window"])
                found.extend([seen[-1], *one] for one in console.violations())
                if folder:
                    console.picture(Path(folder, seen[-1] + ".png"))
        if isPage:
            console.look(794, medium="print")
            seen.append(f"{name}-print")
            if console.is_wide():
                found.append([seen[-1], "wider than its paper"])
            if folder:
                console.picture(Path(folder, seen[-1] + ".png"))
        console.look()

    console.driver.get(console.url)
    console.wait("document.getElementById('key')")
    look("sign-in", False)
    console.open(key)
    look("overview")
    for name in ["anna", "bert", "tess"]:
        console.find(name, "What you can do")
        look(name)
    console.value("document.querySelector('summary').click()")
    look("time-line")
    console.press("Document", "main")
    console.shows("What it says")
    look("document", False)
    console.press("Close", "dialog")
    console.press("Give days…")
    look("panel", False)
    console.press("Cancel", "dialog")
    console.press("Audit")
    console.settle()
    look("audit")
    console.find("n", "Searched for")
    look("find")
    assert not found, found
    return {"seen": seen}


HOSTILE = [
    "<img src=x onerror=window.ran=1>", "\"><script>window.ran=1</script>", "';alert(1)//", "javascript:window.ran=1",
    "\"\u0301'\u0308\u0301 quoted", "\u202egnp.exe\u202c\u2066x\u2069", "a\u0000b\u001b[31m\u0007",
    "\ufeff\u200b\u00a0 \u2800",
    "a" + "\u0301" * 40, "w" * 10_240, "{{7*7}}${7*7}", "</bdi></td></table><h1>x",
    "\U000e0041\U000e0042", "\u05d0\u05d1 \u0627",
]
# What is not chosen by strangers: the words of the server.
OURS = {"environment", "environments", "counted", "kind", "state", "status", "role", "reason", "code", "operation",
        "outcome", "nextCursor", "eventsCursor", "bundleId", "inAppOwnershipType", "offerDiscountType", "type",
        "message"}


def hostile(demo, console_of):
    """Hostile texts in every member: nothing runs, nothing is too wide, and the text that is read back is the value."""
    sent = []
    for number, text in enumerate(HOSTILE):
        # The server refuses texts that no person types.
        with contextlib.suppress(urllib.error.HTTPError):
            demo.ask("/v1/customers/anna/attributes", {"attributes": {"plan": {"value": str(number)}},
                                                       "by": text[:100], "reason": text[:500]}, "PATCH")

    def change(path, value, name=""):
        if isinstance(value, dict):
            return {key: change(path, one, key) for key, one in value.items()}
        if isinstance(value, list):
            return [change(path, one, name) for one in value]
        isOurs = name in OURS and not ("/v1/audit" in path and name == "reason")
        if not isinstance(value, str) or isOurs or "/v1/key" in path or "prefix=" in path:
            return value
        # The server refuses ids with control characters, and the page asks with the ids that it gets.
        texts = HOSTILE[:5] if name in ["id", "ids", "customer", "customerId"] else HOSTILE
        sent.append((name, f"{len(sent)}{texts[len(sent) % len(texts)]}"))
        return sent[-1][1]

    with console_of(Altering(demo.console, change).url) as console:
        console.open(demo.key("support"))
        read = set()

        def look():
            console.settle()
            for width in WIDTHS:
                console.look(width)
                assert not console.is_wide(), console.text()[:2000]
            console.look()
            assert console.value("window.ran === undefined && !document.querySelector('img, iframe, main script')")
            # Each text is where the one function puts it.
            assert not console.value("""(() => {
                const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
                while (walker.nextNode()) found.push(walker.currentNode);
                return found.filter((one) => one.data.trim() && !one.parentElement.matches(
                    "bdi, option, title, text, button, #notice, .pager span")).map((one) => one.data);
            })()""")
            shown = console.value(
                "[...document.querySelectorAll('bdi, option, title, text')].map((one) => one.textContent)")
            for text in shown:
                read.add(re.sub("⟨U\\+([0-9A-F]+)⟩", lambda found: chr(int(found[1], 16)), text))

        look()
        console.find("anna", "What you can do")
        look()
        for title in ["Give days…", "Move a purchase…", "Take an id off…", "Set an attribute…"]:
            console.press(title)
            look()
            console.press("Cancel", "dialog")
        # The name that a person types is kept as it is, though the server refuses it.
        console.refused = [501]
        console.press("Give days…")
        for name in ["reason", "by"]:
            console.fill(name, HOSTILE[1])
        console.press("Give days", "dialog")
        console.shows("The server answered 501.")
        console.press("Cancel", "dialog")
        console.press("Give days…")
        assert console.value("document.getElementById('field-by').value") == HOSTILE[1]
        look()
        console.press("Cancel", "dialog")
        console.press("Audit")
        look()
        found = [(name, text) for name, text in sent if any(text in one for one in read)]
        assert {"by", "reason", "keyName"} <= {name for name, _ in found}, {name for name, _ in found}
        whole = {text for _, text in found}
        bare = [text.lstrip("0123456789") for text in whole]
        unread = [one[:20] for one in HOSTILE if not any(text.startswith(one) for text in bare)]
        assert not unread, unread
    return {"sent": len(sent), "readBack": len(whole)}


def large(demo, console_of):
    """A customer with 10,000 transactions: the page has as few elements as for any other."""
    number = 10_000

    def change(path, value):
        if path.startswith("/v1/support/"):
            one = value["items"][0]["environments"][0]
            purchase, entry = one["purchases"][0], one["timeline"][0]
            begin = purchase["purchaseDate"] - number * 3_600_000
            ids = [str(600_000_000_000_000 + index) for index in range(number)]
            one["purchases"] = [{**purchase, "transactionId": id, "purchaseDate": begin + index * 3_600_000}
                                for index, id in enumerate(ids)]
            # The time line has the newest 120 transactions of subscriptions, and the newest 120 other purchases.
            entry["bands"] = [
                {"state": ["paid", "gap"][index % 2], "from": begin + index * 3_600_000,
                 "to": begin + (index + 1) * 3_600_000, "transactionId": id} for index, id in enumerate(ids[:120])]
            one["timeline"] += [{"kind": "purchase", "id": id, "productId": "coins", "bands": [], "marks": [
                {"kind": "purchase", "at": begin + index * 3_600_000, "text": "bought"}]}
                for index, id in enumerate(ids[:120])]
            one["timelineOmitted"] = number - 240
        return value

    with console_of(Altering(demo.console, change).url) as console:
        console.open(demo.key("support"))
        begun = time.monotonic()
        console.find("anna", "1 to 20 of 10,000")
        took = time.monotonic() - begun
        elements = console.value("document.querySelectorAll('*').length")
        assert elements < 6_000, elements
        console.press("Oldest", "main")
        console.shows("9,981 to 10,000 of 10,000")
        begun = time.monotonic()
        console.press("Move a purchase…")
        console.wait("document.querySelector('dialog')")
        opened = time.monotonic() - begun
        return {"milliseconds": round(1000 * took), "panelMilliseconds": round(1000 * opened), "elements": elements}


def elsewhere(demo, console):
    """A page of another origin reads nothing, and shows nothing in a frame."""
    key = demo.key("support")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = f"<!DOCTYPE html><title>x</title><iframe src='{demo.console}/'></iframe>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    driver = console.driver
    driver.get(f"http://127.0.0.1:{server.server_port}/")
    asked = """const done = arguments[2];
        fetch(arguments[0], arguments[1] ? {headers: {Authorization: "Bearer " + arguments[1]}} : {})
            .then((answer) => answer.text()).then(() => done("read"), () => done("refused"));"""
    for path, header in [("/", ""), ("/console.js", ""), ("/v1/key", ""), ("/v1/key", key)]:
        assert driver.execute_async_script(asked, demo.console + path, header) == "refused", path
    driver.switch_to.frame(0)
    assert "Quittance" not in driver.page_source and not driver.find_elements(console.by.ID, "key")
    # The browser says why it refused.
    driver.get_log("browser")
    driver.get_log("performance")
    return {}


CHECKS = {one.__name__: one for one in [visit, panels, roles, keyboard, views, hostile, large, elsewhere]}


def main():
    program, name, *rest = sys.argv[1:]
    if reason := missing():
        print(json.dumps({"missing": reason}))
        return
    with Demo(program) as demo:
        demo.populate()
        print(json.dumps(run(demo, name, *rest)))


def run(demo, name, *rest):
    if name in ["hostile", "large"]:
        return CHECKS[name](demo, Console)
    with Console(demo.console) as console:
        return CHECKS[name](demo, console, *rest)


if __name__ == "__main__":
    main()
