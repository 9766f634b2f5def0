# SPDX-License-Identifier: Apache-2.0
"""Verifies receipts and the certificates of tokens with the openssl program.

Usage: openssl.py QUITTANCE. Needs no library. Prints as JSON how many certificates and receipts it verified.
"""

import json
import subprocess
import sys
from base64 import b64decode, urlsafe_b64decode

from simulator import Receiver, Simulator

# Virtual times at which different leaves and intermediates sign.
DAYS = [0, 182, 182, 182]


def openssl(*arguments):
    result = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, f"{arguments}: {result.stderr}"
    return result.stdout


def pem(folder, name, der):
    path = folder / f"{name}.pem"
    (folder / name).write_bytes(der)
    openssl("x509", "-inform", "DER", "-in", folder / name, "-out", path)
    return path


def check_token(simulator, payload):
    """Verifies the chain of a token at the virtual time.

    `-x509_strict` is how Apple's Python library verifies. The chain ends at its self-signed root, so `-partial_chain`
    is not needed; nor is `-purpose`, since the leaf may sign documents and restricts its use no further.
    """
    header, body = [json.loads(decoded(part)) for part in payload.split(".")[:2]]
    leaf, intermediate, root = [
        pem(simulator.folder, f"token-{index}", b64decode(text)) for index, text in enumerate(header["x5c"])]
    trusted = pem(simulator.folder, "trusted", simulator.roots[0])
    assert root.read_text() == trusted.read_text()
    openssl(
        "verify", "-x509_strict", "-attime", body["signedDate"] // 1000, "-CAfile", trusted, "-untrusted", intermediate,
        leaf)
    return leaf.read_text(), intermediate.read_text()


def decoded(part):
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def check_receipt(simulator, name):
    """Verifies a receipt's signature, and its chain at the virtual time."""
    receipt = simulator.folder / f"{name}.receipt"
    receipt.write_bytes(simulator.receipt(name))
    openssl(
        "cms", "-verify", "-inform", "DER", "-in", receipt, "-CAfile",
        pem(simulator.folder, "receipt-root", simulator.roots[1]), "-x509_strict", "-attime",
        simulator.now() // 1000, "-binary", "-out", simulator.folder / "payload")
    # The payload is a SET.
    assert (simulator.folder / "payload").read_bytes()[0] == 0x31


def main(program):
    receiver = Receiver()
    signers, receipts = set(), 0
    with Simulator(program, "--notify", receiver.url, "--sandbox-notify", receiver.url) as simulator:
        for name in ["Production", "Sandbox"]:
            simulator.add(name, environment=name)
            simulator.buy(name, "pro.monthly")
            simulator.buy(name, "lifetime")
        for days in DAYS:
            simulator.advance(days=days)
            simulator.post("/notifications/test")
            for name in ["Production", "Sandbox"]:
                check_receipt(simulator, name)
                receipts += 1
        for _ in range(simulator.get("/state")["notifications"]):
            signers.add(check_token(simulator, receiver.next()[1]))
    leaves, intermediates = map(set, zip(*signers))
    print(json.dumps({"leaves": len(leaves), "intermediates": len(intermediates), "receipts": receipts}))


if __name__ == "__main__":
    main(sys.argv[1])
