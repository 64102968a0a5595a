"""What an executor is allowed to do, read once by the composition root."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


@dataclass(frozen=True)
class ModelEndpoint:
    """A chat model that definitions ask for by name; `timeout` is in seconds."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    max_tokens: int | None = None
    timeout: float = 600.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    proxy: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ExecutorSettings:
    """The limits of one executor.

    `variables` holds the values that ``env:NAME`` may stand for, `allowed_variables` which of them may be asked for;
    `base_environment` is all a command sees of the worker's environment.
    """

    host: str
    queue: str
    state_dir: Path
    workspace_roots: tuple[Path, ...] = ()
    command_enabled: bool = True
    allowed_variables: frozenset[str] = frozenset()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    models: Mapping[str, ModelEndpoint] = field(default_factory=dict)
    base_environment: Mapping[str, str] = field(default_factory=lambda: dict(_CLEAN))
    grace_seconds: float = 2.0  # between TERM and KILL
    output_limit_bytes: int = 2 * 1024**3  # of one output in the store; what comes after it is counted and dropped
    output_days: float = 14.0  # after which a stored output is removed, unless it was stored again
    probe_seconds: float = 10.0  # of one source of the environment
    # Of all of them together: what is claimed must be answered within a minute, grace periods included.
    fingerprint_seconds: float = 40.0
