"""What of a path stays in a template: the name a person chose for the file, never where it lies."""

from __future__ import annotations

import re

_TEMPORARY = re.compile(r"(?i)[\\/](?:tmp|temp|var[\\/]folders|t)[\\/](?:[^\\/]*)$")
_EXTENSION = re.compile(r"^(?P<stem>[\w.@+~%$ -]{1,120}?)\.(?P<extension>[A-Za-z][A-Za-z0-9]{0,9})$")
_SLASH = re.compile(r"[\\/]")
# `/nix/store/<hash>-name-1.2.drv`
_STORED = re.compile(
    r"(?=[a-z]{0,40}+\d)[0-9a-z]{24,64}-(?P<name>[A-Za-z][\w+.-]{0,80}?)(?:-\d[\w.]{0,40})?(?:\.drv)?$"
)
_DOT_FILE = re.compile(r"\.[a-z][\w.-]{1,40}")
_LONG_NUMBER = re.compile(r"\d{3,}")
_CAPITALS = re.compile(r"[a-z][A-Z]|[A-Z]{2}")
_FRACTION = re.compile(r"[\d.]+/[\d.]+[A-Za-z]{0,3}")
_NUMBER_STEP = re.compile(r"(?:^|/)\d+(?:\.\d+)?(?:/|$)")
_VERSION_BEHIND = re.compile(r"[@:]v?[\w.+-]*$|/v?\d{1,6}(?:\.[\w-]{1,20}){1,4}$")
_PLACE = re.compile(r":\d+(?::\d+)?$")
_CODE_HOST = re.compile(r"(?:[\w-]+\.)+[a-z]{2,6}/")
# Words before an identifier that say that it is one, so that it is kept whole.
_NOUN_BEFORE = re.compile(
    r"(?i)\b(?:module|package|import|column|table|relation|constraint|name|attribute|fixture|property|field|key|symbol"
    r"|function|method|type|class|variable|parameter|option|command|target|task|image|provider|resource|label|header|crate"
    r"|namespace|extension|schema|database|model|index|index:|trait|macro|named?|member|identifier)s?[:= ]{1,2}$"
)
_NOUN_CHARACTERS = 16
_MODULE_HOSTS = (
    "github.com/",
    "gitlab.com/",
    "bitbucket.org/",
    "golang.org/",
    "google.golang.org/",
    "gopkg.in/",
    "k8s.io/",
)
_RANDOM_STEP = re.compile(r"[a-z](?=[A-Z])|[A-Z]{2}(?=[a-z])|\d(?=[A-Za-z])|[A-Za-z](?=\d)")


def is_named(before: str) -> bool:
    """Whether the words before an identifier end in one that says what it is."""
    if before[-1:] not in {" ", ":", "="}:
        return False
    return _NOUN_BEFORE.search(before, max(0, len(before) - _NOUN_CHARACTERS)) is not None


def looks_random(word: str) -> bool:
    """Whether a word changes between letters, capitals and digits so often that nobody chose it."""
    digits = sum(c.isdigit() for c in word)
    if not digits:
        return False
    return (
        digits >= len(word) * 0.6
        or (len(word) >= 8 and len(_RANDOM_STEP.findall(word)) >= 4)
        or (len(word) >= 14 and len(_RANDOM_STEP.findall(word)) >= 3)
    )


def _temporary_name(stem: str, extension: str) -> bool:
    if extension.lower() in {"o", "s", "res", "tmp", "ltrans", "ii"} or any(c.isdigit() for c in stem):
        return True
    return len(_CAPITALS.findall(stem)) >= 2


def path_name(path: str) -> str:
    """Return what of a path stays: the file's own name where it has one that a person chose, else `<path>`."""
    path = _PLACE.sub("", path).rstrip("\\/")
    name = _SLASH.split(path)[-1]
    stored = _STORED.match(name)
    if stored:
        return stored["name"]
    found = _EXTENSION.match(name)
    if found is None:
        return name if _DOT_FILE.fullmatch(name) and not _LONG_NUMBER.search(name) else "<path>"
    stem, extension = found["stem"], found["extension"]
    if _LONG_NUMBER.search(stem) or looks_random(stem):
        return f"<path>.{extension}"
    if _TEMPORARY.search(path) and _temporary_name(stem, extension):
        return f"<path>.{extension}"
    return name


def relative_name(path: str, before: str) -> str:
    """Return what stays of a token with slashes and no root: a file, a package, an image, or two words."""
    if _FRACTION.fullmatch(path):
        return "<number>"
    if _NUMBER_STEP.search(path):
        return "<path>"
    slashes = path.count("/") + path.count("\\")
    bare = _PLACE.sub("", path)
    name = _SLASH.split(bare)[-1]
    if path.startswith((".", "~", "$")):
        return path_name(path)
    host = _CODE_HOST.match(bare)
    if host and not _EXTENSION.match(name):
        return without_version(bare if bare.startswith(_MODULE_HOSTS) else bare[host.end() :])
    if path.startswith("@") or is_named(before):
        return bare
    if _EXTENSION.match(name) or slashes >= 3:
        return path_name(path)
    return without_version(bare)


def without_version(word: str) -> str:
    """Return a package or image name without its version, tag or digest; a leading scope mark stays."""
    return word[:1] + _VERSION_BEHIND.sub("", word[1:])
