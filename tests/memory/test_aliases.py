import pytest

from memory.aliases import Alias, AliasRequest, alias, aliases, unalias
from memory.errors import Conflict, NotFound, Rejected
from memory.journal import Origin
from memory.stores import Stores
from poimen.contracts.memory_calls import Analysis
from tests.fixtures_postgres import Database
from tests.memory.acted_step import PORT_TAKEN, ActedStep, caller, cured_by, incurable

# One failure in two languages, as no rule can know.
GERMAN = "OSError: [WinError 10048] Normalerweise darf jede Socketadresse nur einmal verwendet werden"
SCOPE = "acme/api"


async def failed(stores: Stores, run: str, error: str) -> Analysis:
    """Let the step fail once more, with nothing done before it, and give what memory says of it."""
    acted = await ActedStep(stores, most_attempts=1).run(run, incurable(error), follow=False)
    return acted.analyses[-1]


async def merged(stores: Stores, signature: str, stands_for: str, **values: str) -> Alias:
    request = AliasRequest(signature=signature, stands_for=stands_for, **values)
    return await alias(request, caller(origin=Origin.OPERATOR, principal="ann"), stores)


async def parted(stores: Stores, signature: str) -> Alias:
    return await unalias(signature, None, caller(origin=Origin.OPERATOR), stores)


async def three_signatures(stores: Stores) -> list[str]:
    errors = (PORT_TAKEN, GERMAN, "OSError: port 8080 is busy with another server")
    return [(await failed(stores, f"seen-{n}", error)).signature for n, error in enumerate(errors)]


async def test_advice_uses_the_evidence_of_both_signatures(stores: Stores) -> None:
    for number in (1, 2):
        await ActedStep(stores).run(f"rel-{number}", cured_by("free-port"))
    before = await failed(stores, "rel-3", GERMAN)
    assert before.seen_before is None
    await merged(stores, before.signature, (await failed(stores, "rel-4", PORT_TAKEN)).signature)
    after = (await ActedStep(stores).run("rel-5", cured_by("free-port", GERMAN), follow=False)).analyses[0]
    assert after.advice.verdict == "repair"
    assert after.advice.repair == "free-port"
    assert after.recovery_steps[0].worked == 2
    assert after.seen_before is not None
    assert after.seen_before.occurrences == 4  # two runs of each


async def test_evidence_counts_in_the_direction_of_the_alias_too(stores: Stores) -> None:
    known = await failed(stores, "rel-1", PORT_TAKEN)
    for number in (2, 3):
        await ActedStep(stores).run(f"rel-{number}", cured_by("free-port", GERMAN))
    await merged(stores, (await failed(stores, "rel-4", GERMAN)).signature, known.signature)
    assert (await failed(stores, "rel-5", PORT_TAKEN)).recovery_steps[0].worked == 2


async def test_one_failure_in_two_languages_is_delivered_once_and_prevented(stores: Stores) -> None:
    step = ActedStep(stores)
    seen = [
        (await step.run(f"rel-{number}", cured_by("free-port", error), follow=number < 2)).analyses[0].signature
        for number, error in enumerate((PORT_TAKEN, GERMAN))
    ]
    await merged(stores, seen[1], seen[0])
    package = (await step.run("rel-2", cured_by("free-port", GERMAN))).packages[0]
    assert len([item for item in package.items if item.tier == "signatures"]) == 1
    assert package.prevention is not None
    assert package.prevention.repair == "free-port"


async def test_undoing_an_alias_restores_what_was_known(stores: Stores) -> None:
    for number in (1, 2):
        await ActedStep(stores).run(f"rel-{number}", cured_by("free-port"))
    german, known = await failed(stores, "rel-3", GERMAN), await failed(stores, "rel-4", PORT_TAKEN)
    await merged(stores, german.signature, known.signature)
    await parted(stores, german.signature)
    again = await failed(stores, "rel-5", GERMAN)
    assert all(step.repair != "free-port" or step.worked == 0 for step in again.recovery_steps)
    assert again.seen_before is not None
    assert again.seen_before.occurrences == 1
    assert await aliases(stores, "local", None) == []


