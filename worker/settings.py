"""The settings of a worker and of the command line, read once, at start; the only place that sees the environment."""

import dataclasses
import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import unquote, urlsplit

from temporalio.envconfig import ClientConfig, ClientConnectConfig

from executors.settings import ExecutorSettings, ModelEndpoint
from memory.settings import EmbeddingSettings, MemorySettings, OpenSearchSettings
from poimen.contracts.problems import hint, quoted, safe_name
from worker.extras import missing_packages
from worker.options import OPTIONS, PREFIX, SettingsError, read_options
from worker.stack.state import own_folder

# Where the `temporal` CLI looks, too.
DEFAULT_ADDRESS = "localhost:7233"
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_MODEL_FIELDS = tuple(spec.name for spec in dataclasses.fields(ModelEndpoint))
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")
_PASSWORD = re.compile(r"\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|\S+)")


def environment() -> Mapping[str, str]:
    """Return the variables of this process."""
    return os.environ  # noqa: TID251  because every other module is handed settings


@dataclass(frozen=True)
class Settings:
    """What was set, checked for form; each part is built, and its needs checked, when it is asked for."""

    values: Mapping[str, Any] = field(repr=False)
    models: Mapping[str, Any] = field(repr=False)
    given: frozenset[str]
    variables: Mapping[str, str] = field(repr=False)

    @classmethod
    def load(cls, variables: Mapping[str, str] | None = None) -> Self:
        """Read the settings from the variables, by default this process's. Raises SettingsError."""
        variables = environment() if variables is None else variables
        read = read_options(variables)
        return cls(read.values, read.models, read.given, dict(variables))

    @property
    def role(self) -> str:
        return str(self.values["role"])

    @property
    def task_queue(self) -> str:
        return str(self.values["task_queue"])

    @property
    def identity(self) -> str:
        name = f"poimen-{self.role}" if "role" in self.given else "poimen"
        return self.values["identity"] or f"{name}@{socket.gethostname()}:{os.getpid()}"

    @property
    def default_tenant(self) -> str:
        return str(self.values["default_tenant"] or self.values["tenants"][0])

    def temporal(self) -> ClientConnectConfig:
        """Return how to reach Temporal: the variables, files and profiles that the `temporal` CLI reads too."""
        try:
            config = ClientConfig.load_client_connect_config(override_env_vars=dict(self.variables))
        except Exception as error:  # the SDK raises what its core gives, without a type of its own
            raise SettingsError(f"The Temporal profile cannot be read: {error}") from None
        return {"target_host": DEFAULT_ADDRESS, **config}

    def memory(self) -> MemorySettings:
        """Return the memory's settings. Raises SettingsError for what is missing."""
        values = self.values
        for name in ("postgres_dsn", "masking_key"):
            if not values[name]:
                variable = PREFIX + name.upper()
                raise SettingsError(f"{variable} is not set; a memory worker needs it ({variable}_FILE names a file).")
        if not values["tenants"]:
            raise SettingsError(f"{PREFIX}TENANTS names no tenant.")
        if self.default_tenant not in values["tenants"]:
            raise SettingsError(f"{PREFIX}DEFAULT_TENANT is not one of {PREFIX}TENANTS.")
        size = int(values["pool_size"])
        return MemorySettings(
            postgres_dsn=values["postgres_dsn"],
            masking_key=values["masking_key"].encode(),
            vault_path=values["vault"].absolute(),
            tenants=values["tenants"],
            default_tenant=self.default_tenant,
            secrets=self._secrets(),
            embedder=self._embedder(),
            opensearch=self._opensearch(),
            pool_min_size=min(2, size),
            pool_max_size=size,
        )

    def executor(self) -> ExecutorSettings:
        """Return the executor's settings; its host id is made the first time and kept in its state folder."""
        state = own_folder(self.values["state"].absolute())
        host = _host_id(state)
        allowed = frozenset(self.values["allowed_variables"])
        path = self.values["command_path"] or self.variables.get("PATH") or _DEFAULT_PATH
        return ExecutorSettings(
            host=host,
            queue=f"{self.task_queue}-executor-{host}",
            state_dir=state,
            workspace_roots=self.values["workspaces"],
            command_enabled=self.values["commands"],
            allowed_variables=allowed,
            variables={name: self.variables[name] for name in sorted(allowed) if name in self.variables},
            models=self._models(),
            base_environment={"PATH": path, "LANG": "C.UTF-8"},
            output_days=self.values["output_days"],
        )

    def shown(self) -> dict[str, str]:
        """Return every setting as text for the log, secrets masked."""
        shown = {name: _shown(value) for name, value in self.values.items() if not OPTIONS[name].secret}
        shown |= {
            name: "(set)" if self.values[name] else "(not set)" for name, option in OPTIONS.items() if option.secret
        }
        return shown | {"models": ", ".join(sorted(self.models))}

    @property
    def by_words_because(self) -> str | None:
        """Why knowledge is searched by words alone, None when it is searched by meaning too."""
        chosen = self.values["embedder"]
        if chosen == "none":
            return f"{PREFIX}EMBEDDER is none"
        missing = [] if chosen else missing_packages("embedding")
        return f"{' and '.join(missing)} is not installed (poimen-memory[embedding])" if missing else None

    def _embedder(self) -> Literal["minilm"] | EmbeddingSettings | None:
        chosen = self.values["embedder"]
        if chosen is None:
            return None if missing_packages("embedding") else "minilm"
        if chosen == "minilm":
            self._installed("embedding", "EMBEDDER is minilm")
            return "minilm"
        if chosen == "none":
            return None
        for name in ("embedding_url", "embedding_model", "embedding_dimension"):
            self._needed(name, "EMBEDDER is endpoint")
        return EmbeddingSettings(
            base_url=self.values["embedding_url"],
            model=self.values["embedding_model"],
            dimension=self.values["embedding_dimension"],
            api_key=self.values["embedding_key"],
        )

    def _opensearch(self) -> OpenSearchSettings | None:
        values = self.values
        if values["index"] != "opensearch":
            return None
        self._needed("opensearch_url", "INDEX is opensearch")
        if bool(values["opensearch_user"]) != bool(values["opensearch_password"]):
            raise SettingsError(f"{PREFIX}OPENSEARCH_USER and {PREFIX}OPENSEARCH_PASSWORD go together; set both.")
        self._installed("opensearch", "INDEX is opensearch")
        return OpenSearchSettings(
            urls=values["opensearch_url"],
            user=values["opensearch_user"],
            password=values["opensearch_password"],
            ca_file=values["opensearch_ca"],
            request_seconds=values["opensearch_seconds"],
            pool_size=values["pool_size"],
            replicas=values["opensearch_replicas"],
        )

    def _needed(self, name: str, because: str) -> None:
        if not self.values[name]:
            raise SettingsError(f"{PREFIX}{name.upper()} is not set; it is needed because {PREFIX}{because}.")

    def _installed(self, extra: str, because: str) -> None:
        missing = missing_packages(extra)
        if missing:
            raise SettingsError(
                f"{PREFIX}{because}, and {' and '.join(missing)} is not installed; install poimen-memory[{extra}]."
            )

    def _secrets(self) -> tuple[str, ...]:
        values = self.values
        own = [_password(values[name]) for name in ("postgres_dsn", "postgres_owner_dsn") if values[name]]
        # A memory worker may share its file with executors, and not have the variables that only they need.
        keys = [self._known(table.get("api_key")) for table in self.models.values()]
        named = (values[name] for name in ("masking_key", "opensearch_password", "embedding_key"))
        known = (*own, *named, *keys, *values["secrets"])
        return tuple(dict.fromkeys(secret for secret in known if secret))

    def _models(self) -> dict[str, ModelEndpoint]:
        return {name: self._model(name, table) for name, table in self.models.items()}

    def _model(self, name: str, table: Mapping[str, Any]) -> ModelEndpoint:
        label = f"Model {safe_name(name) or 'of that name'}"
        for key in table:
            if key not in _MODEL_FIELDS:
                shown = quoted([key]) or "of such a name"
                raise SettingsError(f"{label} has no setting {shown}{hint(key, _MODEL_FIELDS)}")
        for key in ("base_url", "model"):
            if not table.get(key):
                raise SettingsError(f'{label} needs "{key}".')
        headers = table.get("headers", {})
        if not isinstance(headers, Mapping):
            raise SettingsError(f"{label}: headers must be a table.")
        try:
            return ModelEndpoint(
                base_url=str(table["base_url"]),
                model=str(table["model"]),
                api_key=self._resolved(table.get("api_key"), label),
                max_tokens=int(table["max_tokens"]) if "max_tokens" in table else None,
                timeout=float(table.get("timeout", 600)),
                headers={str(key): self._resolved(value, label) or "" for key, value in headers.items()},
                proxy=_proxy(self._resolved(table.get("proxy"), label), label),
            )
        except (TypeError, ValueError):
            raise SettingsError(f"{label}: max_tokens and timeout must be numbers.") from None

    def _known(self, value: Any) -> str | None:
        """Return the text, or the variable that ``env:NAME`` names if it is set."""
        if value is None or not str(value).startswith("env:"):
            return None if value is None else str(value)
        return self.variables.get(str(value).removeprefix("env:")) or None

    def _resolved(self, value: Any, label: str) -> str | None:
        known = self._known(value)
        if known is None and value is not None:
            name = safe_name(str(value).removeprefix("env:")) or "it names"
            raise SettingsError(f"{label}: the variable {name} is not set.")
        return known


def _proxy(url: str | None, label: str) -> str | None:
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise SettingsError(f"{label}: proxy must be a URL that begins with http:// or https://.")
    return url


def _host_id(state: Path) -> str:
    file = state / "host"
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        known = file.read_text().strip()
        if known:
            return known
        descriptor = os.open(file, os.O_WRONLY)  # a start was cut short in between
    plain = _NOT_PLAIN.sub("-", socket.gethostname().lower()).strip("-")[:40] or "host"
    host = f"{plain}-{secrets.token_hex(4)}"
    with os.fdopen(descriptor, "w") as opened:
        opened.write(host)
    return host


def _password(dsn: str) -> str | None:
    if "://" in dsn:
        try:
            found = urlsplit(dsn).password
        except ValueError:
            return None
        return unquote(found) if found else None
    match = _PASSWORD.search(dsn)
    return match[1].strip("'") if match else None


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)
