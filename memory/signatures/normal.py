"""One wording for one failure: what precedes the telling words, and what follows them, is dropped."""

from __future__ import annotations

import re

from memory.signatures.bodies import with_body_told

_LEAD = re.compile(
    r"(?i)(?:failed: |\[?(?:fatal error|error|fatal|critical|severe|err!?|failure|exception|emerg|alert"
    r"|uncaught(?: exception)?|unhandled(?: exception| rejection)?)\]?"
    r"(?:\s?[:!.>-]\s{0,3}|\s{1,3}(?=(?-i:[\[{A-Z'\"`/])))|\[[\w./ -]{1,40}\]:?\s{1,2}(?=\S)|\{ "
    r"|err (?=\{|\w*Error)"
    r"|\(node:\d+\) |psql:\S{1,200}:\d+: |\(in promise\) |[\w.-]{1,40}: (?=(?:fatal "
    r"|internal )?error\b)|<[\w-]{1,40}>|failed to (?:solve|build): |connection (?:to server (?:at"
    r"|on) .{1,200}?|to .{1,100}?) failed: (?:FATAL:\s+)?|connection failed: "
    r"|[\w.-]{1,63}@[\w.\[\]-]{1,63} (?=[A-Z]{4,8}:)|McpError: (?=MCP error)|e: |E\s{2,}|!\s|\u2a2f\s"
    r"|\u274c\s|root: )"
)
_LOGGER = re.compile(
    r"(?:[\w.]{1,80}: )?(?:ERROR|FATAL|CRITICAL|SEVERE)(?::[\w.]{1,80}:"
    r"|\s+(?:\[[^\]]{1,80}\]\s+)?[\w.$]{1,120}\s+[:-]{1,3}\s+"
    r"|\s+\d{1,7} --- \[[^\]]{1,80}\] [\w.$]{1,120}\s*: )\s*"
)
_PROGRAM = re.compile(r"(?:(?:[A-Za-z]:)?[\\/][^\s:]{1,300}[\\/]|\./(?:[^\s:]{1,300}/)?)(?P<name>[\w.+-]{1,60}): ")
_SHELL = re.compile(
    r"(?:(?:-?(?:ba|z|da|k|a)?sh|fish|sh)(?:: |\.exe: ))(?:line \d+: |\d+: |eval: line \d+: "
    r"|-c: line \d+: )?"
)
_SCRIPT = re.compile(r"[\w./~+-]{1,200}: (?:line )?\d+: (?=\S)")
_NO_COMMAND = re.compile(
    r"(?:^|.*?: )?(?:(?P<a>[\w./+@-]{1,100}): (?:command not found|not found"
    r"|inaccessible or not found)$|command not found: (?P<b>[\w./+@-]{1,100})$"
    r"|'?(?P<c>[\w./+@-]{1,100})'? is not recognized as an internal or external command.*)"
)
_HINTS = re.compile(
    r"(?:-> \[Help|Did you (?:mean|forget)|Maybe you meant|Perhaps you|did you mean|maybe you meant"
    r"|Forgot to import|For more (?:information|details)|for more (?:information|details)"
    r"|See (?:https?://|the |'|also )|Visit |Learn more|Read more|More info|Please (?:see|visit|check"
    r"|refer|contact|try)|Consider |You can (?:also )?find|If you )"
    r".{0,1500}$"
)
_LISTED = re.compile(
    r" ?\((?:from versions: |@INC |choose from |available: |valid |expected one of|options: "
    r"|allowed ).{0,1500}?\)(?=\W|$)|,? available \w{1,30}: .{0,1500}$|,? (?:expected one of"
    r"|available (?:options|choices|values)(?: are)?:?|valid (?:options|values|choices)(?: are)?:?"
    r"|must be one of:?|supported values are:?|Valid options are) .{0,1500}$"
)
_SOURCE_PLACE = re.compile(
    r" ?\([\w./\\-]{1,120}\.\w{1,5}:\d+(?::\d+)?\)| at line \d+(?:,? column \d+)?"
    r"| \(line \d+(?:,? (?:column|col) \d+)?(?:,? ?\(?char \d+\)?)?\)|,? line \d+\b(?:,? column \d+)?"
    r"| at \S{1,300} line \d+\b| at character \d+| in \S{0,300}[\\/][^\s:]{1,200}:\d+$"
    r"|: line \d+ column \d+ \(char \d+\)| at position \d+(?: \(line \d+ column \d+\))?"
    r"| in JSON at position \d+"
)
_DETAIL = re.compile(
    r" ?(?:DETAIL|HINT|CONTEXT|Detail): .{0,1500}$| dup key: \{.{0,1500}$"
    r"|(?: Key)? \([\w, ]{1,300}\)=\(.{0,1000}\) already exists\.?"
)
_ALLOCATED = re.compile(
    r"(?<=in: )%\{.{0,600}\}$| ?\[type=\w+, input_value=.{0,600}\]| ?\((?:GPU \d|\d+[.,\d]* ?[KMGT]i?B"
    r"|limit|requested|size|used|max|current|total)[^()]{0,400}\)"
)
_ERRNO = re.compile(r"\[Errno -?\d+\] (?=\S)")
_UNSTABLE = re.compile(
    r" \(os error \d+\)|(?<=\bprocess )\d+ \([^()]{1,60}\)| object at 0x[0-9a-fA-F]+"
    r"|0x[0-9a-fA-F]+(?=>)| because \"<local\d+>\".*$| \(attempt \d+(?:/| of )\d+\)"
    r"| after \d+ (?:attempts|retries|tries)"
)
_SPACES = re.compile(r"\s+")
_GOT_OBJECT = re.compile(r"<[\w.]{1,120}(?: object)?(?: at 0x[0-9a-fA-F]+|(?=>))>")
_JOB = re.compile(
    r"^(?:.{1,200}:\s{1,6})?\d+ (?P<what>Segmentation fault|Killed|Aborted|Terminated|Bus error"
    r"|Illegal instruction|Floating point exception|Trace/breakpoint trap)\b(?:\s+\(core dumped\))?\s*"
)
_IMPORTER = re.compile(r"(?<=['\"]),? (?:from|imported from|required by|in) (?:['\"][^'\"]{1,300}['\"]|\S{1,300}?)\.?$")
_CLOSING_TAG = re.compile(r"</[\w-]{1,40}>$")
_PARSED_FILE = re.compile(r"(?<=Error: )(?:[A-Za-z]:)?[\\/][^\s:]{1,300}: (?=.{1,300} \(\d+:\d+\)$)")
_NUMBERED = re.compile(
    r"(?i)\b(workflow|run|job|task|session|request|transaction|order|instance|worker|thread|build"
    r"|attempt|connection|container|node|shard|partition) "
    r"(?!\d+\b)(?=[\w-]{0,60}\d)[\w-]{3,80}(?![\w.:/'])"
)
_ID = re.compile(
    r"\b(?:Request|Host|Trace|Correlation|Span|Session|Event|Transaction|request|trace|correlation|host"
    r"|span)[-_ ]?[Ii][Dd]['\"]?[:= ]{1,3}['\"]?[\w+/=.-]{4,200}"
)
_MOST_LEADS = 6


