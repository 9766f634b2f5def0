# SPDX-License-Identifier: Apache-2.0
"""A small App Store with a truth of its own: what customers do, and what it signs about that.

It knows no rule by which a server judges. What it says of a subscription's status follows from its own states, as in
the table of state × event (E.5); which fields it signs follows from the table of field effects there.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Iterator

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
BUNDLE, GENESIS = "com.example", 1_700_000_000_000
RENEWABLE, NON_CONSUMABLE = "Auto-Renewable Subscription", "Non-Consumable"
CONSUMABLE, NON_RENEWING = "Consumable", "Non-Renewing Subscription"

# How long a period is for those who live in real time, and for those in accelerated time (G.1).
REAL = {"week": 7 * DAY, "month": 30 * DAY, "quarter": 91 * DAY, "year": 365 * DAY}
FAST = {"week": 3 * MINUTE, "month": 5 * MINUTE, "quarter": 15 * MINUTE, "year": HOUR}


@dataclass(frozen=True)
class Plan:
    """A subscription product: its group, level (1 is the highest) and period."""

    product: str
    group: str
    level: int
    period: str


PLANS = {
    plan.product: plan
    for plan in [
        Plan("pro.year", "21000001", 1, "year"),
        Plan("pro.month", "21000001", 1, "month"),
        Plan("plus.year", "21000001", 2, "year"),
        Plan("plus.month", "21000001", 2, "month"),
        Plan("plus.month.b", "21000001", 2, "month"),
        Plan("basic.quarter", "21000001", 3, "quarter"),
        Plan("basic.week", "21000001", 3, "week"),
        Plan("unlisted.month", "21000001", 4, "month"),
        Plan("news.month", "21000002", 1, "month"),
        Plan("news.year", "21000002", 1, "year"),
    ]
}

# What the app's developer wrote down. "unlisted.month" and "unlisted.thing" are not there, "news.year" has no level.
CATALOGUE = {
    "staleLeeway": HOUR,
    "products": {
        "pro.year": {"entitlements": ["read", "sync", "pro"], "level": 1},
        "pro.month": {"entitlements": ["read", "sync", "pro"], "level": 1},
        "plus.year": {"entitlements": ["read", "sync"], "level": 2},
        "plus.month": {"entitlements": ["read", "sync"], "level": 2},
        "plus.month.b": {"entitlements": ["read", "extra"], "level": 2},
        "basic.quarter": {"entitlements": ["read"], "level": 3},
        "basic.week": {"entitlements": ["read"], "level": 3},
        "news.month": {"entitlements": ["news"], "level": 1},
        "news.year": {"entitlements": ["news", "read"]},
        "filters": {"entitlements": ["filters"]},
        "lifetime": {"entitlements": ["read", "sync"]},
        "season": {"entitlements": ["season", "news"], "duration": 60 * DAY},
        "pass": {"entitlements": ["pass"]},
        "coins": {"entitlements": []},
    },
}

Words = dict[str, object]


@dataclass
class Revocation:
    date: int
    kind: str
    percentage: int | None
    reason: int

    def words(self) -> Words:
        words: Words = {"revocationDate": self.date, "revocationReason": self.reason, "revocationType": self.kind}
        if self.percentage is not None:
            words["revocationPercentage"] = self.percentage
        return words


@dataclass
class Name:
    """A transaction id of a purchase. One that is restored on another device may get a second one."""

    id: str
    purchased: int
    revocation: Revocation | None = None


@dataclass
class Purchase:
    """A paid period, or something bought once."""

    names: list[Name]
    product: str
    start: int
    end: int | None
    reason: str
    web: str | None = None
    quantity: int = 1
    offer: Words = field(default_factory=dict)
    superseded_at: int | None = None
    # When receipts say that it was cancelled: seconds to hours after what superseded it.
    cancelled_at: int | None = None

    @property
    def is_revoked(self) -> bool:
        return any(name.revocation for name in self.names)

    @property
    def is_bought(self) -> bool:
        return self.reason == "PURCHASE"


class Customer:
    """A customer with an Apple Account, and a store that lives through events in the order of time."""

    def __init__(self, seed: int, number: int, *, is_in_crowd: bool = False):
        self.rng = random.Random(f"{seed}/{number}")
        self.is_in_crowd = is_in_crowd
        self.number = number
        self.ids = 0
        self.now = GENESIS + self.rng.randrange(300 * DAY)
        self.lengths = self.rng.choice([REAL, REAL, FAST])
        self.coverage: Counter[str] = Counter()
        self.documents: list[Words] = []
        self.instants: set[int] = set()
        self.lines: list[Line] = []
        # Some apps are old: the App Store signed without transactionReason and renewalDate.
        self.is_old = self.rng.random() < 0.12
        self.has_receipts = self.rng.random() < 0.4
        # Receipts know seconds. Milliseconds in purchase dates would make two dates of one.
        self.has_milliseconds = not self.has_receipts and self.rng.random() < 0.3
        self.says_false = self.rng.random() < 0.5
        # How often a purchaseDate is ahead of the signature, as on the day of a clock change.
        self.being_ahead = self.rng.choice([0, 0, 0.4])
        self.hiding_grace = self.rng.choice([0, 0, 0, 0.7])
        self.naming_twice = self.rng.choice([0, 0.6] if is_in_crowd else [0, 0, 0, 0.6])

    def new_id(self) -> str:
        self.ids += 1
        return f"{410_000_000_000_000 + self.number * 10_000 + self.ids}"

    def happens(self, event: str) -> None:
        self.coverage[event] += 1

    def happens_ahead(self, lead: int, type: str) -> None:
        if lead > 0:
            self.happens(f"{type} bought ahead" + (" by minutes" if lead > 2 * MINUTE else ""))

    def purchase_date(self) -> int:
        """The charge is just before the signature."""
        return self.now - self.rng.randrange(1, 900) if self.has_milliseconds else self.now // SECOND * SECOND

    def lead(self) -> int:
        """How far a purchase is ahead: some seconds to 55 minutes, and less where time is fast."""
        if self.rng.random() >= self.being_ahead:
            return 0
        longest = self.rng.choice([90, 3300]) if self.lengths is REAL else 20
        return self.rng.randrange(5, longest + 1) * SECOND

    def live(self) -> None:
        """Runs all lines of the customer's life, always the one that is due first."""
        due = [(next(life), index, life) for index, life in enumerate(self.draw_lives())]
        heapq.heapify(due)
        while due:
            self.now, index, life = heapq.heappop(due)
            upcoming = next(life, None)
            if upcoming is not None:
                heapq.heappush(due, (max(upcoming, self.now + 2 * SECOND), index, life))

    def draw_lives(self) -> Iterator[Iterator[int]]:
        subscriptions = [Subscription(self, "21000001", is_shared=False)]
        if self.rng.random() < 0.2:
            subscriptions.append(Subscription(self, "21000001", is_shared=True))
        if self.rng.random() < 0.25:
            subscriptions.append(Subscription(self, "21000002", is_shared=False))
        once = [OneTime(self) for _ in range(self.rng.choice([0, 0, 1, 2, 3]))]
        self.lines = [*subscriptions, *once]
        self.device = Device(self)
        return iter([*(line.life() for line in self.lines), self.device.life()])

    def see_receipt(self) -> None:
        """Some apps send the receipt as soon as something is bought."""
        if self.has_receipts and self.rng.random() < 0.4:
            self.device.receipt([line for line in self.lines if line.purchases])
            self.happens("receipt of what was just bought")

    # Signing

    def transaction(self, line: Line, purchase: Purchase, name: Name, *, in_history: bool = False) -> Words:
        words: Words = {
            "transactionId": name.id, "originalTransactionId": line.named, "bundleId": BUNDLE,
            "productId": purchase.product, "purchaseDate": name.purchased, "originalPurchaseDate": line.born,
            "quantity": purchase.quantity, "type": line.type, "signedDate": self.now, "environment": "Production",
            "inAppOwnershipType": "FAMILY_SHARED" if line.is_shared else "PURCHASED", "storefront": "DEU",
            "storefrontId": "143443",
        }  # fmt: skip
        if purchase.end is not None:
            words |= {"expiresDate": purchase.end, "subscriptionGroupIdentifier": line.group}
        if purchase.web:
            words["webOrderLineItemId"] = purchase.web
        if not self.is_old:
            words["transactionReason"] = purchase.reason
        if in_history and purchase.superseded_at is not None:
            words["isUpgraded"] = True
        return words | purchase.offer | (name.revocation.words() if name.revocation else {})

    def sign(self, kind: str, **contents: object) -> None:
        self.documents.append({"kind": kind, "signedDate": self.now, **contents})
        self.instants.add(self.now)

    def notify(
        self, line: Line, type: str, subtype: str | None = None, purchase: Purchase | None = None,
        name: Name | None = None,
    ) -> None:  # fmt: skip
        purchase = purchase or line.current
        envelope: Words = {
            "notificationType": type, "notificationUUID": str(self.random_uuid()), "version": "2.0",
            "signedDate": self.now,
        }  # fmt: skip
        if subtype:
            envelope["subtype"] = subtype
        data: Words = {"environment": "Production", "appAppleId": 1_500_000_001, "bundleId": BUNDLE}
        parts: Words = {"transaction": self.transaction(line, purchase, name or purchase.names[0])}
        if isinstance(line, Subscription):
            parts["renewal"] = line.renewal_info()
            data["status"] = line.status()
        envelope["data"] = data
        self.sign("notification", envelope=envelope, **parts)
        self.happens(f"{type}/{subtype}" if subtype else type)

    def random_uuid(self) -> str:
        digits = f"{self.rng.getrandbits(128):032x}"
        return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])


