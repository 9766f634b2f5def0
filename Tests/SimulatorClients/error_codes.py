# SPDX-License-Identifier: Apache-2.0
"""Meets every numbered error of the App Store Server API with Apple's client.

Usage: error_codes.py QUITTANCE. Prints as JSON the codes that a cause produced, and those that a fault produced.
"""

import json
import sys
import uuid
from types import SimpleNamespace

import attr
from appstoreserverlibrary.api_client import APIException, GetTransactionHistoryVersion
from appstoreserverlibrary.models.BulletPoint import BulletPoint
from appstoreserverlibrary.models.ConsumptionRequest import ConsumptionRequest
from appstoreserverlibrary.models.ConsumptionRequestV1 import ConsumptionRequestV1
from appstoreserverlibrary.models.DefaultConfigurationRequest import DefaultConfigurationRequest
from appstoreserverlibrary.models.DeliveryStatus import DeliveryStatus
from appstoreserverlibrary.models.ExtendReasonCode import ExtendReasonCode
from appstoreserverlibrary.models.ExtendRenewalDateRequest import ExtendRenewalDateRequest
from appstoreserverlibrary.models.HeaderPosition import HeaderPosition
from appstoreserverlibrary.models.HistoryResponse import HistoryResponse
from appstoreserverlibrary.models.MassExtendRenewalDateRequest import MassExtendRenewalDateRequest
from appstoreserverlibrary.models.NotificationHistoryRequest import NotificationHistoryRequest
from appstoreserverlibrary.models.NotificationTypeV2 import NotificationTypeV2
from appstoreserverlibrary.models.PerformanceTestRequest import PerformanceTestRequest
from appstoreserverlibrary.models.RealtimeUrlRequest import RealtimeUrlRequest
from appstoreserverlibrary.models.Subtype import Subtype
from appstoreserverlibrary.models.TransactionHistoryRequest import TransactionHistoryRequest
from appstoreserverlibrary.models.UpdateAppAccountTokenRequest import UpdateAppAccountTokenRequest
from appstoreserverlibrary.models.UploadMessageImage import UploadMessageImage
from appstoreserverlibrary.models.UploadMessageRequestBody import UploadMessageRequestBody

from apple_client import clients
from apple_library import DAY, png
from simulator import Receiver, Simulator

UNKNOWN = "999999999999999"

# Errors without a cause in the simulator, or with one that takes thousands of requests, and the route that meets them.
FAULTS = {
    4000002: "transactionInfo",  # There is one app.
    4000017: "notificationHistory",  # A token expires by the wall clock.
    4000043: "consumptionV1",  # Apple sends it no longer.
    4000227: "consumption",  # There are no seats to assign.
    4030014: "uploadImage",  # The 2,001st image.
    4030016: "uploadMessage",  # The 2,001st message.
    4030028: "extend",  # There are no seats to assign.
    4040001: "statuses",  # No account is ever lost.
    4040002: "statuses",
    4040003: "history",
    4040004: "history",
    4040006: "extend",
    4040019: "appTransactionInfo",  # Every customer downloaded the app.
    4290000: "transactionInfo",
    5000000: "transactionInfo",
    5000001: "transactionInfo",
}


