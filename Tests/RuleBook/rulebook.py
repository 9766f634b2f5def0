#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A judge of subscription rules that shares no code with the library: Apple's rules as the project's fact sheet on
signed transactions has them (its sections in parentheses), a function for a sentence, as far as that goes.

    python3 rulebook.py world.jsonl answers.jsonl     compares a library's answers with its own
    python3 rulebook.py world.jsonl                   compares itself with Apple's verdicts in orderly histories
    python3 rulebook.py --self-test [DATA]            checks itself with Appendix 2, and genuine notifications in DATA

`customers.py` goes on with the customers of an app and its backend, from our own pages.

Where the sheet is silent, this says QUESTION. Then either answer is accepted, or the one that grants least.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any, Iterable, Iterator

Words = dict[str, Any]

RENEWABLE, NON_CONSUMABLE = "Auto-Renewable Subscription", "Non-Consumable"
CONSUMABLE, NON_RENEWING = "Consumable", "Non-Renewing Subscription"
RECEIPT_TYPES = {0: NON_CONSUMABLE, 1: CONSUMABLE, 2: NON_RENEWING, 3: RENEWABLE}

# Status codes (E.1), and the two answers that have none.
NUMBERS = {"active": 1, "expired": 2, "billingRetry": 3, "billingGrace": 4, "revoked": 5}
FOREVER = math.inf
# Without a reason, what begins at most so long after an end waits like a renewal.
RENEWS_WITHIN = 3_600_000


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
        """A receipt has no words for the reason, the group, upgrades, refunds of consumables, and the web order line
        item of what a family shares: its silence about them is no statement.

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
    """What arrived about one transaction id, under whatever original id: the newest of each kind of document, and when
    it was first known."""

    signed: Statement | None = None
    receipt: Statement | None = None
    first_signed: int = sys.maxsize
    # Every original id that a document named.
    originals: set[str] = field(default_factory=set)
    is_ever_upgraded: bool = False
    # When the newest account token was signed, and the token: its absence is no statement (rule k).
    token: tuple[int, str] | None = None

    @property
    def statement(self) -> Statement:
        """Rule (a): per transactionId the newest signedDate wins. So it also says in which chain the transaction counts
        (E.3, rule 0)."""
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
                known = self.add_statement(Statement.signed_by_store(words), is_receipt=False)
                if "appAccountToken" in words:
                    known.token = max(known.token or (0, ""), (words["signedDate"], words["appAccountToken"]))
        if document.get("renewal"):
            self.add_renewal(document["renewal"] | {"says grace": says_grace(document)})

    def add_statement(self, new: Statement, *, is_receipt: bool) -> Known:
        known = self.transactions.setdefault(new.id, Known())
        known.first_signed = min(known.first_signed, new.signed)
        known.originals.add(new.original)
        known.is_ever_upgraded |= new.upgraded
        old = known.receipt if is_receipt else known.signed
        if old is None or old.signed < new.signed:
            if is_receipt:
                known.receipt = new
            else:
                known.signed = new
        return known

    def add_renewal(self, new: Words) -> None:
        """Rule (b): per originalTransactionId the newest renewal info wins, also by what it does not say."""
        old = self.renewals.get(new["originalTransactionId"])
        if old is None or old["signedDate"] < new["signedDate"]:
            self.renewals[new["originalTransactionId"]] = new

    def purchases(self, *, upgrades_stay: bool = False) -> list[Purchase]:
        """E.3, *Merge first*: the same web order line item within a chain is one period, the same original id of a
        non-consumable one purchase. `"0"` is no line item.

        QUESTION: does what counts in another chain since still merge with what stayed? Here it does not.
        """

        def key(known: Known) -> tuple[str, str]:
            statement = known.statement
            if statement.type == RENEWABLE and statement.web and statement.web != "0":
                return statement.original, statement.web
            if statement.type == NON_CONSUMABLE:
                return statement.original, "once"
            return statement.original, f"id {statement.id}"

        ordered = sorted(self.transactions.values(), key=key)
        return [Purchase.merging(list(same), upgrades_stay) for _, same in groupby(ordered, key)]


def says_grace(document: Words) -> bool:
    """Rule (l): the notification says grace, with or without its end."""
    envelope = document.get("envelope", {})
    about = envelope.get("notificationType"), envelope.get("subtype")
    return about == ("DID_FAIL_TO_RENEW", "GRACE_PERIOD") or envelope.get("data", {}).get("status") == 4


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
    last_signed: int
    # Documents name several original ids for it.
    is_moved: bool

    @staticmethod
    def merging(known: list[Known], upgrades_stay: bool) -> Purchase:
        """The merged one takes the least purchaseDate; a revocation of either holds for both.

        QUESTION: of the rest, the newest signed holds.
        QUESTION: is `isUpgraded` withdrawn by a newer document without it, as notifications are? Either.
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
            any(each.upgraded for each in statements) or (upgrades_stay and any(one.is_ever_upgraded for one in known)),
            tuple(each for each in statements if each.revoked_at is not None), newest.quantity,
            min(one.first_signed for one in known), newest.signed, any(len(one.originals) > 1 for one in known),
        )  # fmt: skip

    @property
    def bought(self) -> tuple[int, int, str]:
        """E.3, *Order*: as they were bought."""
        return self.start, self.end or 0, min(self.ids)


