# SPDX-License-Identifier: Apache-2.0
"""A server with the customers of a simulated App Store, and each operation of docs/openapi.json called once or more.

All ids and times are those of the simulator's seed, except the few that the server makes up itself.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote, urlencode

from simulator import Receiver, Server, Simulator, eventually

DOCUMENT = json.loads((Path(__file__).parent / "../../docs/openapi.json").read_text())
OPERATIONS = {
    one["operationId"]: (method, path, one)
    for path, methods in DOCUMENT["paths"].items() for method, one in methods.items()}
START = "2026-01-31T00:00:00Z"
MESSAGE = "5b1f8f0e-0c0f-4f0e-8a57-2c8f4c9d1e01"


class World:
    """A simulator, a server that trusts it, and keys of both roles."""

    def __init__(self, program):
        self.receiver, self.backend = Receiver(), Receiver()
        self.simulator = Simulator(
            program, "--start", START, "--notify", self.receiver.url, "--sandbox-notify", self.receiver.url)
        path = self.simulator.folder / "quittance.json"
        configuration = json.loads(path.read_text())
        configuration["environments"] = ["production", "sandbox"]
        app = configuration["apps"][0]
        app["products"]["com.example.notes.pro.monthly"]["clientOffers"] = ["friends"]
        app["retention"] = {"defaultMessage": MESSAGE}
        path.write_text(json.dumps(configuration))
        self.server = Server(program, "--config", str(path))
        self.keys = {role: self.key(program, path, role) for role in ["server", "client"]}
        self.wall = int(time.time() * 1000)
        # The answers by operation and status, and the bodies of requests by operation, in the order of the calls.
        self.answers, self.bodies = {}, {}

    @staticmethod
    def key(program, path, role):
        arguments = [program, "keys", "create", "--name", role, "--role", role, "--config", path]
        return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.simulator.__exit__()

    def call(self, name, body=None, /, key="server", expect=200, **values):
        """Calls an operation. Each value is a parameter of the path or of the query."""
        method, path, operation = OPERATIONS[name]
        query = {}
        for parameter in operation.get("parameters", []):
            if (value := values.pop(parameter["name"], None)) is None:
                continue
            if parameter["in"] == "path":
                path = path.replace("{%s}" % parameter["name"], quote(str(value), safe=""))
            else:
                query[parameter["name"]] = value
        assert not values, f"{name} has no parameter {values}"
        status, answer = self.request(method, path + ("?" + urlencode(query) if query else ""), body, key)
        assert status == expect, f"{name} {path}: {status} {answer}"
        self.answers.setdefault((name, str(status)), []).append(answer)
        if body is not None:
            self.bodies.setdefault(name, []).append(body)
        return answer

    def request(self, method, path, body=None, key="server"):
        headers = {"Authorization": f"Bearer {self.keys[key]}"} if path.startswith("/v1/") else {}
        request = urllib.request.Request(
            self.server.address + path, method=method.upper(), headers=headers,
            data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def notify(self, count):
        """Passes the next notifications of the App Store on to the server."""
        for _ in range(count):
            self.call("notificationsV2", {"signedPayload": self.receiver.next()[1]})

    def after(self, answer):
        """Passes on the notifications of which the simulator's answer tells."""
        self.notify(answer["notificationCount"])
        return answer

    def command(self, path, /, **members):
        """Commands the simulator, and waits until the server has its time."""
        answer = self.after(self.simulator.post(path, **members))
        now = self.simulator.now()
        eventually(lambda: self.request("get", "/v1/customers/nobody")[1]["asOf"] >= now or None)
        return answer

    def buy(self, name, product, **members):
        return self.command(f"/customers/{name}/buy", product=self.simulator.product(product), **members)