class Causes:
    """One call for each error that has a cause."""

    def __init__(self, simulator):
        self.simulator = simulator
        self.api, self.sandbox, _, _ = clients(simulator)
        self.monthly = simulator.product("pro.monthly")
        simulator.add("anna")
        simulator.add("bert")
        simulator.post("/customers/anna/family", **{"with": ["bert"]})
        self.subscription = simulator.buy("anna", "pro.monthly")
        self.lifetime = simulator.buy("anna", "lifetime")
        self.coins = simulator.buy("anna", "coins")
        bert = simulator.get("/customers/bert")
        self.shared = bert["subscriptions"][0]["originalTransactionId"]
        self.app = bert["appTransactionId"]
        simulator.advance(days=40)
        self.renewal = simulator.get("/customers/anna")["subscriptions"][0]["transactions"][-1]["transactionId"]
        simulator.add("cara", environment="Sandbox")
        self.sandboxSubscription = simulator.buy("cara", "pro.monthly")
        self.token = self.api.request_test_notification().testNotificationToken

    # Requests that are valid but for what a call changes.

    def history(self, revision=None, **members):
        return self.api.get_transaction_history(
            self.subscription, revision, TransactionHistoryRequest(**members), GetTransactionHistoryVersion.V2)

    def extend(self, transaction=None, **members):
        request = {
            "extendByDays": 1, "extendReasonCode": ExtendReasonCode.OTHER, "requestIdentifier": str(uuid.uuid4())}
        return self.api.extend_subscription_renewal_date(
            transaction or self.subscription, ExtendRenewalDateRequest(**{**request, **members}))

    def extend_all(self, **members):
        request = {
            "extendByDays": 1, "extendReasonCode": ExtendReasonCode.OTHER, "requestIdentifier": str(uuid.uuid4()),
            "productId": self.monthly}
        return self.api.extend_renewal_date_for_all_active_subscribers(
            MassExtendRenewalDateRequest(**{**request, **members}))

    def notifications(self, token=None, **members):
        now = self.simulator.now()
        request = {"startDate": now - DAY, "endDate": now}
        return self.api.get_notification_history(token, NotificationHistoryRequest(**{**request, **members}))

    def consumption(self, transaction=None, **members):
        request = {
            "customerConsented": True, "sampleContentProvided": False, "deliveryStatus": DeliveryStatus.DELIVERED}
        return self.api.send_consumption_information(
            transaction or self.coins, ConsumptionRequest(**{**request, **members}))

    def consumption_v1(self, transaction=None, **members):
        request = {
            "customerConsented": True, "rawConsumptionStatus": 1, "rawPlatform": 1, "sampleContentProvided": True,
            "rawDeliveryStatus": 0, "appAccountToken": "", "rawAccountTenure": 1, "rawPlayTime": 1,
            "rawLifetimeDollarsRefunded": 1, "rawLifetimeDollarsPurchased": 1, "rawUserStatus": 1}
        return self.api.send_consumption_data(
            transaction or self.coins, ConsumptionRequestV1(**{**request, **members}))

    def message(self, id=None, client=None, **members):
        request = {"header": "Stay", "body": "There is more to come."}
        # The library checks lengths itself, so that the App Store never refuses them.
        with attr.validators.disabled():
            body = UploadMessageRequestBody(**{**request, **members})
            return (client or self.api).upload_message(id or uuid.uuid4(), body)

    @staticmethod
    def bullet(text="more", id=None):
        with attr.validators.disabled():
            return BulletPoint(text=text, imageIdentifier=id or uuid.uuid4(), altText="a dot")

    @staticmethod
    def picture(alternative="a view", id=None):
        with attr.validators.disabled():
            return UploadMessageImage(imageIdentifier=id or uuid.uuid4(), altText=alternative)

    def default(self, product=None, locale="en-US", message=None):
        return self.api.configure_default_message(
            product or self.monthly, locale, DefaultConfigurationRequest(messageIdentifier=message or uuid.uuid4()))

    def exclude_revoked(self, value):
        """A parameter that the library no longer has."""
        path = f"/inApps/v2/history/{self.subscription}"
        return self.api.client._make_request(path, "GET", {"excludeRevoked": [value]}, None, HistoryResponse)

    @staticmethod
    def word(value):
        """A word that the library's enumeration does not have."""
        return SimpleNamespace(value=value)

    # The table.

    def requests(self):
        """Errors of a single request that is not valid."""
        api, word = self.api, self.word
        return {
            4000000: lambda: api.look_up_order_id("no-order"),
            4000005: lambda: self.history(revision="no revision"),
            4000006: lambda: api.get_transaction_info("abc"),
            4000008: lambda: self.extend("abc"),
            4000009: lambda: self.extend(extendByDays=91),
            4000010: lambda: self.extend(extendReasonCode=None),
            4000011: lambda: self.extend_all(requestIdentifier="no UUID"),
            4000012: lambda: self.notifications(startDate=self.simulator.now() - 181 * DAY),
            4000013: lambda: self.notifications(endDate=self.simulator.now() - 2 * DAY),
            4000014: lambda: self.notifications(token="no token"),
            4000015: lambda: self.notifications(startDate=None),
            4000016: lambda: self.notifications(endDate=None),
            4000018: lambda: self.notifications(notificationSubtype=Subtype.UPGRADE),
            4000019: lambda: self.notifications(notificationType=NotificationTypeV2.TEST, transactionId=self.coins),
            4000020: lambda: api.get_test_notification_status("no-token"),
            4000021: lambda: self.history(sort=word("SIDEWAYS")),
            4000022: lambda: self.history(productTypes=[word("GIFT")]),
            4000023: lambda: self.history(productIds=["com.example.unknown"]),
            4000024: lambda: self.history(subscriptionGroupIdentifiers=["1"]),
            4000025: lambda: self.exclude_revoked("perhaps"),
            4000026: lambda: self.history(inAppOwnershipType=word("RENTED")),
            4000027: lambda: self.extend_all(storefrontCountryCodes=[]),
            4000028: lambda: self.extend_all(storefrontCountryCodes=["us"]),
            4000030: lambda: self.history(revoked="perhaps"),
            4000031: lambda: api.get_all_subscription_statuses(self.subscription, [word(6)]),
            4000032: lambda: self.consumption_v1(rawAccountTenure=8),
            4000033: lambda: self.consumption_v1(appAccountToken="no UUID"),
            4000034: lambda: self.consumption_v1(rawConsumptionStatus=4),
            4000035: lambda: self.consumption(customerConsented=False),
            4000036: lambda: self.consumption(deliveryStatus=None, rawDeliveryStatus="LOST"),
            4000037: lambda: self.consumption_v1(rawLifetimeDollarsPurchased=8),
            4000038: lambda: self.consumption_v1(rawLifetimeDollarsRefunded=8),
            4000039: lambda: self.consumption_v1(rawPlatform=3),
            4000040: lambda: self.consumption_v1(rawPlayTime=8),
            4000041: lambda: self.consumption(sampleContentProvided=None),
            4000042: lambda: self.consumption_v1(rawUserStatus=5),
            4000044: lambda: self.consumption(rawRefundPreference="PERHAPS"),
            4000047: lambda: self.consumption_v1(self.lifetime),
            4000048: lambda: api.finish_transaction(self.app),
            4000161: lambda: api.upload_image(uuid.uuid4(), b"no PNG"),
            4000162: lambda: self.message(header="a" * 67),
            4000163: lambda: self.message(body="a" * 145),
            4000164: lambda: self.default(locale="nowhere!"),
            4000175: lambda: self.message(image=self.picture("a" * 151)),
            4000183: lambda: api.set_app_account_token(self.lifetime, UpdateAppAccountTokenRequest("no UUID")),
            4000185: lambda: api.set_app_account_token(self.shared, UpdateAppAccountTokenRequest(str(uuid.uuid4()))),
            4000187: lambda: api.set_app_account_token(self.renewal, UpdateAppAccountTokenRequest(str(uuid.uuid4()))),
            4000209: lambda: self.consumption(self.subscription, consumptionPercentage=1),
            4000211: lambda: self.sandbox.initiate_performance_test(PerformanceTestRequest(None)),
            4000212: lambda: self.sandbox.get_performance_test_results("no UUID"),
            4000215: lambda: api.configure_realtime_url(RealtimeUrlRequest("http://example.com")),
            4000216: lambda: api.upload_image(uuid.uuid4(), png(), word("HUGE")),
            4000218: lambda: self.message(bulletPoints=[self.bullet()] * 6),
            4000219: lambda: self.message(bulletPoints=[self.bullet("a" * 67)]),
            4000224: lambda: self.message(headerPosition=HeaderPosition.ABOVE_IMAGE),
            4040005: lambda: self.extend(UNKNOWN),
            4040007: lambda: self.sandbox.request_test_notification(),
            4040009: lambda: api.get_status_of_subscription_renewal_date_extensions(str(uuid.uuid4()), self.monthly),
            4040010: lambda: api.get_transaction_info(UNKNOWN),
            4040014: lambda: api.delete_image(uuid.uuid4()),
            4040015: lambda: api.delete_message(uuid.uuid4()),
            4040018: lambda: self.sandbox.get_performance_test_results(str(uuid.uuid4())),
            4040020: lambda: api.get_default_message(self.monthly, "en-US"),
            4040021: lambda: api.get_realtime_url(),
        }

    def states(self):
        """Errors of a valid request that the state of a purchase, an image or a message forbids, in this order."""
        api, image, message = self.api, uuid.uuid4(), uuid.uuid4()
        yield 4030007, lambda: self.extend(self.shared)
        yield 4030026, lambda: api.configure_realtime_url(RealtimeUrlRequest("https://example.com"))
        self.sandbox.configure_realtime_url(RealtimeUrlRequest("https://example.com"))
        self.sandbox.initiate_performance_test(PerformanceTestRequest(self.sandboxSubscription))
        yield 4000213, lambda: self.sandbox.initiate_performance_test(PerformanceTestRequest(self.sandboxSubscription))

        api.upload_image(image, png())
        yield 4090000, lambda: api.upload_image(image, png())
        yield 4030018, lambda: self.message(image=self.picture(id=image))
        self.simulator.advance(days=1)
        self.message(message, image=self.picture(id=image))
        yield 4090001, lambda: self.message(message)
        yield 4030019, lambda: api.delete_image(image)
        yield 4030017, lambda: self.default(message=message)

        for _ in range(2):
            self.extend()
        yield 4030005, self.extend
        self.simulator.post("/customers/anna/cancel")
        self.simulator.advance(days=220)
        yield 4030004, self.extend
        # More than six months later.
        yield 4040008, lambda: api.get_test_notification_status(self.token)

    def faults(self):
        """Errors that `POST /faults` asks for."""
        calls = {
            "transactionInfo": lambda: self.api.get_transaction_info(self.coins),
            "notificationHistory": self.notifications,
            "consumptionV1": self.consumption_v1,
            "consumption": self.consumption,
            "uploadImage": lambda: self.api.upload_image(uuid.uuid4(), png()),
            "uploadMessage": self.message,
            "extend": self.extend,
            "statuses": lambda: self.api.get_all_subscription_statuses(self.subscription),
            "history": self.history,
            "appTransactionInfo": lambda: self.api.get_app_transaction_info(self.coins),
        }
        for code, route in FAULTS.items():
            self.simulator.post("/faults", failNext={route: [code]})
            yield code, calls[route]


