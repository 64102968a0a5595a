"""What is replaced in the words that name an error: everything that differs between two meetings with one failure."""

from __future__ import annotations

import re
from collections import Counter

_CODE_WORD = (
    r"(?i:\b(?:exit(?:ed|s)?(?: with)?(?: non-zero)?(?: exit)?(?: status| code){0,2}|(?:http |response )?status(?: code)?|errno|error(?: code| number)?"
    r"|err(?:or)?code|code|HTTP(?:/\d(?:\.\d)?)?|signal|non-zero(?: code| exit status)|SQLSTATE|rc|returned|curl|MCP error))"
    r"[\s:=#(\[\"']{0,4}(?:with )?-?\d{1,6}\b(?![.:]\d)\)?"
)
_REASON = (
    r"(?:Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Method Not|Not Acceptable|Proxy Auth|Request Time|Conflict|Gone"
    r"|Length Required|Precondition|Payload|Request Entity|Content Too|URI Too|Unsupported Media|Unprocessable|Too Many|Internal Server"
    r"|Not Implemented|Bad Gateway|Service|Gateway|Client Error|Server Error)"
)
_SIZE = r"(?:\s?(?:%|(?:[kKMGTP]i?)?[bB](?:ytes?)?|[kKMGT]i|ns|[uµm]s|msecs?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|days?|milliseconds?|tokens?|px)\b)?"
_MONTHS = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_TLD = r"(?:com|net|org|edu|gov|arpa|localdomain|invalid|uk|de|eu|us|cn|ru|fr|jp|nl|br|au|ca|kr|ch|lan)"
# These also end names in code, so they need a third label or a word before them that announces a host.
_LOOSE_TLD = r"(?:io|dev|local|internal|example|corp|cloud|app|ai|co|me|tv|info|test|home|svc|intra|private|systems|tech|xyz|site)"
_UNIT_FREE = r"(?![A-Za-z_\d])"

