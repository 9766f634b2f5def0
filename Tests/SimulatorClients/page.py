# SPDX-License-Identifier: Apache-2.0
"""Opens the page of `quittance simulate` in a browser, and clicks each of its buttons once. Each time it waits until
the page has done what the button says, and looks at the row of the customer."""

import json
import sys

import browser
from simulator import Simulator

ANSWER = "document.getElementById('answer')"


def text(value):
    return json.dumps(value)


class Shop:
    """The page, by what stands on its buttons."""

    def __init__(self, page, simulator):
        self.page, self.simulator, self.clicked = page, simulator, []

    def click(self, label, within="document", answer=None, refused=None):
        """Clicks a button, and waits until the page shows what became of it."""
        self.page.value(f"{ANSWER}.textContent = ''")
        if answer:
            self.page.answers.append(answer)
        button = f"[...{within}.querySelectorAll('button')].find(one => one.textContent === {text(label)})"
        # The page shows the answer first, and then asks for the new state.
        self.page.wait_for(button)
        self.page.click(button)
        self.page.wait_for(f"{ANSWER}.textContent !== ''")
        result, kind = self.page.value(f"[{ANSWER}.textContent, {ANSWER}.className]")
        assert (kind == "error") == (refused is not None), f"{label}: {result}"
        assert refused is None or refused in result, f"{label}: {result}"
        self.clicked.append(label)
        return result

    def card(self, name):
        cards = "[...document.querySelectorAll('#customers > section')]"
        return f"{cards}.find(one => one.querySelector('h2').textContent === {text(name)})"

    def of(self, name, label, answer=None, refused=None):
        """Clicks a button of a customer."""
        return self.click(label, f"({self.card(name)})", answer, refused)

    def shows(self, name, *words):
        """Waits until a customer's card has all of the words."""
        for word in words:
            self.page.wait_for(f"({self.card(name)}) && ({self.card(name)}).innerText.includes({text(word)})")

    def add(self, name, asks=False):
        self.page.value("document.querySelector('#add').reset()")
        self.page.type("document.querySelector('#add [name=name]')", name)
        if asks:
            self.page.click("document.querySelector('#add [name=askToBuy]')")
        self.click("Add", "document.querySelector('#add')")
        self.shows(name, name)

    def buy(self, name, product):
        for field, value in [("customer", name), ("product", self.simulator.product(product))]:
            self.page.value(f"document.querySelector('#buy').{field}.value = {text(value)}")
        return self.click("Buy", "document.querySelector('#buy')")


def visit(shop):
    shop.add("anna")
    shop.add("ben", asks=True)
    shop.shows("ben", "asks to buy")
    assert "SUBSCRIBED" in shop.buy("anna", "pro.monthly")
    shop.shows("anna", "pro.monthly", "active", "renews", "renewal")
    for label in ["1 hour", "1 day", "1 week", "31 days", "366 days"]:
        shop.click(label)
    shop.shows("anna", "4.99 USD")

    shop.of("anna", "Cancel")
    shop.shows("anna", "does not renew", "Resume")
    shop.of("anna", "Resume")
    shop.shows("anna", "renews", "Cancel")
    assert "PRICE_INCREASE" in shop.of("anna", "Raise price", answer="5990")
    assert "ACCEPTED" in shop.of("anna", "Consent")
    assert "RENEWAL_EXTENDED" in shop.of("anna", "Extend 30 days")
    shop.of("anna", "Break billing")
    shop.shows("anna", "cannot pay", "Fix billing")
    shop.of("anna", "Fix billing")
    shop.shows("anna", "Break billing")
    shop.of("anna", "Move", answer="DEU")
    shop.shows("anna", "DEU")
    assert "CONSUMPTION_REQUEST" in shop.of("anna", "Request refund")
    assert "REFUND_DECLINED" in shop.of("anna", "Decline refund")
    assert "REFUND" in shop.of("anna", "Refund")
    shop.shows("anna", "revoked")
    assert "REFUND_REVERSED" in shop.of("anna", "Reverse refund")
    shop.shows("anna", "active")
    shop.of("anna", "Expire")
    assert "EXPIRED" in shop.click("366 days")
    shop.shows("anna", "expired")

    shop.buy("ben", "lifetime")
    product = shop.simulator.product("lifetime")
    shop.of("ben", f"Decline {product}")
    shop.buy("ben", "lifetime")
    assert "ONE_TIME_CHARGE" in shop.of("ben", f"Approve {product}")
    shop.shows("ben", product)
    shop.of("ben", "No Ask to Buy")
    shop.shows("ben", "Ask to Buy")
    shop.of("ben", "Ask to Buy")
    shop.of("ben", "Make family", answer="anna")
    shop.shows("ben", "family: anna")
    shop.shows("anna", "family: ben")
    shop.of("ben", "Leave family")
    shop.of("ben", "Make family", answer="nobody", refused="nobody")
    assert "EXTERNAL_PURCHASE_TOKEN" in shop.of("anna", "External purchase token")
    assert "RESCIND_CONSENT" in shop.of("anna", "Rescind consent")
    shop.click("Send a test notification", refused="Notifications have no URL")
    # Last, since the clock runs after that.
    for label in ["an hour a second", "a day a second", "real time", "stand still"]:
        shop.click(label)
    shop.page.wait_for("document.getElementById('speed').textContent === 'and the clock stands still'")


def main():
    if reason := browser.missing():
        print(json.dumps({"missing": reason}))
        return
    with Simulator(sys.argv[1]) as simulator, browser.Page(simulator.values["control"]) as page:
        shop = Shop(page, simulator)
        visit(shop)
        # A refused command is logged by the browser; nothing else is.
        errors = [error for error in page.errors if "status of 40" not in json.dumps(error)]
        assert not errors, errors
        print(json.dumps({"browser": browser.program(), "clicked": sorted(set(shop.clicked))}))


main()
