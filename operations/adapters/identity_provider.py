"""
The company's identity provider: whom it signs in, by OpenID Connect.

The authorization code flow with PKCE (RFC 6749, RFC 7636). What the provider says is
believed once Authlib has checked signature, issuer, audience, nonce and end of its
token. Whatever it does instead, it is given up within a deadline.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NoReturn, TypeGuard
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx2

from models.errors import ForbiddenError, RuleError, UnreachableError, UsageError
from models.fields.addresses import check_url
from models.fields.field_types import LONGEST_NAME, check_name
from operations.adapters.guarded_http import (
    ForbiddenUrlError,
    GuardedClient,
    HostGuard,
    make_context,
)

#: For all requests of one sign-in together.
TIMEOUT = timedelta(seconds=10)

#: For one part of an answer.
_PATIENCE = timedelta(seconds=5)

#: How long addresses and keys of the provider are kept.
_KEPT_FOR = timedelta(hours=1)

#: How far its clock may be from the database's.
_LEEWAY_S = 60

#: Bytes of an answer: tokens of people with hundreds of groups have some 20,000.
_LARGEST = 1 << 20

#: Signatures that only the provider can make; "none" and those by the secret that we
#: share with it are not among them.
_ALGORITHMS = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
]

#: What the libraries raise of tokens and keys that have another shape than they may.
_RUBBISH = (
    *(ArithmeticError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)

#: What each sign-in needs of the provider's description of itself.
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")

#: What a provider may answer in the place of an explanation.
_ERROR = re.compile(r"[a-z_]{1,60}")

#: An operator names the provider, so it may be anywhere.
_GUARD = HostGuard(("0.0.0.0/0", "::/0"), setting="MINUTEHAND_OIDC_ISSUER")

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Registration:
    """
    How the provider and we know each other.

    Args:
        issuer: Its address, exactly as it names itself.
        client_id: What it calls us.
        client_secret: None: PKCE alone says who redeems a code.
        scopes: What is asked for, with spaces between.
        groups_claim: Where it says in which groups somebody is.
    """

    issuer: str
    client_id: str
    client_secret: str | None = field(repr=False)
    scopes: str
    groups_claim: str

    @property
    def host(self) -> str:
        """What people and logs call the provider."""
        return urlsplit(self.issuer).netloc


@dataclass(frozen=True, slots=True)
class Person:
    """
    Somebody whom the provider signed in.

    Args:
        name: Mail address, if it is known to be theirs, and the provider's id.
        groups: As the provider names them.
        ends_at: Until when it vouches for them, aware UTC.
    """

    name: str
    groups: tuple[str, ...]
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """
    One sign-in, from leaving for the provider to coming back.

    Args:
        secret: Known to the browser alone; what the provider sees is derived from it.
        back: Address to which the provider sends the browser.
    """

    secret: str = field(repr=False)
    back: str

    def derive(self, name: str) -> str:
        """Return the state, nonce or verifier, none of which tells the others."""
        key = self.secret.encode()
        return hmac.new(key, name.encode(), hashlib.sha256).hexdigest()

    def is_answered_by(self, state: str) -> bool:
        """Tell whether *state*, which came back, is that of this sign-in."""
        return hmac.compare_digest(self.derive("state").encode(), state.encode())


class IdentityProvider:
    """What is asked of the provider; threads share it."""

    def __init__(
        self,
        registration: Registration,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Ask nothing yet.

        Raises:
            UsageError: Authlib is not installed.
        """
        if importlib.util.find_spec("authlib") is None:
            raise UsageError(
                "MINUTEHAND_OIDC_ISSUER needs Authlib. Install it:"
                " pip install 'minutehand[oidc]'"
            )
        self.registration = registration
        self._monotonic = monotonic
        self._kept: dict[str, tuple[float, Json]] = {}

    def find_sign_in(self, attempt: SignInAttempt) -> str:
        """
        Return where somebody signs in.

        Raises:
            UnreachableError: The provider does not say.
        """
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # noqa: PLC0415 - an extra
        from authlib.oauth2.rfc7636 import create_s256_code_challenge  # noqa: PLC0415 - an extra

        ours = self.registration
        with _connect() as client:
            address = self._describe(client)["authorization_endpoint"]
        return str(
            prepare_grant_uri(
                address,
                ours.client_id,
                "code",
                redirect_uri=attempt.back,
                scope=ours.scopes,
                state=attempt.derive("state"),
                nonce=attempt.derive("nonce"),
                code_challenge=create_s256_code_challenge(attempt.derive("verifier")),
                code_challenge_method="S256",
            )
        )

    def identify(self, attempt: SignInAttempt, code: str, *, now: datetime) -> Person:
        """
        Return who came back with *code*.

        Args:
            now: By the clock of the database, aware UTC.

        Raises:
            ForbiddenError: The code, or the token that it is for, is not good.
            UnreachableError: The provider does not answer, or not as it should.
        """
        with _connect() as client:
            found = self._describe(client)
            answer = self._redeem(client, found["token_endpoint"], attempt, code)
            claims = self._check(client, answer, attempt.derive("nonce"), now)
            if self.registration.groups_claim not in claims:
                claims = self._ask_more(client, answer, claims)
        return self._read_person(claims)

    @property
    def may_sign_out(self) -> bool:
        """Whether one may be able to sign out of it, as far as that is known."""
        kept = self._kept.get("")
        return kept is None or "end_session_endpoint" in kept[1]

    def find_sign_out(self, back: str) -> str | None:
        """
        Return where one signs out at the provider, too. None: nowhere.

        Args:
            back: Address of ours to which the provider may lead afterwards.

        Raises:
            UnreachableError: The provider does not say.
        """
        with _connect() as client:
            address = self._describe(client).get("end_session_endpoint")
        if not _is_safe(address, self.registration.issuer):
            return None
        query = {
            "client_id": self.registration.client_id,
            "post_logout_redirect_uri": back,
        }
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"

    def _describe(self, client: GuardedClient) -> Json:
        """Return what the provider says of itself (OpenID Connect Discovery)."""
        return self._keep("", lambda: describe(self.registration.issuer, client))

    def _keep(self, name: str, ask: Callable[[], Json]) -> Json:
        """Return what *ask* returned within the last hour."""
        kept = self._kept.get(name)
        if kept is None or self._monotonic() - kept[0] > _KEPT_FOR.total_seconds():
            kept = self._kept[name] = (self._monotonic(), ask())
        return kept[1]

    def _redeem(
        self, client: GuardedClient, address: str, attempt: SignInAttempt, code: str
    ) -> Json:
        """Return what the provider gives for *code*."""
        ours = self.registration
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.back,
            "code_verifier": attempt.derive("verifier"),
        }
        headers = {}
        ways = self._describe(client).get("token_endpoint_auth_methods_supported")
        if ours.client_secret is None:
            form["client_id"] = ours.client_id
        elif ways and "client_secret_basic" not in ways:
            form |= {"client_id": ours.client_id, "client_secret": ours.client_secret}
        else:
            pair = f"{quote_plus(ours.client_id)}:{quote_plus(ours.client_secret)}"
            told = base64.b64encode(pair.encode()).decode()
            headers["authorization"] = f"Basic {told}"
        return _ask(client, address, headers=headers, form=form)

    def _check(
        self, client: GuardedClient, answer: Json, nonce: str, now: datetime
    ) -> dict[str, Any]:
        """Return what the provider says of somebody, if it is their token."""
        from authlib.oidc.core import CodeIDToken  # noqa: PLC0415 - an extra
        from joserfc import errors, jwt  # noqa: PLC0415 - an extra
        from joserfc.jwk import KeySet  # noqa: PLC0415 - an extra
        from joserfc.jws import JWSRegistry  # noqa: PLC0415 - an extra

        ours = self.registration
        address = self._describe(client)["jwks_uri"]

        def decode() -> jwt.Token:
            keys: Any = self._keep("keys", lambda: _ask(client, address))
            # What its header has beside the usual is the provider's business.
            registry = JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
            text = answer["id_token"]
            return jwt.decode(text, KeySet.import_key_set(keys), registry=registry)

        options = {
            "iss": {"essential": True, "value": ours.issuer},
            "aud": {"essential": True, "value": ours.client_id},
            **{name: {"essential": True} for name in ("exp", "iat", "sub")},
        }
        try:
            try:
                token = decode()
            except (errors.InvalidKeyIdError, errors.BadSignatureError):
                self._kept.pop("keys", None)  # it has changed them
                token = decode()
            claims = CodeIDToken(
                token.claims,
                token.header,
                options,
                {"nonce": nonce, "client_id": ours.client_id},
            )
            claims.validate(now=int(now.timestamp()), leeway=_LEEWAY_S)
        except errors.JoseError as error:
            self._refuse_token(getattr(error, "claim", None) or error.error)
        except _RUBBISH as error:
            self._refuse_token(type(error).__name__)
        if not claims["exp"] > now.timestamp():  # nor if it is no number
            self._refuse_token("exp")  # for a session, no leeway
        return dict(claims)

    def _refuse_token(self, what: str) -> NoReturn:
        """Say what is wrong, in a word: the token itself is a secret."""
        raise ForbiddenError(
            f"{self.registration.host} sent a token that is not good: {what}."
            " Sign in again; if that does not help, tell your operator."
        ) from None

    def _ask_more(
        self, client: GuardedClient, answer: Json, claims: dict[str, Any]
    ) -> dict[str, Any]:
        """Return *claims* with what is told to whoever has the token, too."""
        address = self._describe(client).get("userinfo_endpoint")
        token = answer.get("access_token")
        issuer = self.registration.issuer
        if not _is_safe(address, issuer) or not isinstance(token, str):
            return claims
        headers = {"authorization": f"Bearer {token}"}
        more = _ask(client, address, headers=headers)
        return {**more, **claims} if more.get("sub") == claims["sub"] else claims

    def _read_person(self, claims: Json) -> Person:
        given = claims.get(self.registration.groups_claim)
        groups = given if isinstance(given, list) else [given]
        mail, sub = claims.get("email"), claims["sub"]
        name = sub
        # Some say of no address whether it is verified; whose it is, sub tells anyway.
        has_mail = isinstance(mail, str) and claims.get("email_verified") is not False
        if has_mail and mail != sub:
            name = f"{mail} ({sub})"
        try:
            name = check_name(name)
        except RuleError:
            self._refuse_token("sub")
        if len(name) > LONGEST_NAME:
            self._refuse_token("sub")
        return Person(
            name,
            tuple(each for each in groups if isinstance(each, str)),
            # far beyond any session, and within what a date can be
            datetime.fromtimestamp(min(claims["exp"], 2**33), UTC),
        )


