"""The server's settings: environment variables `CASCADE_…`, or a TOML file, or the command line.

The TOML file is `$CASCADE_SETTINGS`, else `server.toml` in the user's configuration folder for cascade; its keys
are the field names below. The command line wins over the environment, the environment over the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


def settings_file() -> Path:
    """Where the TOML file is looked for; it need not exist."""
    named = os.environ.get("CASCADE_SETTINGS")
    return Path(named) if named else platformdirs.user_config_path("cascade") / "server.toml"


class Settings(BaseSettings):
    """Everything that can be set; each field's environment variable is `CASCADE_` and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="CASCADE_", env_ignore_empty=True, extra="ignore")

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    token: SecretStr | None = Field(
        default=None, description="The token clients must send; made and kept in the data folder when not set."
    )
    no_auth: bool = Field(default=False, description="Turn the token check off.")
    workspace: str | None = Field(default=None, description="A name that health shows, to tell servers apart.")
    data_dir: Path = Field(
        default_factory=lambda: platformdirs.user_data_path("cascade"),
        description="Folder for the database, the token and the sims' own folders.",
    )
    traces: str | None = Field(default=None, description="Folder of traces; default: traces in the data folder.")
    accelsim_dir: Path | None = Field(
        default=None, description="Accel-Sim's checkout, the folder that holds gpu-simulator."
    )
    simulator: Literal["auto", "accelsim", "replay"] = Field(
        default="auto", description="What sims run; auto: Accel-Sim where its folder is set, else a replay."
    )
    replay_log: Path | None = Field(
        default=None, description="A recording to replay instead of the bundled ones (.log or .log.xz)."
    )
    replay_speed: float = Field(
        default=4.0, ge=0, description="Replay so many times faster than recorded; 0: as fast as possible."
    )
    launcher: Literal["local", "none"] = Field(
        default="local", description="How sims start: local processes, or none (workers started by hand)."
    )
    max_local_sims: int = Field(
        default_factory=lambda: os.cpu_count() or 1,
        ge=1,
        description="Sims at once on this machine; default: its cores.",
    )
    heartbeat_timeout_s: float = Field(
        default=60.0, gt=0, description="Silence after which a sim counts as lost; after ten times that as failed."
    )
    max_file_bytes: int = Field(
        default=1 << 30, ge=1, description="The largest output file that a worker may store, in bytes."
    )
    samples: bool = Field(default=True, description="Show the bundled demo trace, sample trace and sample run.")
    public_url: str | None = Field(default=None, description="The URL under which workers reach this server.")

    @field_validator("data_dir", "accelsim_dir", "replay_log")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        # Workers run elsewhere than the server's current folder.
        return None if value is None else value.expanduser().absolute()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: command line, environment, TOML file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=settings_file())

    @property
    def traces_dir(self) -> Path:
        """The folder scanned for traces."""
        return Path(self.traces).expanduser().absolute() if self.traces else self.data_dir / "traces"

    @property
    def uses_accelsim(self) -> bool:
        """Whether sims run the real simulator."""
        return self.simulator == "accelsim" or (self.simulator == "auto" and self.accelsim_dir is not None)

    @property
    def listens_beyond_loopback(self) -> bool:
        """Whether other machines can reach the server."""
        return self.host not in LOOPBACK_HOSTS
