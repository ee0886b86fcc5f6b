"""The Sessions API: conversations of programs of other frameworks, stored for them.

They have nothing to do with the sessions of InvokeAgent. A session holds invocations, an invocation
holds steps, and a step what the program puts in: texts and images. Lists begin with what is newest,
which such programs rely on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.document_store import DocumentStore, Page, encode_document, render_page
from orchestrator.server.ids import Arns, now
from orchestrator.server.operations import (
    Caller,
    Fault,
    Handler,
    Operations,
    Request,
    TagChange,
    check_quota,
    conflict_error,
    pick,
)
from orchestrator.server.settings import Settings

_SESSION = "session"
_INVOCATION = "session-invocation"
_STEP = "session-step"
_PAYLOAD = "session-payload"
_METADATA = "metadata"

# Bedrock: sessions expire after 30 days; invocations, steps and bytes a session have quotas.
_LIFE = timedelta(days=30)
_MOST_SESSIONS = 10_000
_MOST_INVOCATIONS = 1_000
_MOST_STEPS = 10_000
_MOST_BYTES = 50_000_000
_UUID = re.compile(r"[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}")

_Answer = Mapping[str, Any]


class SessionsApi:
    """The sessions of all tenants. Safe for many threads, and for many processes on one store."""

    def __init__(
        self, documents: DocumentStore, settings: Settings, clock: Callable[[], datetime] = now
    ) -> None:
        self._documents = documents
        self._arns = Arns.of(settings)
        self._clock = clock

    def operations(self) -> Operations:
        """The operations of the Sessions API."""
        handlers: dict[str, Handler] = {
            "CreateSession": self.create,
            "GetSession": self.get,
            "UpdateSession": self.update,
            "EndSession": self.end,
            "DeleteSession": self.delete,
            "ListSessions": self.list_sessions,
            "CreateInvocation": self.create_invocation,
            "ListInvocations": self.list_invocations,
            "PutInvocationStep": self.put_step,
            "GetInvocationStep": self.get_step,
            "ListInvocationSteps": self.list_steps,
        }
        return {"bedrock-agent-runtime": handlers}

    # -- sessions --------------------------------------------------------------------------------

    def create(self, request: Request) -> _Answer:
        """CreateSession."""
        params, tenant, time = request.params, request.caller.tenant, self._clock()
        session = {
            "sessionId": str(uuid4()),
            "sessionStatus": "ACTIVE",
            "createdAt": time,
            "lastUpdatedAt": time,
            **pick(params, ("encryptionKeyArn",)),
        }
        record = {"session": session, "tags": params.get("tags", {}), "bytes": 0}
        with self._documents.transaction():
            check_quota(self._documents.count(tenant, _SESSION), _MOST_SESSIONS, "sessions")
            self._documents.put(tenant, _SESSION, session["sessionId"], record)
            self._save_metadata(request, session["sessionId"])
        return self._render_session(session, "createdAt")

    def get(self, request: Request) -> _Answer:
        """GetSession."""
        session = self._get_session(request)["session"]
        described = self._documents.get(
            request.caller.tenant, _PAYLOAD, _METADATA, session["sessionId"]
        )
        result = self._render_session(session, "createdAt", "lastUpdatedAt", "encryptionKeyArn")
        return {**result, **(described or {})}

    def update(self, request: Request) -> _Answer:
        """UpdateSession: metadata in the request replaces what was."""
        with self._documents.transaction():
            record = self._get_active_session(request)
            self._save_metadata(request, record["session"]["sessionId"])
            self._save_session(request, record)
        return self._render_session(record["session"], "createdAt", "lastUpdatedAt")

    def _save_metadata(self, request: Request, id: str) -> None:
        # Not in the session itself, which every step of it writes anew.
        metadata = pick(request.params, ("sessionMetadata",))
        if metadata:
            self._documents.put(request.caller.tenant, _PAYLOAD, _METADATA, metadata, id)

    def end(self, request: Request) -> _Answer:
        """EndSession: it can still be read."""
        with self._documents.transaction():
            record = self._get_active_session(request)
            record["session"]["sessionStatus"] = "ENDED"
            self._save_session(request, record)
        return self._render_session(record["session"])

    def delete(self, request: Request) -> _Answer:
        """DeleteSession, with all that is in it."""
        with self._documents.transaction():
            session = self._get_session(request)["session"]
            id, tenant = session["sessionId"], request.caller.tenant
            if session["sessionStatus"] == "ACTIVE":
                raise conflict_error(f"the session {id!r} is active; end it with EndSession")
            for kind in (_INVOCATION, _STEP, _PAYLOAD):
                self._documents.clear(tenant, kind, id)
            self._documents.delete(tenant, _SESSION, id)
        return {}

    def list_sessions(self, request: Request) -> _Answer:
        """ListSessions, the newest first."""
        records, token = self._list_newest(request, _SESSION)
        found = [self._apply_expiry(it["session"]) for it in records]
        summaries = [self._render_session(it, "createdAt", "lastUpdatedAt") for it in found]
        return render_page("sessionSummaries", (summaries, token))

    def tags(self, caller: Caller, session_id: str, change: TagChange | None) -> dict[str, str]:
        """A session's tags, after a change of them if there is one."""
        with self._documents.transaction():
            record = self._load_session(caller.tenant, session_id)
            if change is not None:
                record["tags"] = change(record["tags"])
                self._documents.put(caller.tenant, _SESSION, session_id, record)
        tags: dict[str, str] = record["tags"]
        return tags

    # -- invocations -----------------------------------------------------------------------------

    def create_invocation(self, request: Request) -> _Answer:
        """CreateInvocation, under the id in the request or a new one."""
        params, tenant = request.params, request.caller.tenant
        with self._documents.transaction():
            record = self._get_active_session(request)
            session = record["session"]["sessionId"]
            id = params.get("invocationId") or str(uuid4())
            if self._documents.get(tenant, _INVOCATION, id, session) is not None:
                raise conflict_error(f"the session {session!r} has an invocation {id!r} already")
            count = self._documents.count(tenant, _INVOCATION, session)
            check_quota(count, _MOST_INVOCATIONS, "invocations of the session")
            result = {"sessionId": session, "invocationId": id, "createdAt": self._clock()}
            invocation = {**result, **pick(params, ("description",))}
            self._documents.put(tenant, _INVOCATION, id, invocation, session)
            self._save_session(request, record)
        return result

    def list_invocations(self, request: Request) -> _Answer:
        """ListInvocations of a session, the newest first."""
        session = self._get_session(request)["session"]["sessionId"]
        found, token = self._list_newest(request, _INVOCATION, session)
        names = ("sessionId", "invocationId", "createdAt")
        return render_page("invocationSummaries", ([pick(it, names) for it in found], token))

    def _check_invocation(self, request: Request, session: str, id: str) -> str:
        if self._documents.get(request.caller.tenant, _INVOCATION, id, session) is None:
            raise ResourceNotFound(f"the session {session!r} has no invocation {id!r}")
        return id

    # -- steps -----------------------------------------------------------------------------------

    def put_step(self, request: Request) -> _Answer:
        """PutInvocationStep, under the id in the request or a new one."""
        params, tenant = request.params, request.caller.tenant
        size = len(encode_document(params["payload"]))
        with self._documents.transaction():
            record = self._get_active_session(request)
            session = record["session"]["sessionId"]
            invocation = self._check_invocation(request, session, params["invocationIdentifier"])
            id = params.get("invocationStepId") or str(uuid4())
            key = f"{invocation}/{id}"
            if self._documents.get(tenant, _STEP, key, session) is not None:
                raise conflict_error(f"the invocation {invocation!r} has a step {id!r} already")
            count = self._documents.count(tenant, _STEP, session)
            check_quota(count, _MOST_STEPS, "steps of the session")
            record["bytes"] += size
            if record["bytes"] > _MOST_BYTES:
                raise Fault(
                    "ServiceQuotaExceededException",
                    f"the session {session!r} would hold more than {_MOST_BYTES:,} bytes; begin "
                    "another one",
                )
            step = {
                "sessionId": session,
                "invocationId": invocation,
                "invocationStepId": id,
                "invocationStepTime": params["invocationStepTime"],
            }
            place = f"{_to_sortable(params['invocationStepTime'])}/{key}"
            self._documents.put(tenant, _STEP, key, step, session, name=place)
            self._documents.put(tenant, _PAYLOAD, key, {"payload": params["payload"]}, session)
            self._save_session(request, record)
        return {"invocationStepId": id}

    def get_step(self, request: Request) -> _Answer:
        """GetInvocationStep."""
        params, tenant = request.params, request.caller.tenant
        session = self._get_session(request)["session"]["sessionId"]
        invocation = self._check_invocation(request, session, params["invocationIdentifier"])
        key = f"{invocation}/{params['invocationStepId']}"
        step = self._documents.get(tenant, _STEP, key, session)
        payload = self._documents.get(tenant, _PAYLOAD, key, session)
        if step is None or payload is None:
            raise ResourceNotFound(
                f"the invocation {invocation!r} has no step {params['invocationStepId']!r}"
            )
        return {"invocationStep": {**step, **payload}}

    def list_steps(self, request: Request) -> _Answer:
        """ListInvocationSteps of a session, or of one of its invocations, the newest first."""
        params, tenant = request.params, request.caller.tenant
        session = self._get_session(request)["session"]["sessionId"]
        within = ""
        if (invocation := params.get("invocationIdentifier")) is not None:
            within = f"{self._check_invocation(request, session, invocation)}/"
        asked = params.get("maxResults"), params.get("nextToken")
        page = self._documents.page_by_name(tenant, _STEP, session, *asked, within=within)
        return render_page("invocationStepSummaries", page)

    # -- keeping ---------------------------------------------------------------------------------

    def _list_newest(self, request: Request, kind: str, parent: str = "") -> Page[dict[str, Any]]:
        params = request.params
        asked = params.get("maxResults"), params.get("nextToken")
        return self._documents.page(request.caller.tenant, kind, parent, *asked, newest=True)

    def _get_session(self, request: Request) -> dict[str, Any]:
        identifier = request.params["sessionIdentifier"]
        id = identifier.rsplit("/", 1)[-1]
        if not _UUID.fullmatch(id):
            raise ValidationError(f"sessionIdentifier: {identifier!r} is no session's id or ARN")
        if identifier not in (id, self._arns.session(id)):
            raise ResourceNotFound(f"there is no session {identifier!r}")
        return self._load_session(request.caller.tenant, id)

    def _load_session(self, tenant: str, id: str) -> dict[str, Any]:
        record = self._documents.get(tenant, _SESSION, id)
        if record is None:
            raise ResourceNotFound(f"there is no session {id!r}")
        return {**record, "session": self._apply_expiry(record["session"])}

    def _apply_expiry(self, session: dict[str, Any]) -> dict[str, Any]:
        old = self._clock() - session["lastUpdatedAt"] > _LIFE
        if old and session["sessionStatus"] == "ACTIVE":
            return {**session, "sessionStatus": "EXPIRED"}
        return session

    def _get_active_session(self, request: Request) -> dict[str, Any]:
        record = self._get_session(request)
        session = record["session"]
        if session["sessionStatus"] != "ACTIVE":
            raise conflict_error(
                f"the session {session['sessionId']!r} is {session['sessionStatus']}: it can be "
                "read, but not changed; create another one"
            )
        return record

    def _save_session(self, request: Request, record: dict[str, Any]) -> None:
        session = record["session"]
        session["lastUpdatedAt"] = self._clock()
        self._documents.put(request.caller.tenant, _SESSION, session["sessionId"], record)

    def _render_session(self, session: Mapping[str, Any], *names: str) -> dict[str, Any]:
        id = session["sessionId"]
        return {
            "sessionId": id,
            "sessionArn": self._arns.session(id),
            **pick(session, ("sessionStatus", *names)),
        }


def _to_sortable(time: datetime) -> str:
    """A time as a text whose order is that of the times."""
    microseconds = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    # Times before 1970, too.
    return f"{10**18 + microseconds:019d}"
