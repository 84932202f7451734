"""The routes: parse, call a service, reply."""