def meet(code, call):
    """Makes a call, whose error must be the code."""
    try:
        call()
    except APIException as error:
        assert error.raw_api_error == code, f"{code}: {error.raw_api_error} {error.error_message}"
        assert error.http_status_code == code // 10_000 and error.error_message, f"{code}: {error.http_status_code}"
        # The library does not know all codes by name.
        assert error.api_error is None or error.api_error.value == code
        return code
    raise AssertionError(f"{code}: no error")


def refused_tokens(simulator, causes):
    """A token of another issuer is refused without a number."""
    stranger, _, _, _ = clients(simulator)
    stranger.client._issuer_id = str(uuid.uuid4())
    try:
        stranger.get_transaction_info(causes.coins)
    except APIException as error:
        assert error.http_status_code == 401 and error.raw_api_error is None
        return
    raise AssertionError("a token of another issuer was accepted")


def main(program):
    receiver = Receiver()
    # The sandbox has no URL for notifications: 4040007.
    with Simulator(program, "--notify", receiver.url) as simulator:
        causes = Causes(simulator)
        refused_tokens(simulator, causes)
        met = [meet(code, call) for code, call in causes.requests().items()]
        met += [meet(code, call) for code, call in causes.states()]
        print(json.dumps({"causes": met, "faults": [meet(code, call) for code, call in causes.faults()]}))


if __name__ == "__main__":
    main(sys.argv[1])
