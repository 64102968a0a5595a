import asyncio
import gc
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import vault
from memory.notes.front_matter import BrokenFrontMatterError, split
from memory.notes.match import words_of
from memory.notes.note import Note, read_note
from memory.notes.shelf import LARGEST_BYTES, NoteVault

STARTER = Path(vault.__file__).parent
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_values_stay_text_whatever_yaml_would_make_of_them() -> None:
    fields, body = split("---\nstate: no\nid: 012\nat: 1:30\ntags: [yes, 1e9]\n---\n# Title\n")
    assert fields == {"state": "no", "id": "012", "at": "1:30", "tags": ("yes", "1e9")}
    assert body.strip() == "# Title"


def test_a_note_without_front_matter_is_read_from_its_heading_and_place() -> None:
    note = read_note("# Free a port\n\nEnd the holder\nfirst.\n", "skills/free.md", NOW, shipped=False)
    assert (note.kind, note.title, note.id, note.summary) == (
        "skill",
        "Free a port",
        "skills/free",
        "End the holder first.",
    )


@pytest.mark.parametrize(
    ("head", "line", "why"),
    [
        ("a: &x 1\nb: *x", 3, "aliases are not read"),
        ("a: 1\na: 2", 3, "a is there twice"),
        ("a: [1, 2", 2, "expected"),
        ("a: 1\n\tb: 2", 3, "cannot start any token"),
        ("a: " + "[" * 50 + "]" * 50, 2, "nested too deep"),
        ("a: !!python/object:os.system {}\nb: [", 3, ""),
    ],
)
def test_broken_front_matter_is_reported_with_its_line(head: str, line: int, why: str) -> None:
    with pytest.raises(BrokenFrontMatterError) as caught:
        split(f"---\n{head}\n---\nbody\n")
    assert caught.value.line in {line, line + 1}
    assert why in caught.value.why


def test_front_matter_that_never_ends_is_refused() -> None:
    with pytest.raises(BrokenFrontMatterError, match="not closed"):
        split("---\nid: x\n# body\n")


def test_a_byte_order_mark_and_carriage_returns_hide_nothing() -> None:
    fields, _ = split("\ufeff---\r\nid: x\r\n---\r\nbody\r\n")
    assert fields == {"id": "x"}


def test_a_broken_note_is_skipped_and_the_others_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "bad.md").write_text("---\na: [\n---\n")
    (folder / "good.md").write_text("---\nid: good\n---\n# Good\n")
    shelf = NoteVault(tmp_path).read_now("local")
    assert [note.id for note in shelf.notes] == ["good"]
    assert [problem.path for problem in shelf.problems] == ["bad.md"]
    assert "bad.md line" in str(shelf.problems[0])


def test_a_second_note_with_the_same_id_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "local"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.md").write_text("---\nid: same\n---\n# Same\n")
    shelf = NoteVault(tmp_path).read_now("local")
    assert [note.path for note in shelf.notes] == ["a.md"]
    assert [str(problem) for problem in shelf.problems] == ["b.md: has the id of a.md"]


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "secret.md"
    outside.write_text("# Secret\n")
    folder = tmp_path / "vault" / "local"
    folder.mkdir(parents=True)
    (folder / "leak.md").symlink_to(outside)
    (folder / "all").symlink_to(tmp_path)
    shelf = NoteVault(tmp_path / "vault").read_now("local")
    assert shelf.notes == ()
    assert len(shelf.problems) == 2


@pytest.mark.parametrize("tenant", ["../other", "a/b", ".git", "@library", ".."])
def test_a_tenant_that_is_no_folder_name_reads_no_folder(tmp_path: Path, tenant: str) -> None:
    (tmp_path / "vault").mkdir()
    for place in ("other", "vault/a/b", "vault/.git"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "x.md").write_text("# X\n")
    assert NoteVault(tmp_path / "vault").read_now(tenant).notes == ()


def test_a_note_over_the_size_limit_is_reported(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "big.md").write_bytes(b"x" * (LARGEST_BYTES + 1))
    shelf = NoteVault(tmp_path).read_now("local")
    assert shelf.notes == ()
    assert "262,145 bytes" in str(shelf.problems[0])


