import secrets
from pathlib import Path

import pytest

from memory.errors import TenantRefused
from memory.settings import MemorySettings


def make_settings(**values: object) -> MemorySettings:
    given = {"postgres_dsn": "postgresql://db/x", "masking_key": b"k", "vault_path": Path(), **values}
    return MemorySettings(**given)  # type: ignore[arg-type]


def test_settings_do_not_print_what_is_secret() -> None:
    secret = secrets.token_hex(8)
    settings = make_settings(
        postgres_dsn=f"postgresql://app:{secret}@db/x", masking_key=secret.encode(), secrets=(secret,)
    )
    assert secret not in repr(settings)


def test_a_message_without_a_tenant_means_the_default_one() -> None:
    settings = make_settings(tenants=("a", "b"), default_tenant="b")
    assert (settings.tenant_of(None), settings.tenant_of("a")) == ("b", "a")


@pytest.mark.parametrize("tenant", ["c", "", "A"])
def test_a_tenant_that_is_not_served_is_refused(tenant: str) -> None:
    with pytest.raises(TenantRefused):
        make_settings(tenants=("a", "b"), default_tenant="b").tenant_of(tenant)


@pytest.mark.parametrize("wrong", [{"default_tenant": "c"}, {"masking_key": b""}])
def test_settings_that_contradict_themselves_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is"):
        make_settings(**wrong)
