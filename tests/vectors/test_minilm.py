import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from memory.errors import StoreUnavailable
from memory.vectors import minilm
from memory.vectors.minilm import MiniLM
from memory.vectors.word_pieces import piece_ids

SENTENCES = (
    "The port is in use by another server.",
    "A process already listens on this address.",
    "Bake the bread for forty minutes.",
    "word " * 400,
    "",
)


async def test_vectors_have_length_one_and_near_meanings_are_near() -> None:
    vectors = await MiniLM().embed(SENTENCES)
    assert vectors.shape == (5, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    port, listens, bread = vectors[:3]
    assert port @ listens > port @ bread + 0.2


async def test_the_other_texts_of_a_batch_change_no_vector() -> None:
    together = await MiniLM().embed(SENTENCES)
    alone = [await MiniLM().embed([sentence]) for sentence in SENTENCES]
    assert np.abs(together - np.concatenate(alone)).max() < 1e-4


async def test_a_text_is_read_up_to_256_pieces() -> None:
    one, longer, shorter = await MiniLM().embed(["word " * 254, "word " * 254 + "bread", "word " * 200 + "bread"])
    assert (one == longer).all()
    assert one @ shorter < 0.999


async def test_no_text_has_no_vectors() -> None:
    assert (await MiniLM().embed([])).shape == (0, 384)


async def test_the_loop_goes_on_while_the_model_computes() -> None:
    await MiniLM().embed(["loaded"])
    turns = 0
    computing = asyncio.ensure_future(MiniLM().embed(["some words of a lesson"] * 8))
    while not computing.done():
        turns += 1
        await asyncio.sleep(0.001)
    assert turns > 2
    await computing


async def test_a_query_does_not_wait_for_all_documents() -> None:
    documents = asyncio.ensure_future(MiniLM().embed(["some words of a lesson"] * 40))
    await asyncio.sleep(0)
    await MiniLM().embed(["a query"])
    assert not documents.done()
    await documents


async def test_another_model_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    minilm._load.cache_clear()
    monkeypatch.setattr(minilm, "MODEL_SHA256", "0" * 64)
    with pytest.raises(StoreUnavailable, match="not the one that this version was made for"):
        await MiniLM().embed(["words"])
    monkeypatch.undo()
    assert (await MiniLM().embed(["words"])).shape == (1, 384)


async def test_a_missing_package_is_named_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    minilm._load.cache_clear()
    monkeypatch.setattr(minilm, "PACKAGE", "a_package_that_nobody_has")
    assert not minilm.installed()
    with pytest.raises(StoreUnavailable, match="extra: embedding"):
        await MiniLM().embed(["words"])


@pytest.mark.parametrize("error", [ImportError("no library"), PermissionError("model.onnx"), RuntimeError("no memory")])
async def test_a_model_that_does_not_run_is_unavailable(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def load() -> None:
        raise error

    monkeypatch.setattr(minilm, "_load", load)
    with pytest.raises(StoreUnavailable, match=rf"does not run \({type(error).__name__}\)") as caught:
        await MiniLM().embed(["words"])
    assert caught.value.retry_after_seconds == 30


async def test_word_pieces_are_cut_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()

    def pieces(text: str, longest: int) -> Sequence[int]:
        threads.add(threading.current_thread())
        return piece_ids(text, longest)

    monkeypatch.setattr(minilm, "piece_ids", pieces)
    await MiniLM().embed(["some words", "others"])
    assert threads
    assert threading.main_thread() not in threads
