# SPDX-License-Identifier: Apache-2.0
"""Calls every method of Apple's client in production and in the sandbox, and verifies all that is signed.

Usage: apple_library.py QUITTANCE. Prints as JSON what it did.
"""

import hashlib
import json
import struct
import sys
import uuid
import zlib
from base64 import b64encode, urlsafe_b64decode
from collections import Counter

from appstoreserverlibrary.api_client import GetTransactionHistoryVersion
from appstoreserverlibrary.models.ConsumptionRequest import ConsumptionRequest
from appstoreserverlibrary.models.ConsumptionRequestV1 import ConsumptionRequestV1
from appstoreserverlibrary.models.DefaultConfigurationRequest import DefaultConfigurationRequest
from appstoreserverlibrary.models.DeliveryStatus import DeliveryStatus
from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.models.ExtendReasonCode import ExtendReasonCode
from appstoreserverlibrary.models.ExtendRenewalDateRequest import ExtendRenewalDateRequest
from appstoreserverlibrary.models.ImageSize import ImageSize
from appstoreserverlibrary.models.ImageState import ImageState
from appstoreserverlibrary.models.MassExtendRenewalDateRequest import MassExtendRenewalDateRequest
from appstoreserverlibrary.models.MessageState import MessageState
from appstoreserverlibrary.models.NotificationHistoryRequest import NotificationHistoryRequest
from appstoreserverlibrary.models.OrderLookupStatus import OrderLookupStatus
from appstoreserverlibrary.models.PerformanceTestRequest import PerformanceTestRequest
from appstoreserverlibrary.models.PerformanceTestStatus import PerformanceTestStatus
from appstoreserverlibrary.models.RealtimeUrlRequest import RealtimeUrlRequest
from appstoreserverlibrary.models.SendAttemptResult import SendAttemptResult
from appstoreserverlibrary.models.Status import Status
from appstoreserverlibrary.models.TransactionHistoryRequest import Order, ProductType, TransactionHistoryRequest
from appstoreserverlibrary.models.UpdateAppAccountTokenRequest import UpdateAppAccountTokenRequest
from appstoreserverlibrary.models.UploadMessageImage import UploadMessageImage
from appstoreserverlibrary.models.UploadMessageRequestBody import UploadMessageRequestBody
from appstoreserverlibrary.receipt_utility import ReceiptUtility

from apple_client import ALL_METHODS, clients
from simulator import Receiver, Simulator, eventually

DAY = 86_400_000


