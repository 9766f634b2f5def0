#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Histories of many customers: what the App Store signs about them, and how that arrives.

Prints one customer a line as JSON, and what happened how often on standard error. The same seed makes the same world.
With `--crowds` a line is an app with several customers and a backend, which grants and corrects.

    python3 world.py --seed 1 --customers 150 > world.jsonl
    python3 world.py --seed 1 --crowds 10 > crowds.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

import crowd
from store import CATALOGUE, DAY, HOUR, MINUTE, Customer, Words

# What must happen now and then, for a world to be worth asking about.
EVENTS = """
SUBSCRIBED/INITIAL_BUY, SUBSCRIBED/RESUBSCRIBE, DID_RENEW, DID_RENEW/BILLING_RECOVERY, DID_FAIL_TO_RENEW,
DID_FAIL_TO_RENEW/GRACE_PERIOD, GRACE_PERIOD_EXPIRED, EXPIRED, EXPIRED/VOLUNTARY, EXPIRED/BILLING_RETRY,
EXPIRED/PRICE_INCREASE, EXPIRED/PRODUCT_NOT_FOR_SALE, DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED,
DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED, DID_CHANGE_RENEWAL_PREF, DID_CHANGE_RENEWAL_PREF/UPGRADE,
DID_CHANGE_RENEWAL_PREF/DOWNGRADE, OFFER_REDEEMED, OFFER_REDEEMED/UPGRADE, PRICE_INCREASE/PENDING,
PRICE_INCREASE/ACCEPTED, RENEWAL_EXTENDED, REFUND, REFUND_DECLINED, REFUND_REVERSED, REVOKE, CONSUMPTION_REQUEST,
ONE_TIME_CHARGE, Consumable, Non-Consumable, Non-Renewing Subscription, introductory offer, win-back offer, renewal
charged ahead, charged ahead and then upgraded, downgrade charged ahead and then upgraded, pending change took effect,
upgrade to a shorter period, crossgrade at once, changed plan while unpaid, cancelled in grace or retry, recovered in
grace, recovered after grace, resubscribed after expiry, resubscribed after a revocation, resubscribed in retry,
bought again what was refunded, REFUND_FULL, REFUND_PRORATED, refund of an older period, refund of a period ahead,
refund of a superseded period, refund of one of two ids, reversal of the current, reversal of another, restored under
a second id, history document, status document, single transaction, app receipt, upgrade in a receipt, upgrade in
a receipt and a later cancellation, receipt of what was just bought, Auto-Renewable Subscription bought ahead,
Auto-Renewable Subscription bought ahead by minutes, Non-Renewing Subscription bought ahead, Consumable bought ahead,
another original id, the first original id again, grace without a date, clock seconds behind, clock a day ahead
"""


