import pytest

from memory.masking import Masker
from tests.masking.secret_corpus import Corpus, Planted

MASKER = Masker(b"a key")
SEEDS = range(3)


def pieces(secret: str) -> list[str]:
    """Every eight characters in a row."""
    return [secret[place : place + 8] for place in range(max(len(secret) - 7, 1))]


@pytest.mark.parametrize("planted", Corpus(7).planted(), ids=lambda planted: planted.name)
def test_no_piece_of_a_secret_is_left(planted: Planted) -> None:
    masked = MASKER.mask(planted.text)
    left = [piece for piece in pieces(planted.secret) if piece in masked.text and piece.strip()]
    assert left == [], masked.text
    assert "[REDACTED:" in masked.text


@pytest.mark.parametrize("text", Corpus(7).look_alikes())
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert MASKER.mask(text).text == text
