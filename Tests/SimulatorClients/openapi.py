# SPDX-License-Identifier: Apache-2.0
"""Judges docs/openapi.json, and a server by it: openapi-spec-validator, schemathesis, and a client that
openapi-python-client makes.

Usage: openapi.py QUITTANCE. Prints as JSON what was done.
"""

import importlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from collections import Counter
from pathlib import Path

from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from standardwebhooks.webhooks import Webhook

from api_world import DOCUMENT, OPERATIONS, World, live
from simulator import LONGEST_WAIT, Receiver, eventually

FOLDER = Path(__file__).parent

# Members and statuses that no answer of this world has, with the reason. DeclaredAnswers sees most of them.
NEVER = {
    "Apple's answer about an error of its own": ["VerifyReceiptResponse.is_retryable", "ErrorContent.retryAt"],
    "the simulator makes no request for a retention message": [
        "RealtimeResponse.message", "RealtimeResponse.alternateProduct", "RealtimeResponse.promotionalOffer",
        "RealtimeResponse.advancedCommerceInfo", "RealtimeResponseMessage.messageIdentifier",
        "RealtimeResponseAlternateProduct.messageIdentifier", "RealtimeResponseAlternateProduct.productId",
        "RealtimeResponseAlternateProduct.billingPlanType", "RealtimeResponsePromotionalOffer.messageIdentifier",
        "RealtimeResponsePromotionalOffer.promotionalOfferSignatureV2",
        "RealtimeResponsePromotionalOffer.promotionalOfferSignatureV1",
        "RealtimeResponseAdvancedCommerceInfo.messageIdentifier",
        "RealtimeResponseAdvancedCommerceInfo.advancedCommerceData", "retention 200"],
    "the simulator sells no seats": ["Subscription.seats", "RenewalTerms.renewalQuantity", "Event.seats"],
    "it needs a purchase of the sandbox, and another setting of the server": [
        "ErrorContent.environment", "Customer.activeIn", "EntitlementCheck.activeIn", "Event.sandboxAccessBefore",
        "Event.sandboxAccessAfter"],
    "it needs a product that the configuration lacks": [
        "EntitlementCheck.unknownProducts", "Health.concern", "OverviewConcern.code", "OverviewConcern.message",
        "OverviewUnknownProduct.productId"],
    "no key of the world expires": ["Key.expiresAt"],
    "a win-back offer comes months after the end": ["RenewalTerms.eligibleWinBackOfferIds"],
    "the only customer with consumables was erased": ["Consumable.refused", "Consumable.claimants"],
    "it needs more customers, periods, claims or events than a test makes": [
        "Submission.tooManyOwners", "SubmissionRefusedClaim.originalTransactionId", "SubmissionRefusedClaim.retryAt",
        "CustomerList.nextCursor", "SubscriptionHistory.periodsCursor", "ErrorContent.oldest",
        "Customer.timelineOmitted", "TimeLine.omitted"],
    "the only notification that is kept is TEST": ["Evidence.subtype", "Check.part"],
    "only the examples that a test of an endpoint sends have it": ["Event.test"],
    "the endpoint would have to fail for days": [
        "Webhook.disabledReason", "Webhook.disabledAt", "Webhook.idsGone", "SetAsideEvent.event",
        "SetAsideEvent.failedAt", "SetAsideEvent.reason"],
    "the simulator answers at once, with genuine documents": [
        "Backfill.refusal", "Backfill.nextAttempt", "Backfill.reason", "FoundTransactions.refusal", "LookupItem.refusal",
        "backfillCustomer 202"],
    "the server is not overloaded": ["verifyReceipt 503", "sandboxVerifyReceipt 503"],
    "judge_route asks for it": ["openapiJson 304"],
}

# Optional members that all answers of this world have, with the reason.
ALWAYS = {
    "Apple's documents need not have it": [
        "Subscription.subscriptionGroupIdentifier", "Subscription.renewal", "RenewalTerms.autoRenewProductId",
        "RenewalTerms.renewalPrice", "RenewalTerms.currency", "Commitment.totalBillingPeriods",
        "Commitment.expiresDate", "Commitment.price", "Commitment.currency", "Commitment.autoRenewProductId",
        "Purchase.type", "Purchase.inAppOwnershipType", "Purchase.price", "Purchase.currency", "Purchase.storefront",
        "AppPurchase.originalApplicationVersion", "AppPurchase.receiptType", "SendAttempt.at"],
    "a command makes grants without a key": ["Grant.key"],
    "the time of a removed attribute is forgotten some day": ["AttributeListValue.updatedAt"],
    "an event whose body is damaged lacks it": ["Event.effectiveAt"],
}


