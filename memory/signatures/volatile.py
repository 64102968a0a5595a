"""The alternation that finds volatile parts of an error's words: one pattern a kind, tried in this order at each place.

Every alternative is bounded or anchored by a look-behind on its own characters, so that a run is entered once and the
whole stays linear on hostile input. Words without a digit, a slash, … need no alternative that must have one, so each
set of such signs has an alternation of its own.
"""

from __future__ import annotations

import re
from functools import lru_cache

from memory.signatures.marks import stands, without_digits

_CODE_WORD = (
    r"exit(?:ed|s)?(?: with)?(?: non-zero)?(?: exit)?(?: status| code){0,2}|(?:http |response )?status[ _-]?(?:code)?"
    r"|errno|error(?: code| number)?|err(?:or)?code|code|HTTP(?:/\d(?:\.\d)?)?|signal"
    r"|non-zero(?: code| exit status)|SQLSTATE|rc|returned|curl|MCP error|response(?=\s{1,3}[1-5]\d\d\b)"
)
_REASON = (
    r"Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Method Not|Not Acceptable|Proxy Auth|Request Time"
    r"|Conflict|Gone|Length Required|Precondition|Payload|Request Entity|Content Too|URI Too|Unsupported Media"
    r"|Unprocessable|Too Many|Internal Server|Not Implemented|Bad Gateway|Service|Gateway|Client Error|Server Error"
)
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_TLD = r"(?:com|net|org|edu|gov|arpa|localdomain|invalid|uk|de|eu|us|cn|ru|fr|jp|nl|br|au|ca|kr|ch|lan)"
# These also end names in code, so they need a third label.
_LOOSE_TLD = (
    r"(?:io|dev|local|internal|example|corp|cloud|app|ai|co|me|tv|info|test|home|svc|intra|private|systems|tech|xyz"
    r"|site)"
)
_LABEL = r"[A-Za-z0-9_][\w-]{0,62}+\."
_HOST_END = r"\.?(?::\d{1,5})?(?![\w(/-]|\.\w)"
_UNIT_WORD = (
    r"(?:(?:[kKMGTP]i?)?[bB](?:ytes?)?|[kKMGT]i|ns|[u\u00b5m]s|msecs?|s|secs?|seconds?|m|mins?|minutes?|h|hours?"
    r"|days?|milliseconds?|tokens?|px)"
)
_UNIT = rf"(?:\s?(?:%|{_UNIT_WORD})\b)?"
_SOURCE_EXTENSION = (
    r"(?:py|js|mjs|cjs|ts|tsx|jsx|go|rs|c|cc|cpp|cxx|h|hpp|java|kt|rb|php|swift|cs|sh|yml|yaml|json|toml|tf|sql|xml"
    r"|cfg|ini|txt)"
)
# The alphabet that Kubernetes draws the ends of pod names from.
_POD_END = r"[bcdfghjklmnpqrstvwxz2456789]{5}"