class Line:
    """What is bought under one original transaction id."""

    type = RENEWABLE
    is_shared = False
    group: str | None = None

    def __init__(self, customer: Customer):
        self.customer = customer
        self.rng = customer.rng
        self.original = ""
        # The original id that the store names now: reports of 2025 tell that it changed, and changed back.
        self.named = ""
        self.other: str | None = None
        self.is_named_twice = self.chance(customer.naming_twice)
        self.born = 0
        self.purchases: list[Purchase] = []

    @property
    def now(self) -> int:
        return self.customer.now

    @property
    def current(self) -> Purchase:
        return self.purchases[-1]

    def life(self) -> Iterator[int]:
        raise NotImplementedError

    def between(self, start: int, end: int) -> int:
        """An instant of an event, from `start` to `end` if that is ahead. The last 100 ms of each second are the
        device's: no two documents about one thing have the same signedDate."""
        start = max(start, self.now) + 2 * SECOND
        second = self.rng.randrange(start, max(end, start + SECOND)) // SECOND * SECOND
        return second + self.rng.randrange(1, 900)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def add(self, product: str, start: int, end: int | None, reason: str, **more: object) -> Purchase:
        name = self.customer.new_id()
        if not self.purchases:
            self.original, self.named, self.born = name, name, start
        web = self.customer.new_id() if end is not None else None
        purchase = Purchase([Name(name, start)], product, start, end, reason, web, **more)  # type: ignore[arg-type]
        self.purchases.append(purchase)
        self.customer.instants |= {start, *([end, end + HOUR] if end is not None else [])}
        return purchase

    def rename(self, purchase: Purchase) -> None:
        """Names another original id from now on, or the first again; and signs a purchase with it."""
        self.other = self.other or self.customer.new_id()
        self.named = self.other if self.named == self.original else self.original
        self.customer.notify(self, self.rng.choice(["REFUND_DECLINED", "CONSUMPTION_REQUEST"]), purchase=purchase)
        self.customer.happens("another original id" if self.named == self.other else "the first original id again")

    def bought_at(self) -> int:
        """The purchaseDate of what is bought now: after all that was bought before, perhaps ahead of now."""
        before = [each.start for each in self.purchases if each.is_bought]
        start = max([self.customer.purchase_date(), *(date + SECOND for date in before)])
        lead = self.customer.lead()
        # What has no reason, and begins soon after an end, is taken for a renewal.
        ends = [each.end for each in self.purchases if self.customer.is_old and each.end is not None]
        while start in ends:
            start += SECOND if start > self.now else -SECOND
        if start <= self.now and lead and not any(-lead <= start - end <= HOUR for end in ends):
            start += lead
        self.customer.happens_ahead(start - self.now, self.type)
        return start

    def restore(self, purchase: Purchase) -> None:
        """Another device gives the purchase a second transaction id, which the client presents."""
        start = self.customer.purchase_date() if self.chance(0.6) and purchase.start <= self.now else purchase.start
        purchase.names.append(Name(self.customer.new_id(), start))
        self.customer.sign("transactions", transactions=[self.customer.transaction(self, purchase, purchase.names[-1])])
        self.customer.happens("restored under a second id")

    def refund(self, purchase: Purchase) -> None:
        name = self.rng.choice([name for name in purchase.names if not name.revocation])
        kind, percentage = self.rng.choice(
            [("REFUND_FULL", 100_000), ("REFUND_FULL", None), ("REFUND_PRORATED", self.rng.choice([25_000, 50_000]))])
        name.revocation = Revocation(self.now - self.rng.randrange(1, 900), kind, percentage, self.rng.choice([0, 1]))
        self.customer.notify(self, "REFUND", purchase=purchase, name=name)
        self.customer.happens(kind)
        if len(purchase.names) > 1:
            self.customer.happens("refund of one of two ids")

    def reverse_refund(self, purchase: Purchase) -> None:
        for name in purchase.names:
            if name.revocation and name.revocation.kind != "FAMILY_REVOKE":
                name.revocation = None
                self.customer.notify(self, "REFUND_REVERSED", purchase=purchase, name=name)
                return