# One alternation, tried in this order at each place. Every alternative is anchored so that a run of characters is
# entered once: a look-behind on its own character class keeps the whole linear.
_ERROR_MASKS = (
    ("quoted", r"(?P<q>[\"'`])(?P<inner>[^\"'`\n]{1,300})(?:(?P=q)|(?<=[`])|(?<=')')(?=\W|$)"),
    ("url", r"(?<![\w+.-])[A-Za-z][\w+.-]{1,20}://[^\s\"'<>)\]}`,]+|\bgit@[\w.-]{1,80}:[\w./~-]+"),
    ("uuid", r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"),
    ("email", r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"),
    (
        "time",
        r"\b\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?Z| ?[+-]\d\d:?\d\d| UTC| GMT)?)?"
        r"|\b\d{1,2}(?::\d\d)? ?[ap]m\b(?: \([A-Z]\w{1,20}/\w{1,30}\))?"
        rf"|\b\d{{1,2}}:\d\d:\d\d(?:[.,]\d+)?\b|\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}},? )?(?:{_MONTHS}[a-z]{{0,6}} {{1,2}}\d{{1,2}}|\d{{1,2}} {_MONTHS}[a-z]{{0,6}})\b(?:,? \d{{4}})?",
    ),
    ("digest", r"\bsha\d{1,3}[-:][A-Za-z0-9+/]{3,128}=*|\bh1:[A-Za-z0-9+/]{8,128}=*"),
    ("norm", r"\b(?:utf|iso|sha|es|base|x86|md|http|ipv|oauth|log4j)-?\d{1,4}(?:-\d{1,2})?\b|\b(?:UTF|ISO|SHA|ES)-\d{1,4}(?:-\d{1,2})?\b"),
    ("code", _CODE_WORD + rf"|\b[1-5]\d\d(?=:? {_REASON})"),
    (
        "address",
        r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?(?::\d{1,5})?(?![\w.]\d)|\[(?=[0-9a-fA-F]{0,4}:)[0-9a-fA-F:]{2,45}(?:%\w+)?\](?::\d+)?"
        r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])|(?<![\w:]):{1,3}\d{2,5}\b|\*:\d{2,5}\b|(?<![\w:])::1?(?![\w:])"
        r"|\b(?:localhost|host\.docker\.internal)(?::\d{1,5})?\b"
        rf"|(?<![\w./@-])(?:[A-Za-z0-9_](?:[\w-]{{0,62}})\.){{1,8}}{_TLD}\.?(?::\d{{1,5}})?(?![\w(/-]|\.\w)"
        rf"|(?<![\w./@-])(?:[A-Za-z0-9_](?:[\w-]{{0,62}})\.){{2,8}}{_LOOSE_TLD}\.?(?::\d{{1,5}})?(?![\w(/-]|\.\w)"
        r"|(?<![\w.-])[a-z][a-z0-9.-]{1,60}:\d{2,5}(?![\d:\w]|\.\w)"
        r"|(?<=\bhost )[\w.-]+|(?<=\bhost: )[\w.-]+|(?<=\blookup )[\w.-]+|(?<=ENOTFOUND )[\w.-]+|(?<=EAI_AGAIN )[\w.-]+|(?<=\bresolve )[\w-]+\.[\w.-]+\w|(?<=connect to )[\w-]+\.[\w.-]+\w",
    ),
    (
        "path",
        r"(?<![\w.@+~%$\\/-])[A-Za-z]:[\\/][^\s\"'<>|*?:;,()`]*(?::\d+(?::\d+)?)?|(?<!\w)\\\\[\w.$-]+\\[^\s\"'<>|*?:;,()`]*"
        r"|(?<![\w.@+~%$\\/:>)\]-])~?/[\w.@+~%$#=/-]*[\w/](?:\?[\w=&%.,+-]+)?(?::\d+(?::\d+)?)?"
        r"|(?<![\w.@+~%$#\\/-])[\w.@+~%$-]+[\\/][\w.@+~%$\\/-]*[\w\\/](?::\d+(?::\d+)?)?",
    ),
    ("hex", r"\b0[xX][0-9a-fA-F]+\b|\b(?=[0-9a-f]{0,63}\d)(?=[0-9]{0,63}[a-f])[0-9a-f]{7,64}\b|\b(?=[0-9A-F]{0,63}\d)(?=[0-9]{0,63}[A-F])[0-9A-F]{8,64}\b"),
    ("id", r"\bsk-[\w*.-]+|[\w-]{0,40}\*{3,}[\w-]{0,40}|\b(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{10,80}\b|\b(?:org|req|proj|run|msg|resp|chatcmpl|call|sess|key|sk|usr|acct|cus|job|task|toolu)[-_](?=[\w-]{0,80}\d)[\w-]{6,80}\b|\b[a-z][a-z0-9-]{1,60}-[a-z0-9]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9-])"),
    ("source", r"\b[\w-]{1,60}\.(?:py|js|mjs|cjs|ts|tsx|jsx|go|rs|c|cc|cpp|cxx|h|hpp|java|kt|rb|php|swift|cs|sh|yml|yaml|json|toml|tf|sql|xml|cfg|ini)(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\))"),
    (
        "number",
        rf"\b\d+(?:x\d+)+\b|(?:(?<!\w)[-+])?(?<![A-Za-z_\d])v?\d+(?:[.,_]\d+)*(?:[eE][+-]?\d+)?{_SIZE}{_UNIT_FREE}|@[~^<>=v]{{0,3}}\d[\w.+-]*|(?<=[a-z])\d+(?:\.\d+)+\b",
    ),
)  # fmt: skip
# Runs of plain words, which are most of a text, are passed over in one step. The words left out start a mask.
_PLAIN = (
    r"(?<![^\s(\[,])(?<!host )(?<!host: )(?<!lookup )(?<!ENOTFOUND )(?<!EAI_AGAIN )"
    r"(?:(?!(?i:exit|status|http|response|err|code|signal|non|sqlstate|rc|returned|curl|mcp|host|lookup|localhost|enotfound|eai_again)"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec))[A-Za-z]{1,60}(?:[,:;]? |$))+"
)
_ERROR = re.compile(f"(?P<plain>{_PLAIN})|" + "|".join(f"(?P<{name}>{pattern})" for name, pattern in _ERROR_MASKS))

