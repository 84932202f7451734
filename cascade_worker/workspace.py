"""A sim's own run directory: what the simulator needs, under names that nothing in a trace can choose.

The simulator hands the paths of kernel files to a shell unquoted, writes files of fixed names where it stands, and
looks for parts of its config there. So each sim runs in a directory of its own, on a kernel list that is written anew
from checked names, beside links to the trace's files.
"""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .source import SourceError

log = logging.getLogger(__name__)

KERNELS_LIST = "kernelslist.g"
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_KERNEL_ID = re.compile(r"kernel-([0-9]+)")
_MEMCPY = re.compile(r"MemcpyHtoD,(0x)?[0-9a-fA-F]{1,16},[0-9]{1,19}")
_CONFIG_FILE_OPTION = re.compile(r"^\s*-(?:inter_config_file|accelwattch_xml_file)\s+(\S+)", re.MULTILINE)
_CLOCKS = "-gpgpu_clock_domains"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class KernelList:
    """A checked kernelslist.g. `commands` are its memcpy and kernel lines in order, without a memcpy at the end."""

    folder: Path
    commands: tuple[str, ...]
    kernels: tuple[str, ...]

    @property
    def ids(self) -> tuple[int | None, ...]:
        """The N of each kernel-N, in list order; the simulator's uids count 1, 2, 3 instead."""
        return tuple(int(found[1]) if (found := _KERNEL_ID.match(name)) else None for name in self.kernels)


@dataclass(frozen=True, slots=True)
class Launch:
    """A prepared run: what to start, where, and how many kernels it should finish."""

    command: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    kernels: KernelList


def read_kernel_list(trace: Path) -> KernelList:
    """Read and check a trace's kernel list. Raises SourceError with a sentence that names the line or file."""
    folder = trace / "traces" if (trace / "traces" / KERNELS_LIST).exists() else trace
    try:
        raw = (folder / KERNELS_LIST).read_bytes()
    except FileNotFoundError as error:
        raise SourceError(f"The trace {trace.name} has no {KERNELS_LIST}: it has not been post-processed.") from error
    except OSError as error:
        raise SourceError(f"{folder / KERNELS_LIST} can't be read: {error.strerror}.") from error
    commands: list[str] = []
    for number, line in enumerate(raw.decode("utf-8", "replace").split("\n"), start=1):
        if command := _command(number, line.rstrip(" \t\r")):
            commands.append(command)
    # Simulators of before 2024 abort on a list that ends in a copy, and without a kernel after it it changes nothing.
    while commands and commands[-1].startswith("Memcpy"):
        commands.pop()
    return KernelList(folder, tuple(commands), tuple(line for line in commands if line.startswith("kernel")))


def prepare(accelsim: Path, gpu_config: str, trace: Path, run: Path, inherited: Mapping[str, str]) -> Launch:
    """Make the run directory `run`, which must not exist, and say how to start the simulator in it.

    `inherited` is the environment to start from; nothing named CASCADE_* of it is handed on. Raises SourceError with
    a sentence when something that the simulator needs is not there.
    """
    binary = accelsim / "gpu-simulator" / "bin" / "release" / "accel-sim.out"
    if not (binary.is_file() and os.access(binary, os.X_OK)):
        raise SourceError(f"There is no simulator at {binary}: has Accel-Sim been built?")
    configs = _configs(accelsim, gpu_config)
    env = {name: value for name, value in inherited.items() if not name.startswith("CASCADE_")}
    env["LD_LIBRARY_PATH"] = _library_path(accelsim, env.get("LD_LIBRARY_PATH"))
    kernels = read_kernel_list(trace)
    _check_files(kernels)
    try:
        _fill(run, kernels, configs[0])
    except OSError as error:
        raise SourceError(f"The run directory {run} can't be made: {error.strerror}.") from error
    unbuffered = (stdbuf, "-oL") if (stdbuf := shutil.which("stdbuf")) else ()
    options = (option for config in configs for option in ("-config", str(config)))
    # A relative path: no folder of the user's, whatever it is called, ever reaches the simulator's shell.
    return Launch((*unbuffered, str(binary), "-trace", f"./traces/{KERNELS_LIST}", *options), run, env, kernels)


