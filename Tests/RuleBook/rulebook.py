#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A judge of subscription rules that shares no code with the library: the sentences of the fact sheet on signed
transactions (its sections in parentheses), one function a sentence, as far as that goes.

    python3 rulebook.py world.jsonl answers.jsonl     compares a library's answers with its own
    python3 rulebook.py world.jsonl                   compares itself with Apple's verdicts in orderly histories
    python3 rulebook.py --self-test [DATA]            checks itself against Appendix 2, and genuine notifications in DATA

Where the sheet is silent it says QUESTION, and takes the answer that grants and claims least.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Iterable, Iterator

Words = dict[str, Any]

RENEWABLE, NON_CONSUMABLE = "Auto-Renewable Subscription", "Non-Consumable"
CONSUMABLE, NON_RENEWING = "Consumable", "Non-Renewing Subscription"
RECEIPT_TYPES = {0: NON_CONSUMABLE, 1: CONSUMABLE, 2: NON_RENEWING, 3: RENEWABLE}

# Status codes (E.1), and the two answers that have none.
NUMBERS = {"active": 1, "expired": 2, "billingRetry": 3, "billingGrace": 4, "revoked": 5}
FOREVER = math.inf
# How many kinds of difference are shown with all that was delivered.
EXAMPLES = 8


# MARK: Evidence (E.4, rules of evidence)


@dataclass(frozen=True)
class Statement:
    """What the newest evidence says about one transaction id."""

    id: str
    original: str
    product: str
    type: str
    start: int
    end: int | None
    web: str | None
    quantity: int
    reason: str | None
    group: str | None
    upgraded: bool
    revoked_at: int | None
    percentage: int | None
    prorated: bool
    signed: int
    # The revocation is a receipt's cancellation_date, which may stand for an upgrade.
    cancelled: bool = False

    @staticmethod
    def signed_by_store(words: Words) -> Statement:
        return Statement(
            words["transactionId"], words["originalTransactionId"], words["productId"], words["type"],
            words["purchaseDate"], words.get("expiresDate"), words.get("webOrderLineItemId") or None,
            words.get("quantity", 1), words.get("transactionReason"), words.get("subscriptionGroupIdentifier"),
            words.get("isUpgraded") is True, words.get("revocationDate"), words.get("revocationPercentage"),
            words.get("revocationType") == "REFUND_PRORATED", words["signedDate"],
        )  # fmt: skip

    @staticmethod
    def in_receipt(row: Words, created: int) -> Statement:
        web = row.get("webOrderLineItemId")
        return Statement(
            row["transactionId"], row["originalTransactionId"], row["productId"], RECEIPT_TYPES[row["productType"]],
            row["purchaseDate"], row.get("expiresDate"), str(web) if web else None, row["quantity"], None, None, False,
            row.get("cancellationDate"), None, False, created, cancelled="cancellationDate" in row,
        )  # fmt: skip

    def with_silence_of_receipt(self, signed: Statement) -> Statement:
        """A receipt has no words for the reason, the group, upgrades, refunds of consumables, and the web order line item of
        what is shared by a family: no statement about them.

        QUESTION: nor for the refunded share. If a receipt confirms the revocation, the signed share stays.
        """
        merged = replace(self, reason=signed.reason, group=signed.group, upgraded=signed.upgraded)
        merged = replace(merged, web=self.web or signed.web)
        if self.type == CONSUMABLE or (self.revoked_at is not None and signed.revoked_at is not None):
            merged = replace(
                merged, revoked_at=signed.revoked_at, percentage=signed.percentage, prorated=signed.prorated,
                cancelled=False)  # fmt: skip
        return merged


@dataclass
class Known:
    """What arrived about one transaction id: the newest of each kind of document, and when it was first known."""

    signed: Statement | None = None
    receipt: Statement | None = None
    first_signed: int = sys.maxsize

    @property
    def statement(self) -> Statement:
        """Rule (a): per transactionId the newest signedDate wins."""
        signed, receipt = self.signed, self.receipt
        if signed is None or receipt is None:
            newest = signed or receipt
            assert newest
            return newest
        return signed if signed.signed >= receipt.signed else receipt.with_silence_of_receipt(signed)


