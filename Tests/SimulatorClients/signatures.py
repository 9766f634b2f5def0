# SPDX-License-Identifier: Apache-2.0
"""Judges what `quittance sign` makes, from the public key alone: with cryptography and PyJWT, and beside Apple's library.

Usage: signatures.py QUITTANCE. Prints as JSON how many signatures of each kind were valid, and how many changed texts
were not.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections import Counter
from uuid import UUID

import jwt
from appstoreserverlibrary.jws_signature_creator import (
    AdvancedCommerceAPIInAppSignatureCreator, IntroductoryOfferEligibilitySignatureCreator,
    PromotionalOfferV2SignatureCreator)
from appstoreserverlibrary.models.AdvancedCommerceOneTimeChargeCreateRequest import (
    AdvancedCommerceOneTimeChargeCreateRequest)
from appstoreserverlibrary.models.AdvancedCommerceOneTimeChargeItem import AdvancedCommerceOneTimeChargeItem
from appstoreserverlibrary.models.AdvancedCommerceRequestInfo import AdvancedCommerceRequestInfo
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

KEY_ID, ISSUER, BUNDLE = "ABCDEF1234", "57246542-96fe-4a63-a053-0824d011072a", "com.example.notes"
PRODUCT, OFFER, TRANSACTION = "com.example.notes.pro", "stay3", "2000000123456789"
ACCOUNT = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
REQUEST = {
    "operation": "CREATE_ONE_TIME_CHARGE", "version": "1",
    "requestInfo": {"requestReferenceId": "f55df048-4cd8-4261-b404-b6f813ff70e5"},
    "currency": "EUR", "taxCode": "C003-00-2", "storefront": "DEU",
    "item": {"SKU": "book-1", "displayName": "Büchlein", "description": "Ein „Buch“ über Ä\u2028 und 👩‍👩‍👧", "price": 1990},
}

valid, refused = Counter(), Counter()


def make_key(folder):
    """A .p8 file as App Store Connect's, its PEM, and the public key."""
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = os.path.join(folder, "AuthKey.p8")
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(pem)
    return path, pem, private.public_key()


def signer(program, key_file):
    def sign(*arguments, text=None):
        command = [program, "sign", *arguments, "--bundle-id", BUNDLE, "--key-file", key_file, "--key-id", KEY_ID,
                   "--issuer-id", ISSUER]
        result = subprocess.run(command, capture_output=True, input=text, text=True)
        assert result.returncode == 0 and result.stderr == "", f"{arguments}: {result.stderr}"
        return json.loads(result.stdout)

    return sign


def is_valid(public, signature, text):
    try:
        public.verify(signature, text, ec.ECDSA(hashes.SHA256()))
        return True
    except InvalidSignature:
        return False


def judge_version_1(public, answer, account):
    """The seven texts are put together here, from the facts and the answer's own values."""
    assert answer["productId"] == PRODUCT and answer["offerIdentifier"] == OFFER and answer["keyId"] == KEY_ID
    assert answer.get("appAccountToken", "") == account
    assert str(UUID(answer["nonce"])) == answer["nonce"]
    assert abs(answer["timestamp"] / 1000 - time.time()) < 86_400
    parts = [BUNDLE, KEY_ID, PRODUCT, OFFER, account, answer["nonce"], str(answer["timestamp"])]
    signature = b64decode(answer["encodedSignature"], validate=True)
    assert is_valid(public, signature, "\u2063".join(parts).encode())
    valid["promotional-offer 1"] += 1
    for index in range(len(parts)):
        changed = parts[:index] + [parts[index] + "x"] + parts[index + 1:]
        assert not is_valid(public, signature, "\u2063".join(changed).encode())
        refused["promotional-offer 1"] += 1


def judge_token(public, answer, audience, expected, theirs):
    """Compares header, claims and their types with a token of Apple's own library, beside the signature."""
    assert list(answer) == ["compactJWS"]
    token = answer["compactJWS"]
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    claims = jwt.decode(token, pem, algorithms=["ES256"], audience=audience, issuer=ISSUER)
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": KEY_ID, "typ": "JWT"}
    assert jwt.get_unverified_header(token) == jwt.get_unverified_header(theirs)
    apples = jwt.decode(theirs, pem, algorithms=["ES256"], audience=audience, issuer=ISSUER)
    assert {name: type(value) for name, value in claims.items()} == {
        name: type(value) for name, value in apples.items()}, (claims, apples)
    for name in claims:
        if name not in ("nonce", "iat", "request"):
            assert claims[name] == apples[name] == {**expected, "iss": ISSUER, "bid": BUNDLE, "aud": audience}[name]
    assert str(UUID(claims["nonce"])) == claims["nonce"]
    valid[audience] += 1
    head, payload, signature = token.split(".")
    other = jwt.encode({**claims, "bid": "com.other"}, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256")
    for changed in (f"{head}.{other.split('.')[1]}.{signature}", other):
        try:
            jwt.decode(changed, pem, algorithms=["ES256"], audience=audience)
            assert False, "A changed token is valid."
        except jwt.InvalidSignatureError:
            refused[audience] += 1
    return claims, apples


def apples_request():
    """The same request as Apple's library has it."""
    return AdvancedCommerceOneTimeChargeCreateRequest(
        currency=REQUEST["currency"], taxCode=REQUEST["taxCode"], storefront=REQUEST["storefront"],
        requestInfo=AdvancedCommerceRequestInfo(**REQUEST["requestInfo"]),
        item=AdvancedCommerceOneTimeChargeItem(**REQUEST["item"]))


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        key_file, pem, public = make_key(folder)
        sign = signer(program, key_file)
        offer = ["promotional-offer", "--product-id", PRODUCT, "--offer-identifier", OFFER]
        for account in ("", ACCOUNT):
            extra = ["--app-account-token", account.upper()] if account else []
            judge_version_1(public, sign(*offer, "--signature-version", "1", *extra), account)

        own = (pem, KEY_ID, ISSUER, BUNDLE)
        for transaction in (None, TRANSACTION):
            extra = ["--transaction-id", transaction] if transaction else []
            expected = {"productId": PRODUCT, "offerIdentifier": OFFER, "transactionId": transaction}
            judge_token(
                public, sign(*offer, *extra), "promotional-offer", expected,
                PromotionalOfferV2SignatureCreator(*own).create_signature(PRODUCT, OFFER, transaction))
        for allowed in (True, False):
            answer = sign(
                "introductory-offer", "--product-id", PRODUCT, "--transaction-id", TRANSACTION,
                "--allow" if allowed else "--no-allow")
            expected = {"productId": PRODUCT, "allowIntroductoryOffer": allowed, "transactionId": TRANSACTION}
            judge_token(
                public, answer, "introductory-offer-eligibility", expected,
                IntroductoryOfferEligibilitySignatureCreator(*own).create_signature(PRODUCT, allowed, TRANSACTION))

        answer = sign("advanced-commerce", "-", text=json.dumps(REQUEST))
        theirs = AdvancedCommerceAPIInAppSignatureCreator(*own).create_signature(apples_request())
        claims, apples = judge_token(public, answer, "advanced-commerce-api", {}, theirs)
        assert json.loads(b64decode(claims["request"], validate=True).decode()) == REQUEST
        assert json.loads(b64decode(apples["request"]).decode()) == REQUEST
    print(json.dumps({"valid": valid, "refused": refused}))


main(sys.argv[1])