def _without_lead(words: str) -> str:
    words = _LOGGER.sub((""), words, count=1) if "ERROR" in words or "FATAL" in words or "CRITICAL" in words else words
    for _ in range(_MOST_LEADS):
        found = _LEAD.match(words)
        if found is None or found.end() >= len(words):
            break
        words = words[found.end() :]
    return words


def _without_shell(words: str) -> str:
    missing = _NO_COMMAND.match(words) if "not found" in words or "not recognized" in words else None
    name = missing and (missing["a"] or missing["b"] or missing["c"])
    if name:
        return f"command not found: {name.rsplit('/', 1)[-1]}"
    words = _JOB.sub(lambda found: found["what"] + ": ", words)
    program = _PROGRAM.match(words)
    if program:
        words = words[program.start("name") :]
    words = _SHELL.sub("", words, count=1) if _SHELL.match(words) else words
    found = _SCRIPT.match(words)
    return words[found.end() :] if found else words


def normal(words: str) -> str:
    """Return the telling words in one wording: no level, program path, place, hint, list of choices or detail."""
    words = _CLOSING_TAG.sub("", words)
    words = _without_shell(_without_lead(words))
    words = _ID.sub("<id>", words) if "ID" in words or "Id" in words or "id" in words else words
    if "{" in words or "[{" in words:
        words = with_body_told(words)
    words = _ERRNO.sub("", words) if "[Errno" in words else words
    words = _IMPORTER.sub("", words) if "odule" in words or "esolve" in words or "ackage" in words else words
    words = (
        _DETAIL.sub((""), words)
        if (")=(") in words or "dup key" in words or "DETAIL" in words or "HINT" in words or "CONTEXT" in words
        else words
    )
    words = _LISTED.sub("", words)
    words = _HINTS.sub("", words).rstrip(" .;,-")
    words = _SOURCE_PLACE.sub("", _PARSED_FILE.sub("", words))
    words = _NUMBERED.sub(r"\1 <id>", words)
    if (
        ("(") in words
        or ("%{") in words
        or ("[type=") in words
        or "0x" in words
        or "retries" in words
        or "attempts" in words
        or "<local" in words
    ):
        words = _UNSTABLE.sub("", _ALLOCATED.sub("", words))
    return _SPACES.sub(" ", words).strip(" .:;,")
