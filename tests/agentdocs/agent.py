"""An agent that does what the prompt says: runs its blocks in order, with curl and python3 and nothing else."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from cascade_server.agentdocs import prompt

BLOCK_S = 60.0
_SLEEP = shutil.which("sleep")


@dataclass(frozen=True)
class Block:
    """A fenced block and the heading it stands under."""

    heading: str
    code: str

    @property
    def values(self) -> set[str]:
        """What the agent has to fill in."""
        return set(re.findall(r"^(TRACE_ID|ENTRIES|RUN_ID|SIM_ID)=", self.code, re.MULTILINE))


def blocks() -> list[Block]:
    """Every fenced block of the prompt, in order."""
    found, heading = [], ""
    for match in re.finditer(r"^## ([^\n]+)$|^```(\w*)\n(.*?)^```$", prompt.text(), re.MULTILINE | re.DOTALL):
        if match[1]:
            heading = match[1]
        else:
            assert match[2] == "bash"
            found.append(Block(heading, match[3]))
    return found


def step(words: str) -> Block:
    """The first block whose heading has these words."""
    return next(block for block in blocks() if words in block.heading)


@dataclass
class Done:
    """How a block ended."""

    code: int
    out: str
    err: str

    def rows(self, label: str) -> list[str]:
        """What stands behind a label, on every line that begins with it."""
        return [line.removeprefix(label).strip() for line in self.out.splitlines() if line.startswith(label)]


@dataclass
class Agent:
    """Where it works: an empty folder, a PATH with two programs (and a short sleep), and two variables."""

    folder: Path
    url: str
    token: str | None
    said: list[Done] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.work = self.folder / "work"
        self.bin = self.folder / "bin"
        self.work.mkdir()
        self.bin.mkdir()
        curl = shutil.which("curl")
        assert curl is not None
        self.program("curl", f'exec {shlex.quote(curl)} "$@"')
        # Of Python the standard library alone.
        self.program("python3", f'exec {shlex.quote(sys.executable)} -IS "$@"')
        self.program("sleep", f'[ "$1" = 10 ] && exec {_SLEEP} 0.1')

    def program(self, name: str, script: str) -> None:
        """Put a program into the PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    async def run(self, block: Block, **values: str) -> Done:
        """Run a block in a shell of its own, its first lines filled in."""
        assert values.keys() == block.values
        code = block.code
        for name, value in values.items():
            code, n = re.subn(rf"^{name}=.*$", f"{name}={shlex.quote(value)}", code, flags=re.MULTILINE)
            assert n == 1
        environment = {"PATH": str(self.bin), "HOME": str(self.work), "CASCADE_URL": self.url}
        if self.token is not None:
            environment["CASCADE_TOKEN"] = self.token
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            "-c",
            code,
            cwd=self.work,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(BLOCK_S):
            out, err = await process.communicate()
        assert process.returncode is not None
        done = Done(process.returncode, out.decode(), err.decode())
        self.said.append(done)
        if self.token:
            assert self.token not in done.out + done.err
        assert list(self.work.iterdir()) == []
        return done