def live(world):
    """The life of some customers, in which each operation is called."""
    call, simulator, notes = world.call, world.simulator, "com.example.notes."
    account = simulator.add("anna")["customer"]["appAccountToken"]
    world.buy("anna", "pro.monthly")
    [monthly] = simulator.get("/customers/anna/transactions")
    id, token = monthly["transactionId"], monthly["jwsRepresentation"]
    call("submitPurchases", {"document": token}, key="client", id="anna")
    app = simulator.get("/customers/anna/app-transaction")["jwsRepresentation"]
    call("submitPurchases", {"documents": [app, token]}, id="anna")
    call("addAlias", {"alias": account}, id="anna")
    world.command("/clock/advance", days=8)
    coins = world.buy("anna", "coins", quantity=3)["transactionId"]
    world.command("/customers/anna/refund", transaction=coins, percentage=50)
    lifetime = world.buy("anna", "lifetime")["transactionId"]
    world.command("/customers/anna/refund/request", transaction=lifetime)

    # What a customer has.
    call("getCustomer", id="anna")
    call("getCustomer", key="client", id="anna")
    call("getCustomer", id="nobody", environment="any")
    call("checkEntitlement", key="client", id="anna", name="pro")
    call("checkEntitlement", id="nobody", name="pro")
    call("checkEntitlement", id="anna", name="gold", expect=404)
    call("listCustomers")
    call("getSubscription", id=id)
    call("getTransaction", id=lifetime)
    call("getTransaction", id="1", expect=404)
    call("getEvidence", id=call("getTransaction", id=coins)["evidence"]["id"])
    call("showSupport", id="anna")

    # What a backend gives and knows.
    call("setAttributes", {"attributes": {"$email": {"value": "anna@example.com"}, "plan": {"value": None}}}, id="anna")
    call("getAttributes", id="anna")
    call("listCustomers", email="anna@example.com")
    grant = {"entitlement": "pro", "why": "outage of May 3", "by": "Eva", "id": "outage-3"}
    call("makeGrant", {**grant, "until": simulator.now() + 86_400_000}, expect=201, id="anna")
    call("makeGrant", {**grant, "until": simulator.now() + 86_400_000}, id="anna")
    call("listGrants", id="anna")
    call("endGrant", {"by": "Eva"}, id="anna", grant="outage-3")
    call("recordConsent", {"customerConsented": True}, id="anna")
    call("getConsumption", id=lifetime)
    call("supplyConsumption", {"deliveryStatus": "DELIVERED", "sampleContentProvided": False}, id=lifetime)

    # Corrections.
    reason = {"reason": "bought for a second account"}
    call("movePurchase", {"customers": ["bert"], "new": True, **reason}, id=coins)
    call("denyPurchase", {"reason": "chargeback"}, id=coins)
    call("allowPurchase", {"reason": "the bank paid"}, id=coins)
    call("addAlias", {"alias": "an.old"}, id="anna")
    call("unlinkCustomer", {"alias": "an.old", **reason}, id="anna")
    call("addAlias", {"alias": "bert"}, id="anna")
    call("unmergeCustomer", reason, id="bert")
    call("deleteCustomer", id="bert")

    # The App Store.
    call("backfillCustomer", {"transactionId": id})
    call("lookUpOrder", id=monthly["orderId"])
    call("readRefunds", id=id)
    call("setAppAccountToken", {"appAccountToken": account}, id=lifetime)
    call("askTransaction", id=id)
    call("askStatuses", id=id, record="true")
    call("askHistory", id=id)
    call("askAppTransaction", id=id)
    call("askNotifications", since=simulator.now() - 86_400_000, onlyFailures="true")
    call("askNotifications", since=simulator.now() - 30 * 86_400_000)
    test = call("requestTestNotification")["id"]
    world.notify(1)
    eventually(lambda: world.request("get", f"/v1/notifications/test/{test}")[0] == 200 or None)
    call("getTestNotification", id=test)
    uuid = "0f8f6b5e-5d3c-4c4b-9d0e-6a1d3c2b1a01"
    extension = {"extendByDays": 7, "extendReasonCode": 3, "requestIdentifier": uuid}
    call("extendSubscription", extension, id=id)
    world.notify(1)
    call("extendAll", {**extension, "productId": notes + "pro.monthly"})
    call("getExtension", productId=notes + "pro.monthly", requestIdentifier=uuid)
    offer = {"productId": notes + "pro.monthly", "offerIdentifier": "friends"}
    call("signPromotionalOffer", {**offer, "transactionId": id})
    call("signPromotionalOffer", {**offer, "version": 1, "appAccountToken": account})
    call("signCustomerOffer", {**offer, "transactionId": id}, key="client", id="anna")
    call("signIntroductoryOffer", {
        "productId": notes + "pro.monthly", "allowIntroductoryOffer": True, "transactionId": id})
    call("signAdvancedCommerce", {
        "operation": "CREATE_ONE_TIME_CHARGE", "version": "1", "currency": "USD", "taxCode": "C003-00-2",
        "storefront": "USA", "requestInfo": {"requestReferenceId": uuid},
        "item": {"SKU": "book", "displayName": "Book", "description": "A book", "price": 4990}})

    # Webhooks.
    endpoint = call("addWebhook", {"url": world.backend.url, "asymmetric": True}, expect=201)["id"]
    call("listWebhooks")
    call("changeWebhook", {"kinds": None, "ordered": True}, id=endpoint)
    call("setAttributes", {"attributes": {"plan": {"value": "gold"}}}, id="anna")
    eventually(lambda: call("listWebhookAttempts", id=endpoint)["items"] or None)
    call("pauseWebhook", id=endpoint)
    call("testWebhook", id=endpoint)
    call("getWebhookSecret", id=endpoint)
    call("rotateWebhook", id=endpoint)
    call("replayWebhook", {"setAside": True}, id=endpoint)
    call("showWebhook", id=endpoint)
    call("resumeWebhook", id=endpoint)
    call("removeWebhook", id=endpoint)
    call("showWebhook", id=endpoint, expect=404)

    # What people see first.
    call("getKey")
    call("listAudit", customerId="anna", limit=3)
    call("showOverview")
    call("listCustomers", prefix="an")
    call("listEvents", newest="true", limit=2)

    page = call("listEvents", limit=500)
    call("listEvents", after=page["nextCursor"])
    call("listEvents", after="moon", expect=400)

    # Apple's own routes, and those of operators.
    receipt = b64encode(simulator.receipt("anna")).decode()
    call("verifyReceipt", {"receipt-data": receipt})
    call("sandboxVerifyReceipt", {"receipt-data": receipt})
    call("notificationsV1", {"unified_receipt": {"latest_receipt": receipt}})
    call("retention", {"signedPayload": token}, expect=400)
    call("healthLive")
    call("healthReady")
    call("openapiJson")


