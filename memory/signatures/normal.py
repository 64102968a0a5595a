"""One wording for one failure: places, choices, details, hints and counts that differ between meetings are dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from memory.signatures.bodies import with_body_told
from memory.signatures.leads import without_lead
from memory.signatures.marks import without_digits


class Pass(NamedTuple):
    """One rewriting; it runs where one of its marks stands in the words, and `also` does."""

    marks: tuple[str, ...]
    pattern: re.Pattern[str]
    into: str | Callable[[re.Match[str]], str] = ""
    also: str = ""


_IDS: tuple[Pass, ...] = (
    Pass(
        ("ID", "Id", "id"),
        re.compile(
            r"\b(?:[Rr]equest|[Hh]ost|[Tt]race|[Cc]orrelation|[Ss]pan|Session|Event|Transaction)[-_ ]?[Ii][Dd]"
            r"['\"]?[:= ]{1,3}['\"]?[\w+/=.-]{4,200}"
        ),
        "<id>",
    ),
    Pass(
        (" ID",),
        re.compile(r"\b(for|with)( \w{1,20})? ID:? ['\"]?(?=[\w.-]{0,100}\d)[\w.-]{2,200}['\"]?"),
        r"\1\2 <id>",
    ),
)
_NUMBERED_THINGS = (
    "workflow", "run", "job", "task", "session", "request", "transaction", "order", "instance", "worker", "thread",
    "build", "attempt", "connection", "container", "node", "shard", "partition", "runner", "agent",
)  # fmt: skip
_NOUNS = frozenset(_NUMBERED_THINGS)


def _without_id(found: re.Match[str]) -> str:
    """The noun without the id behind it, where it is one of those that are numbered."""
    noun, start = found[1], found.start()
    named = noun[0].lower() + noun[1:] in _NOUNS and not (start and _INSIDE.match(found.string, start - 1))
    return f"{noun}{found[2]}<id>" if named else found[0]


_INSIDE = re.compile(r"\w")
_AMOUNTS = r"(?:GPU \d|\d+[.,\d]* ?[KMGT]i?B|limit|requested|size|used|max|current|total)[^()]{0,400}\)"
_PASSES: tuple[Pass, ...] = (
    # The number differs between platforms, the words behind it say the same.
    Pass(("[Errno",), re.compile(r"\[Errno -?\d+\] (?=\S)")),
    # Which file asked for a missing module is surroundings; which module is missing is not.
    Pass(
        ("odule", "esolve", "ackage"),
        re.compile(
            r"(?<=['\"]),? (?:from|imported from|required by|in)"
            r" (?:['\"][^'\"]{0,300}[\\/][^'\"]{0,300}['\"]|[^\s'\"]{0,300}[\\/][^\s'\"]{0,300}?)\.?$"
            r"| from ['\"]?[^\s'\"]{1,300}\.[cm]?[jt]sx?['\"]?(?=[ .]|$)"
        ),
    ),
    # `[error] a.json: SyntaxError: …`
    Pass(("Error: ",), re.compile(r"^[^\s:'\"()]{1,300}\.\w{1,10}: (?=\w{0,60}Error: )")),
    Pass(("Error: ",), re.compile(r"(?<=Error: )[^\s:'\"()]{1,300}\.\w{1,10} \(\d+:\d+\): ")),
    Pass((", imported by ",), re.compile(r", imported by ['\"][^'\"]{1,300}['\"]")),
    Pass(("Searched in",), re.compile(r"(?:\\n|\s)?Searched in.{0,1500}$")),
    Pass(
        (")=(", "dup key", "DETAIL", "HINT", "CONTEXT", "SQL: ", "args"),
        re.compile(
            r" ?(?:DETAIL|HINT|CONTEXT): .{0,1500}$|,? \(?(?:Connection: \w+, )?SQL: .{0,1500}$"
            r"|,? with args beginning with: .{0,1500}$| dup key: \{.{0,1500}$"
            r"|(?: Key)? \([\w, ]{1,300}\)=\(.{0,1000}\) already exists\.?"
        ),
    ),
    Pass(
        (
            "from versions: ",
            "@INC ",
            "choose from ",
            "vailable ",
            "available: ",
            "alid ",
            "expected one of",
            "options: ",
            "allowed ",
            "must be one of",
            "supported values",
        ),
        re.compile(
            r" ?\((?:from versions: |@INC |choose from |available: |valid |expected one of|options: |allowed )"
            r".{0,1500}?\)(?=\W|$)"
            r"|,? (?:expected one of|valid (?:options|values|choices)(?: are)?:?|must be one of:?"
            r"|supported values are:?|Valid options are|available (?:options|choices|values)(?: are)?:?"
            r"|[Aa]vailable \w{1,30}:) .{0,1500}$"
        ),
    ),
    Pass(
        (
            "-> [Help",
            "id you ",
            "aybe you ",
            "Perhaps ",
            "Forgot ",
            "or more ",
            "See ",
            "Visit ",
            "Learn more",
            "Read more",
            "More info",
            "Please ",
            "Consider ",
            "You can ",
            "If you ",
        ),
        re.compile(
            r"(?:-> \[Help|[Dd]id you (?:mean|forget)|[Mm]aybe you meant|Perhaps you|Forgot to import"
            r"|[Ff]or more (?:information|details)|See (?:https?://|the |'|also )|Visit |Learn more"
            r"|Read more|More info"
            r"|Please (?:see|visit|check|refer|contact|try)|Consider |You can (?:also )?find|If you ).{0,1500}$"
        ),
    ),
    # `SyntaxError: /a/b.js: Unexpected token (3:4)`
    Pass(("Error: ",), re.compile(r"(?<=Error: )(?:[A-Za-z]:)?[\\/][^\s:]{1,300}: (?=.{1,300} \(\d+:\d+\)$)")),
    Pass(("#L",), re.compile(r"(?<=\w)#L\d+(?:-L?\d+)?")),
    Pass(
        ("line ",),
        re.compile(
            r" in \S{1,300} on line \d+| at line \d+(?:,? column \d+)?"
            r"| \(line \d+(?:,? (?:column|col) \d+)?(?:,? ?\(?char \d+\)?)?\)|, line \d+\b(?:,? column \d+)?"
            r"| line \d+\b(?:,? column \d+)?| at \S{1,300} line \d+\b|: line \d+ column \d+ \(char \d+\)"
        ),
    ),
    Pass(
        ("position", "character"),
        re.compile(r" at character \d+| at position \d+(?: \(line \d+ column \d+\))?| in JSON at position \d+"),
    ),
    Pass((" in ",), re.compile(r" in \S{0,300}[\\/][^\s:]{1,200}:\d+$"), also=":"),
    Pass(("(/", "(\\", ":\\", ":/"), re.compile(r" \((?:[A-Za-z]:)?[\\/][^\s()]{1,300}\)$"), also="("),
    Pass(
        ("(",),
        re.compile(r" \([\w./\\-]{1,120}\.\w{1,5}:\d+(?::\d+)?\)|\([\w./\\-]{1,120}\.\w{1,5}:\d+(?::\d+)?\)"),
        also=":",
    ),
    # Any word in front of an id is looked at, because that is cheaper than to look for each of the nouns.
    Pass(
        tuple(f"{noun[1:]}{end}" for noun in _NUMBERED_THINGS for end in (" ", ": ")),
        re.compile(r"([A-Za-z]++)(:? )(?!\d+\b)(?=[\w-]{0,60}\d)[\w-]{3,80}(?![\w.:/'])"),
        _without_id,
    ),
    # Which package asked for another one is surroundings.
    Pass(
        ("depend", "required by"),
        re.compile(r" (?:as a dependency of|required by|depended on by) package [`'\"][^`'\"]{1,400}[`'\"]"),
    ),
    # `program: file.c:12: function: Assertion 'x' failed.`
    Pass(
        (": Assertion ",),
        re.compile(r"^\S{1,200}: \S{1,200}:\d+: (?=(?:[^:]{1,200}(?:::[^:]{1,200}){0,8}: )?Assertion )"),
    ),
    # The folder of a build context has no root, whatever the slash before it says.
    Pass(
        ("checksum of ref ",),
        re.compile(
            r"(?:failed to compute cache key: )?failed to calculate checksum of ref \S{1,300}: "
            r"[\"']?/?([^\s\"']{1,300})[\"']?:"
        ),
        r"nothing to copy for name '\1':",
    ),
    # Dumps of values.
    Pass(
        ("in: %{", ":map[", "[type="),
        re.compile(
            r"(?<=in: )%\{.{0,600}\}$|[\w.]{0,60}\{\w{1,60}:map\[.{0,900}\}| ?\[type=\w+, input_value=.{0,600}\]"
        ),
    ),
    Pass(
        ("(",),
        re.compile(rf" \({_AMOUNTS}|\({_AMOUNTS}"),
    ),
    Pass(
        ("(os error", "process ", "0x", "(attempt", "attempts", "tries", "<local"),
        re.compile(
            r" \(os error \d+\)|(?<!Killed process )(?<=\bprocess )\d+ \([^()]{1,60}\)"
            r"| object at 0x[0-9a-fA-F]+|0x[0-9a-fA-F]+(?=>)"
            r"| because \"<local\d+>\".*$| \(attempt \d+(?:/| of )\d+\)| after \d+ (?:attempts|retries|tries)"
        ),
    ),
)
_CLOSING_TAG = re.compile(r"</[\w-]{1,40}>$")


# A masked secret carries a mark of its value, which is as volatile as the secret itself.
_MASKED_SECRET = re.compile(r"\[REDACTED:[\w-]{1,40}:[0-9a-f]{4}\]")


def without_marks(words: str) -> str:
    """Return the words with every masked secret as the same word."""
    return _MASKED_SECRET.sub("REDACTED", words) if "[REDACTED:" in words else words


_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")
_BARE_MARKS = tuple(
    (place, one, tuple(mark.translate(_WITHOUT_DIGITS) for mark in one.marks)) for place, one in enumerate(_PASSES)
)


@lru_cache(maxsize=1024)
def _possible_passes(bare: bytes) -> list[tuple[int, Pass]]:
    """The passes that a line can need and their places, by the line without its digits."""
    words = bare.decode()
    found = []
    for place, one, marks in _BARE_MARKS:
        for mark in marks:
            if mark in words:
                found.append((place, one))
                break
    return found


def _rewritten(words: str, passes: Iterable[Pass]) -> str:
    for marks, pattern, into, also in passes:
        for mark in marks:
            if mark in words:
                if also in words:
                    words = pattern.sub(into, words)
                break
    return words


def _in_passes(words: str) -> str:
    """The words after every pass that applies."""
    bare = without_digits(words)
    if bare is None:
        return _rewritten(words, _PASSES)
    for place, one in _possible_passes(bare):
        for mark in one.marks:
            if mark in words:
                break
        else:
            continue
        after = one.pattern.sub(one.into, words) if one.also in words else words
        if after != words:
            # Other words may stand next to each other now, so that any of the passes behind this one can apply.
            return _rewritten(after, _PASSES[place + 1 :])
    return words


def normal(words: str) -> str:
    """Return the telling words in one wording: no level, program path, place, hint, list of choices or detail."""
    words = without_marks(words)
    words = without_lead(_CLOSING_TAG.sub("", words) if words[-1:] == ">" else words)
    words = _rewritten(words, _IDS)
    words = with_body_told(words) if "{" in words else words
    return " ".join(_in_passes(words).split()).strip(" .:;,-")
