from pathlib import Path

import pytest

import vault
from memory.notes.match import Place, fitting
from memory.notes.shelf import NoteVault

NOTES = NoteVault(Path("nowhere"), Path(vault.__file__).parent).read_now("local").notes


@pytest.mark.parametrize(
    ("failure", "skill"),
    [
        ("OSError: [Errno 98] Address already in use: port 8080", "free-a-port"),
        ("ModuleNotFoundError: No module named 'yaml'", "missing-modules"),
        ("fatal: Unable to create '/w/.git/index.lock': File exists.", "stale-locks"),
        ("HTTP 429 Too Many Requests, retry-after: 6", "rate-limits"),
        ("error: api.generated.ts is out of date; run generate", "generated-files"),
    ],
)
def test_a_failure_finds_the_skill_that_answers_it(failure: str, skill: str) -> None:
    fits = fitting(NOTES, Place("acme/api", tool="executor", step="build"), failure, 3)
    assert skill in [fit.note.id for fit in fits]
    assert next(fit for fit in fits if fit.note.kind == "skill").note.id == skill


@pytest.mark.parametrize("tool", ["planner", "judge", "verifier", "implementer"])
def test_each_tool_is_given_its_own_note_and_no_other_tools(tool: str) -> None:
    fits = fitting(NOTES, Place("acme/api", tool=tool, step="s"), "", 3)
    assert [fit.note.tools for fit in fits] == [(tool,)]
    assert fits[0].because == f"for tool {tool}"


def test_a_step_with_nothing_in_common_gets_no_note() -> None:
    assert fitting(NOTES, Place("acme/api", tool="painter", step="s"), "zebra xylophone", 3) == []


def test_one_common_word_is_no_reason() -> None:
    assert fitting(NOTES, Place("acme/api", step="s"), "module zebra xylophone", 3) == []


@pytest.mark.parametrize(("word", "skill"), [("port", "free-a-port"), ("disk", "full-disk"), ("locks", "stale-locks")])
def test_a_text_of_one_word_finds_the_notes_that_have_it(word: str, skill: str) -> None:
    fits = fitting(NOTES, Place("acme/api"), word, 3)
    assert fits[0].note.id == skill


@pytest.mark.parametrize("text", ["zyzzyva", "", "the"])
def test_a_text_of_one_word_or_none_that_no_note_has_finds_nothing(text: str) -> None:
    assert fitting(NOTES, Place("acme/api"), text, 3) == []


def test_a_note_of_another_scope_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "a.md").write_text("---\nscope: acme/web\nsteps: [serve]\n---\n# A\n")
    notes = NoteVault(tmp_path).read_now("local").notes
    assert fitting(notes, Place("acme/api", step="serve"), "", 3) == []
    assert len(fitting(notes, Place("acme/web", step="serve"), "", 3)) == 1


def test_the_order_of_the_notes_changes_nothing() -> None:
    place, text = Place("acme/api", tool="executor"), "retry after a timeout of the port lock module"
    assert fitting(NOTES, place, text, 3) == fitting(NOTES[::-1], place, text, 3)
