"""The keys of `env_config.session`: how the browser sessions of a run present themselves."""

import hashlib
import os
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import Field

from rollgym.numbers import Count
from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH
from webgym.browser.contract.errors import BadRequestError
from webgym.browser.contract.profile import (
    LARGEST_VIEWPORT,
    HttpCredentials,
    RecordingKind,
    SessionProfile,
    StorageState,
    UpstreamProxy,
    ViewportSettings,
)
from webgym.settings import SettingsSection, Text, WebSettingsError

_Pixels = Annotated[Count, Field(ge=100, le=LARGEST_VIEWPORT)]


class SessionSettings(SettingsSection):
    """How sessions present themselves to sites, and what they start with."""

    width: _Pixels = Field(default=VIEWPORT_WIDTH, description="width of the page in pixels")
    height: _Pixels = Field(default=VIEWPORT_HEIGHT, description="height of the page in pixels")
    locale: Text | None = Field(default=None, description="language of pages, such as `de-DE`")
    timezone: Text | None = Field(
        default=None, description="time zone of pages, such as `Europe/Berlin`"
    )
    user_agent: Text | None = Field(default=None, description="user agent (null: Chromium's)")
    storage_state: Text | None = Field(
        default=None,
        description="JSON file with cookies and local storage to start from, as of Playwright",
    )
    http_username: Text | None = Field(
        default=None, description="name for sites that ask for HTTP authentication"
    )
    http_password_env_var: Text | None = Field(
        default=None, description="environment variable with the password for these sites"
    )
    http_origin: Text | None = Field(
        default=None,
        description="only origin that gets name and password (null: every site that asks)",
    )
    proxy: Text | None = Field(
        default=None,
        description="proxy of the sessions: `http://HOST:PORT` or `socks5://HOST:PORT`",
    )
    proxy_username: Text | None = Field(default=None, description="name at the proxy")
    proxy_password_env_var: Text | None = Field(
        default=None, description="environment variable with the password at the proxy"
    )
    accept_dialogs: bool = Field(
        default=True, description="accept `confirm` and `prompt` dialogs; false: dismiss them"
    )

    downloads: bool = Field(
        default=False, description="keep files that pages download, as files of their step"
    )

    record_har: bool = Field(
        default=False, description="keep a HAR of each session: its requests, without bodies"
    )
    record_video: bool = Field(
        default=False, description="keep a video of each session, as an animated WebP"
    )

    @property
    def recorded(self) -> tuple[RecordingKind, ...]:
        """The recordings that are kept of each session."""
        wanted: dict[RecordingKind, bool] = {"har": self.record_har, "video": self.record_video}
        return tuple(kind for kind, kept in wanted.items() if kept)

    @property
    def profile(self) -> SessionProfile:
        """The profile that the browser server gets. Raises WebSettingsError."""
        credentials = proxy = None
        if self.http_username is not None:
            credentials = HttpCredentials(
                username=self.http_username,
                password=_secret("http_password_env_var", self.http_password_env_var),
                origin=self.http_origin,
            )
        if self.proxy is not None:
            proxy = UpstreamProxy(
                server=self.proxy,
                username=self.proxy_username,
                password=_secret("proxy_password_env_var", self.proxy_password_env_var),
            )
        given = SessionProfile(
            viewport=ViewportSettings(width=self.width, height=self.height),
            locale=self.locale,
            timezone=self.timezone,
            user_agent=self.user_agent,
            storage_state=self._storage,
            http_credentials=credentials,
            proxy=proxy,
            accept_dialogs=self.accept_dialogs,
            downloads=self.downloads,
            record_har=self.record_har,
            record_video=self.record_video,
        )
        try:
            profile = msgspec.convert(msgspec.to_builtins(given), SessionProfile)
            profile.check()
        except (BadRequestError, msgspec.ValidationError) as error:
            raise WebSettingsError(f"env_config.session cannot be used: {error}") from error
        return profile

    @property
    def identity(self) -> dict[str, object]:
        """What of it can change results; nothing for the defaults, as in runs made before.

        The state stands there as the hash of its content. The proxy, passwords and recordings are
        left out.
        """
        defaults = SessionSettings()
        left_out = {
            *("proxy", "proxy_username", "http_password_env_var", "proxy_password_env_var"),
            *("record_har", "record_video"),
        }
        changed: dict[str, object] = {
            name: value
            for name, value in self.plain.items()
            if name not in left_out and value != getattr(defaults, name)
        }
        if self.storage_state is not None:
            state = msgspec.json.encode(self._storage, order="sorted")
            changed["storage_state"] = hashlib.sha256(state).hexdigest()
        return {"session": changed} if changed else {}

    @property
    def _storage(self) -> StorageState:
        if self.storage_state is None:
            return StorageState()
        path = Path(self.storage_state).expanduser()
        try:
            return msgspec.json.decode(path.read_bytes(), type=StorageState)
        except (OSError, msgspec.DecodeError) as error:
            raise WebSettingsError(
                f"env_config.session.storage_state: {path} cannot be read: {error}"
            ) from error


def _secret(key: str, variable: str | None) -> str:
    if variable is None:
        return ""
    value = os.environ.get(variable)
    if value is None:
        raise WebSettingsError(f"env_config.session.{key}: the variable {variable} is not set")
    return value
