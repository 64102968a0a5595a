"""The vault that `poimen up` makes is the one that memory reads."""

from pathlib import Path

from memory.notes.shelf import NoteVault
from memory.stores import starter_notes
from worker.stack.up import seed_vault


async def test_a_seeded_vault_reads_like_the_shipped_notes(tmp_path: Path) -> None:
    seed_vault(starter_notes(), tmp_path / "vault")

    seeded = await NoteVault(tmp_path / "vault", starter_notes()).read("local")
    shipped = await NoteVault(tmp_path / "none", starter_notes()).read("local")

    assert seeded.problems == ()
    assert sorted(note.id for note in seeded.notes) == sorted(note.id for note in shipped.notes)


async def test_an_edit_of_a_seeded_note_is_what_memory_reads(tmp_path: Path) -> None:
    seed_vault(starter_notes(), tmp_path / "vault")
    note = next((tmp_path / "vault").rglob("skills/*.md"))
    note.write_text(note.read_text() + "\nAsk Ada first.\n")

    shelf = await NoteVault(tmp_path / "vault", starter_notes()).read("local")

    assert any("Ask Ada first." in known.text for known in shelf.notes)


async def test_a_broken_edit_of_a_seeded_note_is_told(tmp_path: Path) -> None:
    seed_vault(starter_notes(), tmp_path / "vault")
    note = next((tmp_path / "vault").rglob("skills/*.md"))
    note.write_text("---\nid: [\n---\nbroken\n")

    shelf = await NoteVault(tmp_path / "vault", starter_notes()).read("local")

    assert len(shelf.problems) == 1