def closed(schema):
    """The schema, which allows no members but those that it has."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(one) for name, one in schema.items()}
    return {"additionalProperties": False, **made} if isinstance(schema.get("properties"), dict) else made


def seldom(world):
    """What the examples need not show: refusals, other offers, several customers of one purchase."""
    call, simulator, command = world.call, world.simulator, world.command
    products = {one["productId"]: one["transactionId"] for one in simulator.get("/customers/anna/transactions")}
    coins = products["com.example.notes.coins"]

    call("makeGrant", {"entitlement": "pro", "why": "thanks", "forever": True}, expect=201, id="dora")
    call("checkEntitlement", id="dora", name="pro")
    call("listCustomers")
    call("submitPurchases", {"document": "410000000000051"}, id="anna", expect=400)
    call("listEvents", after=f"9.{call('listEvents')['nextCursor'].partition('.')[2]}", kind="purchase.made")

    # Offers, a price, a commitment, and payments that fail.
    simulator.add("carl")
    world.buy("carl", "pro.monthly", offer="three-months")
    command("/customers/carl/price", price=5990)
    asked = world.buy("carl", "coins")["transactionId"]
    command("/customers/carl/refund/request", transaction=asked)
    call("supplyConsumption", {
        "customerConsented": False, "deliveryStatus": "DELIVERED", "sampleContentProvided": False,
        "consumptionPercentage": 100_000, "refundPreference": "DECLINE"}, id=asked)
    simulator.add("eve", storefront="DEU")
    world.buy("eve", "pro.yearly", monthly=True)
    simulator.add("fred")
    world.buy("fred", "pro.monthly")
    command("/customers/fred/billing/break")
    command("/clock/advance", days=9)
    command("/clock/advance", days=40)
    command("/clock/advance", days=60)
    for name in ["carl", "eve", "fred"]:
        for one in simulator.get(f"/customers/{name}/transactions"):
            call("submitPurchases", {"document": one["jwsRepresentation"]}, id=name)
        call("getCustomer", id=name)
    receipt = b64encode(simulator.receipt("eve")).decode()
    call("submitPurchases", {"document": receipt}, id="gina")
    for name in ["hans", "gina"] * 6:
        call("submitPurchases", {"document": receipt}, key="client", id=name)
    call("submitPurchases", {"document": receipt}, id="hans")

    # Refusals of the operator and of the App Store.
    call("denyPurchase", {"reason": "chargeback"}, id=coins)
    call("denyPurchase", {"reason": "chargeback"}, id="410000000000051")
    app = call("getCustomer", id="anna")["app"]["appTransactionId"]
    call("denyPurchase", {"reason": "chargeback"}, id=f"app:{app}")
    call("getCustomer", id="anna")
    call("readRefunds", id="1", expect=404)
    call("getExtension", productId="com.example.notes.pro.monthly",
         requestIdentifier="0f8f6b5e-5d3c-4c4b-9d0e-6a1d3c2b1a01")

    # A notification of which no other event tells, and a receiver that is not there.
    command("/notifications/test")
    page = call("listEvents", limit=500, kind="notification.received")
    call("getEvidence", id=page["items"][-1]["evidence"])
    call("getEvidence", id=page["items"][-1]["evidence"], explain="true")
    call("listAudit", limit=200)
    call("showSupport", id="anna")
    endpoint = call("addWebhook", {"url": "http://127.0.0.1:9/"}, expect=201)["id"]
    call("testWebhook", id=endpoint)
    call("setAttributes", {"attributes": {"plan": {"value": "silver"}}}, id="anna")
    eventually(lambda: call("listWebhookAttempts", id=endpoint)["items"] or None)
    call("showWebhook", id=endpoint)
    call("listEvents", limit=500)


def judge_answers(world):
    """Every answer and every webhook has its schema, and no further member."""
    components = closed(DOCUMENT["components"])
    for (name, status), answers in world.answers.items():
        response = OPERATIONS[name][2]["responses"][status]
        response = DOCUMENT["components"]["responses"]["Error"] if "$ref" in response else response
        schema = closed(response["content"]["application/json"]["schema"])
        for answer in answers:
            Draft202012Validator({**schema, "components": components}).validate(answer)
    event = Draft202012Validator({"$ref": "#/components/schemas/Event", "components": components})
    while not world.backend.payloads.empty():
        event.validate(json.loads(world.backend.payloads.get()[2]))


def census(world):
    """Each member and status is seen, and each optional member also missed, but for those that are listed."""
    schemas = DOCUMENT["components"]["schemas"]
    seen, counts = Counter(), Counter()

    def walk(value, schema):
        name = schema.get("$ref", "").rpartition("/")[2]
        schema = schemas.get(name, schema)
        for choice in schema.get("anyOf", []):
            walk(value, choice)
        if isinstance(value, list):
            for part in value:
                walk(part, schema.get("items", {}))
        elif isinstance(value, dict):
            counts[name] += 1
            for member, part in value.items():
                seen[name, member] += 1
                others = schema.get("additionalProperties")
                walk(part, schema.get("properties", {}).get(member, others if isinstance(others, dict) else {}))

    for (name, status), answers in world.answers.items():
        content = OPERATIONS[name][2]["responses"][status].get("content")
        schema = content["application/json"]["schema"] if content else {"$ref": "#/components/schemas/Error"}
        for answer in answers:
            walk(answer, schema)
    members = [(name, one) for name, schema in schemas.items() for one in schema.get("properties", {})]
    never = [f"{name}.{one}" for name, one in members if not seen[name, one]] + [
        f"{name} {status}" for name, (_, _, operation) in OPERATIONS.items()
        for status, response in operation["responses"].items()
        if "$ref" not in response and (name, status) not in world.answers]
    always = [
        f"{name}.{one}" for name, one in members
        if seen[name, one] == counts[name] > 2 and one not in schemas[name].get("required", [])]
    for found, listed in [(never, NEVER), (always, ALWAYS)]:
        listed = sum(listed.values(), [])
        assert sorted(found) == sorted(listed), {
            "not listed": sorted(set(found) - set(listed)), "listed in vain": sorted(set(listed) - set(found))}


def judge_route(world):
    """The server answers with the document, and with 304 to who has it."""
    request = urllib.request.Request(world.server.address + "/openapi.json")
    with urllib.request.urlopen(request) as response:
        assert response.read() == (FOLDER / "../../docs/openapi.json").read_bytes()
        request.add_header("If-None-Match", response.headers["ETag"])
    try:
        urllib.request.urlopen(request)
        raise AssertionError("the document was sent again")
    except urllib.error.HTTPError as error:
        assert error.code == 304, error


def quick_start(world):
    """What a backend does first, with a client made from the document: submit, ask, follow, grant, get a webhook."""
    Path("client.json").write_text('{"post_hooks": [], "use_path_prefixes_for_title_model_names": false}')
    subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--path", FOLDER / "../../docs/openapi.json",
         "--output-path", "quittance_client", "--meta", "none", "--config", "client.json", "--fail-on-warning"],
        check=True, capture_output=True)
    sys.path.insert(0, ".")
    package = importlib.import_module("quittance_client")
    models = importlib.import_module("quittance_client.models")
    client = package.AuthenticatedClient(
        base_url=world.server.address, token=world.keys["server"], raise_on_unexpected_status=True)

    def call(operation, *values, **members):
        [file] = Path("quittance_client/api").glob(f"*/{operation}.py")
        module = importlib.import_module(f"quittance_client.api.{file.parent.name}.{operation}")
        return module.sync(*values, client=client, **members)

    backend = Receiver()
    webhook = call("add_webhook", body=models.AddWebhookBody(url=backend.url))
    world.simulator.add("client")
    bought = world.buy("client", "pro.monthly")
    [transaction] = world.simulator.get("/customers/client/transactions")
    submission = call(
        "submit_purchases", "kim", body=models.SubmitPurchasesBody(document=transaction["jwsRepresentation"]))
    assert submission.customer.entitlements[0].transaction_id == bought["transactionId"], submission
    assert call("check_entitlement", "kim", "pro").is_active
    assert call("get_transaction", "1").error.code == "notFound"
    page = call("list_events", limit=500)
    assert any(event.kind == "subscription.started" and event.customer for event in page.items)
    until = world.simulator.now() + 86_400_000
    grant = call("make_grant", "lea", body=models.MakeGrantBody(entitlement="pro", why="outage", until=until))
    assert grant.is_active and grant.ended_at is None, grant
    assert call("check_entitlement", "lea", "pro").entitlement.grant_id == grant.id
    assert not call("end_grant", "lea", grant.id, body=models.EndGrantBody(by="Eva")).is_active
    event = models.Event.from_dict(json.loads(received(backend, webhook.secret)))
    assert event.id and event.recorded_at, event
    assert call("remove_webhook", webhook.id).removed


def received(backend, secret):
    """The body of the next webhook, whose signature is verified."""
    _, _, body, headers = backend.payloads.get(timeout=LONGEST_WAIT)
    return json.dumps(Webhook(secret).verify(body, {name.lower(): value for name, value in headers.items()}))


def fuzz(world):
    """Runs schemathesis; what it is to accept is in its configuration."""
    outcome = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--config-file", FOLDER / "schemathesis.toml", "run",
         FOLDER / "../../docs/openapi.json", "--url", world.server.address,
         "--header", f"Authorization: Bearer {world.keys['server']}", "--phases", "coverage,fuzzing",
         "--max-examples", "5", "--seed", "1", "--continue-on-failure", "--no-color", "--warnings", "off",
         "--suppress-health-check", "all"],
        capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def main(program):
    validate(DOCUMENT)
    with World(program) as world:
        live(world)
        seldom(world)
        judge_answers(world)
        census(world)
        judge_route(world)
        quick_start(world)
        fuzz(world)
        missing = set(OPERATIONS) - {name for name, _ in world.answers}
        assert not missing, missing
        print(json.dumps({"answers": sum(map(len, world.answers.values()))}))


if __name__ == "__main__":
    main(sys.argv[1])
