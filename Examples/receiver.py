# SPDX-License-Identifier: Apache-2.0
"""Keeps what each purchase and grant gives, from webhooks in any order: docs/webhooks.md explains it."""


def source(event):
    """A grant and a purchase may have the same id."""
    return ("grant", event["grantId"]) if "grantId" in event else ("purchase", event.get("originalTransactionId"))


class Restored(Exception):
    """The ledger was restored: begin again with a new receiver."""


class Receiver:
    def __init__(self):
        self.last = {}  # by customer and by purchase or grant: the number of the last event, and the entitlements
        self.gone = {}  # by id: the number of its last deletion, removal, or merge into another customer
        self.start, self.epoch = 0, ""  # the number after which the tables begin, and the text after the point

    def begin(self, page, cursor):
        """Takes a page of `GET /v1/customers`. The cursor is `eventsCursor` of the first page."""
        number, _, self.epoch = cursor.partition(".")
        self.start = int(number)
        for customer in page["items"]:
            for given in customer["given"]:
                self.last[customer["ids"][0], source(given)] = self.start, given["entitlements"]

    def apply(self, event):
        if event.get("test"):
            return
        number, _, epoch = event["id"].partition(".")
        number, customer, gone = int(number), event.get("customer"), []
        if number <= self.start:  # the pages of customers have its result
            return
        if epoch != (self.epoch or epoch):
            raise Restored(event["id"])
        self.epoch = epoch
        if event["kind"] == "customer.deleted":
            gone = [customer, *event.get("deletedIds", [])]
        elif event["kind"] in ("customer.merged", "customer.aliasRemoved"):
            gone = [event.get("mergedCustomer", event.get("removedId"))]
        elif customer and event.get("entitlementsAfter") is not None:
            key = customer, source(event)
            if number > self.last.get(key, (0, []))[0]:
                self.last[key] = number, event["entitlementsAfter"]
        for each in gone:
            self.gone[each] = max(number, self.gone.get(each, 0))

    def given(self):
        """The entitlements by customer and by purchase or grant, as `given` of follower.py."""
        return {
            (customer, source): entitlements for (customer, source), (number, entitlements) in self.last.items()
            if number > self.gone.get(customer, 0)}
