"""The Cascade server: the HTTP API, the launcher and the database."""

__version__ = "0.1.0"
