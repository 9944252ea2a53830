"""Identity providers: a real one of a package, and one that lies as it is told."""

from __future__ import annotations

import json
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.servers import (
    PATIENCE_S,
    find_free_port,
    run_in_thread,
    run_process,
    wait_for_port,
)

#: Its first one; to make one takes long.
KEY: RSAKey = RSAKey.generate_key(parameters={"kid": "first"})

CLIENT, SECRET = "minutehand", "s3cret of the client"


@dataclass(frozen=True)
class RealProvider:
    """oidc-provider-mock: it signs in whoever says who they are."""

    issuer: str

    def add(self, sub: str, **claims: Any) -> None:
        """Let there be somebody."""
        answer = httpx2.put(
            f"{self.issuer}/users/{sub}", json=claims, timeout=PATIENCE_S
        )
        answer.raise_for_status()

    def sign_in(self, address: str, sub: str) -> str:
        """Return where a browser is sent that signs in as *sub* at *address*."""
        return self._send(address, {"sub": sub})

    def deny(self, address: str) -> str:
        """Return where a browser is sent whose owner does not want to."""
        return self._send(address, {"action": "deny"})

    def _send(self, address: str, form: dict[str, str]) -> str:
        answer = httpx2.post(address, data=form, timeout=PATIENCE_S)
        assert 302 == answer.status_code, answer.text
        return str(answer.headers["location"])


@contextmanager
def run_provider(folder: Path) -> Iterator[RealProvider]:
    """Run it as a process."""
    port, log = find_free_port(), folder / "provider.log"
    program = (sys.executable, "-m", "oidc_provider_mock", "--port", str(port))
    command = [*program, "--require-nonce", "true", "--token-max-age", "3600"]
    with run_process(command, log=log) as process:
        wait_for_port(port, process, log=log)
        yield RealProvider(f"http://127.0.0.1:{port}")


@dataclass
class Rogue:
    """
    A provider that answers as a test says.

    Args:
        claims: Of the token, beside what is as it should be; None leaves one out.
        answers: What is sent in the place of a path's answer: JSON, bytes, or a
            function that does it.
        token: Makes the token. None: it is signed as it should be.
        asked: The forms that came to the place of tokens, and the headers.
    """

    key: RSAKey = field(default_factory=lambda: KEY)
    claims: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    token: Callable[[dict[str, Any]], str] | None = None
    asked: list[tuple[dict[str, str], dict[str, str]]] = field(default_factory=list)
    issuer: str = ""
    _nonce: str = ""
    _challenge: str = ""

    def sign_in(self, address: str) -> str:
        """Return where a browser is sent that signs in at *address*."""
        query = {
            name: each[0] for name, each in parse_qs(urlsplit(address).query).items()
        }
        assert ("code", "S256") == (
            query["response_type"],
            query["code_challenge_method"],
        )
        self._nonce, self._challenge = query["nonce"], query["code_challenge"]
        return f"{query['redirect_uri']}?code=the+code&state={query['state']}"

    def answer(self, path: str, form: dict[str, str], headers: dict[str, str]) -> Any:
        """Return what is sent from *path*."""
        if path == "/token":
            self.asked.append((form, headers))
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            return self.describe()
        if path == "/keys":
            return {"keys": [self.key.as_dict(private=False)]}
        if path == "/token":
            return {"id_token": self.make_token(), "access_token": "the access token"}
        return None

    def describe(self, **changes: Any) -> dict[str, Any]:
        """Return what it says of itself."""
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        return found | changes

    def make_token(self) -> str:
        """Return the token of whoever signed in last."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "ada-1",
            "iat": now,
            "exp": now + 3600,
            "nonce": self._nonce,
            "groups": ["ops"],
        } | self.claims
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.token is not None:
            return self.token(claims)
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)

    def has_verifier(self) -> bool:
        """Tell whether the code was redeemed by whoever asked for it (RFC 7636)."""
        verifier = self.asked[-1][0]["code_verifier"]
        digest = urlsafe_b64encode(sha256(verifier.encode()).digest())
        return self._challenge == digest.decode().rstrip("=")


@contextmanager
def run_rogue() -> Iterator[Rogue]:
    """Run one in a thread."""
    rogue = Rogue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length", 0))
            form = dict(parse_qsl(self.rfile.read(length).decode()))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found = rogue.answer(urlsplit(self.path).path, form, headers)
            if callable(found):
                found(self)
                return
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - as the standard library calls it

    with run_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as place:
        rogue.issuer = f"http://{place}"
        yield rogue


def reply(status: int, body: bytes = b"") -> Callable[[BaseHTTPRequestHandler], None]:
    """Return what answers with *status*."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return send
