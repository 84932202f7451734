"""Answers that a client may keep: ETag and 304, compression where it is asked for, streams of any length."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping

from aiohttp import web

from cascade_server.middleware import Handler

COMPRESS_FROM = 1024
"""Bytes of a body below which compression is not worth it."""


@web.middleware
async def conditional(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give whole bodies an ETag and compression; answer 304 to a client that has the body already."""
    response = await handler(request)
    if request.method != "GET" or not isinstance(response, web.Response) or response.status != 200:
        return response
    body = response.body
    if not isinstance(body, bytes) or "ETag" in response.headers:
        return response
    tag = hashlib.sha256(body).hexdigest()[:24]
    if _has(request, tag):
        return _not_modified(tag)
    response.headers.update(_headers(tag))
    if len(body) >= COMPRESS_FROM:
        response.enable_compression()
    return response


async def stream(
    request: web.Request, pieces: AsyncIterator[bytes], *, tag: str, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send a body piece by piece as it is made; `tag` must change whenever the body would."""
    if _has(request, tag):
        return _not_modified(tag)
    response = web.StreamResponse(headers={**headers, **_headers(tag)})
    response.enable_compression()
    await response.prepare(request)
    # A client that has seen enough (a pipe to `head`) is no fault of ours.
    with contextlib.suppress(ConnectionError):
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
    return response


async def encoded(pieces: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """Text pieces as UTF-8, in writes of a decent size."""
    held: list[str] = []
    size = 0
    async for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= 1 << 16:
            yield "".join(held).encode()
            held, size = [], 0
    yield "".join(held).encode()


def attachment(name: str) -> dict[str, str]:
    """The header that makes an answer a download; `name` must be plain."""
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _headers(tag: str) -> dict[str, str]:
    # Weak, since compression changes the bytes; no-cache means: ask each time whether it is still the same.
    return {"ETag": f'W/"{tag}"', "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}


def _has(request: web.Request, tag: str) -> bool:
    return any(etag.value in (tag, "*") for etag in request.if_none_match or ())


def _not_modified(tag: str) -> web.Response:
    return web.Response(status=304, headers=_headers(tag))