def png(width=3840, height=2160):
    """A PNG image without transparency: black, with one bit a pixel."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\0" * (width // 8)) * height
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Story:
    """A customer's life in one environment, as Apple's library sees it."""

    def __init__(self, simulator, client):
        self.simulator, self.client = simulator, client
        self.name = f"anna-{client.environment.value}"
        self.friend = f"bert-{client.environment.value}"
        self.isProduction = client.environment == Environment.PRODUCTION
        # The sandbox renews a month every five minutes.
        self.month = {"days": 31} if self.isProduction else {"seconds": 300}
        self.monthly = simulator.product("pro.monthly")

    def post(self, path, **members):
        return self.simulator.post(f"/customers/{self.name}/{path}", **members)

    def live(self):
        """Customers, purchases, and two renewals."""
        for name in [self.name, self.friend]:
            self.simulator.add(name, environment=self.client.environment.value)
        self.post("family", **{"with": [self.friend]})
        self.subscription = self.simulator.buy(self.name, "pro.monthly")
        self.lifetime = self.simulator.buy(self.name, "lifetime")
        self.coins = [self.simulator.buy(self.name, "coins") for _ in range(22)]
        for _ in range(2):
            self.simulator.advance(**self.month)

    def device(self):
        """What StoreKit gives the app, verified as it would be by the app's server, and bound to the device."""
        path = f"/customers/{self.name}"
        device = self.simulator.get(path)["deviceVerificationID"]

        def check(answer, verify):
            decoded = verify(answer["jwsRepresentation"])
            # The library's transactions lack the members that bind them to a device.
            members = json.loads(urlsafe_b64decode(answer["jwsRepresentation"].split(".")[1] + "=="))
            digest = hashlib.sha384((members["deviceVerificationNonce"] + device).lower().encode()).digest()
            assert members["deviceVerification"] == b64encode(digest).decode(), members
            self.client.signed["jwsRepresentation"] += 1
            return decoded

        verifier = self.client.verifier
        for one in self.simulator.get(path + "/transactions"):
            assert check(one, verifier.verify_and_decode_signed_transaction).transactionId == one["transactionId"]
        app = self.simulator.get(path + "/app-transaction")
        decoded = check(app, verifier.verify_and_decode_app_transaction)
        assert decoded.appTransactionId == app["appTransactionId"] and decoded.applicationVersion is not None

    def transactions(self):
        answer = self.client.get_transaction_info(self.subscription)
        transaction = self.client.decoded["signedTransactionInfo"][0]
        assert transaction.transactionId == self.subscription and transaction.productId == self.monthly
        assert transaction.appTransactionId is not None, answer

        self.client.get_app_transaction_info(self.lifetime)
        app = self.client.decoded["signedAppTransactionInfo"][0]
        assert app.bundleId == self.simulator.values["bundleId"]
        assert app.appTransactionId == transaction.appTransactionId

        token = str(uuid.uuid4())
        self.client.set_app_account_token(self.lifetime, UpdateAppAccountTokenRequest(appAccountToken=token))
        self.client.get_transaction_info(self.lifetime)
        assert self.client.decoded["signedTransactionInfo"][0].appAccountToken == token

    def history(self):
        """Pages by revision, filters, and consumables that version 1 leaves out once they are finished."""
        v2 = GetTransactionHistoryVersion.V2
        everything = self.pages(TransactionHistoryRequest(), v2)
        assert len(everything) > 22, everything
        newest = self.pages(TransactionHistoryRequest(sort=Order.DESCENDING), v2)
        assert [one.transactionId for one in newest] == [one.transactionId for one in reversed(everything)]
        coins = TransactionHistoryRequest(productTypes=[ProductType.CONSUMABLE], revoked=False)
        assert [one.transactionId for one in self.pages(coins, v2)] == self.coins
        now = self.simulator.now()
        nothing = TransactionHistoryRequest(
            startDate=now + DAY, endDate=now + 2 * DAY, productIds=[self.monthly],
            subscriptionGroupIdentifiers=[everything[0].subscriptionGroupIdentifier])
        assert self.pages(nothing, v2) == []
        self.client.finish_transaction(self.coins[0])
        assert len(self.pages(coins, GetTransactionHistoryVersion.V1)) == len(self.coins) - 1

    def pages(self, request, version):
        """All transactions of a history."""
        found, revision = [], None
        while True:
            answer = self.client.get_transaction_history(self.subscription, revision, request, version)
            found += self.client.decoded.get("signedTransactions", [])
            if not answer.hasMore:
                return found
            revision = answer.revision

    def orders(self):
        """Look-up by order id, which the sandbox has not."""
        if not self.isProduction:
            return
        answer = self.client.look_up_order_id(self.simulator.orders(self.name)[0])
        assert answer.status == OrderLookupStatus.VALID and len(answer.signedTransactions) == 1
        assert self.client.look_up_order_id("MK5TTTVWJH").status == OrderLookupStatus.INVALID

    def statuses(self):
        answer = self.client.get_all_subscription_statuses(self.subscription, [Status.ACTIVE, Status.EXPIRED])
        item = answer.data[0].lastTransactions[0]
        assert item.originalTransactionId == self.subscription and item.status == Status.ACTIVE
        assert answer.bundleId == self.simulator.values["bundleId"] and answer.environment == self.client.environment
        renewal = self.client.decoded["signedRenewalInfo"][0]
        assert renewal.originalTransactionId == self.subscription and renewal.autoRenewProductId == self.monthly
        assert self.client.get_all_subscription_statuses(self.subscription, [Status.REVOKED]).data == []

    def extensions(self):
        answer = self.client.extend_subscription_renewal_date(
            self.subscription,
            ExtendRenewalDateRequest(
                extendByDays=10, extendReasonCode=ExtendReasonCode.OTHER, requestIdentifier="a storm"))
        assert answer.success and answer.originalTransactionId == self.subscription
        self.client.get_all_subscription_statuses(self.subscription)
        assert self.client.decoded["signedTransactionInfo"][0].expiresDate == answer.effectiveDate

        request = str(uuid.uuid4())
        answer = self.client.extend_renewal_date_for_all_active_subscribers(
            MassExtendRenewalDateRequest(
                extendByDays=1, extendReasonCode=ExtendReasonCode.SERVICE_ISSUE_OR_OUTAGE, requestIdentifier=request,
                storefrontCountryCodes=["USA"], productId=self.monthly))
        assert answer.requestIdentifier == request

        def complete():
            status = self.client.get_status_of_subscription_renewal_date_extensions(request, self.monthly)
            if status.complete:
                return status
            self.simulator.advance(hours=1)

        status = eventually(complete)
        assert status.succeededCount + status.failedCount >= 1, status

    def refunds(self):
        self.post("refund/request", transaction=self.coins[1])
        self.client.send_consumption_information(
            self.coins[1],
            ConsumptionRequest(
                customerConsented=True, sampleContentProvided=False, deliveryStatus=DeliveryStatus.DELIVERED,
                consumptionPercentage=50_000))
        self.post("refund/request", transaction=self.coins[2])
        self.client.send_consumption_data(
            self.coins[2],
            ConsumptionRequestV1(
                customerConsented=True, rawConsumptionStatus=3, rawPlatform=1, sampleContentProvided=True,
                rawDeliveryStatus=0, appAccountToken="", rawAccountTenure=7, rawPlayTime=7,
                rawLifetimeDollarsRefunded=1, rawLifetimeDollarsPurchased=2, rawUserStatus=1, rawRefundPreference=2))
        self.post("refund/decline", transaction=self.coins[2])
        refunded = self.coins[3:5] + [self.lifetime]
        for transaction in refunded:
            self.post("refund", transaction=transaction)
        answer = self.client.get_refund_history(self.subscription, None)
        found = self.client.decoded["signedTransactions"]
        assert {one.transactionId for one in found} >= set(refunded) and all(one.revocationDate for one in found)
        assert self.client.get_refund_history(self.subscription, answer.revision).signedTransactions == []
        self.post("refund/reverse", transaction=self.coins[3])

    def notifications(self):
        token = self.client.request_test_notification().testNotificationToken
        # A request to the API does not wait for the notification.
        assert self.simulator.advance(seconds=0)["complete"]
        answer = self.client.get_test_notification_status(token)
        assert answer.sendAttempts[0].sendAttemptResult == SendAttemptResult.SUCCESS
        now = self.simulator.now()
        # The history goes back 180 days in production, and 30 in the sandbox.
        days = 180 if self.isProduction else 30
        request = NotificationHistoryRequest(startDate=now - (days + 1) * DAY, endDate=now + DAY)
        assert self.attempt(4000012, lambda: self.client.get_notification_history(None, request)) is None
        request.startDate = now - (days - 1) * DAY

        count, page, hasMore = 0, None, True
        while hasMore:
            answer = self.client.get_notification_history(page, request)
            count += len(answer.notificationHistory)
            page, hasMore = answer.paginationToken, answer.hasMore
        assert count > 20, count
        request.onlyFailures = True
        assert self.client.get_notification_history(None, request).notificationHistory == []

    @staticmethod
    def attempt(code, call):
        try:
            return call()
        except Exception as error:
            if getattr(error, "raw_api_error", None) != code:
                raise
            return None

    def retention(self):
        """Images, messages and the default message. Production approves after a day, the sandbox at once."""
        image, message = uuid.uuid4(), uuid.uuid4()
        self.client.upload_image(image, png(), ImageSize.FULL_SIZE)
        self.simulator.advance(days=1)
        stored = self.client.get_image_list().imageIdentifiers[0]
        assert stored.imageIdentifier == image and stored.imageState == ImageState.APPROVED, stored
        self.client.upload_message(
            message,
            UploadMessageRequestBody(
                header="Stay", body="There is more to come.",
                image=UploadMessageImage(imageIdentifier=image, altText="A view")))
        self.simulator.advance(days=1)
        stored = self.client.get_message_list().messageIdentifiers[0]
        assert stored.messageIdentifier == message and stored.messageState == MessageState.APPROVED, stored
        place = (self.monthly, "en-US")
        self.client.configure_default_message(*place, DefaultConfigurationRequest(messageIdentifier=message))
        assert self.client.get_default_message(*place).messageIdentifier == message
        self.client.delete_default_message(*place)
        self.client.delete_message(message)
        self.client.delete_image(image)
        assert self.client.get_image_list().imageIdentifiers == []

    def realtime(self):
        """The URL for the question which message to show. Production's needs a test that passed in the sandbox."""
        url = "https://example.com/retention"
        self.client.configure_realtime_url(RealtimeUrlRequest(realtimeURL=url))
        assert self.client.get_realtime_url().realtimeURL == url
        if not self.isProduction:
            started = self.client.initiate_performance_test(PerformanceTestRequest(self.subscription))
            assert started.config.totalRequests > 0
            pending = self.client.get_performance_test_results(started.requestId)
            assert pending.result == PerformanceTestStatus.PENDING, pending
            self.simulator.advance(hours=1)
            passed = self.client.get_performance_test_results(started.requestId)
            assert passed.result == PerformanceTestStatus.PASS and passed.target == url, passed
        self.client.delete_realtime_url()

    def receipts(self):
        """The receipt on the customer's device has an id that the API knows."""
        receipt = b64encode(self.simulator.receipt(self.name)).decode()
        id = ReceiptUtility().extract_transaction_id_from_app_receipt(receipt)
        self.client.get_transaction_info(id)

    def misfortunes(self):
        """More events, so that their notifications arrive."""
        self.post("cancel")
        self.post("resume")
        self.post("price", price=5990)
        self.post("consent")
        self.post("billing/break")
        self.simulator.advance(**self.month)
        self.post("billing/fix")
        self.post("external-token")
        self.post("rescind-consent")
        self.simulator.post(f"/customers/{self.friend}/family/leave")