def describe(issuer: str, client: GuardedClient | None = None) -> Json:
    """
    Return what the provider says of itself.

    Args:
        client: Whose deadline holds. None: one of its own is made.

    Raises:
        UnreachableError: It does not answer, or is another one.
    """
    if client is None:
        with _connect() as own:
            return describe(issuer, own)
    address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    found = _ask(client, address)
    if found.get("issuer") != issuer:
        _fail(issuer, f"it names itself {str(found.get('issuer'))[:200]!r}")
    for name in _ENDPOINTS:
        if not _is_safe(found.get(name), issuer):
            _fail(issuer, f"its {name} is no address of https, or has a password in it")
    return found


#: It takes long to make.
_make_context = cache(make_context)


def _connect() -> GuardedClient:
    return GuardedClient(_GUARD, _PATIENCE, whole=TIMEOUT, context=_make_context())


def _is_safe(address: object, issuer: str) -> TypeGuard[str]:
    """
    Tell whether *address* is one of TLS, unless the issuer is none, on this host.

    One with a password in it is not: what goes wrong with it is told with its host.
    """
    if not isinstance(address, str) or not address.isprintable():
        return False
    with suppress(RuleError):
        return urlsplit(check_url(address)).scheme in {"https", urlsplit(issuer).scheme}
    return False


