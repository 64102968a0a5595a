"""Verify names every difference between the journal, the items, the index and the vault, and no other."""

import pytest

from memory import compare, verify
from memory.stores import Stores
from memory.verify import Verified
from tests.fixtures_postgres import Database
from tests.projection.conftest import differences, follow, forget, teach

ITEM = "(select id from items order by created_position limit 1)"


pytestmark = pytest.mark.usefixtures("soon")


async def taught(stores: Stores) -> list[str]:
    """Three lessons of one scope, the first of them retired, and one of another; all in the index."""
    ids = await teach(stores, "free the port", "warm the cache", "rotate the key")
    await teach(stores, "free the port", scope="acme/web")
    await forget(stores, ids[0])
    await follow(stores)
    return ids


async def test_what_was_followed_has_no_difference_and_is_counted(stores: Stores) -> None:
    await taught(stores)
    verified = Verified()
    assert await differences(stores, verified) == []
    assert dict(verified.counts)["items"] == dict(verified.counts)["entries"] == 4
    assert verified.counts["events"] == 5
    assert verified.waiting == 0


async def test_pages_of_one_are_compared_as_one_page_is(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    await taught(stores)
    monkeypatch.setattr(verify, "A_STRETCH", 1)
    monkeypatch.setattr(compare.compare_page, "__defaults__", (1,))
    verified = Verified()
    assert await differences(stores, verified) == []
    assert verified.counts["events"] == 5
    assert verified.counts["entries"] == 4


async def test_what_the_index_has_still_to_follow_is_no_difference(stores: Stores) -> None:
    ids = await taught(stores)
    await teach(stores, "drain the queue")
    await forget(stores, ids[1])
    verified = Verified()
    assert await differences(stores, verified) == []
    assert verified.waiting == 2


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (f"delete from index_documents where id = {ITEM};", ["index: is retired, and has no tombstone"]),
        (f"update index_documents set version = 1 where id = {ITEM};", ["index: is older in the index"]),
        (f"update index_documents set version = 999 where id = {ITEM};", ["index: is newer in the index"]),
        (f"update index_documents set state = 'active' where id = {ITEM};", ["index: is active in the index and"]),
        ("update items set text = 'another' where text = 'rotate the key';", ["index: has another content in the"]),
        (
            f"update items set version = 0 where id = {ITEM};",
            ["items: is older (version 0) than event", "items: is older (version 0) than event", "index: is newer in"],
        ),
        (
            f"delete from items where id = {ITEM};",
            ["items: is not on record, and event", "items: is not on record, and event", "index: is in the index and"],
        ),
        (
            f"delete from journal where position = (select retired_position from items where id = {ITEM});",
            ["journal: names an event that is not in the journal"],
        ),
    ],
)
async def test_each_kind_of_difference_is_named(
    damage: str, said: list[str], stores: Stores, database: Database
) -> None:
    await taught(stores)
    await database.run_sql(damage)
    found = [f"{one.split()[0]}: {one.partition(': ')[2]}" for one in await differences(stores)]
    assert [one[: len(start)] for one, start in zip(found, said, strict=True)] == said


async def test_a_tenant_without_an_index_and_a_note_that_cannot_be_read_are_differences(stores: Stores) -> None:
    folder = stores.settings.vault_path / "local"
    folder.mkdir(parents=True)
    (folder / "bad.md").write_text("---\na: [\n---\n")
    found = await differences(stores)
    assert found[0].startswith("index : has no generation that is live")
    assert found[1].startswith("vault : cannot be read: bad.md line")
    assert len(found) == 2


async def test_a_comparison_that_ends_too_early_is_told(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    await taught(stores)

    async def nothing(*_: object, **__: object) -> compare.Compared:
        return compare.Compared(None, 0, 0)

    monkeypatch.setattr(verify, "compare_page", nothing)
    assert await differences(stores) == ["index : was compared with 0 of 4 items only; verify again"]
