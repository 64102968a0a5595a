"""The kind of a failure and the few words a person reads for it, both told from the normalised words alone."""

from __future__ import annotations

import re

_TITLE_CHARACTERS = 60
_MASK = re.compile(r"<[a-z]{1,12}>")

# (kind, pattern, title); the first that fits wins. `{0}` is the first group that took part.
_KINDS: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (kind, re.compile(pattern), title)
    for kind, pattern, title in (
        ("os_error", (
            r"(?i)address already in use|\bEADDRINUSE|port .{0,30}(?:already (?:in use|allocated)"
            r"|is in use)|only one usage of each socket"
        ), "address in use"),
        ("module_missing", (
            r"(?i)no module named '?([\w.]+)|cannot find (?:module|package) '([^']+)'"
            r"|could not resolve '([^']+)'|no required module provides package (\S+)"
        ), "no module {0}"),
        ("command_missing", r"command not found: (\S+)", "no command {0}"),
        ((
            "disk_full"
        ), r"(?i)no space left on device|\bENOSPC|disk (?:is )?full|disk quota exceeded", "disk full"),
        ("out_of_memory", (
            r"(?i)out of memory|OutOfMemory|heap (?:limit|out of)|bad_alloc|cannot allocate memory"
            r"|\bENOMEM|\bOOM|MemoryError"
        ), "out of memory"),
        ("context_length", (
            r"(?i)context[_ ]length|maximum context|prompt is too long|too many (?:input )?tokens"
            r"|context window"
        ), "context too long"),
        ("quota", (
            r"(?i)insufficient_quota|exceeded your current quota|quota exceeded|credit balance|billing"
        ), "quota used up"),
        ("http_{0}", (
            r"(?i)(?:http|status(?: code)?|error code|code) ([45]\d\d)\b|\b([45]\d\d):? (?:Bad|Unauth"
            r"|Forbid|Not|Conflict|Too|Internal|Service|Gateway|Unproc|Payload|Client|Server|Proxy"
            r"|Method|Gone)"
        ), "HTTP {0}"),
        ("os_error", r"(?i)file exists:?(?: '([^']+)'| (\S+))?|\bEEXIST", "file exists: {0}"),
        ("os_error", r"(?i)(?:no such file or directory|\bENOENT)(?:.*?'([^']+)')?", "no such file: {0}"),
        ("os_error", r"(?i)permission denied|\bEACCES|\bEPERM|operation not permitted", "permission denied"),
        ("os_error", r"(?i)too many open files|\bEMFILE|\bENFILE", "too many open files"),
        ("network", r"(?i)connection refused|\bECONNREFUSED", "connection refused"),
        ("network", (
            r"(?i)\bENOTFOUND|\bEAI_AGAIN|name or service not known|could not resolve host|name resolution"
            r"|no such host|nodename nor servname|getaddrinfo"
        ), "host not found"),
        ("tls", r"(?i)certificate has expired|cert_has_expired", "certificate expired"),
        ("tls", r"(?i)certificate|x509|\bssl\b|\btls\b|handshake", "TLS failure"),
        ("network", (
            r"(?i)connection (?:was )?reset|\bECONNRESET|broken pipe|\bEPIPE|socket hang up|unexpected eof"
            r"|server closed the connection"
        ), "connection lost"),
        ("time_out", r"(?i)timed? ?out|timeout|\bETIMEDOUT|deadline exceeded", "timed out"),
        ("deadlock", r"(?i)deadlock", "deadlock"),
        ("database", r"(?i)duplicate key|unique constraint|duplicate entry", "duplicate key"),
        ("database", r"(?i)database is locked", "database locked"),
        ("rate_limit", r"(?i)rate.?limit|too many requests|overloaded|throttl", "rate limit"),
        ("signal", r"(?i)segmentation fault|\bSIGSEGV|signal 11", "segmentation fault"),
        ("signal", r"(?i)\bkilled\b|\bSIGKILL|signal 9", "killed"),
        ("assertion", r"(?i)^assert|AssertionError|assertion", ""),
    )
)  # fmt: skip
_EXIT = re.compile(r"(?i)(?:exit(?:ed)?|non-zero|returned|status|code|error)\b.{0,30}?(-?\d+)\b")
_TYPE = re.compile(
    r"^(?:[\w$]+\.)*([A-Z][\w$]*(?:Error|Exception|Violation|Detected|Timeout"
    r"|Failure)\w*)(?: \[([\w-]+)\])?"
)
_BROAD_KINDS = frozenset(
    {"error", "text", "diagnostic", "test_failed", "exception", "linker", "lint", "error_body", "log_line"}
)
_FAMILY_WORDS = 5
_ARGUMENT = re.compile(r"'[^']{0,300}'|<[\w-]{1,20}>|(?<!\S)(?=\S*[\d/._])\S+")
_CODES = re.compile(
    r"\b(?:(?:exit|status|code|http|errno|error)[\w ]{0,12} -?\d+|[A-Z]{1,6}\d{3,6}|E[A-Z]{3,20}"
    r"|[A-Z]+(?:_[A-Z]+){1,6})\b"
)


def kind_and_title(words: str, shape: str) -> tuple[str, str]:
    """Return the kind, such as `os_error` or `http_429`, and a title of at most 60 characters."""
    for kind, pattern, title in _KINDS:
        found = pattern.search(words)
        if found is None:
            continue
        first = next((group for group in found.groups() if group), "") if found.groups() else ""
        said = title.format(first).rstrip(": ") if title else words
        return kind.format(first), shortened(said)
    if shape == "exit_code":
        code = _EXIT.search(words)
        return shape, shortened(f"exit code {code[1]}" if code else words)
    return shape, shortened(words)


def exception_type(template: str) -> str | None:
    """Return the name of the exception that a template starts with, if it starts with one."""
    named = _TYPE.match(template)
    return named[1] if named else None


def shortened(words: str) -> str:
    """Return the words cut to 60 characters, never inside a mask."""
    if len(words) <= _TITLE_CHARACTERS:
        return words
    cut = words[: _TITLE_CHARACTERS - 1]
    opened = cut.rfind("<")
    if opened > cut.rfind(">") and _MASK.match(words, opened):
        cut = cut[:opened].rstrip("'\"`(")
    return cut.rstrip() + "\u2026"


def family_parts(kind: str, template: str) -> tuple[str, ...]:
    """Return what relatives share: the kind, the exception's type, the codes, else first words; no argument."""
    named = exception_type(template)
    codes = sorted({found[0] for found in _CODES.finditer(template)})
    if named or codes:
        return (kind, named or "", *codes)
    return (kind, *_ARGUMENT.sub("", template).split()[:_FAMILY_WORDS]) if kind in _BROAD_KINDS else (kind,)
