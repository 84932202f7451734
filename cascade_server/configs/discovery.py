"""GPU configs from an Accel-Sim checkout."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

from cascade_server.contract.models import GpuConfig

from .tested import TESTED_CONFIGS

log = logging.getLogger(__name__)

TESTED_CFGS = Path("gpu-simulator/gpgpu-sim/configs/tested-cfgs")


@dataclass(frozen=True, slots=True)
class ClockDomains:
    """Clocks in MHz."""

    core: float
    icnt: float
    l2: float
    dram: float


def parse_clock_domains(text: str) -> ClockDomains | None:
    """The clocks of a gpgpusim.config; an option given twice counts by its last line, a commented one not at all."""
    found = None
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) >= 2 and words[0] == "-gpgpu_clock_domains":
            try:
                core, icnt, l2, dram = (float(word) for word in words[1].split(":"))
            except ValueError:
                continue
            if core > 0:
                found = ClockDomains(core, icnt, l2, dram)
    return found


def arch_of(name: str) -> str | None:
    """`sm_90` of `SM90_H100`, `sm_70` of `SM7_QV100`; None when the name tells no arch."""
    match = re.match(r"SM(\d{1,3})_", name)
    if match is None:
        return None
    digits = match[1]
    return f"sm_{digits}0" if len(digits) == 1 else f"sm_{digits}"


def find_configs(accelsim_dir: Path) -> list[GpuConfig]:
    """All usable configs of a checkout, by name; unusable folders are logged with the reason and skipped."""
    found = []
    for path in sorted((accelsim_dir / TESTED_CFGS).glob("*/gpgpusim.config")):
        name = path.parent.name
        try:
            clocks = parse_clock_domains(path.read_text("utf-8", "replace"))
        except OSError as error:
            log.warning("config %s is skipped: %s", name, error.strerror)
            continue
        arch = arch_of(name)
        if arch is None or clocks is None:
            reason = "its name tells no arch" if arch is None else "it gives no -gpgpu_clock_domains"
            log.warning("config %s is skipped: %s", name, reason)
            continue
        found.append(GpuConfig(name=name, arch=arch, core_clock_mhz=clocks.core))
    return found


def load_configs(accelsim_dir: Path | None) -> list[GpuConfig]:
    """The configs of a checkout, or the bundled table when there is none."""
    return list(TESTED_CONFIGS) if accelsim_dir is None else find_configs(accelsim_dir)
