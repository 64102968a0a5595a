"""The log profile: one template for the lines that one log statement writes, with nothing learned."""

from __future__ import annotations

import re

from memory.signatures_s1.clean import HEAD_CHARACTERS, visible
from memory.signatures_s1.normal import without_marks

_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_TLD = (
    r"(?:com|net|org|edu|gov|mil|int|io|dev|local|internal|localdomain|lan|corp|cn|hk|jp|kr|tw|de|uk|fr"
    r"|it|nl|es|pl|ru|br|ar|mx|in|ca|au|us|eu|tv|cc|me|biz|info|co|om|ch|at|se|no|fi|dk|cz|hu|ro|gr|tr"
    r"|il|za|id|th|vn|my|sg|ph|cl|pe|arpa)"
)
_UNITS = (
    r"(?:\s?(?:[KMGT]i?B|[kmg]b|B|bytes?|ns|us|ms|msecs?|milliseconds?|microseconds?|secs?|seconds?"
    r"|mins?|minutes?|hours?|hrs?|days?|%)(?![\w-]))?"
)

# One alternation; every alternative starts at a boundary of its own characters, so a run is entered once.
_VARIABLE = re.compile(
    rf"\b{_DAY},? (?:{_MONTH} {{1,2}}\d{{1,2}}|\d{{1,2}} {_MONTH})[\d: ]*(?:(?:[A-Z]{{3,4}}"
    rf"|UTC) )?(?:\d{{4}})?"
    r"|(?<![\w.-])[A-Za-z][\w+.-]{1,20}://[^\s\"'<>)\],]+"
    r"|(?<![\w:])(?:(?:[0-9A-Fa-f]{2}[:-]){5,15}[0-9A-Fa-f]{2}"
    r"|(?:[0-9A-Fa-f]{1,4}:){3,7}(?::?[0-9A-Fa-f]{1,4}){1,4})(?![\w:])"
    r"|(?<=\w=)(?:\"[^\"]{0,300}\"|'[^']{0,300}'|[^\s,;\"'()\[\]{}<>]+)"
    rf"|(?<![\w@.-])[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{0,8}}\.{_TLD}\.?(?::\d{{1,5}})?(?![\w.-])"
    r"|(?<![\w.\\/-])(?:[A-Za-z]:)?[\\/](?:[^\s,;:\"'()\[\]{}<>=|]*[^\s,;:\"'()\[\]{}<>=|.](?:\?[^\s\"']*)?)?"
    r"|(?<=\bfor )[\w.@+-]+(?= from )"
    r"|(?<![\w.-])[a-z][a-z0-9-]*(?:\.[\w-]+)*:\d{2,5}(?![\w:.])"
    r"|(?<![\w.@$/-])(?:com|org|net|io|android)(?:\.\w+){2,}(?![\w.(])"
    r"|(?<=\buser )(?!from\b|unknown|request|is |not |info|auth|name)[\w.@+-]+"
    rf"|(?:<(?=\d))?(?<![^\s,;()\[\]{{}}=:\"'|<>#])[^\s\d,;()\[\]{{}}=:\"'"
    rf"|<>#]{{0,400}}\d[^\s,;()\[\]{{}}=:\"'|<>#]*{_UNITS}"
)
_RUN = re.compile(r"<\*>(?:(?:[:.,#/@-]|, |\s)*<\*>)+")
_SIZE_AGAIN = re.compile(r"(?<=<\*>) \((?:<\*>)?\)")


def log_template(text: str) -> str:
    """Return the line with its variable parts replaced by `<*>`."""
    words = _VARIABLE.sub("<*>", without_marks(visible(text[:HEAD_CHARACTERS])))
    return " ".join(_RUN.sub("<*>", _SIZE_AGAIN.sub("", words)).split())