def _ask(
    client: GuardedClient,
    address: str,
    *,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
) -> Json:
    """
    Return the JSON object at *address*.

    Raises:
        ForbiddenError: What was sent is refused.
        UnreachableError: There is none.
    """
    given = {
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "minutehand",
        **(headers or {}),
    }
    method = "GET" if form is None else "POST"
    try:
        with client.stream(method, address, headers=given, data=form) as response:
            body = _read_body(response)
    except ForbiddenUrlError as error:
        _fail(address, str(error))
    except (OSError, httpx2.HTTPError, httpx2.InvalidURL) as error:
        _fail(address, str(error) or type(error).__name__)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    status = response.status_code
    if form is not None and 400 <= status < 500:
        told = found.get("error") if isinstance(found, dict) else None
        why = told if isinstance(told, str) and _ERROR.fullmatch(told) else status
        host = urlsplit(address).netloc
        raise ForbiddenError(f"{host} refused: {why}. Sign in again.")
    if status != 200:
        _fail(address, f"it answered {status}")
    if not isinstance(found, dict):
        _fail(address, "what it sent is not a JSON object")
    return found


def _read_body(response: httpx2.Response) -> bytes:
    body = bytearray()
    for part in response.iter_raw():
        body += part
        if len(body) > _LARGEST:
            raise OSError(f"it sent more than {_LARGEST:,} bytes")
    return bytes(body)


def _fail(address: str, why: str) -> NoReturn:
    host = urlsplit(address).netloc
    msg = f"{host}, which signs people in, cannot be asked: {why}"
    raise UnreachableError(msg) from None