_QUOTED = r"(?P<q>[\"'`])(?P<inner>[^\"'`\n]{0,300})(?:(?P=q)|(?<=[`])|(?<=')')(?=\W|$)"
_URL = r"(?<![\w+.-])[A-Za-z][\w+.-]{1,20}+://[^\s\"'<>)\]}`,]+|\bgit@[\w.-]{1,80}:[\w./~-]+"
_UUID = r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
_EMAIL = (
    r"(?<![\w.+-])[\w.+-]{1,64}+@(?:(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b|(?:\d{1,3}\.){3}\d{1,3}(?![\w.]\d))"
    r"|(?<![\w.+@/-])\d{1,9}@[A-Za-z](?:[\w.-]{0,62}\w)?"
)
_TIME = (
    r"\b\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?Z| ?[+-]\d\d:?\d\d| UTC| GMT)?)?"
    r"|\b\d{1,2}(?::\d\d)? ?[ap]m\b(?: \([A-Z]\w{1,20}/\w{1,30}\))?"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
    rf"|\b(?:{_DAY},? )?(?:{_MONTH} {{1,2}}\d{{1,2}}|\d{{1,2}} {_MONTH})\b(?:,? \d{{4}})?"
)
_DIGEST = r"\bsha\d{1,3}[-:][A-Za-z0-9+/]{3,128}=*|\bh1:[A-Za-z0-9+/]{8,128}=*"
# Names of standards, whose number is part of the name.
_STANDARD = (
    r"\b(?:utf|iso|sha|es|base|x86|md|http|ipv|oauth|log4j)-?\d{1,4}(?:-\d{1,2})?\b"
    r"|\b(?:ORA|TNS|PLS|DPY|DPI|RMAN|SP2)-\d{4,5}\b"
    r"|\b(?:UTF|ISO|SHA|ES)-\d{1,4}(?:-\d{1,2})?\b"
)
_CODE = (
    rf"(?i:\b(?=[ehrsncm])(?:{_CODE_WORD}))[\s:=#(\[\"']{{0,4}}(?:with )?-?\d{{1,6}}\b(?![.:]\d)\)?"
    rf"|\b[1-5]\d\d(?=:? (?:{_REASON}))"
)
_ADDRESS_OF_DIGITS = r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?(?::\d{1,5})?(?![\w.]\d)"
_ADDRESS_OF_HEX = (
    r"\[(?=[0-9a-fA-F]{0,4}:[0-9a-fA-F]{0,4}:)[0-9a-fA-F:]{2,45}(?:%\w+)?\](?::\d+)?"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])"
)
_PORT = r"(?<![\w:]):{1,3}\d{2,5}\b|\*:\d{2,5}\b|(?<![\w:])::1(?![\w:])"
_LOCALHOST = r"\b(?:localhost|host\.docker\.internal)(?::\d{1,5})?\b"
_HOST = (
    r"(?<![\w./@-])(?=[\w-]{1,63}+\.)"
    rf"(?:(?:{_LABEL}){{1,8}}{_TLD}{_HOST_END}|(?:{_LABEL}){{2,8}}{_LOOSE_TLD}{_HOST_END})"
)
_HOST_AND_PORT = (
    rf"(?<![\w.-])(?![\w-]{{1,60}}\.{_SOURCE_EXTENSION}:)[a-z][a-z0-9.-]{{1,60}}+:\d{{2,5}}(?![\d:\w]|\.\w)"
)
_HOST_BY_WORD = (
    r"(?<=\bhost )[\w.-]+|(?<=\bhost: )[\w.-]+|(?<=\blookup )[\w.-]+|(?<=ENOTFOUND )[\w.-]+|(?<=EAI_AGAIN )[\w.-]+"
)
_DOTTED_HOST_BY_WORD = r"(?<=\bresolve )[\w-]+\.[\w.-]+\w|(?<=connect to )[\w-]+\.[\w.-]+\w"
_PATH = (
    r"(?<![\w.@+~%$\\/-])[A-Za-z]:[\\/][^\s\"'<>|*?:;,()`]*(?::\d+(?::\d+)?)?"
    r"|(?<!\w)\\\\[\w.$-]+\\[^\s\"'<>|*?:;,()`]*"
    r"|(?<![\w.@+~%$\\/:>)\]-])~?/[\w.@+~%$#=/-]*[\w/](?:\?[\w=&%.,+-]+)?(?::\d+(?::\d+)?)?"
    r"|(?<![\w.@+~%$#\\/-])[\w.@+~%$-]++[\\/][\w.@+~%$\\/-]*[\w\\/]"
    r"(?::(?:\d+(?::\d+)?(?![\w.+-]*\w)|v?\d[\w.+-]{0,60}\w|(?:latest|stable|edge|main|master)\b))?"
)
_HEX = (
    r"\b0[xX][0-9a-fA-F]+\b|\b(?=[a-f]{0,63}+\d)(?=[0-9]{0,63}+[a-f])[0-9a-f]{7,64}\b"
    r"|\b(?=[A-F]{0,63}+\d)(?=[0-9]{0,63}+[A-F])[0-9A-F]{8,64}\b"
)
_NAMED_ID = r"org|req|proj|run|msg|resp|chatcmpl|call|sess|key|sk|usr|acct|cus|job|task|toolu"
_STARRED = r"[\w-]{0,40}\*{3,}[\w-]{0,40}"
_ID = (
    r"\b(?=[A-Za-z]{0,40}+\d)[A-Za-z0-9]{10,80}\b"
    rf"|\b(?:{_NAMED_ID})[-_](?=[\w-]{{0,80}}\d)[\w-]{{6,80}}\b"
    r"|\b[a-z]{1,12}-(?=[a-f]{0,40}+\d)[0-9a-f]{8,40}\b(?![-.])"
)
_POD = rf"\b[a-z][a-z0-9-]{{1,60}}-[a-z0-9]{{6,10}}-{_POD_END}(?![a-z0-9-])"
_SOURCE = rf"\b[\w-]{{1,60}}+\.{_SOURCE_EXTENSION}(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\))"
_NUMBER = (
    r"\b\d+(?:x\d+)+\b|\b(?:\d+(?:\.\d+)?(?:ms|h|m|s|d)){2,4}\b"
    rf"|(?:(?<!\w)[-+])?(?<![A-Za-z_\d])v?\d+(?:[.,_]\d+)*(?:[eE][+-]?\d+)?{_UNIT}(?![A-Za-z_\d])"
    r"|@[~^<>=v]{0,3}\d[\w.+-]*|(?<=[a-z])\d+(?:\.\d+)+\b"
)
# Runs of plain words, which are most of a text, are passed over in one step. Words that name what follows them, as a
# host or a code, are left out.
_NAMES_HOST = r"(?i:host|lookup|localhost|enotfound|eai_again)"
_NAMES_DIGITS = (
    r"(?i:exit|status|http|response|err|code|signal|non|sqlstate|rc|returned|curl|mcp)"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
)
_NO_HOST_BEFORE = r"(?<!host )(?<!host: )(?<!lookup )(?<!ENOTFOUND )(?<!EAI_AGAIN )"
_PLAIN_END = r"(?:[,:;.]? |\.?$|(?=[()\[\]{}=<>|,;!?&\"'`]|:[A-Za-z_]))"
# Most words start with a letter that no such name starts with, so that none of them need be tried. Atomic groups, so
# that a word which ends otherwise does not cost the trial of what was ruled out already.
_PLAIN_START = r"[abdfgijkopqtuvwxyzBGIKPQUVXYZ_]"
_PLAIN = rf"{_NO_HOST_BEFORE}(?:(?>{_PLAIN_START}|(?!{_NAMES_HOST})[A-Za-z])[A-Za-z_]{{0,59}}+{_PLAIN_END})++"
_PLAIN_BY_DIGITS = (
    rf"{_NO_HOST_BEFORE}(?:(?>{_PLAIN_START}|(?!{_NAMES_HOST})(?>(?!{_NAMES_DIGITS})|(?!{_CODE}|{_TIME}))[A-Za-z])"
    rf"[A-Za-z_]{{0,59}}+{_PLAIN_END})++"
)
# Where no word names what follows it, every word is plain.
_PLAIN_UNNAMED = rf"(?:[A-Za-z_]{{1,60}}+{_PLAIN_END})++"
_NAMING_MARKS = ("host", "lookup", "enotfound", "eai_again", "resolve", "connect to")
_NAMING = re.compile(rf"\b(?=[cehmnrsA-Z])(?:{_NAMES_DIGITS}|(?<= )(?:{_REASON}))")
# A number that no other kind of part can start with.
_PLAIN_NUMBER = (
    r"(?<![^\s=(\[,#{<])"
    rf"{_NO_HOST_BEFORE}\d{{1,9}}"
    rf"(?=[)\]}}|]|$|[,;.:]?(?:$| (?!{_UNIT_WORD}\b|%|\u00b5|{_REASON}|{_MONTH}|[ap]m\b)))"
)