# MARK: Examples

EXAMPLES = Path(__file__).parent / "../../scripts/openapi-examples.json"
LONGEST = 40


def examples(world):
    """A body of each operation and an answer of each type: of those of the calls, the one that says most."""
    text = json.dumps([world.bodies, [[name, status, answers] for (name, status), answers in world.answers.items()]])
    for found, shown in made_up(world).items():
        text = text.replace(found, shown)
    made = {}
    bodies, all_answers = json.loads(text)
    for name, status, answers in all_answers:
        response = OPERATIONS[name][2]["responses"][status]
        schema = response.get("content", {}).get("application/json", {}).get("schema", {"$ref": response.get("$ref")})
        if "$ref" in schema:
            candidates = [shortened(answer, world.wall) for answer in answers]
            made.setdefault(schema["$ref"].rpartition("/")[2], []).extend(candidates)
    return {
        "requests": {
            name: longest(shortened(body, world.wall) for body in candidates) for name, candidates in bodies.items()},
        "answers": {name: longest(candidates) for name, candidates in made.items()},
    }


def longest(values):
    return max(values, key=lambda one: len(json.dumps(one)))


def made_up(world):
    """What the server made up, and what examples show in its place."""
    [first] = world.answers["addWebhook", "201"]
    epoch = world.answers["listEvents", "200"][0]["nextCursor"].partition(".")[2]
    return {
        first["id"]: "kf12gdi1f9w01", epoch: "5f3a9c01d2e4", world.backend.url: "https://backend.example.com/webhooks",
        world.simulator.values["control"]: "http://127.0.0.1:9000",
        **{key.split("_")[1]: f"7m2k9x4{role[0]}" for role, key in world.keys.items()},
    }


def shortened(value, wall):
    """A value without what makes it long, or differs each time: of a list the element that says most."""
    if isinstance(value, dict):
        return {name: shown(name, one, wall) for name, one in value.items()}
    if isinstance(value, list):
        made = [shortened(one, wall) for one in value]
        return [longest(made)] if made and isinstance(made[0], dict) else made
    if isinstance(value, str) and len(value) > LONGEST and " " not in value:
        return value[:14 if value[0].isdigit() else 3] + "…"
    # Webhooks have the machine's time, not the simulator's.
    return 1770508800000 if isinstance(value, int) and abs(value - wall) < 3_600_000 else value


def shown(name, value, wall):
    constant = {
        "secret": "whsec_…", "publicKey": "whpk_…", "milliseconds": 12, "encodedSignature": "MEU…",
        "nonce": "0f8f6b5e-5d3c-4c4b-9d0e-6a1d3c2b1a01"}
    if name == "id" and str(value).startswith("test_"):
        return "test_kf12gdi1f9w02"
    # The id of an entry of the audit list, and the cursor after it.
    if name in ("id", "nextCursor") and str(value).count("-") == 2:
        return "qvlr…"
    return constant.get(name) or shortened(value, wall)


def main(program):
    """Compares the examples with those of a new world, or with WRITE_PAPERS writes them."""
    with World(program) as world:
        live(world)
        text = json.dumps(examples(world), ensure_ascii=False, indent=1) + "\n"
    if os.environ.get("WRITE_PAPERS"):
        EXAMPLES.write_text(text)
    else:
        assert text == EXAMPLES.read_text(), "the examples are not those that make openapi makes:\n" + text
    print(json.dumps({"examples": sum(map(len, json.loads(text).values()))}))


if __name__ == "__main__":
    main(sys.argv[1])
