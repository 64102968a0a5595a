import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest

from memory.vectors.tokens import FUNCTION_TERMS, LONGEST_TERM, MOST_QUERY_TERMS, query_terms, stem, terms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("parse_config_file", {"pars", "config", "file", "parse_config_file"}),
        ("HTTPServerError42", {"http", "server", "error", "42", "httpservererror42"}),
        ("TimeoutError", {"timeout", "error", "timeouterror"}),
        ("src/api/main.py:12", {"src", "api", "main", "py", "12", "src/api/main.py:12"}),
        ("libc++ --no-cache-dir", {"libc", "cach", "dir", "no-cache-dir"}),
        ("ECONNREFUSED", {"econnrefus"}),
        ("Größe 大小", {"größe", "大小"}),
        ("exit code 7", {"exit", "code", "7"}),
    ],
)
def test_names_are_kept_whole_and_cut_into_parts(text: str, found: set[str]) -> None:
    assert found == set(terms(text))


@pytest.mark.parametrize("text", ["", "the of and", "… !! --- __", "x y z"])
def test_what_says_nothing_has_no_terms(text: str) -> None:
    assert not terms(text)


def test_a_hash_is_one_term() -> None:
    assert list(terms("0x53aa5117d9db")) == ["0x53aa5117d9db"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("retries", "retry"), ("failed", "fail"), ("stopped", "stop"), ("locks", "lock"), ("serving", "serve")],
)
def test_forms_of_a_word_are_one_term(one: str, other: str) -> None:
    assert terms(one) == terms(other)


def test_two_spellings_of_one_text_have_the_same_terms() -> None:
    word = "déjà"
    assert terms(unicodedata.normalize("NFD", word)) == terms(unicodedata.normalize("NFC", word))


def test_a_text_and_a_term_without_end_are_cut() -> None:
    assert sum(terms("word " * 1_000_000).values()) <= 20_000
    assert all(len(term) <= LONGEST_TERM for term in terms("a/b" * 5_000 + " " + "x" * 10_000))


def test_threads_stem_without_mixing_their_words() -> None:
    words = [f"{first}{second}ingly" for first in "bcdfghklmnpr" for second in ("ack", "end", "ook", "ump", "ist")]
    alone = [stem.__wrapped__(word) for word in words]
    ready = threading.Barrier(4)

    def together(_: int) -> list[str]:
        ready.wait()
        return [stem.__wrapped__(word) for _ in range(40) for word in words]

    with ThreadPoolExecutor(4) as threads:
        assert all(got == alone * 40 for got in threads.map(together, range(4)))


def test_a_query_has_each_term_once_and_its_subject_first() -> None:
    asked = query_terms("How do I do what I do with the lock? The lock is stale.")
    assert asked == ("lock", "stale", "do", "how", "what")
    assert FUNCTION_TERMS.issuperset(asked[2:])


def test_a_long_query_is_cut_the_same_way_whatever_its_order() -> None:
    words = [f"word{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(200)]
    assert len(query_terms(" ".join(words))) == MOST_QUERY_TERMS
    assert query_terms(" ".join(words)) == query_terms(" ".join(reversed(words)))
