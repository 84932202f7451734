"""Templates: Markdown files in which `{{name}}` stands for a text made from the contract."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template file with every placeholder filled. Raises KeyError for one without a value."""
    text = (files(__package__) / "templates" / template).read_text(encoding="utf-8")
    return re.sub(r"{{(\w+)}}", lambda found: values[found[1]], text)
