# SPDX-License-Identifier: Apache-2.0
"""Apple's library, pointed at a simulator: its client, and its verifier of every signed member of an answer."""

import inspect
import warnings
from collections import Counter
from pathlib import Path

import attr
from appstoreserverlibrary.api_client import AppStoreServerAPIClient
from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier

# Methods of older versions of endpoints are called on purpose.
warnings.simplefilter("ignore", DeprecationWarning)

ALL_METHODS = {name for name, _ in inspect.getmembers(AppStoreServerAPIClient, inspect.isfunction) if name[0] != "_"}


class Client:
    """Apple's client. It counts the methods that succeed, and verifies what is signed in their answers."""

    def __init__(self, simulator, environment, methods, signed):
        values = simulator.values
        self.environment, self.methods, self.signed = environment, methods, signed
        isProduction = environment == Environment.PRODUCTION
        self.client = AppStoreServerAPIClient(
            Path(values["keyFile"]).read_bytes(), values["keyId"], values["issuerId"], values["bundleId"], environment)
        # The library has no setting for the address.
        self.client._base_url = values["production" if isProduction else "sandbox"]
        self.verifier = SignedDataVerifier(
            simulator.roots, False, environment, values["bundleId"], int(values["appAppleId"]))

    def __getattr__(self, name):
        method = getattr(self.client, name)

        def call(*arguments, **options):
            answer = method(*arguments, **options)
            self.methods[name] += 1
            return self.verified(answer)

        return call

    def verified(self, answer):
        """The answer. All that is signed in it is verified and added to `decoded` by member."""
        self.decoded = {}
        self._verify(answer)
        self.signed.update({name: len(values) for name, values in self.decoded.items()})
        return answer

    def notification(self, payload):
        """A notification as the library decodes it, with its signed parts verified."""
        decoded = self.verifier.verify_and_decode_notification(payload)
        self.verified(decoded)
        return decoded

    def _verify(self, value):
        if isinstance(value, list):
            for one in value:
                self._verify(one)
        elif attr.has(type(value)):
            for field in attr.fields(type(value)):
                member = getattr(value, field.name)
                verify = self._verifiers().get(field.name)
                if verify is None or member is None:
                    self._verify(member)
                    continue
                for token in member if isinstance(member, list) else [member]:
                    decoded = verify(token)
                    self.decoded.setdefault(field.name, []).append(decoded)
                    self._verify(decoded)

    def _verifiers(self):
        return {
            "signedTransactionInfo": self.verifier.verify_and_decode_signed_transaction,
            "signedTransactions": self.verifier.verify_and_decode_signed_transaction,
            "signedRenewalInfo": self.verifier.verify_and_decode_renewal_info,
            "signedAppTransactionInfo": self.verifier.verify_and_decode_app_transaction,
            "signedPayload": self.verifier.verify_and_decode_notification,
        }


def clients(simulator):
    """The clients of production and sandbox, and counts of the methods called and the signed members verified."""
    methods, signed = Counter(), Counter()
    production, sandbox = [
        Client(simulator, one, methods, signed) for one in (Environment.PRODUCTION, Environment.SANDBOX)]
    return production, sandbox, methods, signed