_TEMPORARY = re.compile(r"(?i)[\\/](?:tmp|temp|var[\\/]folders|t)[\\/](?:[^\\/]*)$")
_EXTENSION = re.compile(r"^(?P<stem>[\w.@+~%$ -]{1,120}?)\.(?P<extension>[A-Za-z][A-Za-z0-9]{0,9})$")
_PLACE = re.compile(r":\d+(?::\d+)?$")
_CODE_HOST = re.compile(r"(?:[\w-]+\.)+[a-z]{2,6}/")
_VALUE_BEFORE = re.compile(
    r"(?i)(?:literal.{0,40}|input syntax.{0,60}|convert .{0,40}|invalid (?:value|date|time|json|format|uuid|number|integer|literal).{0,30}"
    r"|time data|isoformat string|\bentry|\buser(?:name)?|\bgot|\breceived|parsing|unexpected token|\bvalue|\bhost(?:name)?|\blogin|password for|\baccount)[:= ]{0,3}$|'@$"
)
_NOUN_BEFORE = re.compile(
    r"(?i)\b(?:module|package|import|column|table|relation|constraint|name|attribute|fixture|property|field|key|symbol|function|method|type|class|variable"
    r"|parameter|option|command|target|task|image|provider|resource|label|header|crate|namespace|extension|schema|database|index|index:|trait|macro|named?|member|identifier)s?[:= ]{1,2}$"
)
_ROUTE_BEFORE = re.compile(r"(?i:\burl: |\burl |\bpath: |\broute )$|\b(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS):? $")
_FILE_WITH_PLACE = re.compile(r"^(?P<name>.*?)(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\))$")
_RANDOM_STEP = re.compile(r"[a-z](?=[A-Z])|[A-Z]{2}(?=[a-z])|\d(?=[A-Za-z])|[A-Za-z](?=\d)")


def looks_random(word: str) -> bool:
    """Whether a word changes between letters, capitals and digits so often that nobody chose it."""
    digits = sum(c.isdigit() for c in word)
    if not digits:
        return False
    return digits >= len(word) * 0.6 or (len(word) >= 8 and len(_RANDOM_STEP.findall(word)) >= 4) or (len(word) >= 14 and len(_RANDOM_STEP.findall(word)) >= 3)


def _temporary_name(stem: str, extension: str) -> bool:
    if extension.lower() in {"o", "s", "res", "tmp", "ltrans", "ii"} or any(c.isdigit() for c in stem):
        return True
    return len(re.findall(r"[a-z][A-Z]|[A-Z]{2}", stem)) >= 2


def path_name(path: str) -> str:
    """Return what of a path stays: the file's own name where it has one that a person chose, else `<path>`."""
    path = _PLACE.sub("", path).rstrip("\\/")
    name = re.split(r"[\\/]", path)[-1]
    found = _EXTENSION.match(name)
    if found is None:
        return name if re.fullmatch(r"\.[a-z][\w.-]{1,40}", name) else "<path>"
    stem, extension = found["stem"], found["extension"]
    if re.search(r"\d{3,}", stem) or looks_random(stem):
        return f"<path>.{extension}"
    if _TEMPORARY.search(path) and _temporary_name(stem, extension):
        return f"<path>.{extension}"
    return name


