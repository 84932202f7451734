"""What crosses the wire: models, states, the endpoint table, events and the client.

Standard library, pydantic and aiohttp's client only; nothing else of Cascade is imported here.
The terminal app and the worker import this package and nothing more of the server.
"""
