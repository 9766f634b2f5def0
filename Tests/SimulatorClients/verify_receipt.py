# SPDX-License-Identifier: Apache-2.0
"""Validates receipts with inapppy, by the simulator's verifyReceipt and by a server that trusts the simulator's roots.

Usage: verify_receipt.py QUITTANCE. Prints as JSON how many purchases agreed.
"""

import json
import sys
from base64 import b64encode

from inapppy import AppStoreValidator, InAppPyValidationError

from simulator import Server, Simulator


class Validator(AppStoreValidator):
    """The library's validator, which knows Apple's two addresses only, with two others."""

    def __init__(self, addresses, **options):
        self.addresses = addresses
        super().__init__(**options)

    def _change_url_by_sandbox(self):
        self.url = self.addresses[1 if self.sandbox else 0]


def customers(simulator):
    """A customer of each environment with purchases of all kinds: renewed, refunded, with an introductory offer."""
    for environment in ["Production", "Sandbox"]:
        name = environment.lower()
        simulator.add(name, environment=environment)
        simulator.buy(name, "pro.monthly")
        refunded = simulator.buy(name, "lifetime")
        simulator.buy(name, "coins", quantity=3)
        simulator.post(f"/customers/{name}/refund", transaction=refunded)
    simulator.advance(days=8)
    simulator.advance(days=40)
    return ["production", "sandbox"]


def compare(by_store, by_server):
    """Both answers name the same purchases with the same members. Returns how many."""
    receipts = [without_request(one["receipt"]) for one in (by_store, by_server)]
    assert receipts[0] == receipts[1], receipts
    assert by_store["environment"] == by_server["environment"]
    count = len(receipts[0]["in_app"])
    assert count >= 4, receipts
    rows = [facts(one["latest_receipt_info"]) for one in (by_store, by_server)]
    assert rows[0] == rows[1], rows
    return count


def without_request(receipt):
    return {name: value for name, value in receipt.items() if not name.startswith("request_date")}


def facts(rows):
    """Rows of purchases by id, without what only the App Store knows: a receipt does not have it."""
    unknown = {
        "in_app_ownership_type", "subscription_group_identifier", "app_account_token", "is_upgraded",
        "offer_code_ref_name", "cancellation_reason"}
    return sorted(
        tuple(sorted((name, value) for name, value in row.items() if name not in unknown)) for row in rows)


def refused(validator, receipt, status):
    try:
        validator.validate(receipt)
    except InAppPyValidationError as error:
        assert error.raw_response["status"] == status, error.raw_response
        return
    raise AssertionError(f"a receipt was accepted instead of {status}")


def main(program):
    count = {}
    with Simulator(program) as simulator, Server(
        program, "--root", str(simulator.folder / "roots.pem"), "--bundle-id", simulator.values["bundleId"],
        # Other roots than Apple's need a ledger of their own.
        "--database", f"sqlite:{simulator.folder}/ledger.sqlite",
    ) as server:
        store = [simulator.values[name] + "/verifyReceipt" for name in ["production", "sandbox"]]
        own = [server.address + path for path in ["/verifyReceipt", "/sandbox/verifyReceipt"]]
        for name in customers(simulator):
            receipt = b64encode(simulator.receipt(name)).decode()
            # As in real life, all receipts go to production first, and sandbox receipts then to the sandbox.
            answers = [
                Validator(one, auto_retry_wrong_env_request=True).validate(receipt, shared_secret="s")
                for one in (store, own)]
            count[name] = compare(*answers)
            for one in (store, own):
                isSandbox = name == "sandbox"
                wrong = Validator(one, sandbox=not isSandbox)
                refused(wrong, receipt, 21007 if isSandbox else 21008)
                for malformed in [receipt + "\n", receipt[:-8], "bm8gcmVjZWlwdA=="]:
                    refused(Validator(one, sandbox=isSandbox), malformed, 21002)
                damaged = bytearray(simulator.receipt(name))
                damaged[len(damaged) // 4] ^= 1
                refused(Validator(one, sandbox=isSandbox), b64encode(damaged).decode(), 21003)
    print(json.dumps(count))


if __name__ == "__main__":
    main(sys.argv[1])
