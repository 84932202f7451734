"""One line of a stats block → its keys and values. `stats.py` says by which rules, and what they are for."""

from __future__ import annotations

import math
import re

StatValue = int | float | str
Pairs = tuple[tuple[str, ...], tuple[StatValue, ...]]
"""Keys, and as many values."""
Form = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""A line of several pairs: what stands before the first value, what no value holds, what parts the values, the keys."""

_NUMBER = re.compile(
    r"(?P<int>-?[0-9]{1,40})(?P<rest>(?:\.[0-9]{1,40})?(?:[eE][-+]?[0-9]{1,4})?)"
    r"(?:[%x!]| ?%| ?[KMGT]?B/[Ss](?:ec)?| ?\((?:inst|cycle)/sec\))?"
)
_WALL_TIME = re.compile(r"[0-9]+ days, [0-9]+ hrs, [0-9]+ min, [0-9]+ sec \(([0-9]{1,18}) sec\)")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_\[\] /().-]{0,199}")
_WORD = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z_]\w{0,99}(?:\[[0-9]+\])?", re.ASCII)
_SKEW = re.compile(r"((?:chip|bank) skew): (\S+ = \S+)\s*")
_TRAFFIC = re.compile(r" ([0-9]{1,40}) \{((?:[0-9]{1,9}:[0-9]{1,40},)*)\}\s*")
_OCCUPANCY = re.compile(r"Stall:[0-9]+(?:\tW[0-9]+(?:_[A-Za-z]+)?:-?[0-9]{1,40})*\s*")
_ISSUED = re.compile(r"(?:single|dual)_issue_nums: (?:WS[0-9]+:-?[0-9]{1,40}\s*)*")
_NO_UNITS = re.compile(r"[-0-9A-Za-wyz_:\t]*\s*")
_COLON_PAIR = re.compile(r"(\w+):(-?[0-9]{1,40})", re.ASCII)
_QUEUE = "In Dram Latency Queue (total "
_NOTHING: Pairs = ((), ())

# Blocks of one log repeat their keys, and most of their values and lines, so what a piece of text means is remembered.
# The answer depends on the text alone: the caches change the speed of a call, never its result. Each is emptied when
# full, since filling it again from the next block costs less than keeping an order of use.
CACHE_ENTRIES = 1 << 15
_CACHED_LENGTH = 300
_CACHED_PAIRS = 64
keys_of_heads: dict[str, str] = {}
"""The text before a line's first `=` → its key; "" when the line is no plain `key = value`."""
values_of_texts: dict[str, StatValue] = {}
"""The text of a value → the value."""
pairs_of_lines: dict[str, Pairs] = {}
"""A line that is no plain `key = value` → its pairs."""
_forms: dict[str, Form] = {}  # the text before the first "=" of a line of several pairs → how the last such line looked


def learn_key(head: str) -> str:
    """The key that `head`, the text before the first `=`, stands for; "" when the line is no plain `key = value`.

    A head without a blank before the `=` may be the first of several pairs.
    """
    key = head.strip()
    own_rule = key in ("kernel_name", "gpgpu_simulation_rate") or key.startswith("traffic_breakdown_")
    if own_rule or not head[-1:].isspace() or head == _QUEUE or not _KEY.fullmatch(key):
        key = ""
    if len(head) <= _CACHED_LENGTH:
        if len(keys_of_heads) >= CACHE_ENTRIES:
            keys_of_heads.clear()
        keys_of_heads[head] = key
    return key


def learn_value(text: str) -> StatValue:
    """What stands behind a `=`, as int, float or stripped text."""
    stripped = text.strip()
    value: StatValue | None = number(stripped)
    if value is None:
        value = wall_seconds(stripped)
    if value is None:
        value = stripped
    if len(text) <= _CACHED_LENGTH:
        if len(values_of_texts) >= CACHE_ENTRIES:
            values_of_texts.clear()
        values_of_texts[text] = value
    return value


def learn_pairs(line: str) -> Pairs:
    """The pairs of a line that is no plain `key = value`."""
    head, equals, tail = line.partition("=")
    pairs = (_by_form(head, tail) or _by_rule(line, head, tail)) if equals else _colon_pairs(line)
    if len(line) <= _CACHED_LENGTH:
        if len(pairs_of_lines) >= CACHE_ENTRIES:
            pairs_of_lines.clear()
        pairs_of_lines[line] = pairs
    return pairs


def number(text: str) -> int | float | None:
    """The number that `text` (stripped) is, freed of its unit; None for every other text, nan and inf included."""
    whole, point, fraction = text.partition(".")
    if text.isascii() and whole.isdigit() and len(text) <= 40:  # most are plain, and need no regex
        if not point:
            return int(text)
        if fraction.isdigit():
            return float(text)
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    whole, rest = match.group("int", "rest")
    if not rest:
        return int(whole)
    value = float(whole + rest)
    return value if math.isfinite(value) else None


