"""`cascade run compare` and `run accuracy`."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from cascade_server.contract import models as m
from cascade_server.contract.analysis import ConfigAccuracy, RunAccuracy
from cascade_server.contract.states import RunState

from . import output as out
from .client import Client
from .errors import SUCCEEDED
from .output import GAP, Column
from .text import MISSING, count, nanoseconds, number, plural, short_name

LEAST_NAME = 12
MOST_LISTED = 10

NO_REAL_TIMING = "The trace has no real timing (real_timing.json)"


async def compare_run(client: Client, given: str, as_json: bool) -> int:
    """Print the run's kernels side by side over its configs."""
    run_id = await client.run_id(given)
    reply = await client.get("run_comparison", m.Comparison, run_id=run_id)
    if as_json:
        out.print_json(reply.raw)
        return SUCCEEDED
    run, to = await client.run(run_id), out.console()
    out.notice(to, run.notice)
    if run.state is RunState.ACTIVE:
        out.line(to, f"{run.id} is not finished: so far.")
    print_comparison(to, reply.value)
    return SUCCEEDED


def print_comparison(to: Console, comparison: m.Comparison) -> None:
    """Print the comparison, in as many tables as the width needs: no config is dropped."""
    if not comparison.rows:
        out.line(to, "No kernel has finished yet.")
        return
    values = _value_columns(comparison)
    names = [*(short_name(row.kernel_name) for row in comparison.rows), f"all {len(comparison.rows)}"]
    numbers = [*(str(row.kernel_index) for row in comparison.rows), ""]
    used = len(str(len(names))) + GAP + min(LEAST_NAME, max(map(len, names)))
    widths = [max(len(title), *map(len, cells)) + GAP for title, cells in values]
    for first, end in _chunks(widths, to.width - used):
        columns = [Column("index", right=True), Column("kernel", least=LEAST_NAME)]
        columns += [Column(title, right=True) for title, _ in values[first:end]]
        if first:
            out.line(to)
        rows = list(zip(numbers, names, *(cells for _, cells in values[first:end]), strict=True))
        out.table(to, columns, rows, empty="")
    if not comparison.has_real_timing:
        out.line(to, Text(f"{NO_REAL_TIMING}: simulated times only.", style="dim"))


def _value_columns(comparison: m.Comparison) -> list[tuple[str, list[str]]]:
    """The columns of times, each with a sum over the kernels that have all of them."""
    rows, configs = comparison.rows, comparison.configs
    whole = [
        row
        for row in rows
        if all(row.sim_ns.get(config) is not None for config in configs)
        and (row.real_ns is not None or not comparison.has_real_timing)
    ]
    found: list[tuple[str, list[str]]] = []
    if comparison.has_real_timing:
        total = sum(row.real_ns or 0.0 for row in whole) if len(whole) == len(rows) else None
        found.append(("real", [*(nanoseconds(row.real_ns) for row in rows), nanoseconds(total)]))
    for at, config in enumerate(configs):
        times = [row.sim_ns.get(config) for row in rows]
        firsts = [row.sim_ns.get(configs[0]) for row in rows]
        if len(whole) == len(rows):
            times.append(sum(time or 0.0 for time in times))
            firsts.append(sum(first or 0.0 for first in firsts))
        else:
            times.append(None)
            firsts.append(None)
        cells = [
            nanoseconds(time) if at == 0 else f"{nanoseconds(time)} {_ratio(time, first):>6}"
            for time, first in zip(times, firsts, strict=True)
        ]
        found.append((config, cells))
    return found


def _ratio(time: float | None, first: float | None) -> str:
    return MISSING if time is None or not first else f"{time / first:.2f}×"


def _chunks(widths: list[int], room: int) -> list[tuple[int, int]]:
    """Cut columns of these widths into pieces that fit; a piece has at least one."""
    cuts, used = [0], 0
    for at, width in enumerate(widths):
        if used and used + width > room:
            cuts.append(at)
            used = 0
        used += width
    return list(zip(cuts, [*cuts[1:], len(widths)], strict=True))


async def accuracy_of_run(client: Client, given: str, as_json: bool) -> int:
    """Print how well simulated times agree with real ones."""
    run_id = await client.run_id(given)
    reply = await client.get("run_accuracy", RunAccuracy, run_id=run_id)
    if as_json:
        out.print_json(reply.raw)
        return SUCCEEDED
    run, to = await client.run(run_id), out.console()
    out.notice(to, run.notice)
    if reply.value.has_real_timing:
        print_accuracy(to, reply.value)
    else:
        out.line(to, f"{NO_REAL_TIMING}, so nothing can be said of accuracy.")
    return SUCCEEDED


def print_accuracy(to: Console, accuracy: RunAccuracy) -> None:
    """Print the figures of every config, then each one's worst and unmatched kernels."""
    columns = [
        Column("config", least=9),
        Column("kernels", right=True),
        Column("mape", right=True),
        Column("bias", right=True, drop=2),
        Column("pearson", right=True, drop=1),
        Column("too fast", right=True, drop=4),
        Column("too slow", right=True, drop=4),
        Column("within 1 %", right=True, drop=4),
        Column("unmatched", right=True, drop=3),
    ]
    rows = [
        [
            config.gpu_config,
            count(config.matched),
            _percent(config.mape_pct),
            _percent(config.bias_pct, signed=True),
            number(config.pearson, 4),
            count(config.under),
            count(config.over),
            count(config.within_1pct),
            count(len(config.unmatched)),
        ]
        for config in accuracy.configs
    ]
    out.table(to, columns, rows, empty="No config has finished a kernel yet.")
    for config in accuracy.configs:
        _print_kernels(to, config)


def _percent(value: float | None, *, signed: bool = False) -> str:
    return MISSING if value is None else f"{value:+.2f} %" if signed else f"{value:.2f} %"


def _print_kernels(to: Console, config: ConfigAccuracy) -> None:
    if config.worst:
        out.line(to)
        out.line(to, f"Worst kernels on {config.gpu_config}:")
        columns = [
            Column("index", right=True),
            Column("kernel", least=LEAST_NAME),
            Column("real", right=True, drop=2),
            Column("simulated", right=True, drop=1),
            Column("error", right=True),
        ]
        rows = [
            [
                str(row.kernel_index),
                short_name(row.kernel_name),
                nanoseconds(row.real_ns),
                nanoseconds(row.sim_ns),
                _percent(row.error_pct, signed=True),
            ]
            for row in config.worst
        ]
        out.table(to, columns, rows, empty="")
    if config.unmatched:
        out.line(to)
        out.line(to, f"Not compared on {config.gpu_config}: {plural(len(config.unmatched), 'kernel')}.")
        for row in config.unmatched[:MOST_LISTED]:
            out.line(to, f"  {row.kernel_index} {short_name(row.kernel_name)}: {row.reason}")
        if len(config.unmatched) > MOST_LISTED:
            out.line(to, f"  and {len(config.unmatched) - MOST_LISTED} more: --json has all")
