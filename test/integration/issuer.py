"""An issuer of OAuth tokens: a discovery document and a key set over HTTPS, and tokens that its keys
have signed."""

import base64
import http.server
import json
import ssl
import threading
import time

from cryptography.hazmat.primitives import hashes, hmac, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

import keeper

AUDIENCE = "databases"
SCOPE = "openid postgres"
DIGESTS = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def b64_json(value):
    return b64(json.dumps(value).encode())


def b64_number(number, size=None):
    return b64(number.to_bytes(size or (number.bit_length() + 7) // 8, "big"))


class Key:
    """A key with its id, for one algorithm."""

    def __init__(self, kid, algorithm="RS256"):
        self.kid, self.algorithm = kid, algorithm
        if algorithm == "ES256":
            self.private = ec.generate_private_key(ec.SECP256R1())
        elif algorithm == "ES384":
            self.private = ec.generate_private_key(ec.SECP384R1())
        elif algorithm == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
        else:
            self.private = rsa.generate_private_key(65537, 2048)

    def public(self):
        """Returns the key as a key set has it."""
        made = {"kid": self.kid, "use": "sig", "alg": self.algorithm}
        public = self.private.public_key()
        if self.algorithm == "EdDSA":
            raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
            made.update(kty="OKP", crv="Ed25519", x=b64(raw))
        elif self.algorithm.startswith("ES"):
            numbers, size = public.public_numbers(), int(self.algorithm[2:]) // 8
            made.update(kty="EC", crv="P-" + self.algorithm[2:], x=b64_number(numbers.x, size),
                        y=b64_number(numbers.y, size))
        else:
            numbers = public.public_numbers()
            made.update(kty="RSA", n=b64_number(numbers.n), e=b64_number(numbers.e))
        return made

    def sign(self, data):
        digest = DIGESTS.get(self.algorithm[2:], hashes.SHA256)()
        if self.algorithm == "EdDSA":
            return self.private.sign(data)
        if self.algorithm.startswith("ES"):
            size = int(self.algorithm[2:]) // 8
            return b"".join(n.to_bytes(size, "big") for n in utils.decode_dss_signature(
                self.private.sign(data, ec.ECDSA(digest))))
        if self.algorithm.startswith("PS"):
            return self.private.sign(data, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)
        return self.private.sign(data, padding.PKCS1v15(), digest)


def hs256(header, claims, secret):
    """Returns a token that is signed with a symmetric key."""
    signed = b64_json(dict(header, alg="HS256")) + "." + b64_json(claims)
    mac = hmac.HMAC(secret, hashes.SHA256())
    mac.update(signed.encode())
    return signed + "." + b64(mac.finalize())


class Issuer:
    """Listens on a port of its own. is_hanging: requests are not answered."""

    def __init__(self, pair, path=""):
        self.keys = [Key("first")]
        self.gets = []  # The paths that were asked for.
        self.is_hanging = threading.Event()
        self.document = {}  # What the discovery document has instead.
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pair.cert_file, pair.key_file)
        self.server = None
        self.port = 0
        self.come()
        self.name = "https://127.0.0.1:%d%s" % (self.port, path)

    def come(self):
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.gets.append(self.path)
                while issuer.is_hanging.is_set():
                    time.sleep(0.05)
                text = issuer.answer(self.path)
                self.send_response(200 if text else 404)
                self.send_header("Content-Length", str(len(text or b"")))
                self.end_headers()
                self.wfile.write(text or b"")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler, bind_and_activate=False)
        self.server.handle_error = lambda *_: None
        self.server.daemon_threads = True
        self.server.server_bind()
        self.server.server_activate()
        self.port = self.server.server_port
        self.server.socket = self.context.wrap_socket(self.server.socket, server_side=True,
                                                      do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def go(self):
        """Nothing listens any more; come() undoes it."""
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def answer(self, path):
        if path.endswith("/.well-known/openid-configuration"):
            text = dict({"issuer": self.name, "jwks_uri": self.name + "/keys"}, **self.document)
        elif path.endswith("/keys"):
            text = {"keys": [key.public() for key in self.keys]}
        else:
            return None
        return json.dumps(text).encode()

    def claims(self, user="trust_user", **claims):
        now = int(time.time())
        made = dict({"iss": self.name, "aud": AUDIENCE, "sub": user, "scope": SCOPE, "iat": now,
                     "exp": now + 300}, **claims)
        return {name: value for name, value in made.items() if value is not None}

    def token(self, user="trust_user", key=None, header=None, **claims):
        """Returns a token for the user; None takes a claim out."""
        key = key or self.keys[0]
        head = dict({"alg": key.algorithm, "typ": "JWT", "kid": key.kid}, **(header or {}))
        head = {name: value for name, value in head.items() if value is not None}
        signed = b64_json(head) + "." + b64_json(self.claims(user, **claims))
        return learned(signed + "." + b64(key.sign(signed.encode())))


def learned(token):
    """From now on no pooler may show the token, or one of its parts that tells more than its header."""
    keeper.learn(token)
    for part in token.split(".")[1:]:
        keeper.learn(part)
    return token


def first_message(token):
    """Returns the first message of a client of OAUTHBEARER."""
    return b"n,,\x01auth=" + (b"Bearer " + token.encode() if token else b"") + b"\x01\x01"