def wall_seconds(text: str) -> int | None:
    """The 56 of `0 days, 0 hrs, 0 min, 56 sec (56 sec)`; None for every other text."""
    match = _WALL_TIME.fullmatch(text)
    return int(match[1]) if match else None


def _by_form(head: str, tail: str) -> Pairs | None:
    """The pairs of a line that looks like the last one with this head; None when it differs from that in any way.

    A third of the time of `_listed_pairs` and `_tight_pairs`, and the same result.
    """
    form = _forms.get(head)
    if form is None or not tail.startswith(form[0]):
        return None
    _, outside, separators, keys = form
    texts = []
    for separator in separators:
        text, _, tail = tail.partition(separator)
        texts.append(text)
    tail = tail.strip()
    texts.append(tail)
    joined = "\n".join(texts)
    if not tail or "=" in joined or outside in joined[len(form[0]) :]:
        return None
    return keys, _values(texts)


def _by_rule(line: str, head: str, tail: str) -> Pairs:
    """The pairs of a line that holds several, or whose key needs a rule of its own; none when it has no known shape."""
    if ":" in head:
        name, _, rest = line.partition(": ")
        name = name.strip()
        if _PREFIX.fullmatch(name):
            return _listed_pairs(head, name, rest) or _tight_pairs(head, f"{name}.", rest) or _NOTHING
        skew = _SKEW.fullmatch(line)
        return ((skew[1],), (skew[2],)) if skew else _NOTHING
    key = head.strip()
    if not _KEY.fullmatch(key) or head == _QUEUE:
        return _NOTHING
    if key == "kernel_name":
        return (key,), (tail.strip(),)
    if key == "gpgpu_simulation_rate":
        return (f"{key} (cycle/sec)" if "(cycle/sec)" in tail else key,), (learn_value(tail),)
    traffic = _TRAFFIC.fullmatch(tail)
    if traffic and key.startswith("traffic_breakdown_"):
        sizes = [packets.split(":") for packets in traffic[2].split(",")[:-1]]
        return (key, *(f"{key}{{{size}}}" for size, _ in sizes)), (int(traffic[1]), *(int(count) for _, count in sizes))
    return _tight_pairs(head, "", line) or ((key,), (learn_value(tail),))


def _listed_pairs(head: str, name: str, rest: str) -> Pairs | None:
    """The pairs of `Access = 48, Miss = 48`, which are the `name`'s; None when it is something else."""
    items = rest.strip().split(", ")
    pieces = " = ".join(items).split(" = ")
    if len(pieces) != 2 * len(items) or rest.count("=") != len([item for item in items if " = " in item]):
        return None
    words = pieces[0::2]
    if not all(_WORD.fullmatch(word) for word in words):
        return None
    keys = tuple([f"{name}.{word}" for word in words])
    _remember_form(head, (" ", ", ", tuple([f", {word} = " for word in words[1:]]), keys))
    return keys, _values(pieces[1::2])


def _tight_pairs(head: str, prefix: str, text: str) -> Pairs | None:
    """The pairs of `n_cmd=18112 n_nop=18074`, keys with `prefix` before them; None when it is something else."""
    items = text.strip().split(" ")
    pieces = "=".join(items).split("=")
    if len(pieces) != 2 * len(items) or text.count("=") != len([item for item in items if "=" in item]):
        return None
    words = pieces[0::2]
    if not all(_WORD.fullmatch(word) for word in words):
        return None
    keys = tuple([prefix + word for word in words])
    _remember_form(head, ("", " ", tuple([f" {word}=" for word in words[1:]]), keys))
    return keys, _values(pieces[1::2])


def _remember_form(head: str, form: Form) -> None:
    """So that the next line with this head is read by `_by_form`."""
    if len(head) <= _CACHED_LENGTH and len(form[3]) <= _CACHED_PAIRS:
        if len(_forms) >= CACHE_ENTRIES:
            _forms.clear()
        _forms[head] = form


def _values(texts: list[str]) -> tuple[StatValue, ...]:
    """The value of each text."""
    value_of = values_of_texts.get
    return tuple([learn_value(text) if (value := value_of(text)) is None else value for text in texts])


def _colon_pairs(line: str) -> Pairs:
    """The lines whose pairs are joined by a colon: warps by active threads, instructions by scheduler."""
    head, _, tail = line.partition(":")
    pairs = _by_form(head, tail) if _NO_UNITS.fullmatch(tail) else None
    if pairs and all(type(value) is int for value in pairs[1]):
        return pairs
    if _OCCUPANCY.fullmatch(line):
        prefix = ""
    elif _ISSUED.fullmatch(line):
        prefix = f"{head}."
    else:
        return _NOTHING
    found = _COLON_PAIR.findall(line)
    keys = tuple([prefix + key for key, _ in found])
    if found and not prefix:
        _remember_form(head, ("", "\t", tuple([f"\t{key}:" for key, _ in found[1:]]), keys))
    return keys, tuple([int(count) for _, count in found])