class Subscription(Line):
    """A chain of periods, and what the store means to do at the end of the last one.

    `life` walks through the states of E.5. The store knows at every instant which period runs; `current` is that one,
    and `ahead` one that is charged and has not begun.
    """

    def __init__(self, customer: Customer, group: str, is_shared: bool):
        super().__init__(customer)
        self.group, self.is_shared = group, is_shared
        # Whose are the periods of a chain whose transactions moved? `crowd.py` moves what has one transaction.
        self.is_named_twice = self.is_named_twice and not customer.is_in_crowd
        self.renews, self.next_product, self.intent = True, "", None
        self.retries, self.grace, self.price_status = False, None, None
        self.hides_grace = False
        self.governing: Purchase | None = None
        self.ahead: Purchase | None = None
        self.started = 0

    @property
    def current(self) -> Purchase:
        if self.ahead and self.ahead.start <= self.now:
            self.governing, self.ahead = self.ahead, None
        assert self.governing is not None
        return self.governing

    def length(self, product: str) -> int:
        return self.customer.lengths[PLANS[product].period]

    def status(self) -> int:
        """Apple's own verdict: the table of E.3 upon what the store knows to govern."""
        if self.current.is_revoked:
            return 5
        if self.now < (self.current.end or 0):
            return 1
        if self.retries:
            return 4 if self.grace and self.grace > self.now else 3
        return 2

    def renewal_info(self) -> Words:
        newest = self.ahead or self.current
        words: Words = {
            "originalTransactionId": self.named, "productId": newest.product, "environment": "Production",
            "autoRenewProductId": self.next_product, "autoRenewStatus": int(self.renews), "signedDate": self.now,
            "recentSubscriptionStartDate": self.started,
        }  # fmt: skip
        if not self.customer.is_old:
            words["renewalDate"] = newest.end
        if self.retries or self.customer.says_false:
            words["isInBillingRetryPeriod"] = self.retries
        optional = {
            "gracePeriodExpiresDate": None if self.hides_grace else self.grace, "expirationIntent": self.intent,
            "priceIncreaseStatus": self.price_status,
        }  # fmt: skip
        return words | {name: value for name, value in optional.items() if value is not None}

    # What happens

    def begin(self, product: str, start: int, end: int, reason: str, **more: object) -> Purchase:
        """A new period that governs from `start` on: all that was due is settled."""
        period = self.add(product, start, end, reason, **more)
        self.renews, self.next_product, self.intent = True, product, None
        self.retries, self.grace, self.price_status = False, None, None
        if start > self.now and not period.is_bought:
            self.ahead = period
        else:
            self.governing, self.ahead = period, None
        return period

    def buy(self, product: str, subtype: str) -> None:
        start = self.bought_at()
        offer, length = self.draw_offer(product, subtype)
        for period in self.purchases:
            self.overtake(period, product, start)
        self.started = start
        self.begin(product, start, start + length, "PURCHASE", offer=offer)
        self.customer.notify(self, "SUBSCRIBED", subtype)
        self.customer.see_receipt()

    def draw_offer(self, product: str, subtype: str) -> tuple[Words, int]:
        if subtype == "INITIAL_BUY" and self.chance(0.3):
            self.customer.happens("introductory offer")
            length = min(self.customer.lengths["week"], self.length(product))
            return {"offerType": 1, "offerDiscountType": "FREE_TRIAL", "offerPeriod": "P1W", "price": 0}, length
        if subtype == "RESUBSCRIBE" and self.chance(0.3):
            self.customer.happens("win-back offer")
            offer: Words = {"offerType": 4, "offerIdentifier": "back", "offerDiscountType": "PAY_UP_FRONT"}
            return offer, self.length(product)
        return {}, self.length(product)

    def overtake(self, period: Purchase, product: str, at: int) -> None:
        """A purchase of another product ends what runs, and what was charged ahead."""
        runs = period.start < at < (period.end or 0) and period.product != product
        if period.superseded_at is None and (runs or period is self.ahead):
            period.superseded_at = at
            period.cancelled_at = at + self.rng.choice([0, self.rng.randrange(MINUTE), self.rng.randrange(9 * HOUR)])

    def upgrade(self, product: str) -> None:
        start = self.bought_at()
        if self.ahead:
            is_lower = self.ahead.product != self.current.product
            self.customer.happens(("downgrade " if is_lower else "") + "charged ahead and then upgraded")
        if self.length(product) < self.length(self.current.product):
            self.customer.happens("upgrade to a shorter period")
        if PLANS[product].level == PLANS[self.current.product].level:
            self.customer.happens("crossgrade at once")
        for period in self.purchases:
            self.overtake(period, product, start)
        self.begin(product, start, start + self.length(product), "PURCHASE")
        self.customer.notify(self, "OFFER_REDEEMED" if self.chance(0.2) else "DID_CHANGE_RENEWAL_PREF", "UPGRADE")
        self.customer.see_receipt()

    def renew(self) -> None:
        """At the end of a period, or ahead of it."""
        start, product = self.current.end or 0, self.next_product
        if self.now < start:
            self.customer.happens("renewal charged ahead")
        if product != self.current.product:
            self.customer.happens("pending change took effect")
        period = self.begin(product, start, start + self.length(product), "RENEWAL")
        self.customer.notify(self, "DID_RENEW", purchase=period)

    def recover(self) -> None:
        due = self.current.end or 0
        if self.grace and self.now < self.grace:
            start = self.rng.choice([due, self.customer.purchase_date()])
            end = due + self.length(self.next_product)
            self.customer.happens("recovered in grace")
        else:
            start = self.customer.purchase_date()
            end = start + self.length(self.next_product)
            self.customer.happens("recovered after grace")
        self.begin(self.next_product, start, max(end, self.now + MINUTE), "RENEWAL")
        self.customer.notify(self, "DID_RENEW", "BILLING_RECOVERY")

    def fail(self, grace: int | None) -> None:
        self.retries, self.intent = True, 2 if self.chance(0.7) else None
        self.grace = (self.current.end or 0) + grace if grace else None
        self.hides_grace = (self.grace or 0) > self.now and self.chance(self.customer.hiding_grace)
        if self.grace:
            self.customer.instants.add(self.grace)
        if self.hides_grace:
            self.customer.happens("grace without a date")
        self.customer.notify(self, "DID_FAIL_TO_RENEW", "GRACE_PERIOD" if grace else None)

    def expire(self, intent: int) -> None:
        names = {1: "VOLUNTARY", 2: "BILLING_RETRY", 3: "PRICE_INCREASE", 4: "PRODUCT_NOT_FOR_SALE", 5: None}
        self.renews = self.renews and intent != 1 and self.chance(0.3)
        self.intent, self.retries, self.grace = intent, False, None
        self.customer.notify(self, "EXPIRED", names[intent])

    def cancel(self) -> None:
        self.renews = False
        if self.retries:
            self.customer.happens("cancelled in grace or retry")
            self.retries, self.grace, self.intent = False, None, 1
        self.customer.notify(self, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED")

    def resume(self) -> None:
        self.renews = True
        self.customer.notify(self, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED")

    def plan_later(self, product: str) -> None:
        self.next_product = product
        subtype = "DOWNGRADE" if product != self.current.product else None
        self.customer.notify(self, "DID_CHANGE_RENEWAL_PREF", subtype)

    def extend(self) -> None:
        period = self.current
        period.end = (period.end or 0) + self.rng.randrange(1, 91) * (DAY if self.customer.lengths is REAL else MINUTE)
        self.customer.instants.add(period.end)
        self.customer.notify(self, "RENEWAL_EXTENDED")

    def revoke_shared(self) -> None:
        for name in self.current.names:
            name.revocation = name.revocation or Revocation(self.now, "FAMILY_REVOKE", None, 0)
            # Each id: a receipt does not say that two of them are one, if the purchase is a family's.
            self.customer.notify(self, "REVOKE", name=name)

    def refund_current(self) -> None:
        self.renews = self.renews and self.chance(0.3)
        self.retries, self.grace = False, None
        if self.renews is False and self.now >= (self.current.end or 0):
            self.intent = self.intent or 1
        self.refund(self.current)

    def refund_other(self) -> None:
        older = [period for period in self.purchases if period is not self.current and not period.is_revoked]
        if older:
            period = self.rng.choice(older)
            older_kind = "refund of a superseded period" if period.superseded_at else "refund of an older period"
            self.customer.happens("refund of a period ahead" if period is self.ahead else older_kind)
            self.refund(period)

    def reverse(self) -> None:
        revoked = [period for period in self.purchases if period.is_revoked and not self.is_shared]
        if not revoked:
            return
        period = self.rng.choice(revoked)
        self.customer.happens("reversal of the current" if period is self.current else "reversal of another")
        if period is self.current and self.now >= (period.end or 0):
            self.renews, self.intent = False, self.intent or 1
        self.reverse_refund(period)

    # How it goes on

    def plans(self, *, at_once: bool | None) -> list[str]:
        """Products to change to, by the plan-change matrix of E.5; or all others of the group."""
        now = PLANS[self.current.product]
        others = [plan for plan in PLANS.values() if plan.group == self.group and plan is not now]
        if at_once is None:
            return [plan.product for plan in others]
        return [
            plan.product for plan in others
            if (plan.level < now.level or (plan.level == now.level and plan.period == now.period)) == at_once
        ]  # fmt: skip

    def life(self) -> Iterator[int]:
        products = [plan.product for plan in PLANS.values() if plan.group == self.group]
        yield self.between(self.now, self.now + 30 * DAY)
        self.buy(self.rng.choice(products), "INITIAL_BUY")
        for _ in range(self.rng.randrange(2, 12)):
            status = self.status()
            if status == 1:
                yield from self.while_active()
            elif status in (3, 4):
                yield from self.while_unpaid()
            elif self.chance(0.75):
                yield from self.while_over()
            else:
                return

    def while_active(self) -> Iterator[int]:
        """From anywhere in a paid period to its end, or to what ends it before."""
        period = self.current
        for _ in range(self.rng.choice([0, 0, 1, 1, 2, 3])):
            end = period.end or 0
            margin = (end - period.start) // 4
            when = self.between(self.now, end - margin)
            if when >= end - margin // 2:
                break
            yield when
            self.happen_while_active()
            if self.current is not period or self.current.is_revoked:
                return
        yield from self.end_of_period()

    def happen_while_active(self) -> None:
        if self.is_shared:
            happenings = [(self.revoke_shared, 3), (self.restore_current, 1)]
        else:
            happenings = [
                (self.cancel if self.renews else self.resume, 4), (self.change_at_once, 4), (self.change_later, 5),
                (self.extend, 1), (self.refund_current, 2), (self.refund_other, 3), (self.reverse, 3),
                (self.restore_current, 2), (self.ask_about_refund, 1), (self.ask_for_price, 2), (self.redeem, 1),
            ]  # fmt: skip
        if self.is_named_twice and not self.ahead:
            happenings.append((self.rename_current, 8))
        self.rng.choices([act for act, _ in happenings], [weight for _, weight in happenings])[0]()

    def rename_current(self) -> None:
        self.rename(self.current)

    def restore_current(self) -> None:
        self.restore(self.current)

    def change_at_once(self) -> None:
        if options := self.plans(at_once=True):
            self.upgrade(self.rng.choice(options))

    def change_later(self) -> None:
        withdraws = self.next_product != self.current.product
        options = [self.current.product] if withdraws else self.plans(at_once=False)
        if options and self.renews:
            self.plan_later(self.rng.choice(options))

    def ask_about_refund(self) -> None:
        self.customer.notify(self, self.rng.choice(["REFUND_DECLINED", "CONSUMPTION_REQUEST"]))

    def ask_for_price(self) -> None:
        self.price_status = 0 if self.price_status is None else 1
        self.customer.notify(self, "PRICE_INCREASE", "PENDING" if self.price_status == 0 else "ACCEPTED")

    def redeem(self) -> None:
        self.customer.notify(self, "OFFER_REDEEMED")

    def end_of_period(self) -> Iterator[int]:
        period = self.current
        end, length = period.end or 0, min(self.length(period.product), self.length(self.next_product))
        later = self.between(end, end + min(HOUR, length // 4))
        if not self.renews:
            yield later
            self.expire(1)
            return
        weight = 30 if self.price_status == 0 else 6
        outcome = self.rng.choices(["renew", "ahead", "grace", "retry", "expire"], [30, 25, 12, 10, weight])[0]
        if outcome == "ahead":
            yield from self.renew_ahead(end, length)
        elif outcome == "renew":
            yield later
            self.renew()
        elif outcome == "expire":
            yield later
            self.expire(3 if self.price_status == 0 else self.rng.choice([4, 5]))
        else:
            yield later if self.chance(0.8) else self.between(end - min(6 * HOUR, length // 8), end - 3 * SECOND)
            weekly = PLANS[period.product].period == "week"
            grace = self.rng.choice([3, 6] if weekly else [3, 16, 28]) * DAY
            grace = grace if self.customer.lengths is REAL else 150 * SECOND
            self.fail(grace if outcome == "grace" else None)

    def renew_ahead(self, end: int, length: int) -> Iterator[int]:
        """The charge comes up to a day before the end; then there is time for second thoughts."""
        lead = min(DAY, length // 4)
        yield self.between(end - lead, end - lead // 2)
        if self.now >= end:
            return self.renew()
        self.renew()
        is_lower = self.ahead is not None and self.ahead.product != self.current.product
        if self.chance(0.8 if is_lower else 0.4) and self.now + 10 * SECOND < end:
            yield self.between(self.now, end - 3 * SECOND)
            if self.now < end:
                self.have_second_thoughts()
        if self.ahead:
            yield self.between(end, end + length // 10)

    def have_second_thoughts(self) -> None:
        if self.is_shared:
            return self.revoke_shared()
        acts = [self.change_at_once] * 5 + [self.cancel, self.refund_ahead, self.refund_current, self.refund_other]
        self.rng.choice(acts)()

    def refund_ahead(self) -> None:
        if self.ahead:
            self.customer.happens("refund of a period ahead")
            self.refund(self.ahead)

    def while_unpaid(self) -> Iterator[int]:
        """In grace and in billing retry; the charge may also have failed before the end."""
        in_grace = self.status() == 4
        scale = 60 * DAY if self.customer.lengths is REAL else 10 * MINUTE
        end = self.current.end or 0
        limit = (self.grace or 0) if in_grace else max(self.now, end) + scale
        acts = ["recover", "wait", "cancel", "upgrade", "refund", "resubscribe"]
        act = self.rng.choices(acts, [10, 9, 2, 2, 2, 0 if in_grace else 3])[0]
        if act == "wait":
            yield self.between(limit, limit + MINUTE)
            self.end_grace() if in_grace else self.expire(2)
            return
        yield self.between(max(self.now, end), limit - 5 * SECOND)
        if self.is_shared or act == "recover":
            self.recover()
        elif act == "cancel":
            self.cancel()
        elif act == "refund":
            self.refund_current()
        elif act == "resubscribe":
            self.customer.happens("resubscribed in retry")
            self.buy(self.rng.choice(self.plans(at_once=None) + [self.current.product] * 3), "RESUBSCRIBE")
        else:
            self.customer.happens("changed plan while unpaid")
            self.change_at_once()

    def end_grace(self) -> None:
        if self.chance(0.5):
            self.grace = None
        self.customer.notify(self, "GRACE_PERIOD_EXPIRED")

    def while_over(self) -> Iterator[int]:
        """Expired or revoked."""
        if self.ahead:
            yield self.between(self.ahead.start, self.ahead.start)
            return
        was_revoked, end = self.current.is_revoked, self.current.end or 0
        is_soon = was_revoked and self.now < end and self.chance(0.5)
        yield self.between(self.now, end if is_soon else self.now + 2 * self.length(self.current.product))
        act = self.rng.choices(["buy", "refund", "reverse", "other", "cancel"], [10, 2, 4, 2, 1])[0]
        if self.current.is_revoked != was_revoked:
            return
        if act == "buy":
            self.come_back()
        elif act == "cancel" and self.renews:
            self.cancel()
        elif self.is_shared:
            return
        elif act == "refund" and not was_revoked:
            self.refund_current()
        elif act == "reverse":
            self.reverse()
        elif act == "other":
            self.refund_other()


    def come_back(self) -> None:
        """To the same product, or to another of the group."""
        old = self.current
        product = self.rng.choice(self.plans(at_once=None) + [old.product] * 4)
        self.customer.happens("resubscribed after " + ("a revocation" if old.is_revoked else "expiry"))
        if product == old.product and self.now < (old.end or 0):
            self.customer.happens("bought again what was refunded")
        self.buy(product, "RESUBSCRIBE")


class OneTime(Line):
    """Something that is bought once: for ever, for a while, or to be used up."""

    def __init__(self, customer: Customer):
        super().__init__(customer)
        self.type = self.rng.choice([NON_CONSUMABLE, CONSUMABLE, NON_RENEWING])
        self.is_shared = self.type == NON_CONSUMABLE and self.chance(0.15)

    def life(self) -> Iterator[int]:
        yield self.between(self.now, self.now + 60 * DAY)
        products = {NON_CONSUMABLE: ["filters", "lifetime", "unlisted.thing"], CONSUMABLE: ["coins"]}
        product = self.rng.choice(products.get(self.type, ["season", "pass"]))
        quantity = self.rng.choice([1, 1, 2, 4, 10]) if self.type == CONSUMABLE else 1
        purchase = self.add(product, self.bought_at(), None, "PURCHASE", quantity=quantity)
        if product == "season":
            self.customer.instants.add(purchase.start + 60 * DAY)
        self.customer.happens(self.type)
        self.customer.notify(self, "ONE_TIME_CHARGE")
        self.customer.see_receipt()
        if self.type == NON_CONSUMABLE and self.chance(0.4) and not (self.is_named_twice and self.customer.is_in_crowd):
            yield self.between(self.now, self.now + 40 * DAY)
            self.restore(purchase)
        for _ in range(self.rng.choice([0, 1, 1, 2, 3])):
            yield self.between(self.now, self.now + 40 * DAY)
            if self.is_named_twice and self.chance(0.6):
                self.rename(purchase)
            else:
                self.reverse_refund(purchase) if purchase.is_revoked else self.refund(purchase)


class Device:
    """The app and its server, which at times ask for what there is: history, statuses, transactions, receipts."""

    def __init__(self, customer: Customer):
        self.customer = customer
        self.rng = customer.rng

    def life(self) -> Iterator[int]:
        # Over the time in which there may be something to ask for, and no longer: what is fast is over soon.
        span = 2 * DAY if self.customer.lengths is FAST else 400 * DAY
        count = self.rng.randrange(0, 7)
        times = sorted({self.customer.now + int(span * self.rng.random() ** 2) for _ in range(count)})
        for time in times or [self.customer.now]:
            yield max(time, self.customer.now + 2 * SECOND) // SECOND * SECOND + self.rng.randrange(900, 1000)
            self.customer.now = self.customer.now // SECOND * SECOND + self.rng.randrange(900, 1000)
            lines = [line for line in self.customer.lines if line.purchases]
            if lines and count:
                acts = [self.history, self.statuses, self.single] + [self.receipt] * (5 * self.customer.has_receipts)
                self.rng.choice(acts)(lines)

    def history(self, lines: list[Line]) -> None:
        rows = [
            self.customer.transaction(line, purchase, name, in_history=True)
            for line in lines for purchase in line.purchases for name in purchase.names
        ]  # fmt: skip
        self.rng.shuffle(rows)
        self.customer.sign("transactions", transactions=rows[:20])
        self.customer.happens("history document")

    def statuses(self, lines: list[Line]) -> None:
        for line in lines:
            if isinstance(line, Subscription):
                transaction = self.customer.transaction(line, line.current, line.current.names[0], in_history=True)
                self.customer.sign("status", transaction=transaction, renewal=line.renewal_info())
                self.customer.happens("status document")

    def single(self, lines: list[Line]) -> None:
        line = self.rng.choice(lines)
        purchase = self.rng.choice(line.purchases)
        row = self.customer.transaction(line, purchase, self.rng.choice(purchase.names), in_history=True)
        self.customer.sign("transactions", transactions=[row])
        self.customer.happens("single transaction")

    def receipt(self, lines: list[Line]) -> None:
        rows = [
            self.row(line, purchase, name)
            for line in lines for purchase in line.purchases for name in purchase.names
            if line.type != CONSUMABLE or (not purchase.is_revoked and self.rng.random() < 0.5)
        ]  # fmt: skip
        self.rng.shuffle(rows)
        created = self.customer.now // SECOND * SECOND
        self.customer.documents.append({"kind": "receipt", "signedDate": created, "purchases": rows})
        self.customer.instants.add(created)
        self.customer.happens("app receipt")

    def row(self, line: Line, purchase: Purchase, name: Name) -> Words:
        """A purchase in the words that a receipt has."""
        kinds = {NON_CONSUMABLE: 0, CONSUMABLE: 1, NON_RENEWING: 2, RENEWABLE: 3}
        words: Words = {
            "transactionId": name.id, "originalTransactionId": line.named, "productId": purchase.product,
            "purchaseDate": name.purchased, "originalPurchaseDate": line.born, "quantity": purchase.quantity,
            "productType": kinds[line.type],
        }  # fmt: skip
        if purchase.end is not None:
            words["expiresDate"] = purchase.end
        if purchase.web and not line.is_shared:
            words["webOrderLineItemId"] = int(purchase.web)
        if name.revocation:
            words["cancellationDate"] = name.revocation.date // SECOND * SECOND
        elif purchase.cancelled_at is not None and purchase.cancelled_at <= self.customer.now:
            words["cancellationDate"] = purchase.cancelled_at // SECOND * SECOND
            self.customer.happens("upgrade in a receipt")
            if words["cancellationDate"] != purchase.superseded_at:
                self.customer.happens("upgrade in a receipt and a later cancellation")
        return words