class Deliveries:
    """In which order a customer's documents arrive, and when we ask what the customer has."""

    def __init__(self, customer: Customer):
        self.customer = customer
        self.rng = customer.rng
        documents = customer.documents
        self.dates = [int(str(document["signedDate"])) for document in documents]
        self.in_time = sorted(range(len(documents)), key=lambda index: (self.dates[index], index))
        self.instants = sorted({instant + shift for instant in customer.instants for shift in (-1, 0, 1)})

    def in_order(self) -> list[Words]:
        """All as they are signed, nothing lost. Asked at each signature, and around what comes before the next."""
        steps: list[Words] = []
        for index, following in zip(self.in_time, [*self.in_time[1:], None]):
            date = self.dates[index]
            steps += [{"deliver": index, "at": date}, {"ask": date}]
            until = self.dates[following] if following is not None else date + 800 * DAY
            meantime = [instant for instant in self.instants if date < instant < until]
            steps += [{"ask": instant} for instant in sorted(self.rng.sample(meantime, min(2, len(meantime))))]
        return steps

    def by_a_wrong_clock(self) -> list[Words]:
        """All in order, to a server whose clock is up to 90 seconds behind, or 25 hours ahead. Asked at once."""
        is_behind = self.rng.random() < 0.7
        shift = -self.rng.randrange(90_001) if is_behind else 25 * HOUR
        self.customer.happens("clock seconds behind" if is_behind else "clock a day ahead")
        steps: list[Words] = []
        for index in self.in_time:
            at = self.dates[index] + shift
            steps += [{"deliver": index, "at": at}, {"ask": at}]
            ahead = [instant for instant in self.instants if instant > at][:6]
            if ahead and self.rng.random() < 0.4:
                steps.append({"ask": self.rng.choice(ahead)})
        return steps

    def out_of_order(self) -> list[Words]:
        """Some lost, some twice, some late; asked in between."""
        loss = self.rng.choice([0, 0.1, 0.3, 0.6])
        jitter = self.rng.choice([MINUTE, 3 * DAY, 1000 * DAY])
        arrivals: list[tuple[int, int]] = []
        for index in self.draw_sources():
            for _ in range(self.rng.choices([1, 2, 3], [8, 2, 1])[0]):
                if self.rng.random() >= loss:
                    arrivals.append((self.dates[index] + self.rng.randrange(jitter), index))
        steps: list[Words] = []
        newest = 0
        for at, index in sorted(arrivals):
            newest = max(newest, self.dates[index])
            steps.append({"deliver": index, "at": at})
            if self.rng.random() < 0.6:
                steps += [{"ask": self.draw_instant(newest)} for _ in range(self.rng.choice([1, 1, 2]))]
        steps += [{"ask": self.draw_instant(newest)} for _ in range(3)]
        return steps

    def draw_sources(self) -> list[int]:
        """All documents; or what a server without notifications knows; or receipts alone, where there are some."""
        kinds = {index: self.customer.documents[index]["kind"] for index in self.in_time}
        receipts = [index for index in self.in_time if kinds[index] == "receipt"]
        pulled = [index for index in self.in_time if kinds[index] != "notification"]
        return self.rng.choice([self.in_time] * 5 + [pulled or self.in_time] + [receipts or self.in_time] * 2)

    def draw_instant(self, newest: int) -> int:
        """Mostly one that comes after all that has arrived; around where something changes, or anywhere."""
        if self.rng.random() < 0.1:
            return newest + self.rng.randrange(200 * DAY)
        if self.rng.random() < 0.1:
            return self.rng.choice(self.instants)
        ahead = [instant for instant in self.instants if instant >= newest]
        return self.rng.choice(ahead[: self.rng.choice([3, 1000])]) if ahead else newest


def world(seed: int, number: int) -> tuple[Words, Counter[str]]:
    """One customer of a world."""
    customer = Customer(seed, number)
    customer.live()
    deliveries = Deliveries(customer)
    plans = [
        deliveries.in_order(), deliveries.out_of_order(), deliveries.out_of_order(), deliveries.by_a_wrong_clock()]
    line: Words = {
        "seed": seed, "customer": number, "catalogue": CATALOGUE, "documents": customer.documents, "plans": plans,
    }  # fmt: skip
    customer.coverage["documents"] += len(customer.documents)
    customer.coverage["deliveries"] += sum("deliver" in step for plan in plans for step in plan)
    customer.coverage["questions"] += sum("ask" in step for plan in plans for step in plan)
    return line, customer.coverage


def crowd_of(seed: int, number: int) -> tuple[Words, Counter[str]]:
    """An app with its customers and its backend."""
    people = crowd.Crowd(seed, number)
    people.live()
    people.coverage["documents"] += len(people.documents)
    people.coverage["steps"] += len(people.steps)
    people.coverage["questions"] += sum(len(each.get("customers", [])) for each in people.steps if each["do"] == "ask")
    return people.world, people.coverage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--customers", type=int, default=200)
    parser.add_argument("--crowds", type=int, help="instead of customers, apps with customers and a backend")
    parser.add_argument("--only", type=int, help="this customer or crowd alone")
    parser.add_argument("--output", type=argparse.FileType("w"), default=sys.stdout)
    parser.add_argument("--at-least", type=int, default=0, help="fail if something happened less often")
    arguments = parser.parse_args()
    coverage: Counter[str] = Counter()
    make, count, events = world, arguments.customers, EVENTS
    if arguments.crowds is not None:
        make, count, events = crowd_of, arguments.crowds, crowd.EVENTS
    for number in range(count) if arguments.only is None else [arguments.only]:
        line, counts = make(arguments.seed, number)
        coverage += counts
        print(json.dumps(line, separators=(",", ":")), file=arguments.output)
    for event, count in sorted(coverage.items(), key=lambda item: (-item[1], item[0])):
        print(f"{count:8} {event}", file=sys.stderr)
    rare = [event for event in events.replace("\n", " ").split(", ") if coverage[event.strip()] < arguments.at_least]
    if rare:
        sys.exit(f"seed {arguments.seed}: fewer than {arguments.at_least}: {', '.join(rare)}")


if __name__ == "__main__":
    main()