@dataclass
class Facts:
    """All evidence about one customer, in whatever order it came."""

    transactions: dict[str, Known] = field(default_factory=dict)
    renewals: dict[str, Words] = field(default_factory=dict)

    def add(self, document: Words) -> None:
        if document["kind"] == "receipt":
            for row in document["purchases"]:
                self.add_statement(Statement.in_receipt(row, document["signedDate"]), is_receipt=True)
            return
        for words in [*document.get("transactions", []), document.get("transaction")]:
            if words:
                self.add_statement(Statement.signed_by_store(words), is_receipt=False)
        if document.get("renewal"):
            self.add_renewal(document["renewal"])

    def add_statement(self, new: Statement, *, is_receipt: bool) -> None:
        known = self.transactions.setdefault(new.id, Known())
        known.first_signed = min(known.first_signed, new.signed)
        old = known.receipt if is_receipt else known.signed
        if old is None or old.signed < new.signed:
            if is_receipt:
                known.receipt = new
            else:
                known.signed = new

    def add_renewal(self, new: Words) -> None:
        """Rule (b): per originalTransactionId the newest renewal info wins."""
        old = self.renewals.get(new["originalTransactionId"])
        if old is None or old["signedDate"] < new["signedDate"]:
            self.renewals[new["originalTransactionId"]] = new

    def purchases(self) -> list[Purchase]:
        """E.3, *Merge first*: the same web order line item within a chain is one period, the same original id of a
        non-consumable one purchase."""

        def key(known: Known) -> tuple[str, str]:
            statement = known.statement
            if statement.type == RENEWABLE and statement.web:
                return statement.original, statement.web
            if statement.type == NON_CONSUMABLE:
                return statement.original, "once"
            return statement.original, f"id {statement.id}"

        ordered = sorted(self.transactions.values(), key=key)
        return [Purchase.merging(list(same)) for _, same in groupby(ordered, key)]


@dataclass(frozen=True)
class Purchase:
    """A period, or something bought once, under however many transaction ids."""

    ids: frozenset[str]
    original: str
    product: str
    type: str
    start: int
    end: int | None
    reason: str | None
    group: str | None
    upgraded: bool
    revocations: tuple[Statement, ...]
    quantity: int
    first_signed: int

    @staticmethod
    def merging(known: list[Known]) -> Purchase:
        """The merged one takes the least purchaseDate; a revocation of either holds for both.

        QUESTION: of the rest, the newest signed holds.
        """
        statements = sorted((one.statement for one in known), key=lambda statement: statement.signed)
        newest = statements[-1]
        said = {
            name: next((getattr(each, name) for each in reversed(statements) if getattr(each, name)), None)
            for name in ["reason", "group"]
        }
        return Purchase(
            frozenset(each.id for each in statements), newest.original, newest.product, newest.type,
            min(each.start for each in statements), newest.end, said["reason"], said["group"],
            any(each.upgraded for each in statements),
            tuple(each for each in statements if each.revoked_at is not None), newest.quantity,
            min(one.first_signed for one in known),
        )  # fmt: skip

    @property
    def bought(self) -> tuple[int, int, str]:
        """E.3, *Order*: as they were bought."""
        return self.start, self.end or 0, min(self.ids)


# MARK: The governing period (E.3)


