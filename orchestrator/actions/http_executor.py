"""API operations carried out by calling the API itself, over HTTP.

Where a request goes is the definition's to say: the document's `servers`, or `base_url`. What the
model gives fills parameters, each encoded for its place. Requests leave over a connection to an
address that was checked (`orchestrator.actions.hosts`).
"""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import SplitResult, urljoin, urlsplit

from orchestrator.actions._exchange import (
    IncompleteResponse,
    NotSent,
    Request,
    Response,
    exchange,
)
from orchestrator.actions._serialise import (
    SerialisationError,
    body_of,
    headers_of,
    path_of,
    query_of,
)
from orchestrator.actions.base import ActionResult, Call, CallContext, Operation
from orchestrator.actions.functions import object_schema
from orchestrator.actions.hosts import Hosts, RefusedAddress
from orchestrator.actions.placeholders import PlaceholderText
from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DefinitionError,
    DependencyFailed,
    ThrottlingError,
)
from orchestrator.support.charsets import decode_text
from orchestrator.support.redaction import hide_credentials, is_credential
from orchestrator.support.tracing import build_trace_headers

_AGAIN = (429, 502, 503, 504)
_ATTEMPTS = 3
_LONGEST_PAUSE = 10.0
_MOVED = (301, 302, 303, 307, 308)
_MOST_MOVES = 3
_LONGEST_KIND = 100
_SEE_OTHER = 303  # RFC 9110: the request was carried out, and its answer is elsewhere
_UNSAID = (301, 302, 502, 504)  # a redirect of old, or a gateway's word for what is behind it
_TEXTS = ("json", "xml", "yaml", "javascript", "x-www-form-urlencoded", "csv", "html")
# Who speaks, to whom, how long a body is and where it ends is not a model's to say.
_OWN_HEADERS = frozenset(
    "host connection content-length transfer-encoding te trailer upgrade expect keep-alive cookie "
    "proxy-authorization proxy-connection accept-encoding idempotency-key user-agent".split()
)

_CREDENTIALS = ("authorization", "cookie")
_HEADER = re.compile(r"[A-Za-z0-9_.-]{1,100}")

_sleep = time.sleep


