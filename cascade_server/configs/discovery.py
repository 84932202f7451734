"""GPU configs from an Accel-Sim checkout."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass
from pathlib import Path

from cascade_server.contract.models import GpuConfig
from cascade_server.traces.folder import read_file

from .tested import TESTED_CONFIGS

log = logging.getLogger(__name__)

TESTED_CFGS = Path("gpu-simulator/gpgpu-sim/configs/tested-cfgs")
MAX_BYTES = 4 << 20
_CLOCKS = "-gpgpu_clock_domains"
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_ARCH = re.compile(r"SM([0-9]{1,3})_")


@dataclass(frozen=True, slots=True)
class ClockDomains:
    """Clocks in MHz, in the order in which `-gpgpu_clock_domains core:icnt:l2:dram` gives them."""

    core: float
    icnt: float
    l2: float
    dram: float


def parse_clock_domains(text: str) -> ClockDomains | None:
    """The clocks of a gpgpusim.config; None when it gives none or they can't be read. Never raises.

    As the simulator reads it: `#` begins a comment, words are parted by any white space, and of an option that
    stands twice the later one wins.
    """
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    places = [place for place, word in enumerate(words[:-1]) if word == _CLOCKS]
    if not places:
        return None
    try:
        core, icnt, l2, dram = (float(value) for value in words[places[-1] + 1].split(":"))
    except ValueError:
        return None
    # A core clock of 0 or nan can't turn cycles into time.
    if not (core > 0 and all(math.isfinite(clock) for clock in (core, icnt, l2, dram))):
        return None
    return ClockDomains(core, icnt, l2, dram)


def arch_of(name: str) -> str | None:
    """`sm_90` of `SM90_H100`, `sm_70` of `SM7_QV100`; None when the name doesn't begin with SM, digits, underscore."""
    match = _ARCH.match(name)
    if match is None:
        return None
    digits = match[1]
    return f"sm_{digits}0" if len(digits) == 1 else f"sm_{digits}"


def find_configs(accelsim_dir: Path) -> list[GpuConfig]:
    """All usable configs of a checkout, by name; unusable folders are logged with the reason and skipped."""
    found = []
    for path in sorted((accelsim_dir / TESTED_CFGS).glob("*/gpgpusim.config")):
        config = _read(path)
        if isinstance(config, str):
            log.warning("GPU config %r is skipped: %s", path.parent.name, config)
        else:
            found.append(config)
    if not found:
        log.warning("no usable GPU config under %s", accelsim_dir / TESTED_CFGS)
    return found


def load_configs(accelsim_dir: Path | None) -> list[GpuConfig]:
    """The configs of a checkout, or the bundled table when there is none."""
    return list(TESTED_CONFIGS) if accelsim_dir is None else find_configs(accelsim_dir)


def _read(path: Path) -> GpuConfig | str:
    """The config of a gpgpusim.config, or the reason why it can't be used."""
    name = path.parent.name
    arch = arch_of(name)
    if arch is None:
        return "its name doesn't tell its arch, as in SM90_H100"
    if not _PLAIN.fullmatch(name):
        # Names become part of commands and paths on the nodes.
        return "its name holds more than letters, digits, dot, underscore and hyphen"
    try:
        text = read_file(path, MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return f"gpgpusim.config can't be read: {error.strerror}"
    clocks = parse_clock_domains(text)
    if clocks is None:
        return f"gpgpusim.config gives no readable {_CLOCKS}"
    return GpuConfig(name=name, arch=arch, core_clock_mhz=clocks.core)
