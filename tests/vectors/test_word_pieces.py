import pytest

from memory.vectors.word_pieces import piece_ids

START, END = 101, 102


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("The lock is unaffable.", [1996, 5843, 2003, 14477, 20961, 3468, 1012]),
        ("Größe déjà vu", [24665, 2080, 17499, 2139, 3900, 24728]),
        ("大小 ok", [1810, 1829, 7929]),
        ("a\u200bb\x07c\ufffdd", [5925, 2094]),
        (
            "TimeoutError: don't (C:\\tmp)",
            [2051, 5833, 2121, 29165, 1024, 2123, 1005, 1056, 1006, 1039, 1024, 1032, 1056, 8737, 1007],
        ),
        ("“quoted” — 50€", [1523, 9339, 1524, 1517, 2753, 30102]),
        ("\U0001f44d done", [100, 2589]),
        ("\u0130stanbul", [9960]),
        ("tab\tand\u3000wide", [21628, 1998, 2898]),
        ("##a", [1001, 1001, 1037]),
        ("x" * 101, [100]),
        ("", []),
    ],
)
def test_texts_are_cut_as_the_reference_tokenizer_cuts_them(text: str, ids: list[int]) -> None:
    assert piece_ids(text, 256) == [START, *ids, END]


def test_a_text_cannot_speak_the_models_own_marks() -> None:
    assert piece_ids("[CLS] [SEP] [UNK]", 256)[1:-1].count(END) == 0


def test_a_long_text_keeps_its_beginning() -> None:
    ids = piece_ids("first " + "word " * 1_000_000, 256)
    assert len(ids) == 256
    assert ids[:2] == [START, piece_ids("first", 8)[1]]
    assert ids[-1] == END