def _relative(path: str, before: str) -> str:
    """A token with slashes that does not start at a root: a file, a package, an image, or two words."""
    if re.fullmatch(r"[\d.]+/[\d.]+[A-Za-z]{0,3}", path):
        return "<number>"
    if re.search(r"(?:^|/)\d+(?:\.\d+)?(?:/|$)", path):
        return "<path>"
    slashes = path.count("/") + path.count("\\")
    bare = _PLACE.sub("", path)
    name = re.split(r"[\\/]", bare)[-1]
    if path.startswith((".", "~", "$")):
        return path_name(path)
    host = _CODE_HOST.match(bare)
    if host and not _EXTENSION.match(name):
        return _without_version(bare if "github" in bare or "golang" in bare else bare[host.end() :])
    if path.startswith("@") or _NOUN_BEFORE.search(before):
        return bare
    if _EXTENSION.match(name) or slashes >= 3:
        return path_name(path)
    return _without_version(bare)


def _without_version(word: str) -> str:
    return re.sub(r"@.*$|:[\w.-]+$", "", word[:1]) + re.sub(r"[@:]v?[\w.+-]*$", "", word[1:])


class ErrorMasker:
    """Masks one line, and counts what it masked and remembers what it kept as identity."""

    def __init__(self) -> None:
        self.masked: Counter[str] = Counter()
        self.kept: list[tuple[str, str]] = []

    def mask(self, words: str) -> str:
        """Return the words with every volatile part replaced."""
        return _ERROR.sub(self._replace, words)

    def _count(self, kind: str) -> str:
        self.masked[kind] += 1
        return f"<{kind}>"

    def _replace(self, match: re.Match[str]) -> str:
        kind, word = match.lastgroup or "", match[0]
        if kind == "plain":
            return word
        if match["quoted"] is not None:
            return self._quoted(match)
        if kind == "norm":
            return word
        if kind == "code":
            return self._code(word)
        if kind == "path":
            return self._path(word, match.string[max(0, match.start() - 40) : match.start()])
        if kind == "source":
            found = _FILE_WITH_PLACE.match(word)
            return found["name"] if found else word
        if kind == "id" and "-" not in word and "_" not in word and not looks_random(word):
            return word
        return ("@" if word[0] == "@" else "") + self._count(kind)

    def _code(self, word: str) -> str:
        word = re.sub(r"^HTTP/\d(?:\.\d)?", "HTTP", word)
        word = re.sub(r"[\s:=#()\[\"']+", " ", word).lower().strip()
        self.kept.append(("code", word))
        return word

    def _path(self, word: str, before: str) -> str:
        if _ROUTE_BEFORE.search(before):
            return self._count("url")
        root = word[0] in "/~\\" or word[1:2] == ":"
        kept = path_name(word) if root else _relative(word, before)
        if kept != word:
            self.masked["path"] += 1
        return kept

    def _quoted(self, match: re.Match[str]) -> str:
        inner = match["inner"]
        before = match.string[max(0, match.start() - 70) : match.start()]
        if _VALUE_BEFORE.search(before) and match["q"] != "`":
            return f"'{self._count('value')}'"
        kept = self._quoted_name(inner, before)
        if "<" not in kept:
            self.kept.append(("name", kept))
        return f"'{kept}'"

    def _quoted_name(self, inner: str, before: str) -> str:
        if inner == "localhost":
            return self._count("address")
        if re.fullmatch(r"(?:@[\w.-]{0,60})?//[\w./:@+-]{1,200}", inner):
            return inner
        if " " not in inner and _NOUN_BEFORE.search(before):
            if inner.startswith(("/", ".", "~")):
                return re.split(r"[\\/]", inner.rstrip("/"))[-1]
            if ":\\" not in inner and ":/" not in inner:
                return _without_version(inner)
        rooted = inner[0] in "/~\\" or inner[1:3] in {":\\", ":/"} or inner.startswith(("./", "../"))
        if rooted and not re.search(r" [-/&|>]", inner):
            self.masked["path"] += 1
            return path_name(inner)
        if re.fullmatch(r"[A-Za-z_$][\w$.]*", inner) and not looks_random(inner) and "." not in inner:
            return inner
        return self.mask(inner)