def read_core_clock_mhz(accelsim: Path, gpu_config: str) -> float | None:
    """The core clock of a GPU config as the simulator reads it; None when it can't be found.

    `#` begins a comment, and of an option that stands twice the later one wins.
    """
    try:
        text = _configs(accelsim, gpu_config)[0].read_text("utf-8", "replace")
    except (SourceError, OSError):
        return None
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    places = [place for place, word in enumerate(words[:-1]) if word == _CLOCKS]
    try:
        clock = float(words[places[-1] + 1].partition(":")[0])
    except (IndexError, ValueError):
        return None
    return clock if clock > 0 and math.isfinite(clock) else None


def _command(number: int, line: str) -> str | None:
    if line.startswith("kernel"):
        if not _PLAIN.fullmatch(line):
            raise SourceError(
                f"Line {number} of {KERNELS_LIST} names {line[:80]!r}: a kernel file's name may hold only letters, "
                "digits, dot, underscore and hyphen, since the simulator hands it to a shell."
            )
        return line
    if line.startswith("MemcpyHtoD"):
        if not _MEMCPY.fullmatch(line):
            raise SourceError(f"Line {number} of {KERNELS_LIST} is not `MemcpyHtoD,<address>,<bytes>`: {line[:80]!r}.")
        return line
    return None


def _configs(accelsim: Path, gpu_config: str) -> tuple[Path, Path]:
    if not _PLAIN.fullmatch(gpu_config) or gpu_config.startswith("."):
        raise SourceError(f"{gpu_config[:80]!r} is no name of a GPU config.")
    simulator = accelsim.absolute() / "gpu-simulator"
    found = (
        simulator / "gpgpu-sim" / "configs" / "tested-cfgs" / gpu_config / "gpgpusim.config",
        simulator / "configs" / "tested-cfgs" / gpu_config / "trace.config",
    )
    for path in found:
        if not path.is_file():
            raise SourceError(f"The GPU config {gpu_config} is not whole: {path} is missing.")
    return found


def _library_path(accelsim: Path, inherited: str | None) -> str:
    folders = (accelsim.absolute() / "gpu-simulator" / "gpgpu-sim" / "lib").glob("*/*/release")
    built = sorted((folder for folder in folders if (folder / "libcudart.so").exists()), key=_built_at, reverse=True)
    path = [*map(str, built[:1]), *filter(None, (inherited or "").split(":"))]
    if not any((Path(folder) / "libcudart.so").exists() for folder in path):
        raise SourceError(
            f"There is no libcudart.so under {accelsim / 'gpu-simulator' / 'gpgpu-sim' / 'lib'}/*/*/release: has "
            "GPGPU-Sim been built?"
        )
    return ":".join(path)


def _built_at(folder: Path) -> float:
    return (folder / "libcudart.so").stat().st_mtime


def _check_files(kernels: KernelList) -> None:
    if not kernels.kernels:
        raise SourceError("The kernel list names no kernel, so there is nothing to simulate.")
    bad: list[str] = []
    for name in dict.fromkeys(kernels.kernels):
        if problem := _problem(kernels.folder / name):
            bad.append(problem)
    if bad:
        more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise SourceError(f"The trace does not fit its {KERNELS_LIST}: {'; '.join(bad[:_SHOWN])}{more}.")
    if any(name.endswith(".xz") for name in kernels.kernels) and shutil.which("xz") is None:
        raise SourceError("The trace is compressed with xz, which is not installed here.")


def _problem(path: Path) -> str | None:
    try:
        if path.stat().st_size == 0:
            return f"{path.name} is empty"
        return None if os.access(path, os.R_OK) else f"{path.name} can't be read"
    except OSError:
        other = path.with_suffix("") if path.suffix == ".xz" else path.with_name(path.name + ".xz")
        return f"{path.name} is missing" + (f" (but {other.name} is there)" if other.exists() else "")


def _fill(run: Path, kernels: KernelList, gpgpusim_config: Path) -> None:
    (run / "traces").mkdir(parents=True, mode=0o700)
    (run / "traces" / KERNELS_LIST).write_text("".join(f"{command}\n" for command in kernels.commands))
    folder = kernels.folder.absolute()
    for name in dict.fromkeys(kernels.kernels):
        (run / "traces" / name).symlink_to(folder / name)
    home = gpgpusim_config.parent
    wanted = {path.name for pattern in ("*.icnt", "*.xml") for path in home.glob(pattern)}
    wanted |= set(_CONFIG_FILE_OPTION.findall(gpgpusim_config.read_text("utf-8", "replace")))
    for name in sorted(wanted):
        # Only what lies beside the config: an absolute path is found where it is, and one that climbs out has no
        # place in the run directory.
        if not Path(name).is_absolute() and ".." not in Path(name).parts and (home / name).is_file():
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).symlink_to(home / name)
