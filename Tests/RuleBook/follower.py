# SPDX-License-Identifier: Apache-2.0
"""What everyone may use, by the events alone: the rules of the table in docs/events.md."""

from __future__ import annotations

import math
from typing import Any

Words = dict[str, Any]
Source = tuple[str, str]


def end(entitlement: Words) -> float:
    return math.inf if entitlement.get("until") is None else entitlement["until"]


class Follower:
    def __init__(self) -> None:
        # By customer, and by purchase or grant.
        self.given: dict[tuple[str, Source], list[Words]] = {}

    def apply(self, event: Words) -> None:
        customer, given = event.get("customer"), event.get("entitlementsAfter")
        if event["kind"] == "customer.merged":
            for (owner, source), each in list(self.given.items()):
                if owner == event["mergedCustomer"]:
                    del self.given[owner, source]
                    self.given.setdefault((customer, source), each)
        elif customer is not None and given is not None:
            is_grant = event.get("grantId") is not None
            source = ("grant", event["grantId"]) if is_grant else ("purchase", event["originalTransactionId"])
            self.given[customer, source] = given

    def table(self, now: int) -> dict[tuple[str, str], float]:
        """The end of each entitlement, by customer and name."""
        found: dict[tuple[str, str], tuple[bool, float]] = {}
        for customer in {customer for customer, _ in self.given}:
            running = [
                (source, each) for (owner, source), given in self.given.items() if owner == customer
                for each in given if now < end(each)]
            for source, each in running:
                if source in self.counting(running, each, source):
                    key, rank = (customer, each["name"]), (each["environment"] == "Production", end(each))
                    found[key] = max(found.get(key, rank), rank)
        return {key: until for key, (_, until) in found.items()}

    @staticmethod
    def counting(running: list[tuple[Source, Words]], each: Words, source: Source) -> set[Source]:
        """Of one subscription group one purchase counts: the highest level, then the latest end."""
        group = each.get("subscriptionGroup")
        if group is None:
            return {source}

        def rank(other: Words) -> tuple[float, float]:
            return -(other.get("level") or math.inf), end(other)

        members = [
            (rank(other), place) for place, other in running
            if (other.get("subscriptionGroup"), other["environment"]) == (group, each["environment"])]
        return {max(members)[1]}
