# SPDX-License-Identifier: Apache-2.0
"""A server that verifies the bearer token of each request with PyJWT, and prints all requests when it is stopped.

Arguments: the public key as PEM, the key id, the issuer, the bundle id, and the file that gets the port."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jwt

keyFile, keyId, issuer, bundleId, portFile = sys.argv[1:]
key = Path(keyFile).read_text()
requests = []

# Has what the answer of any endpoint with an answer must have.
ANSWER = {
    "signedTransactionInfo": "x", "signedAppTransactionInfo": "x", "signedPayload": "x", "hasMore": False, "data": [],
    "status": 0, "success": True, "requestIdentifier": "u", "complete": True, "testNotificationToken": "t",
    "groups": [], "seatClaimId": "s", "requestId": "r", "result": "PASS", "signedTransactions": ["x"],
    "notificationHistory": [], "members": [], "assignedSeatClaimIds": [], "imageIdentifiers": [],
    "messageIdentifiers": [], "messageIdentifier": "m", "realtimeURL": "u",
}


def has_answer(method, path):
    """Whether Apple answers with a body. A change has none but its status, except the extension of a subscription."""
    if method in ("PUT", "DELETE"):
        return "/subscriptions/extend/" in path
    return not path.endswith(("/finish", "/associate"))


def refusal(authorization):
    """Why a token is not valid; None if it is."""
    try:
        token = authorization.removeprefix("Bearer ")
        header = jwt.get_unverified_header(token)
        assert header == {"alg": "ES256", "kid": keyId, "typ": "JWT"}, header
        claims = jwt.decode(
            token, key, algorithms=["ES256"], audience="appstoreconnect-v1", issuer=issuer,
            options={"require": ["iss", "iat", "exp", "aud", "bid"]})
        assert claims["bid"] == bundleId, claims
        assert claims["exp"] - claims["iat"] <= 3600, claims
        return None
    except Exception as error:
        return repr(error)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/stop":
            requests.append({
                "line": f"{self.command} {self.path}", "refusal": refusal(self.headers.get("Authorization", "")),
                "type": self.headers.get("Content-Type"), "accept": self.headers.get("Accept"),
                "agent": self.headers.get("User-Agent"), "body": body.decode("latin-1"),
            })
        data = json.dumps(ANSWER).encode() if has_answer(self.command, self.path) else b""
        # Send Consumption Information alone is answered with 202.
        self.send_response(202 if "/consumption/" in self.path else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        # Not before the answer is sent, since the program ends then.
        if self.path == "/stop":
            threading.Thread(target=server.shutdown).start()

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
Path(portFile + ".new").write_text(str(server.server_port))
Path(portFile + ".new").rename(portFile)
server.serve_forever()
print(json.dumps(requests))
