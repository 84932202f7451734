"""The client commands of `cascade`: tables for people, the API's own JSON for programs.

`commands` declares them with nothing but typer; what they do, and all it needs, is imported when one runs.
"""
