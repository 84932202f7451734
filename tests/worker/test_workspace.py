"""What a sim is given to run on, and what is refused before anything starts."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from cascade_worker.source import SourceError
from cascade_worker.workspace import Launch, prepare, read_core_clock_mhz, read_kernel_list
from tests.recordings import CASES
from tests.worker.stand_ins import fake_accelsim, make_trace

HOSTILE = [
    "kernel-1.traceg;touch owned",
    "kernel-1.traceg $(touch owned)",
    "kernel-`id`.traceg",
    "kernel-1|sh",
    "kernel-1&",
    "kernel/../../etc/passwd",
    "kernel-1.traceg\x00",
    "kernel-\u0661.traceg",
    "kernel-1.traceg>x",
    "kernel-1 2.traceg",
    "kernel-1.traceg\x0brm",
    "kernel-1.traceg\u2028rm",
]


@pytest.fixture
def accelsim(tmp_path: Path) -> Path:
    return fake_accelsim(tmp_path / "accel sim")


def ready(accelsim: Path, trace: Path, config: str = "SM7_QV100", **env: str) -> Launch:
    return prepare(accelsim, config, trace, trace.parent / "work" / "run", {"PATH": os.environ["PATH"], **env})


def test_the_run_directory(accelsim: Path, tmp_path: Path) -> None:
    trace = make_trace(tmp_path / "it's a trace; really", kernels=2)
    launch = ready(accelsim, trace, CASCADE_TOKEN="secret", LD_LIBRARY_PATH="/mine", HOME="/home/me")
    configs = accelsim / "gpu-simulator" / "gpgpu-sim" / "configs" / "tested-cfgs" / "SM7_QV100" / "gpgpusim.config"
    traces = accelsim / "gpu-simulator" / "configs" / "tested-cfgs" / "SM7_QV100" / "trace.config"
    simulator = str(accelsim / "gpu-simulator" / "bin" / "release" / "accel-sim.out")
    stdbuf = shutil.which("stdbuf")
    assert launch.command == (
        *((stdbuf, "-oL") if stdbuf else ()),
        *(simulator, "-trace", "./traces/kernelslist.g", "-config", str(configs), "-config", str(traces)),
    )
    library = accelsim / "gpu-simulator" / "gpgpu-sim" / "lib" / "gcc-12" / "cuda-11000" / "release"
    assert launch.env == {"PATH": os.environ["PATH"], "HOME": "/home/me", "LD_LIBRARY_PATH": f"{library}:/mine"}
    found = sorted(str(path.relative_to(launch.cwd)) for path in launch.cwd.rglob("*") if not path.is_dir())
    assert found == [
        "accelwattch_sass_sim.xml",
        "config_volta_islip.icnt",
        "more/named.icnt",
        "traces/kernel-1.traceg",
        "traces/kernel-2.traceg",
        "traces/kernelslist.g",
    ]
    assert (launch.cwd / "traces" / "kernel-2.traceg").read_text() == "-kernel name = k\n"
    assert launch.kernels.ids == (1, 2)


def test_the_newest_library_is_taken(accelsim: Path, tmp_path: Path) -> None:
    lib = accelsim / "gpu-simulator" / "gpgpu-sim" / "lib"
    newer, empty = lib / "gcc-9" / "cuda-12080" / "release", lib / "gcc-13" / "cuda-13000" / "release"
    newer.mkdir(parents=True)
    empty.mkdir(parents=True)
    (newer / "libcudart.so").write_text("")
    os.utime(newer / "libcudart.so", (4e9, 4e9))
    assert ready(accelsim, make_trace(tmp_path / "t")).env["LD_LIBRARY_PATH"] == str(newer)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_a_shell_would_read_is_refused(accelsim: Path, tmp_path: Path, name: str) -> None:
    trace = make_trace(tmp_path / "t", "kernel-1.traceg", name)
    with pytest.raises(SourceError, match=r"^Line 2 of kernelslist\.g names "):
        ready(accelsim, trace)
    assert not (tmp_path / "work").exists()


def test_case_c21_other_lines_are_left_out(tmp_path: Path) -> None:
    with tarfile.open(CASES / "C21.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    kernels = read_kernel_list(tmp_path / "t")
    assert kernels.kernels == ("kernel-1.traceg", "kernel-2.traceg")
    assert kernels.commands == ("MemcpyHtoD,0x00007fb50a800000,8000000", "kernel-1.traceg", "kernel-2.traceg")


def test_case_c25_ids_of_some_kernels(tmp_path: Path) -> None:
    with tarfile.open(CASES / "C25.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    assert read_kernel_list(tmp_path / "t").ids == (2, 5, 6, 10)


def test_case_c20_list_and_disk_disagree(accelsim: Path, tmp_path: Path) -> None:
    with tarfile.open(CASES / "C20.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "t" / "kernel-2.traceg").write_text("")
    with pytest.raises(SourceError) as refused:
        ready(accelsim, tmp_path / "t")
    assert str(refused.value) == (
        "The trace does not fit its kernelslist.g: kernel-1.traceg is missing (but kernel-1.traceg.xz is there); "
        "kernel-2.traceg is empty; kernel-3.traceg.xz is missing."
    )


def test_many_missing_files_are_counted(accelsim: Path, tmp_path: Path) -> None:
    trace = make_trace(tmp_path / "t", kernels=9)
    for path in (trace / "traces").glob("kernel-*"):
        path.unlink()
    with pytest.raises(SourceError, match=r"kernel-1\.traceg is missing; .*; and 6 more\."):
        ready(accelsim, trace)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (("MemcpyHtoD,0x7f00,64",), "The kernel list names no kernel"),
        (("MemcpyHtoD,0x7f00", "kernel-1.traceg"), r"Line 1 of kernelslist\.g is not `MemcpyHtoD,<address>,<bytes>`"),
    ],
)
def test_lists_that_can_not_run(accelsim: Path, tmp_path: Path, lines: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(SourceError, match=sentence):
        ready(accelsim, make_trace(tmp_path / "t", *lines))


def test_a_trace_without_a_list(accelsim: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with pytest.raises(SourceError, match=r"The trace raw has no kernelslist\.g: it has not been post-processed\."):
        ready(accelsim, tmp_path / "raw")


@pytest.mark.parametrize(
    ("gone", "sentence"),
    [
        ("bin/release/accel-sim.out", "There is no simulator at"),
        ("gpgpu-sim/configs/tested-cfgs/SM7_QV100/gpgpusim.config", r"gpgpusim\.config is missing"),
        ("configs/tested-cfgs/SM7_QV100/trace.config", r"trace\.config is missing"),
        ("gpgpu-sim/lib/gcc-12/cuda-11000/release/libcudart.so", r"There is no libcudart\.so under"),
    ],
)
def test_what_accelsim_lacks_is_named(accelsim: Path, tmp_path: Path, gone: str, sentence: str) -> None:
    (accelsim / "gpu-simulator" / gone).unlink()
    with pytest.raises(SourceError, match=sentence):
        ready(accelsim, make_trace(tmp_path / "t"))


@pytest.mark.parametrize("config", ["../SM7_QV100", "", ".", "a b"])
def test_a_config_is_a_name(accelsim: Path, tmp_path: Path, config: str) -> None:
    with pytest.raises(SourceError, match="is no name of a GPU config"):
        ready(accelsim, make_trace(tmp_path / "t"), config)


def test_an_existing_run_directory_is_never_touched(accelsim: Path, tmp_path: Path) -> None:
    precious = tmp_path / "work" / "run" / "traces"
    precious.mkdir(parents=True)
    (precious / "kernelslist.g").write_text("mine")
    with pytest.raises(SourceError, match=r"The run directory .* can't be made: File exists\."):
        ready(accelsim, make_trace(tmp_path / "t"))
    assert (precious / "kernelslist.g").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("-gpgpu_clock_domains 1132.5:1132:1132:850", 1132.5),
        (
            "-gpgpu_clock_domains 1:1:1:1\n  -gpgpu_clock_domains\n 1980:2:3:4 # 7\n#-gpgpu_clock_domains 5:5:5:5",
            1980.0,
        ),
        ("-gpgpu_clock_domains", None),
        ("-gpgpu_clock_domains x:1:1:1", None),
        ("-gpgpu_clock_domains 0:1:1:1", None),
        ("-gpgpu_clock_domains inf:1:1:1", None),
        ("", None),
    ],
)
def test_the_core_clock(tmp_path: Path, text: str, clock: float | None) -> None:
    accelsim = fake_accelsim(tmp_path)
    path = accelsim / "gpu-simulator/gpgpu-sim/configs/tested-cfgs/SM7_QV100/gpgpusim.config"
    path.write_text(text)
    assert read_core_clock_mhz(accelsim, "SM7_QV100") == clock
    assert read_core_clock_mhz(accelsim, "SM7_NONE") is None
    assert read_core_clock_mhz(accelsim, "../x") is None