def arrivals(simulator, receiver, clients):
    """Verifies every notification that the App Store has sent so far.

    Returns how many of each type arrived, and how many of each kind of payload.
    """
    types, kinds = Counter(), Counter()
    for _ in range(simulator.get("/state")["notifications"]):
        path, payload = receiver.next()
        notification = clients[path].notification(payload)
        types[".".join(filter(None, [notification.rawNotificationType, notification.rawSubtype]))] += 1
        kinds.update(
            kind for kind in ["data", "summary", "externalPurchaseToken", "appData"] if getattr(notification, kind))
    return {"types": types, "kinds": kinds}


def novelties(simulator, receiver, client):
    """Notifications with a type, a subtype and a member that no version has are verified like all others."""
    simulator.post("/faults", unknownTypes=1, unknownSubtypes=1, unknownMembers=1)
    simulator.buy(simulator.add("novel")["customer"]["name"], "coins")
    decoded = [client.notification(receiver.next()[1]) for _ in range(3)]
    assert Counter(one.notificationType is None for one in decoded) == {True: 1, False: 2}, decoded
    assert Counter(one.rawSubtype is not None for one in decoded) == {True: 1, False: 2}, decoded


def main(program):
    receiver = Receiver()
    urls = ["--notify", f"{receiver.url}/Production", "--sandbox-notify", f"{receiver.url}/Sandbox"]
    with Simulator(program, *urls) as simulator:
        production, sandbox, methods, signed = clients(simulator)
        # The sandbox first, since production needs its performance test.
        for client in [sandbox, production]:
            story = Story(simulator, client)
            for part in [
                story.live, story.device, story.transactions, story.history, story.orders, story.statuses,
                story.receipts, story.refunds, story.misfortunes, story.extensions, story.notifications, story.realtime,
                story.retention,
            ]:
                part()
        notifications = arrivals(simulator, receiver, {"/Production": production, "/Sandbox": sandbox})
        novelties(simulator, receiver, production)
    missing = ALL_METHODS - set(methods)
    assert not missing, f"not called: {missing}"
    print(json.dumps({"methods": sorted(methods), "signed": signed, **notifications}))


if __name__ == "__main__":
    main(sys.argv[1])