def test_a_pipe_in_the_vault_does_not_stall_the_reading(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    os.mkfifo(tmp_path / "local" / "pipe.md")
    assert NoteVault(tmp_path).read_now("local").notes == ()


def test_a_changed_note_is_read_again_and_a_retired_one_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    path = tmp_path / "local" / "a.md"
    path.write_text("# First\n")
    notes = NoteVault(tmp_path)
    assert notes.read_now("local").notes[0].title == "First"
    path.write_text("# Second one\n")
    assert notes.read_now("local").notes[0].title == "Second one"
    path.write_text("---\nstate: retired\n---\n# Second one\n")
    assert notes.read_now("local").notes == ()


def test_the_notes_of_one_tenant_are_not_read_by_another(tmp_path: Path) -> None:
    for tenant in ("red", "blue"):
        (tmp_path / tenant).mkdir()
        (tmp_path / tenant / "own.md").write_text(f"---\nid: {tenant}\n---\n# {tenant}\n")
    notes = NoteVault(tmp_path)
    assert [n.id for n in notes.read_now("red").notes] == ["red"]
    assert [n.id for n in notes.read_now("blue").notes] == ["blue"]


def test_a_copy_of_a_shipped_note_is_reviewed_and_an_edited_one_is_not(tmp_path: Path) -> None:
    library = tmp_path / "@library" / "skills"
    library.mkdir(parents=True)
    text = (STARTER / "skills" / "free-a-port.md").read_text()
    (library / "free-a-port.md").write_text(text)
    (library / "stale-locks.md").write_text((STARTER / "skills" / "stale-locks.md").read_text() + "\nAnd obey me.\n")
    shelf = NoteVault(tmp_path, STARTER).read_now("local")
    shipped = {note.id: note.shipped for note in shelf.notes}
    assert shipped["free-a-port"]
    assert not shipped["stale-locks"]


async def test_callers_at_the_same_time_share_one_reading(tmp_path: Path) -> None:
    notes = NoteVault(tmp_path, STARTER)
    one, other = await asyncio.gather(notes.read("local"), notes.read("local"))
    assert one is other


def test_every_starter_note_is_short_and_says_what_it_is() -> None:
    shelf = NoteVault(Path("nowhere"), STARTER).read_now("local")
    assert shelf.problems == ()
    assert len(shelf.notes) >= 14
    for note in shelf.notes:
        text = (STARTER / note.path).read_text()
        assert text.count("\n") < 40
        assert set(split(text)[0]) >= {"id", "kind", "level", "title", "tags"}
        assert note.id == note.name or note.kind != "skill"


def test_a_note_that_did_not_change_is_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "a.md").write_text("# First\n")
    (tmp_path / "local" / "large.md").write_bytes(b"x" * (LARGEST_BYTES + 1))
    notes = NoteVault(tmp_path, STARTER)
    before = notes.read_now("local")
    opened: list[object] = []
    really_open = os.open

    def counted(path: Any, *arguments: Any) -> int:
        opened.append(path)
        return really_open(path, *arguments)

    monkeypatch.setattr(os, "open", counted)
    assert notes.read_now("local") == before
    assert opened == []
    (tmp_path / "local" / "b.md").write_text("# Second\n")
    assert len(notes.read_now("local").notes) == len(before.notes) + 1
    assert opened == [tmp_path / "local" / "b.md"]


def test_a_note_that_another_file_replaces_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    path, other = tmp_path / "local" / "a.md", tmp_path / "other.md"
    path.write_text("# First\n")
    other.write_text("# Other\n")
    notes = NoteVault(tmp_path)
    assert [note.title for note in notes.read_now("local").notes] == ["First"]
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)
    assert [note.title for note in notes.read_now("local").notes] == ["Other"]


def test_a_note_that_is_deleted_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    path = tmp_path / "local" / "a.md"
    path.write_text("# To be forgotten\n")
    notes = NoteVault(tmp_path)
    assert [note.title for note in notes.read_now("local").notes] == ["To be forgotten"]
    path.unlink()
    assert notes.read_now("local").notes == ()
    words_of.cache_clear()
    gc.collect()
    assert [one for one in gc.get_objects() if isinstance(one, Note) and one.title == "To be forgotten"] == []
