"""What the memory is told once, at start. Plain values: the composition root reads them from file or environment."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from memory.errors import TenantRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSearchSettings:
    """Where OpenSearch is, and how it is spoken to."""

    urls: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    # What https is verified by; None is what the system trusts.
    ca_file: Path | None = None
    # The longest that one request may take; the deadline of a call is shorter.
    request_seconds: float = 5.0
    pool_size: int = 8
    # Copies of an index that is made from now on.
    replicas: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSettings:
    """An embedding model behind an OpenAI-compatible address."""

    base_url: str
    model: str
    dimension: int
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """Settings of one worker's memory. Secrets are left out of its representation."""

    # Of the application's role: neither owner nor superuser, or the start-up check refuses it.
    postgres_dsn: str = field(repr=False)
    # Keys the short hashes in masked text, so that equal secrets stay equal and cannot be guessed from it.
    masking_key: bytes = field(repr=False)
    vault_path: Path
    tenants: tuple[str, ...] = ("local",)
    default_tenant: str = "local"
    # Values masked wherever they appear: the worker's own credentials and what the operator registers.
    secrets: tuple[str, ...] = field(default=(), repr=False)
    # None is search by words alone.
    embedder: Literal["minilm"] | EmbeddingSettings | None = None
    # None keeps the index in Postgres.
    opensearch: OpenSearchSettings | None = None
    pool_min_size: int = 2
    pool_max_size: int = 8
    # Callers beyond this many waiters fail at once: the pool's queue is not durable, Temporal's is.
    pool_max_waiting: int = 64
    connection_wait_seconds: float = 0.7
    # One memory call, inside an activity of at most 1.5 s.
    call_deadline_seconds: float = 1.2

    def __post_init__(self) -> None:
        if self.default_tenant not in self.tenants:
            raise ValueError("default_tenant is not one of tenants.")
        if not self.masking_key:
            raise ValueError("masking_key is empty.")

    def tenant_of(self, tenant: str | None) -> str:
        """Return the tenant that a message means: its own, or the default one when it names none.

        Raises TenantRefused for a tenant that this worker does not serve.
        """
        if tenant is None:
            return self.default_tenant
        if tenant not in self.tenants:
            raise TenantRefused("This worker does not serve that tenant.")
        return tenant
