"""The configs that Accel-Sim ships as tested, for a start without Accel-Sim."""

from __future__ import annotations

from cascade_server.contract.models import GpuConfig

TESTED_CONFIGS: tuple[GpuConfig, ...] = tuple(
    GpuConfig(name=name, arch=arch, core_clock_mhz=clock)
    for name, arch, clock in (
        ("SM3_KEPLER_TITAN", "sm_30", 837.0),
        ("SM6_TITANX", "sm_60", 1417.0),
        ("SM75_RTX2060", "sm_75", 1365.0),
        ("SM75_RTX2060_S", "sm_75", 1905.0),
        ("SM7_GV100", "sm_70", 1447.0),
        ("SM7_QV100", "sm_70", 1132.0),
        ("SM7_TITANV", "sm_70", 1200.0),
        ("SM80_A100", "sm_80", 1410.0),
        ("SM86_RTX3070", "sm_86", 1132.0),
        ("SM90_H100", "sm_90", 1980.0),
        ("SM90_H200", "sm_90", 1980.0),
    )
)
"""Name, arch and core clock in MHz, as the simulator's own tested-cfgs give them."""
