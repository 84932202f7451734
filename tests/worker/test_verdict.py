"""The verdict on every recording and case, and that no log, however broken, confuses the scanner."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_server.contract.states import SimState
from cascade_worker.lines import LineSplitter
from cascade_worker.verdict import LogScanner, Verdict, shell_exit_code
from tests.recordings import CASES, EXPECT, INDEX, RECORDINGS, recording_bytes

ALL = sorted(path.name.removesuffix(".log.xz") for path in RECORDINGS.glob("*.log.xz"))

SENTENCES = {
    "cut-max-cycle": "Stopped at the limit -gpgpu_max_cycle 8000 after 1 of 4 kernels; "
    "the numbers of the last one are cut short.",
    "cut-max-insn-rtx3070": "Stopped at the limit -gpgpu_max_insn 100000 after 2 kernels",
    "fail-bad-memcpy": "The kernel list holds a memcpy line that is not `MemcpyHtoD,<address>,<bytes>`.",
    "fail-binary-version-90": "The trace is of a GPU that this Accel-Sim does not know: unsupported binary version: 90",
    "fail-concurrent-one-stream-rtx3070": "The simulator dropped kernels 3, 5, 6 and 7 and exited with 0.",
    "fail-deadlock-dram-clock0": "The simulator stopped on a deadlock, no core got any further, "
    "while kernel 1 (_Z6vecaddPKfS0_Pfi) was running; no kernel had finished.",
    "fail-huge-shmem": "The simulator aborted (signal 6, SIGABRT) without printing a reason while kernel 3 "
    "(_Z13reduce_kernelILi128EEvPKfPfi) was running. It asks for 1,000,000 bytes of shared memory a block, "
    "and a core of the config has 102,400.",
    "fail-huge-shmem-stdbuf": "A kernel needs more shared memory, registers or threads than a core of the config has",
    "fail-icnt-not-in-cwd-titanx": "The simulator could not open config_pascal_islip.icnt, a file of the GPU config",
    "fail-ipoly-h100": "its number of memory channels does not suit IPOLY hashing",
    "fail-killed": "The simulator was killed by signal 9 (SIGKILL), often the out-of-memory killer, "
    "while kernel 3 of 8 (_Z5saxpyfPKfPfi) was running.",
    "fail-missing-trace-file": "The trace file /data/traces/miss/traces/kernel-3-ctx_0x55d0c0ffee10.traceg "
    "is missing or can't be read",
    "fail-no-kernelslist": "The simulator could not open /data/traces/none/traces/kernelslist.g.",
    "fail-no-libcudart": "The simulator and its libraries do not fit together: ",
    "fail-out-of-memory": "The simulator ran out of memory (std::bad_alloc) before the first kernel started.",
    "fail-truncated-trace": "kernel-3-ctx_0x55d0c0ffee10.traceg is cut off or damaged.",
    "fail-unknown-opcode": "The trace holds an instruction that this Accel-Sim does not know (FNORD)",
    "fail-unknown-option": "This Accel-Sim does not know the option -gpgpu_no_such_option.",
    "fail-unwritable-cwd": "The simulator crashed with a segmentation fault (signal 11, SIGSEGV) "
    "while kernel 1 (_Z6vecaddPKfS0_Pfi) was running.",
    "odd-empty-kernelslist": "The kernel list names no kernel, so nothing was simulated.",
}

CASE_SENTENCES = {
    "C05": "deadlock, no core got any further, "
    "while kernel 2 (_Z7Kernel2PbS_S_S_i) was running; 1 kernel had finished.",
    "C06": "deadlock",
    "C07": "unsupported binary version: 120 (sm_120)",
    "C08": "Assertion `spec_id < m_shader->m_config->m_specialized_unit.size()' failed in shader.cc:1473. "
    "The trace is of sm_86 but the config SM7_QV100 is sm_70",
    "C11": "Stopped at the limit -gpgpu_max_cycle or -gpgpu_max_insn after 1 kernel;",
    "C12": "The simulator dropped kernels 3, 5, 6, 7 and 8 and exited with 0.",
    "C15": "The simulator exited with 0 but never said that it was done; "
    "it stopped after kernel 1 (_Z6KernelP4NodePiPbS2_S2_S1_i) had finished.",
}


def judge(log: bytes, returncode: int, listed: int | None = None, config: str | None = "SM7_QV100") -> Verdict:
    scanner = LogScanner(config)
    scanner.feed(log.split(b"\n"))
    return scanner.verdict(returncode, listed)


def case_log(case: str) -> bytes:
    stderr = CASES / f"{case}.err"
    return (CASES / f"{case}.log").read_bytes() + (stderr.read_bytes() if stderr.exists() else b"")


@pytest.mark.parametrize("name", ALL)
def test_recording(name: str) -> None:
    info = INDEX[name]
    verdict = judge(recording_bytes(name), info.exit_code, info.listed_kernels, info.gpu_config)
    if name.startswith(("ok-", "live-")):
        assert verdict == Verdict(SimState.SUCCEEDED)
        return
    assert verdict.state is SimState.FAILED
    assert verdict.error is not None
    assert SENTENCES[name] in verdict.error
    assert "\n" not in verdict.error


@pytest.mark.parametrize("name", ALL)
def test_recording_of_another_trace_is_judged_by_what_it_shows(name: str) -> None:
    info = INDEX[name]
    alone = judge(recording_bytes(name), info.exit_code, None, info.gpu_config)
    assert alone.state is judge(recording_bytes(name), info.exit_code, info.listed_kernels).state


@pytest.mark.parametrize("case", ["C01", "C02", "C03", "C05", "C06", "C07", "C08", "C10", "C11", "C12", "C13", "C15"])
def test_case(case: str) -> None:
    verdict = judge(case_log(case), EXPECT[case]["rc"])
    if case not in CASE_SENTENCES:
        assert verdict == Verdict(SimState.SUCCEEDED)
        return
    assert verdict.state is SimState.FAILED
    assert verdict.error is not None
    assert CASE_SENTENCES[case] in verdict.error


def test_a_listed_kernel_that_never_came_fails_a_run_that_looks_good() -> None:
    verdict = judge(recording_bytes("ok-vec4-rtx3070"), 0, listed=5)
    assert verdict == Verdict(SimState.FAILED, "The simulator dropped kernel 5 and exited with 0.")


def test_many_dropped_kernels_are_not_all_named() -> None:
    error = judge(recording_bytes("ok-vec4-rtx3070"), 0, listed=400).error
    assert error is not None
    assert "dropped kernels 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 and 386 more" in error


def test_exit_code_decides_even_when_the_log_looks_good() -> None:
    error = judge(recording_bytes("ok-vec4-rtx3070") + b"Bus error, it says\n", 3, listed=4).error
    assert error is not None
    assert error.startswith("The simulator ended with exit code 3 after kernel 4 of 4 ")
    assert error.endswith("Its last line: Bus error, it says")


@pytest.mark.parametrize(
    "line",
    [
        b"launching kernel name: _Z9ERROR ** deadlock detected uid: 7 cuda_stream_id: 0",
        b"-kernel name = GPGPU-Sim: *** exit detected ***",
        b"GPGPU-Sim uArch: Shader 0 bind to kernel 1 'x.cc:1: f: Assertion `1' failed.'",
    ],
)
def test_words_in_a_kernels_name_are_only_a_name(line: bytes) -> None:
    error = judge(line, 1, listed=1).error
    assert error is not None
    assert error.startswith("The simulator ended with exit code 1")


@pytest.mark.parametrize(("returncode", "shown"), [(0, 0), (3, 3), (255, 255), (-9, 137), (-6, 134), (137, 137)])
def test_exit_codes_are_counted_as_a_shell_does(returncode: int, shown: int) -> None:
    assert shell_exit_code(returncode) == shown


def test_text_of_a_log_is_made_harmless() -> None:
    error = judge(b"Unable to open file: a\x1b[31m\xff\x00" + b"x" * 999, 1).error
    assert error is not None
    assert error.isprintable()
    assert len(error) < 400


@pytest.mark.parametrize("name", ["fail-missing-trace-file", "ok-concurrent2-rtx3070", "fail-unknown-option"])
@settings(deadline=None, max_examples=30)
@given(places=st.lists(st.floats(0, 1), max_size=12))
def test_chunking_changes_nothing(name: str, places: list[float]) -> None:
    log = recording_bytes(name)
    cuts = sorted(int(place * len(log)) for place in places)
    scanner, splitter = LogScanner(), LineSplitter(64 << 10)
    for start, end in zip([0, *cuts], [*cuts, len(log)], strict=True):
        scanner.feed(splitter.feed(log[start:end]))
    scanner.feed([splitter.rest()])
    assert scanner.verdict(INDEX[name].exit_code) == judge(log, INDEX[name].exit_code, config=None)


PIECES = [line for case in ("C05", "C08", "C11", "C12", "C15") for line in set(case_log(case).split(b"\n"))]


@settings(deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=60))), st.integers(-64, 255))
def test_no_log_makes_it_raise(lines: list[bytes], returncode: int) -> None:
    scanner = LogScanner("SM7_QV100")
    scanner.feed(lines)
    for listed in (None, 0, 2):
        verdict = scanner.verdict(returncode, listed)
        assert (verdict.error is None) == (verdict.state is SimState.SUCCEEDED)


@settings(deadline=None)
@given(st.integers(0, 2000))
def test_a_log_cut_anywhere_never_succeeds(cut: int) -> None:
    log = case_log("C01")
    end = log.rindex(b"*** exit detected") - cut
    assert judge(log[: max(end, 0)], 0, listed=3).state is SimState.FAILED
