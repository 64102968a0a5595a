"""A store that an earlier version of the rules has written, and what the current one makes of it."""

import asyncio
from dataclasses import replace

import pytest

from memory.aliases import AliasRequest, alias, aliases, unalias
from memory.resign import Place, resign
from memory.signatures import VERSION, Signature, sign
from memory.signatures.signature import Profile
from memory.signatures.versions import RULES
from memory.stores import Stores
from tests.fixtures_postgres import Database
from tests.memory.acted_step import NO_MODULE, PORT_TAKEN, ActedStep, caller, cured_by, incurable
from worker.resign import resign_signatures

EARLIER = "s0"
AGE = (
    "".join(
        f"update {table} set signature = '{EARLIER}:' || substr(signature, 4) where signature is not null;"
        for table in ("signatures", "attempts", "items")
    )
    + "update items set id = 'les-' || reverse(substr(id, 5));"
)  # an id is made from the signature


def old(key: str) -> str:
    return f"{EARLIER}:{key.partition(':')[2]}"


def earlier_rules(text: str, profile: Profile) -> Signature:
    signed = sign(text, profile=profile)
    return replace(signed, key=old(signed.key))


async def test_what_an_earlier_version_learned_counts_after_signing_again(stores: Stores, database: Database) -> None:
    for number in (1, 2):
        await ActedStep(stores).run(f"rel-{number}", cured_by("free-port"))
    await database.run_sql(AGE)
    assert await resign(stores, "local", Place()) is None
    first = (await ActedStep(stores, most_attempts=2).run("rel-3", incurable(), follow=False)).analyses[0]
    assert first.signature.startswith(f"{VERSION}:")
    assert first.recovery_steps[0].worked == 2
    assert first.advice.repair == "free-port"


async def test_an_earlier_version_is_known_before_anything_is_signed_again(
    stores: Stores, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        await ActedStep(stores).run(f"rel-{number}", cured_by("free-port"))
    await database.run_sql(AGE)
    monkeypatch.setitem(RULES, EARLIER, earlier_rules)
    for number in (3, 4):
        first = (await ActedStep(stores, most_attempts=2).run(f"rel-{number}", incurable(), follow=False)).analyses[0]
        assert first.recovery_steps[0].worked == 2
        await resign(stores, "local", Place())


async def test_signing_again_adds_one_alias_for_each_key_and_is_done_once(stores: Stores, database: Database) -> None:
    for number, error in enumerate((PORT_TAKEN, NO_MODULE)):
        await ActedStep(stores, most_attempts=1).run(f"rel-{number}", incurable(error))
    await database.run_sql(AGE)
    for _ in range(2):
        await resign(stores, "local", Place())
    found = {one.signature: one.stands_for for one in await aliases(stores, "local", None)}
    assert found == {old(sign(text).key): sign(text).key for text in (PORT_TAKEN, NO_MODULE)}
    assert (await database.run_sql("select count(*) from journal where kind = 'signature_aliased';")).strip() == "2"


async def test_a_worker_signs_again_by_itself_and_ends_when_told(stores: Stores, database: Database) -> None:
    await ActedStep(stores, most_attempts=1).run("rel-1", incurable())
    await database.run_sql(AGE)
    stop = asyncio.Event()
    task = asyncio.create_task(resign_signatures(stores, stop))
    async with asyncio.timeout(20):
        while not await aliases(stores, "local", None):
            assert not task.done()
        stop.set()
        await task


async def test_nothing_is_done_while_the_version_is_the_same(stores: Stores) -> None:
    await ActedStep(stores, most_attempts=1).run("rel-1", incurable())
    assert await resign(stores, "local", Place()) is None
    assert await aliases(stores, "local", None) == []


async def test_an_alias_that_a_person_undid_stays_undone(stores: Stores, database: Database) -> None:
    await ActedStep(stores, most_attempts=1).run("rel-1", incurable())
    await database.run_sql(AGE)
    await resign(stores, "local", Place())
    await unalias(old(sign(PORT_TAKEN).key), None, caller(), stores)
    await resign(stores, "local", Place())
    assert await aliases(stores, "local", None) == []


async def test_what_a_person_merged_stays_merged(stores: Stores, database: Database) -> None:
    for number, error in enumerate((PORT_TAKEN, NO_MODULE)):
        await ActedStep(stores, most_attempts=1).run(f"rel-{number}", incurable(error))
    request = AliasRequest(signature=sign(PORT_TAKEN).key, stands_for=sign(NO_MODULE).key)
    await alias(request, caller(), stores)
    await database.run_sql(
        AGE + f"update aliases set signature = '{old(request.signature)}', stands_for = '{old(request.stands_for)}',"
        f" root = '{old(request.stands_for)}';"
    )
    await resign(stores, "local", Place())
    roots = {one.signature: one.root for one in await aliases(stores, "local", None)}
    assert roots == dict.fromkeys(
        (old(request.signature), old(request.stands_for), request.signature), request.stands_for
    )


async def test_a_text_that_is_gone_is_signed_from_its_sample_only_where_that_made_the_key(
    stores: Stores, database: Database
) -> None:
    await ActedStep(stores, most_attempts=1).run("rel-1", incurable())
    await database.run_sql(AGE + "update signatures set first_position = 0;")
    await resign(stores, "local", Place())
    assert await aliases(stores, "local", None) == []
    await resign(stores, "local", Place(), {**RULES, EARLIER: earlier_rules})
    assert [one.stands_for for one in await aliases(stores, "local", None)] == [sign(PORT_TAKEN).key]