# No mask starts with these, nor inside a run of letters: both are passed over in one step as well.
_GAP = r"[ ,;(){}\]<>=!?&|^]+"
# A word with digits is entered where it starts, and again at a version behind its letters.
_WORD = r"[A-Za-z_]++(?:\d++(?!\.)[A-Za-z_]*+)*+"

# What a part can need, each a bit, with the marks of which one must stand in the words.
_DIGIT, _QUOTE, _SLASH, _AT, _DOT, _DASH, _COLON, _STARS, _NAMES = (1 << bit for bit in range(9))
_SIGNS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (_DIGIT, tuple("1023456789")),
    (_QUOTE, ("'", '"', "`")),
    (_SLASH, ("/", "\\")),
    (_AT, ("@",)),
    (_DOT, (".",)),
    (_DASH, ("-",)),
    (_COLON, (":",)),
    (_STARS, ("***",)),
)
ALL_SIGNS = (1 << len(_SIGNS) + 1) - 1
# (kind, [(signs of which one must be there, pattern)]), in the order of trial.
_PARTS: tuple[tuple[str, tuple[tuple[int, str], ...]], ...] = (
    ("quoted", ((_QUOTE, _QUOTED),)),
    ("url", ((_SLASH | _AT, _URL),)),
    ("uuid", ((_DASH, _UUID),)),
    ("email", ((_AT, _EMAIL),)),
    ("time", ((_DIGIT, _TIME),)),
    ("digest", ((_DIGIT, _DIGEST),)),
    ("standard", ((_DIGIT, _STANDARD),)),
    ("code", ((_NAMES, _CODE),)),
    (
        "address",
        (
            (_DIGIT, _ADDRESS_OF_DIGITS),
            (_COLON, _ADDRESS_OF_HEX),
            (_COLON, _PORT),
            (_NAMES, _LOCALHOST),
            (_DOT, _HOST),
            (_COLON, _HOST_AND_PORT),
            (_NAMES, _HOST_BY_WORD),
            (_NAMES, _DOTTED_HOST_BY_WORD),
        ),
    ),
    ("path", ((_SLASH, _PATH),)),
    ("hex", ((_DIGIT, _HEX),)),
    ("id", ((_DASH, r"\bsk-[\w*.-]+"), (_STARS, _STARRED), (_DIGIT, _ID), (_DASH, _POD))),
    ("source", ((_DIGIT, _SOURCE),)),
    ("number", ((_DIGIT, _NUMBER),)),
)


