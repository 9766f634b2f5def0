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
from itertools import groupby
from typing import Any, Iterable, Iterator

Words = dict[str, Any]

RENEWABLE, NON_CONSUMABLE = "Auto-Renewable Subscription", "Non-Consumable"
CONSUMABLE, NON_RENEWING = "Consumable", "Non-Renewing Subscription"
RECEIPT_TYPES = {0: NON_CONSUMABLE, 1: CONSUMABLE, 2: NON_RENEWING, 3: RENEWABLE}

# Status codes (E.1), and the two answers that have none.
NUMBERS = {"active": 1, "expired": 2, "billingRetry": 3, "billingGrace": 4, "revoked": 5}
FOREVER = math.inf


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

    def __init__(self, original: str, periods: Iterable[Purchase], renewal: Words | None, *, is_refused: bool = False):
        self.original = original
        self.is_refused = is_refused
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

    def is_superseded(self, period: Purchase, now: int) -> bool:
        """(4) By a purchase; a renewal also if every period that ended at its purchaseDate is superseded or upgraded.

        QUESTION: "every" of none. A renewal whose predecessors are not known is not superseded.
        QUESTION: before the purchase "was made", nothing is superseded.
        """
        if any(other.start <= now for other in self.overtakers(period)):
            return True
        renewed = [other for other in self.periods if other.end == period.start and other is not period]
        return (
            self.is_renewal(period) and bool(renewed)
            and all(other.upgraded or self.is_superseded(other, now) for other in renewed)
        )  # fmt: skip

    def is_revoked(self, period: Purchase) -> bool:
        """A receipt's cancellation_date that equals, to the second, the purchaseDate of the superseding period is the
        upgrade. Any other is a refund."""
        upgrades = {other.start // 1000 for other in self.overtakers(period)}
        return any(not (each.cancelled and (each.revoked_at or 0) // 1000 in upgrades) for each in period.revocations)

    def remaining(self, now: int) -> list[Purchase]:
        """(2), (4) Those that are neither upgraded nor superseded."""
        return [period for period in self.periods if not period.upgraded and not self.is_superseded(period, now)]

    def governing(self, now: int) -> Purchase | None:
        """(5) Of those that remain, the last bought that has begun. If none has, the first counts as running.

        QUESTION: if that one was revoked, or is over, while an earlier one runs. E.4 allows the earlier one, whose
        money was not returned, so the status is about it too.
        """
        remaining = self.remaining(now)
        begun = [period for period in remaining if period.start <= now]
        running = [period for period in begun if now < (period.end or 0) and not self.is_revoked(period)]
        if begun:
            return (running or begun)[-1]
        return remaining[0] if remaining else None

    def unbegun(self, now: int) -> list[Purchase]:
        return [period for period in self.remaining(now) if now < period.start and not self.is_revoked(period)]

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
            # Whatever governs: revoked, without an end of access.
            period = period or self.periods[-1]
            switch = (self.renewal_about(period) or {}).get("autoRenewStatus")
            renews = None if switch is None else switch == 1
            return Status("revoked", period, None, renews, None, next_product, ("refused",))
        if period is None:
            return Status("upgraded", self.periods[-1], None, None, None, next_product, self.rules(now))
        renewal = self.renewal_about(period) or {}
        switch = renewal.get("autoRenewStatus")
        name, until = self.row(period, renewal, now)
        ahead = self.paid_ahead(period, now) if name == "active" else None
        renews = None if switch is None else switch == 1
        return Status(name, period, until, renews, ahead, next_product, self.rules(now))

    def paid_ahead(self, period: Purchase, now: int) -> int:
        """The end of the same product's periods that are charged ahead and follow without a gap."""
        end = period.end or 0
        for following in self.unbegun(now):
            if following.product == period.product and following.start <= end:
                end = max(end, following.end or 0)
        return end

    def rules(self, now: int) -> tuple[str, ...]:
        had_a_say = {
            "two ids": any(len(period.ids) > 1 for period in self.periods),
            "superseded": any(self.is_superseded(period, now) and not period.upgraded for period in self.periods),
            "ahead": any(period.start > now for period in self.periods),
        }
        return tuple(rule for rule, had in had_a_say.items() if had)

    def row(self, period: Purchase, renewal: Words, now: int) -> tuple[str, int | None]:
        """The table of E.3, first match wins: the status, and until when there is access."""
        if self.is_revoked(period):
            return "revoked", None
        if now < (period.end or 0):
            return "active", period.end
        if renewal.get("isInBillingRetryPeriod") is True:
            grace = renewal.get("gracePeriodExpiresDate") or 0
            return ("billingGrace", grace) if grace > now else ("billingRetry", None)
        if renewal.get("autoRenewStatus") == 0 or renewal.get("expirationIntent") is not None:
            return "expired", None
        return "stale", None


@dataclass(frozen=True)
class Status:
    name: str
    period: Purchase
    until: int | None
    renews: bool | None
    # QUESTION: until when there is access, if the next period is charged: its end may be told too.
    ahead: int | None = None
    next_product: str | None = None
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
    rules: tuple[str, ...] = field(default=(), compare=False)


class Judge:
    """The answers that follow from these facts.

    `refused` are original transaction ids of purchases that grant nothing. `gifts` are entitlements, by name, that no
    transaction gives: by the purchase of the app, and by the app's backend.
    """

    def __init__(
        self, facts: Facts, catalogue: Catalogue, refused: frozenset[str] = frozenset(),
        gifts: Iterable[tuple[str, Grant]] = (),
    ):  # fmt: skip
        self.catalogue, self.refused, self.gifts = catalogue, refused, list(gifts)
        purchases = facts.purchases()
        self.once = [purchase for purchase in purchases if purchase.type != RENEWABLE]
        periods = sorted((each for each in purchases if each.type == RENEWABLE), key=lambda each: each.original)
        self.chains = [
            Chain(original, list(same), facts.renewals.get(original), is_refused=original in refused)
            for original, same in groupby(periods, lambda period: period.original)
        ]

    def holdings(self, now: int, *, ties_count_ahead: bool = False) -> Holdings:
        statuses = {chain.original: chain.status(now) for chain in self.chains}
        grants: dict[str, list[Grant]] = {}
        given = [(name, gift) for name, gift in self.gifts if now < gift.until]
        for name, grant in [*self.subscribed(now, statuses, ties_count_ahead), *self.bought_once(now), *given]:
            grants.setdefault(name, []).append(grant)
        rules = {rule for status in statuses.values() for rule in status.rules}
        rules |= {"two ids" for purchase in self.once if len(purchase.ids) > 1}
        entitlements = {name: longest(each) for name, each in grants.items()}
        return Holdings(statuses, entitlements, self.consumables(), tuple(sorted(rules)))

    def candidates(self, chain: Chain, now: int, status: Status) -> Iterator[Grant]:
        """The candidates of E.4: what is paid for now; grace; and for a short while what may have been renewed.

        A period that has not begun is none while another runs (E.3 (5)). QUESTION: nor after one that was revoked.
        """
        if chain.is_refused:
            return
        for period in chain.remaining(now):
            has_begun = period.start <= now or period is status.period
            if has_begun and now < (period.end or 0) and not chain.is_revoked(period):
                yield Grant(period.product, period.end or 0, "subscription", period.ids)
        period, end = status.period, status.period.end or 0
        if status.name == "billingGrace":
            yield Grant(period.product, status.until or 0, "billingGrace", period.ids)
        if status.name == "stale" and now < end + self.catalogue.leeway:
            yield Grant(period.product, end + self.catalogue.leeway, "stale", period.ids)

    def readings(self, now: int) -> Iterator[Holdings]:
        """QUESTION: the latest end of two candidates, with or without what is charged ahead? Either may be told."""
        return (self.holdings(now, ties_count_ahead=ahead) for ahead in (False, True))

    def subscribed(
        self, now: int, statuses: dict[str, Status], ties_count_ahead: bool
    ) -> Iterator[tuple[str, Grant]]:
        """Per subscription group the candidate with the highest service level; ties: the latest end. A product that
        gives nothing takes no part."""
        groups: dict[str, list[tuple[Chain, Grant]]] = {}
        for chain in self.chains:
            for candidate in self.candidates(chain, now, statuses[chain.original]):
                if self.catalogue.names(candidate.product):
                    groups.setdefault(chain.group, []).append((chain, candidate))
        for members in groups.values():
            level = min(self.catalogue.level(grant.product) for _, grant in members)
            best = [(chain, grant) for chain, grant in members if self.catalogue.level(grant.product) == level]
            ends = [
                max([grant.until, *self.ahead(chain, grant.until, now).values()]) if ties_count_ahead else grant.until
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
        """Non-consumables unless revoked; non-renewing ones from purchaseDate for the developer's own duration."""
        for purchase in self.once:
            if purchase.revocations or purchase.type == CONSUMABLE or purchase.original in self.refused:
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