async def test_a_chain_ends_at_its_root_and_opens_again_where_it_is_cut(stores: Stores) -> None:
    one, two, three = await three_signatures(stores)
    await merged(stores, one, two)
    await merged(stores, two, three)
    assert {entry.signature: entry.root for entry in await aliases(stores, "local", SCOPE)} == {one: three, two: three}
    await parted(stores, two)
    assert {entry.signature: entry.root for entry in await aliases(stores, "local", SCOPE)} == {one: two}


async def test_a_circle_is_refused(stores: Stores) -> None:
    one, two, three = await three_signatures(stores)
    await merged(stores, one, two)
    await merged(stores, two, three)
    with pytest.raises(Rejected, match="circle"):
        await merged(stores, three, one)
    with pytest.raises(Rejected, match="itself"):
        await merged(stores, three, three)
    with pytest.raises(Rejected, match="undo that first"):
        await merged(stores, one, three)


async def test_an_alias_and_its_end_are_on_record_with_who_and_why(stores: Stores, database: Database) -> None:
    one, two, _ = await three_signatures(stores)
    made = await merged(stores, one[:12], two[:12], reason="one failure in two languages")
    assert (made.signature, made.stands_for, made.principal) == (one, two, "ann")
    await parted(stores, one)
    told = await database.run_sql("select kind, origin from journal where kind like 'signature_%' order by position;")
    assert told.split() == ["signature_aliased|operator", "signature_unaliased|operator"]
    kept = await database.run_sql("select reason, ended_position > position from aliases;")
    assert kept.strip() == "one failure in two languages|t"


async def test_a_secret_in_a_reason_is_masked(stores: Stores, database: Database) -> None:
    one, two, _ = await three_signatures(stores)
    secret = "ghp_" + "a1B2" * 9
    await merged(stores, one, two, reason=f"seen with {secret}")
    assert secret not in await database.run_sql("select payload from journal; select reason from aliases;")


async def test_another_tenant_sees_and_touches_no_alias(stores: Stores) -> None:
    one, two, _ = await three_signatures(stores)
    await merged(stores, one, two)
    assert await aliases(stores, "other", None) == []
    with pytest.raises(NotFound):
        await unalias(one, None, caller("other"), stores)
    with pytest.raises(NotFound):
        await alias(AliasRequest(signature=one, stands_for=two), caller("other"), stores)


async def test_another_scope_learns_nothing_from_an_alias(stores: Stores) -> None:
    for number in (1, 2):
        await ActedStep(stores, scope="other/api").run(f"rel-{number}", cured_by("free-port"))
    one, two, _ = await three_signatures(stores)
    await merged(stores, two, one, scope=SCOPE)
    elsewhere = await ActedStep(stores, scope="other/api", most_attempts=1).run("rel-3", incurable(GERMAN))
    assert elsewhere.analyses[-1].seen_before is None


async def test_a_signature_is_named_by_its_beginning_or_refused(stores: Stores) -> None:
    one, two, _ = await three_signatures(stores)
    with pytest.raises(NotFound, match="not on record"):
        await merged(stores, "s1:00000000", two)
    with pytest.raises(NotFound, match="at least 4"):
        await merged(stores, "s1:", two)
    await ActedStep(stores, scope="other/api", most_attempts=1).run("rel-1", incurable(PORT_TAKEN))
    with pytest.raises(Conflict, match="more than one scope"):
        await merged(stores, one, two)


async def test_the_same_request_twice_makes_one_alias(stores: Stores) -> None:
    one, two, _ = await three_signatures(stores)
    request = AliasRequest(signature=one, stands_for=two)
    first = await alias(request, caller(key="once"), stores)
    assert await alias(request, caller(key="once"), stores) == first
    assert len(await aliases(stores, "local", None)) == 1
