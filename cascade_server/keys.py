"""Typed keys of what the application holds."""

from __future__ import annotations

from aiohttp import web

from .services.core import Core

CORE = web.AppKey("core", Core)
