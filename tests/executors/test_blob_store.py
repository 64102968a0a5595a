import hashlib
import os

import pytest

from executors.blobs import BlobStore, BlobWriter


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path / "blobs", "here")


def test_a_stored_output_is_found_by_its_hash(store, tmp_path):
    reference = store.keep(b"text", tmp_path / "partial")
    assert reference.sha256 == hashlib.sha256(b"text").hexdigest()
    assert (reference.host, reference.bytes) == ("here", 4)
    assert store.path(reference.sha256).read_bytes() == b"text"
    assert not (tmp_path / "partial").exists()


def test_the_same_output_is_stored_once(store, tmp_path):
    first, second = (store.keep(b"text", tmp_path / name) for name in ("one", "two"))
    assert first == second
    assert len([path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]) == 1


def test_an_empty_output_is_not_stored(store, tmp_path):
    writer = BlobWriter(tmp_path / "partial", limit=10)
    assert writer.commit(store) is None
    assert writer.problem is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pieces", [[b"0123456789", b"x"], [b"01234567", b"89x"], [b"0123456789x"]])
def test_the_limit_keeps_the_beginning_and_says_so(store, tmp_path, pieces):
    writer = BlobWriter(tmp_path / "partial", limit=10)
    for piece in pieces:
        writer.write(piece)
    reference = writer.commit(store)
    assert store.path(reference.sha256).read_bytes() == b"0123456789"
    assert "10 bytes" in writer.problem


def test_an_output_of_exactly_the_limit_is_whole(store, tmp_path):
    writer = BlobWriter(tmp_path / "partial", limit=10)
    writer.write(b"0123456789")
    assert writer.commit(store).bytes == 10
    assert writer.problem is None


def test_a_store_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "blobs").write_text("a file where the folder should be")
    writer = BlobWriter(tmp_path / "partial", limit=10)
    writer.write(b"text")
    assert writer.commit(BlobStore(tmp_path / "blobs", "here")) is None
    assert writer.problem.startswith("the whole output is not in the store: ")
    assert str(tmp_path) not in writer.problem
    assert not (tmp_path / "partial").exists()


def test_a_missing_folder_for_the_partial_file_is_a_sentence(store, tmp_path):
    writer = BlobWriter(tmp_path / "gone" / "partial", limit=10)
    writer.write(b"text")
    assert writer.commit(store) is None
    assert os.strerror(2) in writer.problem
