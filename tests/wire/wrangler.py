"""Cloudflare's own `wrangler`, unmodified: installed once into pytest's cache, run from an empty folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

ACCOUNT = "0123456789abcdef0123456789abcdef"
PACKAGES = Path(__file__).with_name("package.json")
INSTALLATION_S = 300
COMMAND_S = 60

Mode = Literal["remote", "local"]


class Said(NamedTuple):
    """What a command came to; `text` is what it wrote to either stream."""

    code: int
    stdout: str
    text: str

    @property
    def json(self) -> Any:
        """What it wrote with `--json`."""
        return msgspec.json.decode(self.stdout)


def install(cache: Path) -> Path:
    """Install what `package.json` names, unless that is done; the folder of the programs."""
    programs = cache / "node_modules" / ".bin"
    installed = cache / PACKAGES.name
    if not installed.exists() or installed.read_bytes() != PACKAGES.read_bytes():
        shutil.copy(PACKAGES, cache / "wanted.json")
        (cache / "wanted.json").replace(installed)
        try:
            subprocess.run(
                ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"],
                cwd=cache,
                check=True,
                timeout=INSTALLATION_S,
            )
        except BaseException:
            installed.unlink()
            raise
    return programs


@dataclass
class Wrangler:
    """The command line, pointed at an emulator: as at Cloudflare's API, or with `--local`."""

    programs: Path
    folder: Path
    port: int
    mode: Mode

    async def __call__(self, *arguments: str) -> Said:
        """Run `wrangler workflows …`."""
        options = ("--local", "--port", str(self.port)) if self.mode == "local" else ()
        process = await asyncio.create_subprocess_exec(
            self.programs / "wrangler",
            "workflows",
            *arguments,
            *options,
            cwd=self.folder,
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        streams = await asyncio.wait_for(process.communicate(), COMMAND_S)
        stdout, stderr = (stream.decode() for stream in streams)
        return Said(process.returncode or 0, stdout, stdout + stderr)

    async def succeeds(self, *arguments: str) -> Said:
        """Run what must exit with 0."""
        said = await self(*arguments)
        assert said.code == 0, said.text
        return said

    async def fails(self, *arguments: str) -> Said:
        """Run what must exit with 1."""
        said = await self(*arguments)
        assert said.code == 1, said.text
        return said

    def _environment(self) -> dict[str, str]:
        own = {
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / ".config"),
            "CI": "1",
            "NO_COLOR": "1",
            "WRANGLER_HIDE_BANNER": "true",
            "WRANGLER_SEND_METRICS": "false",
        }
        if self.mode == "local":
            return own
        return own | {
            "CLOUDFLARE_API_BASE_URL": f"http://127.0.0.1:{self.port}/client/v4",
            "CLOUDFLARE_API_TOKEN": "dev-token",
            "CLOUDFLARE_ACCOUNT_ID": ACCOUNT,
        }
