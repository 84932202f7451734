"""Errors become JSON, and routes their guards."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, TypeAdapter, ValidationError

from .contract.endpoints import Auth, Endpoint
from .contract.models import ErrorBody, GapBody, LogChunk
from .db import sims
from .errors import LogGapError, ServiceError, UnauthorizedError
from .keys import CORE

log = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_TOKEN_CHARS = 4096


class BodyError(Exception):
    """A body that does not fit its model; `errors` are pydantic's, without the input."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__("invalid body")
        self.errors = errors


def json_response(value: Any, kind: Any = None, *, status: int = 200) -> web.Response:
    """A model, or anything with its type as `kind`, as a JSON answer."""
    body = value.model_dump_json().encode() if isinstance(value, BaseModel) else TypeAdapter(kind).dump_json(value)
    return web.Response(body=body, status=status, content_type="application/json")


async def read_body(request: web.Request, model: type[M]) -> M:
    """The request's body as a model. Raises BodyError for whatever does not fit."""
    raw = await request.read()
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise _body_error(error) from error


async def read_log_chunk(request: web.Request) -> LogChunk:
    """The same for log lines, which may hold lone surrogates: pydantic's own JSON parser refuses them."""
    raw = await request.read()
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BodyError([{"type": "json_invalid", "loc": ["body"], "msg": f"Invalid JSON: {message}"}]) from error
    try:
        return LogChunk.model_validate(body)
    except ValidationError as error:
        raise _body_error(error) from error


def _body_error(error: ValidationError) -> BodyError:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return BodyError([{**item, "loc": ["body", *item["loc"]]} for item in found])


@web.middleware
async def json_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into JSON with `detail`; an unforeseen one is logged and says no more than that."""
    try:
        return await handler(request)
    except LogGapError as error:
        return json_response(GapBody(detail=error.detail, next_seq=error.next_seq), status=error.status)
    except UnauthorizedError as error:
        answer = json_response(ErrorBody(detail=error.detail), status=401)
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer
    except ServiceError as error:
        return json_response(ErrorBody(detail=error.detail), status=error.status)
    except BodyError as error:
        return json_response(ErrorBody(detail=error.errors), status=422)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        answer = json_response(ErrorBody(detail=error.reason), status=error.status)
        if "Allow" in error.headers:
            answer.headers["Allow"] = error.headers["Allow"]
        return answer
    except web.RequestPayloadError:
        return json_response(ErrorBody(detail="The body can't be decoded: it is not encoded as it says."), status=422)
    except ConnectionError:
        # The client left in the middle; there is nobody to answer.
        raise
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return json_response(ErrorBody(detail="The server failed to answer; its log says why."), status=500)


def guarded(endpoint: Endpoint, handler: Handler) -> Handler:
    """The handler behind the endpoint's token check."""

    async def check(request: web.Request) -> web.StreamResponse:
        await _authorize(endpoint, request)
        return await handler(request)

    return check if endpoint.auth is not Auth.NONE else handler


async def _authorize(endpoint: Endpoint, request: web.Request) -> None:
    core = request.app[CORE]
    if core.tokens.main is None:
        return
    token = _sent_token(endpoint, request)
    if token is None:
        raise UnauthorizedError("A token is needed: send `Authorization: Bearer <token>`.")
    if _same(token, core.tokens.main):
        return
    if endpoint.auth is Auth.SIM and await _is_sims_token(endpoint, request, token):
        return
    raise UnauthorizedError("The token is wrong.")


def _sent_token(endpoint: Endpoint, request: web.Request) -> str | None:
    if endpoint.auth is Auth.TOKEN_OR_QUERY and "token" in request.query:
        return request.query["token"][:MAX_TOKEN_CHARS]
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip()[:MAX_TOKEN_CHARS] if scheme.lower() == "bearer" and token.strip() else None


def _same(sent: str, right: str) -> bool:
    return hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), right.encode())


async def _is_sims_token(endpoint: Endpoint, request: web.Request, token: str) -> bool:
    core = request.app[CORE]
    async with core.db.read() as db:
        head = await sims.head(db, request.match_info["sim_id"])
    if head is None or not _same(token, core.tokens.sims.make(head.id, head.attempt)):
        return False
    # The token dies with its sim, but a worker whose sim was ended from elsewhere must still be told to stop.
    return endpoint.name == "heartbeat" or not head.state.is_finished