@lru_cache(maxsize=ALL_SIGNS + 1)
def alternation(signs: int) -> re.Pattern[str]:
    """Return the alternation of the parts that words with these signs can have."""
    plain, number = _PLAIN_UNNAMED, _PLAIN_NUMBER.replace(_NO_HOST_BEFORE, "")
    if signs & _NAMES:
        plain, number = _PLAIN_BY_DIGITS if signs & _DIGIT else _PLAIN, _PLAIN_NUMBER
    kinds = [f"(?:{plain}|{_GAP})++" + (f"|(?P<plain_number>{number})" if signs & _DIGIT else "")]
    for kind, parts in _PARTS:
        possible = "|".join(part for needs, part in parts if needs & signs)
        if possible:
            kinds.append(f"(?P<{kind}>{possible})")
    return re.compile("|".join((*kinds, "[A-Za-z_]+" if signs & _STARS else rf"{_WORD}|\d+")))


@lru_cache(maxsize=1024)
def _signs(bare: bytes) -> int:
    words = bare.decode()
    signs = _NAMES if stands(_NAMING_MARKS, words.lower()) or _NAMING.search(words) else 0
    for sign, marks in _SIGNS:
        if stands(marks, words):
            signs |= sign
    return signs


def volatile(words: str) -> re.Pattern[str]:
    """Return the alternation for these words: a match without a named group is to stay as it is."""
    bare = without_digits(words)
    if bare is None:
        return alternation(_signs.__wrapped__(words.encode()) if words.isascii() else ALL_SIGNS)
    signs = _signs(bare) | (_DIGIT if len(bare) < len(words) else 0)
    # Asterisks with digits between them stand next to each other without those.
    return alternation(signs & ~_STARS if signs & _STARS and "***" not in words else signs)
