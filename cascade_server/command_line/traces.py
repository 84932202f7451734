"""`cascade traces`, `trace` and `configs`."""

from __future__ import annotations

from cascade_server.contract import models as m

from . import output as out
from .client import Client, checked_trace_id
from .errors import SUCCEEDED
from .output import Column
from .text import MISSING, count, moment, short_name, size


async def list_traces(client: Client, as_json: bool) -> int:
    """Print all traces."""
    reply = await client.get("traces", list[m.TraceSummary])
    if as_json:
        out.print_json(reply.raw)
        return SUCCEEDED
    columns = [
        Column("trace", least=12),
        Column("state"),
        Column("kernels", right=True, drop=3),
        Column("size", right=True, drop=5),
        Column("arch", drop=2),
        Column("suggested", drop=4),
        Column("timing", drop=6),
        Column("model", least=12, drop=7),
        Column("created", drop=8),
        Column("note", least=12, drop=1),
    ]
    rows: list[list[out.Cell]] = [
        [
            trace.id,
            out.state(trace.state),
            count(trace.kernel_count),
            size(trace.bytes),
            trace.trace_gpu_arch,
            trace.suggested_sim_config or MISSING,
            "real" if trace.has_real_timing else MISSING,
            trace.model or MISSING,
            moment(trace.created_at),
            _note(trace),
        ]
        for trace in reply.value
    ]
    out.table(out.console(), columns, rows, empty="There are no traces yet.")
    return SUCCEEDED


def _note(trace: m.TraceSummary) -> str:
    if trace.error:
        return trace.error
    return "sample: results only" if trace.sample else "demo" if trace.demo else ""


async def show_trace(client: Client, given: str, as_json: bool) -> int:
    """Print one trace with its kernels."""
    reply = await client.get("trace", m.TraceDetail, trace_id=checked_trace_id(given))
    if as_json:
        out.print_json(reply.raw)
        return SUCCEEDED
    trace, to = reply.value, out.console()
    out.fields(
        to,
        [
            ("trace", trace.id),
            ("state", out.state(trace.state)),
            ("error", trace.error),
            ("note", "a sample: results only, it can't be simulated" if trace.sample else None),
            ("model", trace.model),
            ("layers", ", ".join(trace.layers) or None),
            ("traced on", trace.source_gpu),
            ("arch", trace.trace_gpu_arch),
            ("suggested config", trace.suggested_sim_config),
            ("config of the real GPU", trace.real_gpu_config),
            ("real timing", "yes" if trace.has_real_timing else "no"),
            ("step timeline", "yes" if trace.has_step_timeline else "no"),
            ("size", size(trace.bytes)),
            ("created", moment(trace.created_at)),
            ("kernels", count(trace.kernel_count)),
        ],
    )
    if trace.kernels:
        out.line(to)
        columns = [
            Column("id", right=True),
            Column("kernel", least=12),
            Column("grid", drop=1),
            Column("block", drop=2),
            Column("warp insts", right=True, drop=3),
        ]
        rows = [
            [str(k.kernel_id), short_name(k.name), _dims(k.grid), _dims(k.block), count(k.instructions)]
            for k in trace.kernels
        ]
        out.table(to, columns, rows, empty="")
    return SUCCEEDED


def _dims(values: m.Dim3) -> str:
    return "×".join(map(str, values))


async def list_configs(client: Client, as_json: bool) -> int:
    """Print all GPU configs."""
    reply = await client.get("gpu_configs", list[m.GpuConfig])
    if as_json:
        out.print_json(reply.raw)
        return SUCCEEDED
    columns = [Column("config", least=12), Column("arch"), Column("core clock", right=True, drop=1)]
    rows = [[config.name, config.arch, f"{config.core_clock_mhz:g} MHz"] for config in reply.value]
    out.table(out.console(), columns, rows, empty="The server knows no GPU configs.")
    return SUCCEEDED
