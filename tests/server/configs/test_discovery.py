"""Clock domains as the simulator reads them, archs from names, and folders that can't be used."""

from __future__ import annotations

import logging
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.configs.discovery import ClockDomains, arch_of, find_configs, load_configs, parse_clock_domains
from cascade_server.configs.tested import TESTED_CONFIGS
from cascade_server.contract.models import GpuConfig
from tests.recordings import CASES, EXPECT

TESTED_CFGS = Path("gpu-simulator/gpgpu-sim/configs/tested-cfgs")


def add_config(accelsim: Path, name: str, text: str = "-gpgpu_clock_domains 1:2:3:4\n") -> Path:
    folder = accelsim / TESTED_CFGS / name
    folder.mkdir(parents=True)
    (folder / "gpgpusim.config").write_text(text)
    return folder


def test_case_c34_later_line_wins_comments_do_not_count_values_are_floats() -> None:
    want = EXPECT["C34"]
    assert parse_clock_domains((CASES / "C34.config").read_text()) == ClockDomains(
        want["core_mhz"], want["icnt_mhz"], want["l2_mhz"], want["dram_mhz"]
    )


@pytest.mark.parametrize(
    ("text", "core"),
    [
        ("-gpgpu_clock_domains 1132.5:1:1:3500.5", 1132.5),
        ("  -gpgpu_clock_domains\t1132:1:1:1\r\n", 1132),
        ("-gpgpu_clock_domains\n1132:1:1:1", 1132),
        ("-gpgpu_n_mem 4 -gpgpu_clock_domains 1132:1:1:1 -x 1", 1132),
        ("-gpgpu_clock_domains 1:1:1:1\n-gpgpu_clock_domains 2:1:1:1\n#-gpgpu_clock_domains 3:1:1:1", 2),
        ("-gpgpu_clock_domains 1:1:1:1 # -gpgpu_clock_domains 3:1:1:1", 1),
        ("", None),
        ("#-gpgpu_clock_domains 1:1:1:1", None),
        ("-gpgpu_clock_domains", None),
        ("-gpgpu_clock_domains 1:1:1", None),
        ("-gpgpu_clock_domains 1:1:1:x", None),
        ("-gpgpu_clock_domains 0:1:1:1", None),
        ("-gpgpu_clock_domains -5:1:1:1", None),
        ("-gpgpu_clock_domains nan:1:1:1", None),
        ("-gpgpu_clock_domains inf:1:1:1", None),
        ("-gpgpu_clock_domains 1:1:1:1\n-gpgpu_clock_domains <Core>:<Icnt>:<L2>:<DRAM>", None),
        ("-gpgpu_clock_domains_x 1:1:1:1", None),
    ],
)
def test_clock_domains(text: str, core: float | None) -> None:
    clocks = parse_clock_domains(text)
    assert (clocks.core if clocks else None) == core


CLOCKS = st.floats(min_value=0.001, max_value=1e6)


@given(CLOCKS, CLOCKS, CLOCKS, CLOCKS)
def test_clocks_round_trip(core: float, icnt: float, l2: float, dram: float) -> None:
    text = f"-gpgpu_clock_domains {core}:{icnt}:{l2}:{dram}"
    assert parse_clock_domains(text) == ClockDomains(core, icnt, l2, dram)


@given(st.text() | st.text("-gpgpu_clock_domains 0123456789.:#\n").map(lambda tail: f"-gpgpu_clock_domains {tail}"))
def test_garbage_never_raises(text: str) -> None:
    clocks = parse_clock_domains(text)
    assert clocks is None or (clocks.core > 0 and math.isfinite(clocks.core))


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("SM90_H100", "sm_90"),
        ("SM7_QV100", "sm_70"),
        ("SM75_RTX2060_S", "sm_75"),
        ("SM6_TITANX", "sm_60"),
        ("SM3_KEPLER_TITAN", "sm_30"),
        ("SM86_RTX3060_MOBILE", "sm_86"),
        ("SM100_GCN3", "sm_100"),
        ("SM90_H100_L2_50MB_80GB", "sm_90"),
        ("NVIDIA_A100_80GB_PCIe", None),
        ("SM_X", None),
        ("SM7", None),
        ("sm7_QV100", None),
        ("SM٧_QV100", None),
    ],
)
def test_arch_of_a_name(name: str, arch: str | None) -> None:
    assert arch_of(name) == arch


def test_the_bundled_table_is_consistent() -> None:
    assert [config.name for config in TESTED_CONFIGS] == sorted(config.name for config in TESTED_CONFIGS)
    assert all(config.arch == arch_of(config.name) for config in TESTED_CONFIGS)
    clocks = {config.name: config.core_clock_mhz for config in TESTED_CONFIGS}
    assert len(clocks) == 11
    assert (clocks["SM3_KEPLER_TITAN"], clocks["SM7_QV100"], clocks["SM90_H200"]) == (837, 1132, 1980)
    assert load_configs(None) == list(TESTED_CONFIGS)


def test_usable_folders_are_found_by_name_and_others_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_config(tmp_path, "SM90_H100", "-gpgpu_clock_domains 1980:1:1:1")
    add_config(tmp_path, "SM7_QV100", "# comment \xff\n-gpgpu_clock_domains 1132.5:1:1:1")
    add_config(tmp_path, "NVIDIA_A100_80GB_PCIe")
    add_config(tmp_path, "SM80_A100; reboot")
    add_config(tmp_path, "SM86_NO_CLOCK", "-gpgpu_n_mem 4")
    (tmp_path / TESTED_CFGS / "SM75_EMPTY").mkdir()
    (tmp_path / TESTED_CFGS / "SM75_FOLDER" / "gpgpusim.config").mkdir(parents=True)
    (tmp_path / TESTED_CFGS / "README.md").write_text("x")
    (tmp_path / TESTED_CFGS / "SM75_PIPE").mkdir()
    os.mkfifo(tmp_path / TESTED_CFGS / "SM75_PIPE" / "gpgpusim.config")
    with caplog.at_level(logging.WARNING):
        assert find_configs(tmp_path) == load_configs(tmp_path)
    assert find_configs(tmp_path) == [
        GpuConfig(name="SM7_QV100", arch="sm_70", core_clock_mhz=1132.5),
        GpuConfig(name="SM90_H100", arch="sm_90", core_clock_mhz=1980),
    ]
    for reason in ("doesn't tell its arch", "more than letters", "no readable -gpgpu_clock_domains", "can't be read"):
        assert reason in caplog.text


def test_no_checkout_gives_no_config_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert load_configs(tmp_path / "nowhere") == []
    assert "no usable GPU config" in caplog.text