class HttpExecutor:
    """Calls an API over HTTP, for groups with an OpenAPI schema.

    - A 2xx answer's body is what the model reads. So are 4xx answers, after `HTTP 404 Not Found`:
      the model may have asked for the wrong thing, and can correct it or inform the user.
    - 401 and 407 raise `AccessDenied`: the definition's credentials are wrong. 429 raises
      `ThrottlingError`, 5xx `DependencyFailed`. Of operations that only read (GET, HEAD, OPTIONS)
      429, 502, 503, 504 and broken connections are tried again, twice at most, after `Retry-After`.
    - A redirect is followed when the operation only reads and it stays on the same host.
    - Requests that change something carry the call's key as `Idempotency-Key`, and are never sent
      twice: when the answer does not arrive, or is one of a gateway (502, 504) or a redirect that
      does not say what was done (301, 302), `ActionOutcomeUnknown` is raised.
    - Once a 2xx status or 303 says that such a request was carried out, no fault of the answer's
      body changes that: the model reads that it was carried out, and why the answer is not shown.
    - Hosts with private, loopback or link-local addresses are refused, unless `allow_private` names
      them. Proxies of the environment are not used.
    """

    def __init__(
        self,
        base_url: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        allow_private: Sequence[str] = (),
    ) -> None:
        """Makes the executor; nothing is sent yet.

        Args:
            base_url: Where the API is, instead of the document's `servers`.
            headers: Headers of every request. In a value, `${env:NAME}` stands for an environment
                variable and `${session:NAME}` for a session attribute, both read when a call is
                carried out. A parameter of the same name is not shown to the model. An API that
                sends the variable back, or a header's value that is a credential by its name
                (`Authorization`, `X-Api-Key`), is not repeated.
            timeout: Seconds that a call has; the agent's `action_seconds` holds besides.
            allow_private: Names of hosts that may have private addresses, as they are in the url:
                `localhost`, `api.internal`, `10.0.0.7`.

        Raises:
            DefinitionError: The url, a header or the timeout is not possible.
        """
        if not timeout > 0:
            raise DefinitionError(f"the timeout of an API is {timeout!r}; it must be above 0")
        self._headers = {
            _header_name(name): PlaceholderText(
                f"the header {name!r}", value, credential=is_credential(name, str(value))
            )
            for name, value in (headers or {}).items()
        }
        self._fixed = {name.lower() for name in self._headers}
        self._hosts = Hosts(allow_private)
        self._base = base_url
        self._seconds = timeout
        self._urls: dict[str, SplitResult] = {}
        if base_url:
            self._url(base_url)

    def __repr__(self) -> str:
        return f"HttpExecutor({self._base!r})"

    def prepare(self, operations: Sequence[Operation]) -> tuple[Operation, ...]:
        """The operations without the headers that the definition sets.

        Raises:
            DefinitionError: An operation cannot be called over HTTP; the message says why.
        """
        return tuple(self._prepare_operation(one) for one in operations)

    def _prepare_operation(self, operation: Operation) -> Operation:
        name = operation.xml_name
        if not operation.verb:
            raise DefinitionError(f"{name!r} is a function; an API over HTTP needs an api_schema")
        self._url(self._base or operation.server, f"{name!r}: ")
        if operation.content_type == "multipart/form-data":
            raise DefinitionError(
                f"{name!r} takes a multipart/form-data body, which cannot be sent; give it "
                "application/json"
            )
        for parameter in operation.parameters:
            if parameter.location == "header" and parameter.name.lower() in _OWN_HEADERS:
                raise DefinitionError(
                    f"{name!r} has the header {parameter.name!r} as a parameter, which is not a "
                    "model's to set; leave it out"
                )
        left = tuple(
            one
            for one in operation.parameters
            if one.location != "header" or one.name.lower() not in self._fixed
        )
        if len(left) == len(operation.parameters):
            return operation
        return replace(operation, parameters=left, schema=object_schema(left))

    # Read and checked once: a wrong url, or one that would send credentials in the open, is refused
    # when the agent is made, and not when a model calls.
    def _url(self, text: str, of: str = "") -> SplitResult:
        found = self._urls.get(text)
        if found is None:
            found = self._urls[text] = _base_url(text, of)
            if any(one.is_secret for one in self._headers.values()):
                self._hosts.check_credentials(found, f"{of}the base url {text!r}")
        return found

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Carries a call out.

        Raises:
            AccessDenied: A credential is missing or was refused.
            ThrottlingError: The API's rate limit was reached.
            ActionOutcomeUnknown: Nobody knows whether the request took effect.
            DependencyFailed: The API failed, could not be reached, or is at an address that is
                not allowed.
        """
        name = call.operation.xml_name
        seconds = self._seconds if context.seconds is None else min(self._seconds, context.seconds)
        deadline = time.monotonic() + seconds
        headers = {key: one.fill(context, name) for key, one in self._headers.items()}
        try:
            request = self._request(call, headers)
        except SerialisationError as error:
            return ActionResult(str(error), "REPROMPT")
        response = self._send(request, call.operation, deadline, context.max_bytes)
        secrets = [
            secret
            for key, value in self._headers.items()
            for secret in value.credentials(context, session=key.lower() in _CREDENTIALS)
        ]
        return _result(response, call.operation, secrets, context.max_bytes)

    def _request(self, call: Call, headers: Mapping[str, str]) -> Request:
        operation = call.operation
        base = self._url(self._base or operation.server)
        url = base._replace(path=base.path.rstrip("/") + path_of(call), query=query_of(call))
        body = body_of(call)
        sent = {
            "Accept": "application/json, text/*;q=0.9, */*;q=0.1",
            # A small compressed answer may be of any size: none is asked for, and none is unpacked.
            "Accept-Encoding": "identity",
            "User-Agent": "bedrock-orchestrator",
            **build_trace_headers(),
            **headers_of(call),
        }
        if body is not None:
            sent["Content-Type"] = operation.content_type
        # The key stays the same when a call is carried out again after a crash: the API can see
        # that.
        if call.key and not operation.idempotent:
            sent["Idempotency-Key"] = call.key
        own = {name: value for name, value in sent.items() if name.lower() not in self._fixed}
        return Request(operation.verb, url, {**own, **headers}, body)

    # The API's last word, after redirects, and after what may be repeated was repeated.
    def _send(self, request: Request, operation: Operation, deadline: float, most: int) -> Response:
        attempt = moves = 0
        while True:
            attempt += 1
            last = attempt == _ATTEMPTS or not operation.idempotent
            response = self._try_send(request, operation, deadline, most, last)
            if response is None:
                continue
            # A redirected request that changes something would change it twice, or at another host.
            if response.status in _MOVED and operation.idempotent:
                moves, attempt = moves + 1, attempt - 1
                request = _follow_redirect(request, response, operation, moves)
            elif response.status not in _AGAIN or last or not _pause(response, attempt, deadline):
                return response

    # Gives `None` for a failure that may be tried again.
    def _try_send(
        self, request: Request, operation: Operation, deadline: float, most: int, last: bool
    ) -> Response | None:
        name, host = operation.xml_name, request.url.hostname or ""
        try:
            response = exchange(request, deadline=deadline, most=most, hosts=self._hosts)
            if response.fault and operation.idempotent:
                raise IncompleteResponse(response.fault)
            return response
        except RefusedAddress as error:
            raise DependencyFailed(f"{name!r} was not called: {error}", resource=name) from None
        except (NotSent, IncompleteResponse) as error:
            if not last and time.monotonic() < deadline:
                return None
            if isinstance(error, IncompleteResponse) and not operation.idempotent:
                raise ActionOutcomeUnknown(
                    f"{name!r} was sent to {host!r}, and no answer came ({error}); it may "
                    "have taken effect, and was not sent again",
                    resource=name,
                ) from None
            raise DependencyFailed(
                f"{name!r} got no answer from {host!r}: {error}", resource=name
            ) from None


def _header_name(name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise DefinitionError(f"the header name {name!r} is not possible: letters, digits and '-'")
    if name.lower() in _OWN_HEADERS - {"cookie", "user-agent", "idempotency-key"}:
        raise DefinitionError(f"the header {name!r} is set by the connection; leave it out")
    return name


def _base_url(text: str, of: str) -> SplitResult:
    if not text:
        raise DefinitionError(f"{of}nothing says where the API is; give `servers` or a base url")
    try:
        url = urlsplit(text)
        url.port  # noqa: B018  (raises when it is no number)
        fits = url.scheme in ("http", "https") and bool(url.hostname)
    except ValueError:
        fits = False
    if not fits:
        raise DefinitionError(
            f"{of}{text!r} is not the address of an API: it must begin with https:// or http://. "
            "With a relative one in `servers`, give a base url"
        )
    if url.username or url.password or "@" in url.netloc:
        raise DefinitionError(f"{of}credentials do not belong into an address; give a header")
    if url.query or url.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise DefinitionError(
            f"{of}{text!r} is not the address of an API: it may have no query, no fragment and "
            "ASCII characters only"
        )
    return url


# To the same host only: another one would get the credentials.
def _follow_redirect(
    request: Request, response: Response, operation: Operation, moves: int
) -> Request:
    name = operation.xml_name
    try:
        url = urlsplit(urljoin(request.url.geturl(), response.headers.get("location", "")))
        url.port  # noqa: B018
    except ValueError:
        url = urlsplit("")
    origin = (url.hostname, url.port) == (request.url.hostname, request.url.port)
    safe = url.scheme == request.url.scheme or (url.scheme == "https" and not request.url.port)
    fits = origin and safe and "@" not in url.netloc and url.geturl().isascii()
    if not fits or moves > _MOST_MOVES:
        raise DependencyFailed(
            f"{name!r} was redirected (HTTP {response.status}) "
            + ("again and again" if fits else "to another place, where it was not sent")
            + "; put the right address into the definition",
            resource=name,
        )
    return replace(request, url=url._replace(fragment=""))


# Says whether there was time to wait before the next attempt.
def _pause(response: Response, attempt: int, deadline: float) -> bool:
    # RFC 9110: seconds or a date; a date is not read, and the usual pause is made.
    asked = response.headers.get("retry-after", "")
    seconds = float(asked) if asked.isdecimal() else 0.25 * 2**attempt
    if seconds > _LONGEST_PAUSE or time.monotonic() + seconds >= deadline:
        return False
    _sleep(seconds)
    return True


def _result(
    response: Response, operation: Operation, secrets: Sequence[str], most: int
) -> ActionResult:
    status = response.status
    # The phrase is the standard's and not the server's, which may repeat what was sent.
    answer = f"HTTP {status} {http.client.responses.get(status, '')}".strip()
    _check_status(status, answer, operation)
    fault = _find_fault(response, most)
    text = fault or decode_text(response.body, _find_charset(response))
    notes: tuple[str, ...] = ()
    if status >= 400:
        text, notes = f"{answer}\n{text}".strip(), (f"the HTTP status is {status}",)
    elif fault and not operation.idempotent:
        text = f"The request was carried out ({answer}): do not repeat it. {fault}"
        notes = ("the request was carried out, and its answer could not be read",)
    text = hide_credentials(text, secrets)
    return ActionResult(text or answer, http_status=status, notes=notes)


def _check_status(status: int, answer: str, operation: Operation) -> None:
    name = operation.xml_name
    # The credentials are the definition's: no other arguments of the model would help.
    if status in (401, 407):
        raise AccessDenied(
            f"the API refused the credentials of {name!r} ({answer}); check the headers of the "
            "definition",
            resource=name,
        )
    if status == 429:
        raise ThrottlingError(f"the API refused {name!r} for now ({answer})", resource=name)
    if status in _UNSAID and not operation.idempotent:
        raise ActionOutcomeUnknown(
            f"{name!r} was answered with {answer}, which does not say what was done; it may have "
            "taken effect, and was not sent again",
            resource=name,
        )
    done = 200 <= status < 300 or (status == _SEE_OTHER and not operation.idempotent)
    if not (done or 400 <= status < 500):
        raise DependencyFailed(f"the API failed at {name!r} ({answer})", resource=name)


# Why the body of an answer is not shown; empty when it is.
def _find_fault(response: Response, most: int) -> str:
    body = response.body
    if response.status == _SEE_OTHER:
        return "Its answer is at another place, and was not read."
    if response.fault:
        return f"The response broke off ({response.fault}), and is not shown."
    kind = response.headers.get("content-type", "").partition(";")[0].strip()[:_LONGEST_KIND]
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        return "The response is compressed, although that was not asked for, and is not shown."
    if len(body) > most:
        return (
            f"The response has more than {most} bytes and is not shown. Ask for less, for example "
            "with a narrower filter, a smaller page or a single item."
        )
    is_text = not kind or kind.lower().startswith("text/") or kind.lower().endswith(_TEXTS)
    if body and (b"\0" in body or not is_text):
        return f"The response is {kind or 'not a text'}, {len(body)} bytes, and is not shown."
    return ""


def _find_charset(response: Response) -> str:
    # `email.message` takes quadratic time for a quote that nothing closes.
    for part in response.headers.get("content-type", "").split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name.lower() == "charset":
            return value.strip("\"' ")
    return ""
