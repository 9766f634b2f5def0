# SPDX-License-Identifier: Apache-2.0
"""A test of a server that gets notifications, with a simulated App Store: docs/simulator.md explains it."""

import json
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

from appstoreserverlibrary.api_client import AppStoreServerAPIClient
from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.models.NotificationTypeV2 import NotificationTypeV2
from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier


class Server(HTTPServer):
    """The server under test: replace it by yours. It keeps the newest transaction of each purchase."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.purchases = {}
        self.received = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        verifier = self.server.verifier
        notification = verifier.verify_and_decode_notification(body["signedPayload"])
        if notification.data and notification.data.signedTransactionInfo:
            transaction = verifier.verify_and_decode_signed_transaction(notification.data.signedTransactionInfo)
            self.server.purchases[transaction.originalTransactionId] = transaction
        self.server.received.append(notification.notificationType)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class PurchaseTest(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        out = pathlib.Path(folder.name) / "simulator"
        store = subprocess.Popen([
            "quittance", "simulate", "--kind", "--seed", "1", "--speed", "0", "--start", "2026-01-01T00:00:00Z",
            "--port", "0", "--sandbox-port", "0", "--control-port", "0", "--out", out,
            "--notify", f"http://127.0.0.1:{self.server.server_port}/notifications"], stdout=subprocess.DEVNULL)
        self.addCleanup(store.wait)
        self.addCleanup(store.terminate)
        while not (out / "simulator.env").exists():  # The last file that it writes.
            self.assertIsNone(store.poll(), "the simulator ended")
            time.sleep(0.02)
        self.values = values = json.loads((out / "simulator.json").read_text())

        self.server.verifier = SignedDataVerifier(
            [(out / "root.cer").read_bytes()], enable_online_checks=False, environment=Environment.PRODUCTION,
            bundle_id=values["bundleId"], app_apple_id=int(values["appAppleId"]))
        self.api = AppStoreServerAPIClient(
            pathlib.Path(values["keyFile"]).read_bytes(), values["keyId"], values["issuerId"], values["bundleId"],
            Environment.PRODUCTION)
        self.api._base_url = values["production"]  # The library has no setting for the address.

    def command(self, path, **members):
        """Commands the App Store: its customers, its clock. The server has then answered all notifications."""
        body = json.dumps(members).encode()
        with urllib.request.urlopen(self.values["control"] + path, body) as response:
            return json.load(response)

    def expect(self, *types):
        self.assertEqual(self.server.received, list(types))
        self.server.received.clear()

    def test_a_month_renews_fails_recovers_and_is_refunded(self):
        self.command("/customers", name="anna")
        id = self.command("/customers/anna/buy", product="com.example.notes.pro.monthly")["transactionId"]
        self.expect(NotificationTypeV2.SUBSCRIBED)
        self.command("/clock/advance", days=7)  # The free week ends.
        self.expect(NotificationTypeV2.DID_RENEW)
        self.command("/customers/anna/billing/break")
        self.command("/clock/advance", days=31)
        self.expect(NotificationTypeV2.DID_FAIL_TO_RENEW)
        self.command("/customers/anna/billing/fix")
        self.expect(NotificationTypeV2.DID_RENEW)
        self.command("/customers/anna/refund", transaction=self.server.purchases[id].transactionId)
        self.expect(NotificationTypeV2.REFUND)
        self.assertIsNotNone(self.server.purchases[id].revocationDate)

        answer = self.api.get_transaction_info(self.server.purchases[id].transactionId)
        same = self.server.verifier.verify_and_decode_signed_transaction(answer.signedTransactionInfo)
        self.assertEqual(same.revocationDate, self.server.purchases[id].revocationDate)


if __name__ == "__main__":
    unittest.main()
