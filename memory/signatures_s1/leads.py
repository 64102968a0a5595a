"""What stands before the words that name a failure: a level, a logger, a shell, a program's path."""

from __future__ import annotations

import re

_LEVEL_WORD = (
    r"fatal error|error|fatal|critical|severe|err!?|failure|exception|emerg|alert|uncaught(?: exception)?"
    r"|unhandled(?: exception| rejection)?"
)
_LEAD = re.compile(
    r"(?i)(?:"
    rf"\[?(?:{_LEVEL_WORD})\]?(?:\s?[:!.>-]\s{{0,3}}|\s{{1,3}}(?=(?-i:[\[{{A-Z'\"`/])))"
    r"|(?-i:\[?(?:ERROR|FATAL|CRITICAL|SEVERE)\]?\s{1,5}(?=[^\s\d]))"
    r"|failed: |\[[\w./ -]{1,40}\]:?\s{1,2}(?=\S)|\{ |err (?=\{|\w*Error)|e: |E\s{2,}|!\s|\u2a2f\s|\u274c\s|root: "
    r"|(?:sys|<\w{1,20}>):\d+: |\(node:\d+\) |\(in promise\) |psql:\S{1,200}:\d+: |<[\w-]{1,40}>"
    r"|[\w.-]{1,40}: (?=(?:fatal |internal )?error\b)"
    r"|[\w-]{1,30}\.(?=(?-i:ERROR|CRITICAL|ALERT|EMERGENCY): )"
    r"|[\w.-]{1,63}@[\w.\[\]-]{1,63} (?=(?-i:[A-Z]{4,8}):)"
    r"|failed to (?:solve|build): |connection failed: |McpError: (?=MCP error)"
    r"|connection (?:to server (?:at|on) .{1,200}?|to .{1,100}?) failed: (?:FATAL:\s+)?"
    r")"
)
_LOGGER = re.compile(
    r"(?:[\w.]{1,80}: )?(?:ERROR|FATAL|CRITICAL|SEVERE)(?::[\w.]{1,80}:"
    r"|\s+(?:\[[^\]]{1,80}\]\s+)?[\w.$]{1,120}\s+[:-]{1,3}\s+"
    r"|\s+\d{1,7} --- \[[^\]]{1,80}\] [\w.$]{1,120}\s*: )\s*"
)
_PROGRAM = re.compile(r"(?:(?:[A-Za-z]:)?[\\/][^\s:]{1,300}[\\/]|\./(?:[^\s:]{1,300}/)?)(?P<name>[\w.+-]{1,60}): ")
_SHELL = re.compile(r"(?:-?(?:ba|z|da|k|a)?sh|fish)(?:: |\.exe: )(?:line \d+: |\d+: |eval: line \d+: |-c: line \d+: )?")
_SCRIPT = re.compile(r"[\w./~+-]{1,200}: (?:line )?\d+: (?=\S)")
_NO_COMMAND = re.compile(
    r"(?:^|.*?: )?(?:(?P<a>[\w./+@-]{1,100}): (?:command not found|not found|inaccessible or not found)$"
    r"|command not found: (?P<b>[\w./+@-]{1,100})$"
    r"|'?(?P<c>[\w./+@-]{1,100})'? is not recognized as an internal or external command.*)"
)
# A shell tells of a job that a signal ended: `run.sh: line 3: 4711 Killed   python train.py`.
_JOB = re.compile(
    r"^(?:.{1,200}:\s{1,6})?\d+ (?P<what>Segmentation fault|Killed|Aborted|Terminated|Bus error|Illegal instruction"
    r"|Floating point exception|Trace/breakpoint trap)\b(?:\s+\(core dumped\))?\s*"
)
_MOST_LEADS = 6


def without_lead(words: str) -> str:
    """Return the words from the first that says what failed."""
    return _without_shell(_without_level(words))


def _without_level(words: str) -> str:
    if "ERROR" in words or "FATAL" in words or "CRITICAL" in words or "SEVERE" in words:
        words = _LOGGER.sub("", words, count=1)
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
    words = _JOB.sub(lambda found: f"{found['what']}: ", words)
    program = _PROGRAM.match(words)
    words = words[program.start("name") :] if program else words
    shell = _SHELL.match(words)
    words = words[shell.end() :] if shell else words
    script = _SCRIPT.match(words)
    return words[script.end() :] if script else words
