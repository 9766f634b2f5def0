# SPDX-License-Identifier: Apache-2.0
"""The worked decisions of the fact sheet's Appendix 2, public reports, and some of our pages, against the rule book.

Row 18 (another environment) is not about these rules: the verifier refuses it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

from customers import Customers, numbers
from rulebook import NON_CONSUMABLE, NON_RENEWING, RENEWABLE, Catalogue, Facts, Holdings, Judge

Words = dict[str, Any]
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
# A year, to which two months are bought or renewed, with times as in the sheet: E is the end, G grace's.
START = 1_700_000_000_000
E = START + 365 * DAY
G = E + 16 * DAY

CATALOGUE = Catalogue({
    "staleLeeway": HOUR,
    "products": {
        "year": {"entitlements": ["plus"], "level": 2},
        "month": {"entitlements": ["plus"], "level": 2},
        "low": {"entitlements": ["basic"], "level": 3},
        "high": {"entitlements": ["plus", "pro"], "level": 1},
        "filters": {"entitlements": ["filters"]},
        "season": {"entitlements": ["season"], "duration": 60 * DAY},
    },
})  # fmt: skip


def t(id: str, start: int, end: int | None, product: str = "year", *, signed: int | None = None, **words: Any) -> Words:
    """A signed transaction, alone."""
    facts = {
        "transactionId": id, "originalTransactionId": "1", "productId": product, "type": RENEWABLE,
        "purchaseDate": start, "expiresDate": end, "subscriptionGroupIdentifier": "g", "quantity": 1,
        "webOrderLineItemId": f"web {id}", "signedDate": start + 1000 if signed is None else signed,
    }  # fmt: skip
    return {"kind": "transactions", "transactions": [facts | words]}


def r(signed: int, renews: int = 1, **words: Any) -> Words:
    """Renewal info, alone."""
    facts = {"originalTransactionId": "1", "autoRenewStatus": renews, "signedDate": signed}
    return {"kind": "renewal", "renewal": facts | words}


def receipt(created: int, *rows: Words) -> Words:
    return {"kind": "receipt", "signedDate": created, "purchases": list(rows)}


def row(id: str, start: int, end: int, product: str, **words: Any) -> Words:
    facts = {"transactionId": id, "originalTransactionId": "1", "productId": product, "productType": 3}
    return facts | {"purchaseDate": start, "expiresDate": end, "quantity": 1} | words


@dataclass
class Row:
    """Facts, and what they must come to: a status, names of entitlements, when they end, whether it renews; when its
    access ends or ended; which transactions were refunded; and how many subscriptions there are."""

    number: str
    documents: list[Words]
    now: int
    status: str | None
    names: str
    until: int | None = None
    product: str | None = None
    renews: str = "any"
    original: str = "1"
    ends: int | None = None
    refunded: str | None = None
    chains: int | None = None


YEAR = t("1", START, E)
# An upgrade to a month, in the middle of the year: the old period is not signed again.
MIDDLE = START + 100 * DAY
UPGRADE = t("2", MIDDLE, MIDDLE + 30 * DAY, "high", transactionReason="PURCHASE")
UPGRADED = [YEAR, UPGRADE, r(MIDDLE + 1000, renewalDate=MIDDLE + 30 * DAY)]
REFUNDED = t("1", START, E, signed=MIDDLE, revocationDate=MIDDLE)
RENEWED = t("2", E, E + 365 * DAY, signed=E - 6 * HOUR, transactionReason="RENEWAL")
FAILED = r(E + MINUTE, isInBillingRetryPeriod=True, gracePeriodExpiresDate=G, expirationIntent=2)
FAILED_WITHOUT_GRACE = r(E + MINUTE, isInBillingRetryPeriod=True)
BACK = t("2", MIDDLE + DAY, MIDDLE + 31 * DAY, "month", transactionReason="PURCHASE")
MOVED = t("1", START, E, signed=START + DAY, originalTransactionId="2")
DOWNGRADED = t("2", E, E + 30 * DAY, "low", signed=E - 6 * HOUR, transactionReason="RENEWAL")
FAMILY = {"originalTransactionId": "7", "inAppOwnershipType": "FAMILY_SHARED"}


def rows() -> Iterator[Row]:
    yield from reports()
    yield Row("1", [YEAR, r(START + 1000)], E - 1, "active", "plus", E, renews="yes", ends=E)
    yield Row("2", [YEAR, r(START + 1000, 0)], E - 1, "active", "plus", E, renews="no")
    yield Row("3", [YEAR, r(START + 1000, 0)], E, "expired", "", ends=E)
    yield Row("4", [YEAR, r(START + 1000)], E + 5 * MINUTE, "stale", "plus", E + HOUR)
    yield Row("4, later", [YEAR, r(START + 1000)], E + HOUR, "stale", "", ends=E + HOUR)
    yield Row("5", [YEAR, FAILED], E + DAY, "billingGrace", "plus", G)
    yield Row("6", [YEAR, FAILED], G, "billingRetry", "", ends=G)
    yield Row("7", [YEAR, FAILED_WITHOUT_GRACE], E + DAY, "billingRetry", "", ends=E)
    ended = r(E + 60 * DAY, isInBillingRetryPeriod=False, expirationIntent=2)
    yield Row("8", [YEAR, ended], E + 61 * DAY, "expired", "")
    refunded = t("1", START, E, signed=E - 10 * DAY, revocationDate=E - 10 * DAY)
    yield Row("9", [YEAR, refunded], E - 5 * DAY, "revoked", "", ends=E - 10 * DAY, refunded="1")
    yield Row("10", [YEAR, refunded, t("1", START, E, signed=E - 3 * DAY)], E - 2 * DAY, "active", "plus", E)
    yield Row("11", [refunded, t("1", START, E, signed=E - 11 * DAY)], E - 5 * DAY, "revoked", "")
    low = t("1", START, E, "low", isUpgraded=True)
    yield Row("12", [low, UPGRADE], MIDDLE + DAY, "active", "plus pro", MIDDLE + 30 * DAY, "high")
    yield Row("13", [YEAR, r(START + 1000, autoRenewProductId="low")], E - DAY, "active", "plus", E, "year")
    family = t("7", START, E + DAY, "year", **FAMILY)
    yield Row("14", [YEAR, r(E, 0, expirationIntent=1), family], E + HOUR, "expired", "plus", E + DAY)
    high = t("7", START, E, "high", **FAMILY)
    yield Row("15", [t("1", START, E, "low"), high], E - DAY, "active", "plus pro", E, "low")
    month = t("4", START, E, commitmentInfo={"commitmentExpiresDate": E + 240 * DAY})
    yield Row("16", [month, FAILED_WITHOUT_GRACE], E + DAY, "billingRetry", "")
    extended = t("1", START, E + 30 * DAY, signed=E - DAY)
    yield Row("17", [YEAR, extended], E + 10 * DAY, "active", "plus", E + 30 * DAY)
    other = r(E + DAY, isInBillingRetryPeriod=True, gracePeriodExpiresDate=G) | {}
    other["renewal"]["originalTransactionId"] = "9"
    yield Row("19", [YEAR, other], E + DAY, "stale", "")
    yield Row("20", [YEAR, RENEWED], E - 6 * HOUR, "active", "plus", E + 365 * DAY, "year")
    yield Row("20, alone", [RENEWED], E - 6 * HOUR, "active", "plus", E + 365 * DAY, "year")
    older = t("1", START, E, signed=E + DAY, revocationDate=E + DAY)
    yield Row("21", [older, RENEWED], E + 2 * DAY, "active", "plus", E + 365 * DAY)
    yield Row("23", UPGRADED, MIDDLE + DAY, "active", "plus pro", MIDDLE + 30 * DAY, "high")
    over = r(MIDDLE + 30 * DAY, 0, expirationIntent=1, renewalDate=MIDDLE + 30 * DAY)
    yield Row("24", [*UPGRADED, over], MIDDLE + 30 * DAY, "expired", "")
    revoked = t("2", MIDDLE, MIDDLE + 30 * DAY, "high", signed=MIDDLE + 2 * DAY, revocationDate=MIDDLE + 2 * DAY)
    yield Row("25", [*UPGRADED, revoked], MIDDLE + 3 * DAY, "revoked", "", product="high")
    yield Row("26", [REFUNDED, BACK], MIDDLE + 2 * DAY, "active", "plus", MIDDLE + 31 * DAY, "month")
    failed = r(MIDDLE + 31 * DAY, isInBillingRetryPeriod=True, gracePeriodExpiresDate=MIDDLE + 47 * DAY)
    yield Row("27", [REFUNDED, BACK, failed], MIDDLE + 32 * DAY, "billingGrace", "plus", MIDDLE + 47 * DAY, "month")
    seen = receipt(
        MIDDLE + DAY, row("1", START, E, "year", cancellationDate=MIDDLE), row("2", MIDDLE, MIDDLE + 30 * DAY, "high"))
    yield Row("28", [seen], MIDDLE + 2 * DAY, "active", "plus pro", MIDDLE + 30 * DAY, "high", refunded="")
    again = t("2", E + DAY, E + 31 * DAY, "month", transactionReason="PURCHASE")
    over = r(E + MINUTE, 0, expirationIntent=1, renewalDate=E)
    yield Row("29", [YEAR, over, again], E + 2 * DAY, "active", "plus", E + 31 * DAY, "month", renews="unknown")
    yield Row("30", [YEAR, over, again], E + 31 * DAY, "stale", "plus", E + 31 * DAY + HOUR)
    recovered = t("2", E + DAY, E + 366 * DAY, transactionReason="RENEWAL")
    yield Row("31", [YEAR, FAILED_WITHOUT_GRACE, recovered], E + 366 * DAY, "stale", "plus", E + 366 * DAY + HOUR)
    soon = t("2", E + DAY, E + 366 * DAY, signed=E + DAY, transactionReason="RENEWAL")
    behind = [YEAR, FAILED_WITHOUT_GRACE, soon]
    yield Row("31, by a clock behind", behind, E + DAY - 1, "active", "plus", E + 366 * DAY, "year")
    twice = t("2", START + DAY, E, signed=MIDDLE, webOrderLineItemId="web 1", revocationDate=MIDDLE)
    yield Row("32", [YEAR, twice], MIDDLE + DAY, "revoked", "")
    yield Row("32, signed anew", [YEAR, twice, t("1", START, E, signed=MIDDLE + HOUR)], MIDDLE + DAY, "revoked", "")
    filters = {"type": NON_CONSUMABLE, "webOrderLineItemId": None}
    one, two = t("1", START, None, "filters", **filters), t("2", START + DAY, None, "filters", **filters)
    yield Row("33, before", [one, two], MIDDLE, None, "filters")
    two["transactions"][0]["revocationDate"] = START + 2 * DAY
    yield Row("33", [one, two], MIDDLE, None, "")
    yield Row("34", [YEAR, DOWNGRADED], E - 4 * HOUR, "active", "plus", E, "year")
    yield Row("34, later", [YEAR, DOWNGRADED], E, "active", "basic", E + 30 * DAY, "low")
    yield Row("35", [YEAR, extended, r(START + 1000)], E + DAY, "active", "plus", E + 30 * DAY)
    overtaking = t("3", E - 3 * HOUR, E + 20 * DAY, "high", transactionReason="PURCHASE")
    yield Row("37", [YEAR, DOWNGRADED, overtaking], E + HOUR, "active", "plus pro", E + 20 * DAY, "high")
    yield Row("36", [YEAR, MOVED], MIDDLE, "active", "plus", E, original="2", chains=1)
    yield Row("36, in any order", [MOVED, YEAR], MIDDLE, "active", "plus", E, original="2", chains=1)
    yield Row("37, over", [YEAR, DOWNGRADED, overtaking], E + 20 * DAY + HOUR, "stale", "", product="high")


def reports() -> Iterator[Row]:
    """Public reports, as of 2026-11-28."""
    bought, later = {"transactionReason": "PURCHASE"}, E + 90 * DAY
    for ahead in (30 * SECOND, 55 * MINUTE):
        start = later + ahead
        again = t("2", start, start + 30 * DAY, "month", signed=later, **bought)
        yield Row("back, ahead", [YEAR, again], later, "active", "plus", start + 30 * DAY, "month")
        start = MIDDLE + ahead
        upgrade = t("2", start, start + 30 * DAY, "high", signed=MIDDLE, **bought)
        low = t("1", START, E, "low")
        yield Row("upgraded, ahead", [low, upgrade], MIDDLE, "active", "plus pro", start + 30 * DAY, "high")
        season = t("5", start, None, "season", signed=MIDDLE, type=NON_RENEWING, originalTransactionId="5")
        yield Row("season, ahead", [season], MIDDLE, None, "season", start + 60 * DAY)
    # Without a reason, what is not of a higher level and begins soon after an end waits.
    # The leeway of the first lasts until the second begins.
    for product, start, status, names in [
        ("month", E + HOUR, "stale", "plus"), ("high", E + HOUR, "active", "plus pro"),
        ("month", E + HOUR + 1, "active", "plus"),
    ]:  # fmt: skip
        seen = receipt(E, row("1", START, E, "year"), row("2", start, E + 31 * DAY, product))
        yield Row(f"{product} ahead in a receipt", [seen], E + MINUTE, status, names, E + 31 * DAY)
    back = t("1", START, E, signed=START + 2 * DAY)
    yield Row("named otherwise and back", [back, MOVED, YEAR], MIDDLE, "active", "plus", E, chains=1)
    refunded = t("1", START, E, signed=MIDDLE, originalTransactionId="2", revocationDate=MIDDLE)
    yield Row("refunded under another", [refunded, YEAR], MIDDLE, "revoked", "", original="2", ends=MIDDLE, chains=1)
    for delay in (0, 2 * SECOND, 8 * HOUR):
        rows = [
            row("1", START, E, "month", cancellationDate=MIDDLE + delay),
            row("2", MIDDLE, MIDDLE + 30 * DAY, "high")]
        yield Row("upgraded, cancelled later", [receipt(MIDDLE + DAY, *rows)], MIDDLE + DAY, "active", "plus pro",
                  product="high", refunded="")  # fmt: skip
        # A genuine answer of July 2020: a month that was renewed ahead.
        rows = [
            row("1", START, E, "month"), row("2", E, E + 30 * DAY, "month", cancellationDate=E - 3 * HOUR + delay),
            row("3", E - 3 * HOUR, E + 362 * DAY, "high")]
        yield Row("upgraded, the next cancelled", [receipt(E, *rows)], E + DAY, "active", "plus pro", refunded="")
    rows = [row("1", START, E, "month", cancellationDate=MIDDLE - DAY), row("2", MIDDLE, E, "high")]
    yield Row("refunded, then upgraded", [receipt(MIDDLE, *rows)], MIDDLE, "active", "plus pro", refunded="1")
    rows = [row("1", START, E, "month", cancellationDate=MIDDLE + DAY), row("2", MIDDLE, E, "month")]
    yield Row("refunded, no upgrade", [receipt(MIDDLE + DAY, *rows)], MIDDLE + DAY, "active", "plus", refunded="1")
    undated = {"envelope": {"notificationType": "DID_FAIL_TO_RENEW", "subtype": "GRACE_PERIOD"}} | FAILED_WITHOUT_GRACE
    by_status = {"envelope": {"data": {"status": 4}}} | FAILED_WITHOUT_GRACE
    for grace in (undated, by_status):
        yield Row("grace without a date", [YEAR, grace], E + HOUR - 1, "billingGrace", "plus", E + HOUR, ends=E + HOUR)
        yield Row("grace without a date, over", [YEAR, grace], E + HOUR, "billingRetry", "", ends=E + HOUR)
        newer = r(E + 2 * MINUTE, isInBillingRetryPeriod=True)
        yield Row("grace without a date, news", [newer, YEAR, grace], E + 3 * MINUTE, "billingRetry", "", ends=E)
    ahead = t("1", MIDDLE, E, signed=START, revocationDate=START)
    yield Row("refunded before it began", [ahead], START, "revoked", "", ends=MIDDLE)


def failures() -> Iterator[str]:
    count = 0
    for each in rows():
        count += 1
        facts = Facts()
        for document in each.documents:
            facts.add(document)
        judge = Judge(facts, CATALOGUE)
        for fault in faults(each, judge.holdings(each.now)):
            yield f"row {each.number}: {fault}"
        if each.refunded is not None and judge.refunded() != {*each.refunded.split()}:
            yield f"row {each.number}: refunded {judge.refunded()}"
    coins = t("5", START, None, "coins", type="Consumable", quantity=2, revocationDate=MIDDLE,
              revocationType="REFUND_PRORATED", revocationPercentage=50_000)  # fmt: skip
    facts = Facts()
    facts.add(coins)
    if Judge(facts, CATALOGUE).consumables() != {"5": ("coins", 2, 1, 1)}:
        yield "row 22: one of two is taken back"
    facts.add(t("5", START, None, "coins", type="Consumable", signed=E, originalTransactionId="6"))
    if [*Judge(facts, CATALOGUE).consumables()] != ["5"]:
        yield "a consumable under two original ids is one"
    for left, right, is_before in VERSIONS:
        if is_before != (numbers(left) is not None and numbers(left) < numbers(right)):  # type: ignore[operator]
            yield f"version {left} before {right}"
    yield from [*story(), *tokens(), *apps()]
    print(f"{count + 1} worked decisions")


# docs/configuration.md, *The purchase of the app*: whether the one is before the other.
VERSIONS = [
    ("1.9", "1.10", True), ("1.10", "1.9", False), ("2", "2.0", False), ("2.0", "2", False), ("209", "210", True),
    ("2.0b1", "3", False), ("", "1", False), ("1.", "2", False),
]  # fmt: skip


def story() -> Iterator[str]:
    """docs/backend.md, *Corrections* and *Grants*, in a story of two customers."""
    catalogue = {"products": {}, "staleLeeway": 0, "appPurchase": [], "refusedPurchases": []}
    book = Customers({"policy": "keep", "catalogue": catalogue, "documents": [YEAR, YEAR]})

    def take(do: str, at: int = START, **words: Any) -> Words:
        return book.take({"do": do, "at": at, **words})

    take("record", documents=[0], claimant="bert")
    if take("record", documents=[0], claimant="anna") != {"kept": ["1"]}:
        yield "with keep, a purchase stays"
    give = {"id": "x", "customer": "bert", "entitlement": "pro", "environment": "Production", "until": E, "why": "-"}
    outcomes = [take("grant", **give)["outcome"], take("grant", **give | {"why": "?"})["outcome"]]
    if outcomes != ["made", "otherGrant"]:
        yield "the same request makes a grant once"
    take("alias", customer="anna", alias="bert")
    if take("unmerge", customer="bert") != {"outcome": "undone", "ids": ["bert"], "purchases": 1, "emptied": 0}:
        yield "an unmerge gives back ids and purchases"
    holders = [person.name for person in book.people if person.grants]
    if holders != ["anna"]:
        yield f"a grant stays with the remaining customer, not with {holders}"
    if take("deny", purchase="1") != {"purchase": "1", "owners": {"bert": ["correction"]}, "isDenied": True}:
        yield "a denied purchase keeps its owners"
    take("work", at=E)
    take("work", at=START)
    given = [name for person in book.people for name in book.judge(person, "Production").holdings(START).entitlements]
    if book.expected != {("grant.made", "anna", "x"): 1} or given != ["pro"]:
        yield f"a grant that a clock ahead has ended is made again, not {[*book.expected]} and {given}"


def tokens() -> Iterator[str]:
    """Rule (k): the absence of the account token is no statement. And rule 0, about the owners."""
    catalogue = {"products": {}, "staleLeeway": 0, "appPurchase": [], "refusedPurchases": []}
    again, other = t("1", START, E, signed=MIDDLE), t("1", START, E, signed=MIDDLE + 1, appAccountToken="cora")
    documents = [t("1", START, E, appAccountToken="anna"), again, other, MOVED]
    book = Customers({"policy": "accountTokenWins", "catalogue": catalogue, "documents": documents})

    def owners(index: int, claimant: str | None, name: str = "1") -> list[str]:
        book.take({"do": "record", "at": MIDDLE, "documents": [index], "claimant": claimant})
        return [owner.person.name for owner in book.owners[name]]

    if [owners(*each) for each in [(0, None), (1, None), (1, "anna"), (1, None)]] != [["anna"]] * 4:
        yield "only another token moves a purchase"
    if owners(2, None) != ["cora"]:
        yield "another token moves a purchase"
    if owners(3, None, "2") != ["cora"]:
        yield "every chain that has a transaction learns its token"


def apps() -> Iterator[str]:
    """What has no identity is shared, by 16 at most. And a volume purchase ends."""
    rules = [{"beforeVersion": "2", "entitlements": ["legacy"]}]
    catalogue = {"products": {}, "staleLeeway": 0, "appPurchase": rules, "refusedPurchases": []}
    app = {"receiptType": "ProductionVPP", "originalPurchaseDate": START, "originalApplicationVersion": "1"}
    seen = receipt(START) | {"app": app | {"expirationDate": E}}
    book = Customers({"policy": "keep", "catalogue": catalogue, "documents": [seen]})
    kept = [
        book.take({"do": "record", "at": START, "documents": [0], "claimant": f"guest {number}"})["kept"]
        for number in range(17)
    ]  # fmt: skip
    if kept != [[]] * 16 + [[f"app:bought:{START // 1000}"]]:
        yield f"the purchase of an app without an id is shared by 16: {kept}"
    given = [[*book.judge(book.people[0], "Production").holdings(now).entitlements] for now in (E - 1, E)]
    if given != [["legacy"], []]:
        yield f"a volume purchase ends: {given}"


def faults(row: Row, book: Holdings) -> Iterator[str]:
    status = book.statuses.get(row.original)
    if row.chains is not None and len(book.statuses) != row.chains:
        yield f"{sorted(book.statuses)}"
    if row.ends is not None and status and not status.access.allows(row.ends):
        yield f"access {status.access}"
    if (status.name if status else None) != row.status:
        yield f"{status}"
    if sorted(book.entitlements) != row.names.split():
        yield f"{book.entitlements}"
    ends = {grant.until for grants in book.entitlements.values() for grant in grants}
    if row.until is not None and ends != {row.until}:
        yield f"until {ends}"
    if row.product and status and status.period.product != row.product:
        yield f"governed by {status.period}"
    renews = {"yes": True, "no": False, "unknown": None}
    if row.renews != "any" and status and status.renews is not renews[row.renews]:
        yield f"renews: {status.renews}"


def self_test(data: str | None) -> int:
    found = [*failures(), *(genuine(Path(data)) if data else [])]
    print("\n".join(found) or "the book agrees")
    return 1 if found else 0


def decoded(token: str) -> Words:
    payload = token.strip().split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def genuine(folder: Path) -> Iterator[str]:
    """Genuine notifications: our status at the signedDate must be `data.status`."""
    count = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        notification = notification_in(path)
        data = (notification or {}).get("data", {})
        if not notification or "signedTransactionInfo" not in data or "status" not in data:
            continue
        transaction = decoded(data["signedTransactionInfo"])
        renewal = decoded(data["signedRenewalInfo"]) if "signedRenewalInfo" in data else None
        facts = Facts()
        facts.add({"kind": "status", "transaction": transaction, "renewal": renewal})
        book = Judge(facts, Catalogue({"products": {}, "staleLeeway": 0})).holdings(notification["signedDate"])
        status = book.statuses[transaction["originalTransactionId"]]
        count += 1
        if status.number != data["status"]:
            yield f"{path}: {status.name} ≠ data.status {data['status']}"
    print(f"{count} genuine notifications with data.status")


def notification_in(path: Path) -> Words | None:
    """The decoded payload of a file that is a signed notification, with or without the JSON around it."""
    try:
        text = path.read_text()
        if text.lstrip().startswith("{"):
            text = json.loads(text).get("signedPayload", "")
        payload = decoded(text)
        # Apple's mocks have words in place of tokens.
        data = payload.get("data", {})
        for part in ["signedTransactionInfo", "signedRenewalInfo"]:
            if part in data:
                decoded(data[part])
        return payload if "notificationType" in payload else None
    except (ValueError, IndexError, AttributeError):
        return None