# MARK: The governing period (E.3)


class Chain:
    """The periods of one subscription: auto-renewable, one original transaction id."""

    def __init__(
        self, original: str, periods: Iterable[Purchase], renewal: Words | None, catalogue: Catalogue,
        reading: Reading, *, is_refused: bool = False,
    ):  # fmt: skip
        self.original = original
        self.is_refused = is_refused
        self.periods = sorted(periods, key=lambda period: period.bought)
        self.renewal = renewal
        self.catalogue = catalogue
        self.reading = reading

    def is_renewal(self, period: Purchase) -> bool:
        """(3) `transactionReason` RENEWAL; if absent, it begins exactly where a period of the chain ended."""
        if period.reason is not None:
            return period.reason == "RENEWAL"
        return any(other.end == period.start for other in self.periods if other is not period)

    def waits(self, period: Purchase) -> bool:
        """(5) Only a renewal waits for its `purchaseDate`, and only one that was charged ahead: what is signed at that
        date or later has begun, and our clock is behind. Without `transactionReason`, a period that begins at or within
        60 minutes after a known end of its chain, and is not of a higher level.

        QUESTION: if it begins exactly at an end and is of a higher level, it is a renewal by (3). Does it wait? Either.
        QUESTION: a higher level than that of which period, if several ended in these minutes? Of any, or the last.
        """
        if period.last_signed >= period.start:
            return False
        if period.reason is not None:
            return period.reason == "RENEWAL"
        if self.is_renewal(period) and not self.reading.higher_never_waits:
            return True
        ended = [
            other for other in self.periods
            if other is not period and 0 <= period.start - (other.end or 0) <= RENEWS_WITHIN
        ]  # fmt: skip
        if self.reading.waits_after_last:
            ended = [other for other in ended if other.end == max(each.end or 0 for each in ended)]
        level = self.catalogue.level
        return any(level(period.product) >= level(other.product) for other in ended)

    def has_begun(self, period: Purchase, now: int) -> bool:
        """(5) A purchase as soon as it is known: Apple signs only what was paid."""
        return period.start <= now or not self.waits(period)

    def overtakers(self, period: Purchase) -> list[Purchase]:
        """(4) The purchases of another product that were made after it began and before its expiresDate."""
        return [
            other for other in self.periods
            if period.start < other.start < (period.end or 0)
            and other.product != period.product and not self.is_renewal(other)
        ]  # fmt: skip

    def is_superseded(self, period: Purchase, now: int) -> bool:
        """(4) By a purchase; a renewal also if every period that ended at its purchaseDate is superseded or upgraded.

        QUESTION: "every" of none. A renewal whose predecessors are not known is not superseded.
        QUESTION: before a purchase that waits "was made", nothing is superseded.
        """
        if any(self.has_begun(other, now) for other in self.overtakers(period)):
            return True
        renewed = self.renewed_by(period)
        return bool(renewed) and all(other.upgraded or self.is_superseded(other, now) for other in renewed)

    def renewed_by(self, period: Purchase) -> list[Purchase]:
        """The periods that ended where a renewal begins."""
        others = [other for other in self.periods if other.end == period.start and other is not period]
        return others if self.is_renewal(period) else []

    def upgrades(self, period: Purchase) -> Iterator[Purchase]:
        """The purchases that supersede it: made after it began, or after the one that it renewed began.

        QUESTION: "the one that it renewed" may have renewed another, which a purchase superseded with all that follow.
        """
        yield from self.overtakers(period)
        renewed = self.renewed_by(period)
        if all(other.upgraded or any(self.upgrades(other)) for other in renewed):
            for other in renewed:
                yield from self.upgrades(other)

    def is_refund(self, period: Purchase, revocation: Statement) -> bool:
        """*From a receipt alone*: a cancellation_date is the upgrade if a purchase that supersedes the period was not
        made after it. Any other is a refund. Receipts know seconds."""
        cancelled = (revocation.revoked_at or 0) // 1000
        return not revocation.cancelled or all(other.start // 1000 > cancelled for other in self.upgrades(period))

    def refunds(self, period: Purchase) -> list[Statement]:
        return [each for each in period.revocations if self.is_refund(period, each)]

    def is_revoked(self, period: Purchase) -> bool:
        return bool(self.refunds(period))

    def remaining(self, now: int) -> list[Purchase]:
        """(2), (4) Those that are neither upgraded nor superseded."""
        return [period for period in self.periods if not period.upgraded and not self.is_superseded(period, now)]

    def governing(self, now: int) -> Purchase | None:
        """(5) Of those that remain, the last bought that has begun. If none has, the first counts as running. *Bought*
        is the order of the purchaseDates, also of those ahead.

        QUESTION: if that one was revoked, or is over, while an earlier one runs. E.4 allows the earlier one, whose
        money was not returned, so the status is about it too.
        """
        remaining = self.remaining(now)
        begun = [period for period in remaining if self.has_begun(period, now)]
        running = [period for period in begun if now < (period.end or 0) and not self.is_revoked(period)]
        if begun:
            return (running or begun)[-1]
        return remaining[0] if remaining else None

    def unbegun(self, now: int) -> list[Purchase]:
        return [
            period for period in self.remaining(now) if not self.has_begun(period, now) and not self.is_revoked(period)]

    def renewal_about(self, period: Purchase) -> Words | None:
        """*R about T*. QUESTION: the newest R, if it is about T; never an older one that is."""
        if self.renewal is None:
            return None
        signed = self.renewal["signedDate"]
        is_same_end = self.renewal.get("renewalDate") == period.end
        return self.renewal if is_same_end or signed >= max(period.start, period.first_signed) else None

    @property
    def group(self) -> str:
        """Receipts name no group: what any document of the chain names.

        QUESTION: if none names one, the chain is a group of its own.
        """
        return next((period.group for period in self.periods if period.group), f"chain {self.original}")

    def status(self, now: int) -> Status:
        """The table of E.3, and of the newest R, whatever it is about, the next product."""
        period = self.governing(now)
        next_product = (self.renewal or {}).get("autoRenewProductId")
        if self.is_refused:
            # Whatever governs: revoked, without an end of access. If nothing does, no R is about it.
            switch = (self.renewal_about(period) or {}).get("autoRenewStatus") if period else None
            period = period or self.periods[-1]
            renews = None if switch is None else switch == 1
            access = Access.refused(period, now)
            return Status("revoked", period, None, renews, None, next_product, access, ("refused",))
        if period is None:
            # QUESTION: when did the access of an upgraded period end? While it ran.
            period = self.periods[-1]
            access = Access(False, ((period.start, max(period.start, period.end or 0)),))
            return Status("upgraded", period, None, None, None, next_product, access, self.rules(now))
        renewal = self.renewal_about(period) or {}
        switch = renewal.get("autoRenewStatus")
        name, until = self.row(period, renewal, now)
        ahead = self.paid_ahead(period, period.end or 0, now) if name == "active" else None
        renews = None if switch is None else switch == 1
        access = self.access(name, period, renewal, now, ahead)
        return Status(name, period, until, renews, ahead, next_product, access, self.rules(now))

    def access(self, name: str, period: Purchase, renewal: Words, now: int, ahead: int | None) -> Access:
        """Whether this subscription alone gives access now, and when this ends or ended.

        What the documents say now counts, and not what was allowed before they arrived.

        QUESTION: when did it end if it was cancelled in grace, or its retries ended? With its period, or with a grace
        that is told.
        QUESTION: does a product that gives nothing give access? Here it does, as a purchase in force may.
        """
        end = period.end or 0
        leeway, grace = end + self.catalogue.leeway, max(end, self.grace(period, renewal) or end)
        if name == "active":
            return Access(True, exactly(end, ahead or end))
        if name == "billingGrace":
            return Access(True, exactly(grace, self.paid_ahead(period, grace, now)))
        if name == "stale" and now < leeway:
            return Access(True, exactly(leeway, self.paid_ahead(period, leeway, now)))
        if name == "stale":
            return Access(False, exactly(leeway))
        if name == "billingRetry":
            return Access(False, exactly(grace))
        if name == "expired":
            return Access(False, exactly(end, grace))
        # Refunded, at the latest at its end; before it began, it never gave access.
        dates = [each.revoked_at or 0 for each in self.refunds(period)]
        return Access(False, exactly(*(max(period.start, min(date, last)) for date in dates for last in (end, grace))))

    def grace(self, period: Purchase, renewal: Words) -> int | None:
        """Until when grace lasts. Rule (l): for the leeway of stale if Apple says grace and not until when."""
        told = renewal.get("gracePeriodExpiresDate")
        says = renewal.get("says grace") and renewal.get("isInBillingRetryPeriod") is True
        return (period.end or 0) + self.catalogue.leeway if told is None and says else told

    def paid_ahead(self, period: Purchase, end: int, now: int) -> int:
        """The end of the same product's periods that are charged ahead and follow without a gap."""
        for following in self.unbegun(now):
            if following.product == period.product and following.start <= end:
                end = max(end, following.end or 0)
        return end

    def rules(self, now: int) -> tuple[str, ...]:
        had_a_say = {
            "two ids": any(len(period.ids) > 1 for period in self.periods),
            "two chains": any(period.is_moved for period in self.periods),
            "bought ahead": any(period.start > now and not self.waits(period) for period in self.periods),
            "grace without a date": self.has_grace_without_date,
            "cancelled": any(each.cancelled for period in self.periods for each in period.revocations),
            "superseded": any(self.is_superseded(period, now) and not period.upgraded for period in self.periods),
            "ahead": any(period.start > now for period in self.periods),
        }
        return tuple(rule for rule, had in had_a_say.items() if had)

    @property
    def has_grace_without_date(self) -> bool:
        renewal = self.renewal or {}
        return bool(renewal.get("says grace")) and renewal.get("gracePeriodExpiresDate") is None

    def row(self, period: Purchase, renewal: Words, now: int) -> tuple[str, int | None]:
        """The table of E.3, first match wins: the status, and until when there is access."""
        if self.is_revoked(period):
            return "revoked", None
        if now < (period.end or 0):
            return "active", period.end
        if renewal.get("isInBillingRetryPeriod") is True:
            grace = self.grace(period, renewal) or 0
            return ("billingGrace", grace) if grace > now else ("billingRetry", None)
        if renewal.get("autoRenewStatus") == 0 or renewal.get("expirationIntent") is not None:
            return "expired", None
        return "stale", None


def exactly(*instants: int) -> tuple[tuple[int, int], ...]:
    return tuple((instant, instant) for instant in sorted({*instants}))


@dataclass(frozen=True)
class Access:
    """Whether a purchase alone gives access now, and the instants that may be told as its end, past or not. There is
    none if it gives access for ever."""

    is_given: bool
    ends: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def refused(purchase: Purchase, now: int) -> Access:
        """QUESTION: since when has a refused purchase had no access? Since its purchase, or its refusal."""
        return Access(False, ((purchase.start, max(purchase.start, now)),))

    def allows(self, until: int | None) -> bool:
        if until is None:
            return self.is_given and not self.ends
        return any(first <= until <= last for first, last in self.ends)


@dataclass(frozen=True)
class Status:
    name: str
    period: Purchase
    until: int | None
    renews: bool | None
    # QUESTION: until when there is access, if the next period is charged: its end may be told too.
    ahead: int | None = None
    next_product: str | None = None
    access: Access = Access(False)
    # Which of the harder rules had a say: for whoever reads a difference.
    rules: tuple[str, ...] = field(default=(), compare=False)

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
    # Transaction ids; or the id of a grant by the app's backend.
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
    # Of what is bought once, and not used up.
    purchases: list[tuple[Purchase, Access]]
    rules: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Reading:
    """How the sheet is read where it is silent, and two answers differ."""

    ties_count_ahead: bool = False
    upgrades_stay: bool = False
    waits_after_last: bool = False
    higher_never_waits: bool = False


READINGS = [Reading(*each) for each in product((False, True), repeat=4)]


class Judge:
    """The answers that follow from these facts.

    `refused` are original transaction ids of purchases that grant nothing. `gifts` are entitlements, by name, that no
    transaction gives: by the purchase of the app, and by the app's backend.
    """

    def __init__(
        self, facts: Facts, catalogue: Catalogue, refused: frozenset[str] = frozenset(),
        gifts: Iterable[tuple[str, Grant]] = (), reading: Reading = Reading(),
    ):  # fmt: skip
        self.facts, self.catalogue, self.refused, self.gifts = facts, catalogue, refused, list(gifts)
        self.reading = reading
        purchases = facts.purchases(upgrades_stay=reading.upgrades_stay)
        self.once = [purchase for purchase in purchases if purchase.type != RENEWABLE]
        periods = sorted((each for each in purchases if each.type == RENEWABLE), key=lambda each: each.original)
        self.chains = [
            Chain(
                original, list(same), facts.renewals.get(original), catalogue, reading, is_refused=original in refused)
            for original, same in groupby(periods, lambda period: period.original)
        ]

    def holdings(self, now: int) -> Holdings:
        statuses = {chain.original: chain.status(now) for chain in self.chains}
        grants: dict[str, list[Grant]] = {}
        given = [(name, gift) for name, gift in self.gifts if now < gift.until]
        for name, grant in [*self.subscribed(now, statuses), *self.bought_once(now), *given]:
            grants.setdefault(name, []).append(grant)
        rules = {rule for status in statuses.values() for rule in status.rules}
        rules |= {"two ids" for purchase in self.once if len(purchase.ids) > 1}
        rules |= {"two chains" for purchase in self.once if purchase.is_moved}
        rules |= {"bought ahead" for purchase in self.once if purchase.start > now}
        entitlements = {name: longest(each) for name, each in grants.items()}
        purchases = [(each, self.access(each, now)) for each in self.once if each.type != CONSUMABLE]
        return Holdings(statuses, entitlements, self.consumables(), purchases, tuple(sorted(rules)))

    def refunded(self) -> set[str]:
        """The transactions that were refunded, and not only upgraded."""
        periods = [period for chain in self.chains for period in chain.periods if chain.is_revoked(period)]
        purchases = [*periods, *(purchase for purchase in self.once if purchase.revocations)]
        return {id for purchase in purchases for id in purchase.ids}

    def candidates(self, chain: Chain, now: int, status: Status) -> Iterator[Grant]:
        """The candidates of E.4: what is paid for now; grace; and for a short while what may have been renewed.

        A period that has not begun is none while another runs (E.3 (5)). QUESTION: nor after one that was revoked.
        """
        if chain.is_refused:
            return
        for period in chain.remaining(now):
            has_begun = chain.has_begun(period, now) or period is status.period
            if has_begun and now < (period.end or 0) and not chain.is_revoked(period):
                yield Grant(period.product, period.end or 0, "subscription", period.ids)
        period, end = status.period, status.period.end or 0
        if status.name == "billingGrace":
            yield Grant(period.product, status.until or 0, "billingGrace", period.ids)
        if status.name == "stale" and now < end + self.catalogue.leeway:
            yield Grant(period.product, end + self.catalogue.leeway, "stale", period.ids)

    def readings(self, now: int) -> Iterator[Holdings]:
        """QUESTION: the latest end of two candidates, with or without what is charged ahead? Either may be told, and so
        with the other readings."""
        for reading in READINGS:
            judge = self
            if reading != self.reading:
                judge = Judge(self.facts, self.catalogue, self.refused, self.gifts, reading)
            yield judge.holdings(now)

    def subscribed(self, now: int, statuses: dict[str, Status]) -> Iterator[tuple[str, Grant]]:
        """Per subscription group the candidate with the highest service level; ties: the latest end. A product that
        gives nothing takes no part."""
        groups: dict[str, list[tuple[Chain, Grant]]] = {}
        for chain in self.chains:
            for candidate in self.candidates(chain, now, statuses[chain.original]):
                if self.catalogue.names(candidate.product):
                    groups.setdefault(chain.group, []).append((chain, candidate))
        counts_ahead = self.reading.ties_count_ahead
        for members in groups.values():
            level = min(self.catalogue.level(grant.product) for _, grant in members)
            best = [(chain, grant) for chain, grant in members if self.catalogue.level(grant.product) == level]
            ends = [
                max([grant.until, *(self.ahead(chain, grant.until, now).values() if counts_ahead else [])])
                for chain, grant in best
            ]
            for (chain, grant), end in zip(best, ends):
                if end == max(ends):
                    ahead = self.ahead(chain, grant.until, now)
                    for name in self.catalogue.names(grant.product):
                        yield name, replace(grant, until=ahead.get(name, grant.until))

    def ahead(self, chain: Chain, until: float, now: int) -> dict[str, int]:
        """A period that has not begun extends `until` of entitlements that it grants too (E.3 (5)).

        QUESTION: if it begins where the other ends, without a gap.
        """
        ends: dict[str, int] = {}
        for period in chain.unbegun(now):
            for name in self.catalogue.names(period.product):
                if period.start <= ends.get(name, until) < (period.end or 0):
                    ends[name] = period.end or 0
        return ends

    def bought_once(self, now: int) -> Iterator[tuple[str, Grant]]:
        """Non-consumables unless revoked; non-renewing ones for the developer's own duration from purchaseDate, and
        before it, since only renewals wait (E.3 (5))."""
        for purchase in self.once:
            if purchase.type != CONSUMABLE and self.access(purchase, now).is_given:
                for name in self.catalogue.names(purchase.product):
                    yield name, Grant(purchase.product, self.end(purchase), "purchase", purchase.ids)

    def end(self, purchase: Purchase) -> float:
        duration = self.catalogue.products.get(purchase.product, {}).get("duration")
        return FOREVER if duration is None or purchase.type != NON_RENEWING else purchase.start + duration

    def access(self, purchase: Purchase, now: int) -> Access:
        """Of what was bought once."""
        end = self.end(purchase)
        if purchase.original in self.refused:
            return Access.refused(purchase, now)
        if purchase.revocations:
            dates = [min(each.revoked_at or 0, end) for each in purchase.revocations]
            return Access(False, exactly(*(max(purchase.start, int(date)) for date in dates)))
        return Access(now < end, () if end == FOREVER else exactly(int(end)))

    def consumables(self) -> dict[str, tuple[str, int, int, int]]:
        return {
            min(purchase.ids): (purchase.product, purchase.quantity, *self.taken_back(purchase))
            for purchase in self.once if purchase.type == CONSUMABLE
        }  # fmt: skip

    def taken_back(self, purchase: Purchase) -> tuple[int, int]:
        """Of a refused purchase all."""
        is_refused = purchase.original in self.refused
        return (purchase.quantity, purchase.quantity) if is_refused else taken_back(purchase)


def longest(grants: list[Grant]) -> list[Grant]:
    """QUESTION: of several purchases that grant one name, one that lasts longest is told."""
    return [grant for grant in grants if grant.until == max(each.until for each in grants)]


def taken_back(purchase: Purchase) -> tuple[int, int]:
    """E.6: of a prorated refund the percentage, of any other the whole.

    QUESTION: a fraction may be rounded either way.
    """
    if not purchase.revocations:
        return 0, 0
    refund = purchase.revocations[-1]
    if not refund.prorated or refund.percentage is None:
        return purchase.quantity, purchase.quantity
    share = purchase.quantity * refund.percentage / 100_000
    return math.floor(share), math.ceil(share)


def main() -> int:
    import judge
    import worked

    match sys.argv[1:]:
        case ["--self-test", *data]:
            return worked.self_test(data[0] if data else None)
        case ["-h" | "--help"]:
            print(__doc__)
            return 0
        case [world]:
            return judge.verdicts(world)
        case [world, answers]:
            return judge.judge_files(world, answers)
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