class Chain:
    """The periods of one subscription: auto-renewable, one original transaction id."""

    def __init__(self, original: str, periods: Iterable[Purchase], renewal: Words | None):
        self.original = original
        self.periods = sorted(periods, key=lambda period: period.bought)
        self.renewal = renewal

    def is_renewal(self, period: Purchase) -> bool:
        """(3) `transactionReason` RENEWAL; if absent, it begins exactly where a period of the chain ended."""
        if period.reason is not None:
            return period.reason == "RENEWAL"
        return any(other.end == period.start for other in self.periods if other is not period)

    def overtakers(self, period: Purchase) -> list[Purchase]:
        """(4) The purchases of another product that were made after it began and before its expiresDate."""
        return [
            other for other in self.periods
            if period.start < other.start < (period.end or 0)
            and other.product != period.product and not self.is_renewal(other)
        ]  # fmt: skip

    def is_superseded(self, period: Purchase) -> bool:
        """(4) By a purchase; a renewal also if every period that ended at its purchaseDate is superseded or upgraded.

        QUESTION: "every" of none. A renewal whose predecessors are not known is not superseded.
        """
        if self.overtakers(period):
            return True
        renewed = [other for other in self.periods if other.end == period.start and other is not period]
        return (
            self.is_renewal(period) and bool(renewed)
            and all(other.upgraded or self.is_superseded(other) for other in renewed)
        )  # fmt: skip

    def is_revoked(self, period: Purchase) -> bool:
        """A receipt's cancellation_date that equals, to the second, the purchaseDate of the superseding period is the
        upgrade. Any other is a refund."""
        upgrades = {other.start // 1000 for other in self.overtakers(period)}
        return any(not (each.cancelled and (each.revoked_at or 0) // 1000 in upgrades) for each in period.revocations)

    @cached_property
    def remaining(self) -> list[Purchase]:
        """(2), (4) Those that are neither upgraded nor superseded."""
        return [period for period in self.periods if not period.upgraded and not self.is_superseded(period)]

    def governing(self, now: int) -> Purchase | None:
        """(5) Of those that remain, the last bought that has begun. If none has, the first counts as running."""
        begun = [period for period in self.remaining if period.start <= now]
        return begun[-1] if begun else self.remaining[0] if self.remaining else None

    def renewal_about(self, period: Purchase) -> Words | None:
        """*R about T*. QUESTION: the newest R, if it is about T; never an older one that is."""
        if self.renewal is None:
            return None
        signed = self.renewal["signedDate"]
        is_same_end = self.renewal.get("renewalDate") == period.end
        return self.renewal if is_same_end or signed >= max(period.start, period.first_signed) else None

    @property
    def group(self) -> str:
        """Receipts name no group: what any document of the chain names. QUESTION: else the chain is a group of its own."""
        return next((period.group for period in self.periods if period.group), f"chain {self.original}")

    def status(self, now: int) -> Status:
        """The table of E.3, first match wins."""
        period = self.governing(now)
        if period is None:
            return Status("upgraded", self.periods[-1], None, None)
        renewal = self.renewal_about(period) or {}
        switch = renewal.get("autoRenewStatus")
        renews = None if switch is None else switch == 1
        grace = renewal.get("gracePeriodExpiresDate") or 0
        if self.is_revoked(period):
            return Status("revoked", period, None, renews)
        if now < (period.end or 0):
            return Status("active", period, period.end, renews)
        if renewal.get("isInBillingRetryPeriod") is True:
            return Status("billingGrace", period, grace, renews) if grace > now else Status("billingRetry", period, None, renews)
        if switch == 0 or renewal.get("expirationIntent") is not None:
            return Status("expired", period, None, renews)
        return Status("stale", period, None, renews)


@dataclass(frozen=True)
class Status:
    name: str
    period: Purchase
    until: int | None
    renews: bool | None

    @property
    def number(self) -> int | None:
        return NUMBERS.get(self.name)


# MARK: Entitlements (E.4)


@dataclass(frozen=True)
class Grant:
    """One purchase's claim to an entitlement."""

    product: str
    until: float
    reason: str
    ids: frozenset[str]


class Catalogue:
    def __init__(self, words: Words):
        self.products: dict[str, Words] = words["products"]
        self.leeway: int = words["staleLeeway"]

    def names(self, product: str) -> set[str]:
        return set(self.products.get(product, {}).get("entitlements", []))

    def level(self, product: str) -> float:
        """1 is the highest; a product without a level comes last."""
        return self.products.get(product, {}).get("level", math.inf)


@dataclass
class Holdings:
    statuses: dict[str, Status]
    # By name: the grants of which any may be told, since they last equally long.
    entitlements: dict[str, list[Grant]]
    # By transaction id: product, quantity, and the least and the most that may be taken back.
    consumables: dict[str, tuple[str, int, int, int]]


class Judge:
    """The answers that follow from these facts."""

    def __init__(self, facts: Facts, catalogue: Catalogue):
        self.catalogue = catalogue
        purchases = facts.purchases()
        self.once = [purchase for purchase in purchases if purchase.type != RENEWABLE]
        periods = sorted((each for each in purchases if each.type == RENEWABLE), key=lambda each: each.original)
        self.chains = [
            Chain(original, list(same), facts.renewals.get(original))
            for original, same in groupby(periods, lambda period: period.original)
        ]

    def holdings(self, now: int) -> Holdings:
        statuses = {chain.original: chain.status(now) for chain in self.chains}
        grants: dict[str, list[Grant]] = {}
        for name, grant in [*self.subscribed(now, statuses), *self.bought_once(now)]:
            grants.setdefault(name, []).append(grant)
        return Holdings(statuses, {name: longest(each) for name, each in grants.items()}, self.consumables())

    def candidates(self, chain: Chain, now: int, status: Status) -> Iterator[Grant]:
        """The candidates of E.4: what is paid for now; grace; and for a short while what may have been renewed.

        A period that has not begun is none while another runs (E.3 (5)). QUESTION: nor after one that was revoked.
        """
        for period in chain.remaining:
            has_begun = period.start <= now or period is status.period
            if has_begun and now < (period.end or 0) and not chain.is_revoked(period):
                yield Grant(period.product, period.end or 0, "subscription", period.ids)
        period, end = status.period, status.period.end or 0
        if status.name == "billingGrace":
            yield Grant(period.product, status.until or 0, "billingGrace", period.ids)
        if status.name == "stale" and now < end + self.catalogue.leeway:
            yield Grant(period.product, end + self.catalogue.leeway, "stale", period.ids)

    def subscribed(self, now: int, statuses: dict[str, Status]) -> Iterator[tuple[str, Grant]]:
        """Per subscription group the candidate with the highest service level; ties: the latest end."""
        groups: dict[str, list[tuple[Chain, Grant]]] = {}
        for chain in self.chains:
            for candidate in self.candidates(chain, now, statuses[chain.original]):
                groups.setdefault(chain.group, []).append((chain, candidate))
        for members in groups.values():
            level = min(self.catalogue.level(grant.product) for _, grant in members)
            best = [(chain, grant) for chain, grant in members if self.catalogue.level(grant.product) == level]
            # QUESTION: the latest end is the product's own here, or that with what is charged ahead; either may be told.
            end = max(grant.until for _, grant in best)
            for chain, grant in best:
                if grant.until == end:
                    for name in self.catalogue.names(grant.product):
                        yield name, replace(grant, until=self.extended(chain, grant, name, now))

    def extended(self, chain: Chain, grant: Grant, name: str, now: int) -> float:
        """A period that has not begun extends `until` of entitlements that it grants too (E.3 (5)).

        QUESTION: if it begins where the other ends, without a gap.
        """
        until = grant.until
        for period in chain.remaining:
            follows = now < period.start <= until < (period.end or 0)
            if follows and not chain.is_revoked(period) and name in self.catalogue.names(period.product):
                until = period.end or 0
        return until

    def bought_once(self, now: int) -> Iterator[tuple[str, Grant]]:
        """Non-consumables unless revoked; non-renewing ones from purchaseDate for the developer's own duration."""
        for purchase in self.once:
            if purchase.revocations or purchase.type == CONSUMABLE:
                continue
            until = FOREVER
            if purchase.type == NON_RENEWING:
                duration = self.catalogue.products.get(purchase.product, {}).get("duration")
                until = FOREVER if duration is None else purchase.start + duration
                if not purchase.start <= now < until:
                    continue
            for name in self.catalogue.names(purchase.product):
                yield name, Grant(purchase.product, until, "purchase", purchase.ids)

    def consumables(self) -> dict[str, tuple[str, int, int, int]]:
        return {
            min(purchase.ids): (purchase.product, purchase.quantity, *taken_back(purchase))
            for purchase in self.once if purchase.type == CONSUMABLE
        }  # fmt: skip


def longest(grants: list[Grant]) -> list[Grant]:
    """QUESTION: of several purchases that grant one name, one that lasts longest is told."""
    return [grant for grant in grants if grant.until == max(each.until for each in grants)]


def taken_back(purchase: Purchase) -> tuple[int, int]:
    """E.6: of a prorated refund the percentage, of any other the whole. QUESTION: a fraction may be rounded either way."""
    if not purchase.revocations:
        return 0, 0
    refund = purchase.revocations[-1]
    if not refund.prorated or refund.percentage is None:
        return purchase.quantity, purchase.quantity
    share = purchase.quantity * refund.percentage / 100_000
    return math.floor(share), math.ceil(share)


# MARK: Comparing


@dataclass(frozen=True)
class Difference:
    kind: str
    what: str


def compare(ours: Words, book: Holdings) -> Iterator[Difference]:
    """The library's answer beside the book's."""
    for original in sorted({*ours["subscriptions"], *book.statuses}):
        answer, status = ours["subscriptions"].get(original), book.statuses.get(original)
        if answer is None or status is None:
            yield Difference("subscription known or not", f"{original}: {answer} ≠ {status}")
        else:
            yield from compare_status(answer, status)
    yield from compare_entitlements(ours["entitlements"], book.entitlements)
    consumables = {each["transactionId"]: each for each in ours["consumables"]}
    if consumables.keys() != book.consumables.keys():
        yield Difference("consumables", f"{sorted(consumables)} ≠ {sorted(book.consumables)}")
    for id in consumables.keys() & book.consumables.keys():
        each, (product, quantity, least, most) = consumables[id], book.consumables[id]
        if (each["productId"], each["quantity"]) != (product, quantity) or not least <= each["revoked"] <= most:
            yield Difference("consumable", f"{each} ≠ {book.consumables[id]}")


def compare_status(answer: Words, status: Status) -> Iterator[Difference]:
    prefix = f"{status.period.original}: "
    if answer["status"] != status.name:
        yield Difference(f"status {answer['status']} ≠ {status.name}", prefix + f"T is {sorted(status.period.ids)}")
    if answer["transactionId"] not in status.period.ids or answer["productId"] != status.period.product:
        told = f"{answer['transactionId']} {answer['productId']} ≠ {sorted(status.period.ids)} {status.period.product}"
        yield Difference("governing period", prefix + told)
    elif answer["status"] == status.name:
        if answer.get("until") != status.until:
            yield Difference(f"accessUntil of {status.name}", prefix + f"{answer.get('until')} ≠ {status.until}")
        if answer.get("willRenew") != status.renews:
            kind = f"willRenew of {status.name}: {answer.get('willRenew')} ≠ {status.renews}"
            yield Difference(kind, prefix + f"T is {sorted(status.period.ids)}")


def compare_entitlements(answers: list[Words], book: dict[str, list[Grant]]) -> Iterator[Difference]:
    told = Counter(answer["name"] for answer in answers)
    for name in sorted({*told, *book}):
        grants = book.get(name, [])
        if told[name] > 1:
            yield Difference("entitlement told twice", name)
        elif not told[name] or not grants:
            kind = f"denied, by the book {grants[0].reason}" if grants else "granted, by the book not"
            yield Difference(f"entitlement {kind}", f"{name}: {[each for each in answers if each['name'] == name] or grants}")
    for answer in answers:
        grants = book.get(answer["name"], [])
        mine = (answer["productId"], answer.get("until") or FOREVER, answer["reason"])
        if grants and mine not in [(grant.product, grant.until, grant.reason) for grant in grants]:
            parts = ["productId", "until", "reason"]
            theirs = (grants[0].product, grants[0].until, grants[0].reason)
            differing = [part for part, one, other in zip(parts, mine, theirs) if one != other]
            yield Difference(f"entitlement's {', '.join(differing)}", f"{answer['name']}: {mine} ≠ {grants}")


@dataclass
class Found:
    """Differences by kind, with one of each: that of which the fewest documents are to be read."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[int, str]] = field(default_factory=dict)
    questions: int = 0

    def add(self, difference: Difference, where: str, documents: list[Words], ours: Words, book: Holdings) -> None:
        self.counts[difference.kind] += 1
        if len(documents) < self.examples.get(difference.kind, (sys.maxsize, ""))[0]:
            listed = "\n".join("    " + json.dumps(document) for document in documents)
            self.examples[difference.kind] = len(documents), (
                f"{difference.kind}\n  {difference.what}\n  {where}\n  ours: {json.dumps(ours)}\n  book: {book}\n"
                f"  delivered:\n{listed}")


def judge(world: Words, answers: list[Words], found: Found) -> None:
    """Compares every answer that was given about one customer, and in an orderly history Apple's own verdicts."""
    for number, (plan, given) in enumerate(zip(world["plans"], answers, strict=True)):
        facts, delivered, judge = Facts(), [], None
        replies = iter(given)
        for step in plan:
            if "deliver" in step:
                delivered.append(world["documents"][step["deliver"]])
                facts.add(delivered[-1])
                judge = None
                continue
            judge = judge or Judge(facts, Catalogue(world["catalogue"]))
            now, ours = step["ask"], next(replies)
            book = judge.holdings(now)
            where = f"--seed {world['seed']} --only {world['customer']}, deliveries {number}, {len(delivered)} delivered, now {now}"
            differences = [*compare(ours, book), *verdict(number == 0, now, delivered, ours, book)]
            differences += until_next_change(judge, now, ours, book)
            found.questions += 1
            for difference in differences:
                found.add(difference, where, delivered, ours, book)


def verdict(in_order: bool, now: int, delivered: list[Words], ours: Words, book: Holdings) -> Iterator[Difference]:
    """`data.status` of a notification is Apple's own verdict at its signedDate (E.3)."""
    last = delivered[-1] if delivered else {}
    status = last.get("envelope", {}).get("data", {}).get("status")
    if not in_order or status is None or last["signedDate"] != now:
        return
    original = last["transaction"]["originalTransactionId"]
    name = ours["subscriptions"].get(original, {}).get("status")
    if NUMBERS.get(name) != status:
        yield Difference(f"{name} ≠ data.status {status}", original)
    if book.statuses[original].number != status:
        yield Difference(f"THE BOOK: {book.statuses[original].name} ≠ data.status {status}", original)


def until_next_change(judge: Judge, now: int, ours: Words, book: Holdings) -> Iterator[Difference]:
    """Nothing may change by itself before the instant that the library names."""
    upcoming = ours.get("nextChange")
    later = judge.holdings(now + 10**13 if upcoming is None else max(now, upcoming - 1))
    if (later.statuses, later.entitlements) != (book.statuses, book.entitlements):
        yield Difference("changes before nextChange", f"{upcoming}")


def verdicts(world_file: str) -> int:
    """The book's own test: in histories that arrive in order, it must say what the App Store says."""
    counts: Counter[str] = Counter()
    for line in open(world_file):
        world, facts, delivered = json.loads(line), Facts(), []
        for step in world["plans"][0]:
            if "deliver" in step:
                delivered.append(world["documents"][step["deliver"]])
                facts.add(delivered[-1])
                continue
            book = Judge(facts, Catalogue(world["catalogue"])).holdings(step["ask"])
            ours = {"subscriptions": {original: {"status": status.name} for original, status in book.statuses.items()}}
            for difference in verdict(True, step["ask"], delivered, ours, book):
                counts[difference.kind] += 1
                print(f"--only {world['customer']} at {step['ask']}: {difference}")
    return 1 if counts else 0


def judge_files(world_file: str, answers_file: str) -> int:
    found = Found()
    with open(world_file) as worlds, open(answers_file) as answers:
        for world, given in zip(worlds, answers, strict=True):
            judge(json.loads(world), json.loads(given), found)
    for kind, _ in found.counts.most_common(EXAMPLES):
        print(found.examples[kind][1])
    print(f"{found.questions} answers, {sum(found.counts.values())} differences")
    for kind, count in found.counts.most_common():
        print(f"{count:8} {kind}")
    return 1 if found.counts else 0


# MARK: Self-test


def self_test(data: str | None) -> int:
    from worked import failures

    found = [*failures(), *(genuine(Path(data)) if data else [])]
    print("\n".join(found) or "the book agrees with itself")
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


def main() -> int:
    match sys.argv[1:]:
        case ["--self-test", *data]:
            return self_test(data[0] if data else None)
        case ["-h" | "--help"]:
            print(__doc__)
            return 0
        case [world]:
            return verdicts(world)
        case [world, answers]:
            return judge_files(world, answers)
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
