import secrets

import pytest

from memory.errors import TenantRefused
from tests.journal.conftest import MakeSettings


def test_settings_do_not_print_what_is_secret(make_settings: MakeSettings) -> None:
    secret = secrets.token_hex(8)
    settings = make_settings(
        postgres_dsn=f"postgresql://app:{secret}@db/x", masking_key=secret.encode(), secrets=(secret,)
    )
    assert secret not in repr(settings)


def test_a_message_without_a_tenant_means_the_default_one(make_settings: MakeSettings) -> None:
    settings = make_settings(tenants=("a", "b"), default_tenant="b")
    assert (settings.tenant_of(None), settings.tenant_of("a")) == ("b", "a")


@pytest.mark.parametrize("tenant", ["c", "", "A"])
def test_a_tenant_that_is_not_served_is_refused(tenant: str, make_settings: MakeSettings) -> None:
    with pytest.raises(TenantRefused):
        make_settings(tenants=("a", "b"), default_tenant="b").tenant_of(tenant)


@pytest.mark.parametrize("wrong", [{"default_tenant": "c"}, {"masking_key": b""}])
def test_settings_that_contradict_themselves_are_refused(wrong: dict[str, object], make_settings: MakeSettings) -> None:
    with pytest.raises(ValueError, match="is"):
        make_settings(**wrong)
