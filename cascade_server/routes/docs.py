"""Documents, served to anyone: they hold no secret, and who reads them may have no token yet."""

from __future__ import annotations

import asyncio

from aiohttp import web

from cascade_server.agentdocs.build import DOCUMENTS, text
from cascade_server.agentdocs.reference import content_security_policy
from cascade_server.middleware import Handler


def document(name: str) -> Handler:
    """The handler of one document; ETag and 304 come with every whole answer."""

    async def answer(request: web.Request) -> web.Response:
        # The first time it is made, which takes a while; later it is a look-up.
        body = await asyncio.to_thread(text, name)
        media_type = DOCUMENTS[name].media_type
        headers = {"X-Content-Type-Options": "nosniff"}
        if media_type == "text/html":
            headers["Content-Security-Policy"] = content_security_policy()
            headers["Referrer-Policy"] = "no-referrer"
        # JSON is UTF-8 without saying so.
        charset = None if media_type == "application/json" else "utf-8"
        return web.Response(body=body.encode(), content_type=media_type, charset=charset, headers=headers)

    return answer


openapi = document("openapi.json")
docs = document("api.html")
agent_prompt = document("agent-prompt.md")
agent_skill = document("SKILL.md")
llms_txt = document("llms.txt")
llms_full_txt = document("llms-full.txt")
