# SPDX-License-Identifier: Apache-2.0
"""Keeps a table of what the customers of an app may use, from the events of the app: docs/events.md explains it."""

import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request


def end(entitlement):
    return math.inf if entitlement["until"] is None else entitlement["until"]


def source(item):
    """A grant and a purchase may have the same id."""
    return ("grant", item["grantId"]) if "grantId" in item else ("purchase", item.get("originalTransactionId"))


class Follower:
    def __init__(self, environments=("Production", "Sandbox"), testers=None):
        self.environments = environments
        self.testers = testers  # with `sandboxAccess` `listed`: the first ids of the customers in `sandboxCustomers`
        self.given = {}  # by customer and by purchase or grant: the entitlements that it gives

    def begin(self, page):
        """Takes a page of `GET /v1/customers`."""
        for customer in page["items"]:
            for given in customer["given"]:
                self.given[customer["ids"][0], source(given)] = given["entitlements"]

    def apply(self, event):
        customer, after = event.get("customer"), event.get("entitlementsAfter")
        if event["kind"] == "customer.deleted":
            deleted = {customer, *event.get("deletedIds", [])}
            self.given = {key: given for key, given in self.given.items() if key[0] not in deleted}
        elif event["kind"] in ("customer.merged", "customer.aliasRemoved"):
            # Nobody has this name any more. The events before a merge have given everything to `customer`.
            gone = event.get("mergedCustomer", event.get("removedId"))
            self.given = {key: given for key, given in self.given.items() if key[0] != gone}
        elif event["kind"] == "customer.environmentsChanged":
            access = event["sandboxAccessAfter"]
            self.environments = ("Production",) if access == "none" else ("Production", "Sandbox")
            self.testers = (self.testers or set()) if access == "listed" else None
        elif customer and after is not None:
            self.given[customer, source(event)] = after

    def counts(self, customer, environment):
        is_tester = environment != "Sandbox" or self.testers is None or customer in self.testers
        return environment in self.environments and is_tester

    def table(self, now):
        """The end of each entitlement, by customer and name, in milliseconds; infinity for no end."""
        running = [
            (customer, source, each) for (customer, source), given in self.given.items() for each in given
            if self.counts(customer, each["environment"]) and now < end(each)]
        groups, best = {}, {}
        for customer, source, each in running:
            group = customer, each["environment"], each.get("subscriptionGroup") or source
            groups[group] = max(groups.get(group, ()), (-each.get("level", math.inf), end(each), source))
        for customer, source, each in running:
            group = customer, each["environment"], each.get("subscriptionGroup") or source
            if groups[group][2] == source:
                key, rank = (customer, each["name"]), (each["environment"] == "Production", end(each))
                best[key] = max(best.get(key, rank), rank)
        return {key: until for key, (_, until) in best.items()}


def get(server, key, path, **query):
    address = f"{server}{path}?{urllib.parse.urlencode(query)}"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.load(answer), answer.headers.get("Retry-After")


def follow(server, key, show):
    """Calls `show` with the follower after each page of events."""
    while True:
        follower, page = Follower(), get(server, key, "/v1/customers")[0]
        cursor = page["eventsCursor"]
        follower.begin(page)
        while "nextCursor" in page:
            page = get(server, key, "/v1/customers", after=page["nextCursor"])[0]
            follower.begin(page)
        try:
            while True:
                page, pause = get(server, key, "/v1/events", after=cursor, limit=500, wait=50)
                for event in page["items"]:
                    follower.apply(event)
                cursor = page["nextCursor"]
                show(follower)
                time.sleep(float(pause or 0))
        except urllib.error.HTTPError as error:
            if error.code != 410:  # the cursor has expired: begin again
                raise
