"""Single tools whose failure is spread over several lines, so that no one line names it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from memory.signatures.bodies import told
from memory.signatures.clean import Line
from memory.signatures.finding import Finding, Rank

_NPM_CODE = re.compile(r"(?:ERR! )?code (?P<code>E[A-Z0-9_]+)$")
_NPM_NOISE = re.compile(
    r"(?i)(?:code |errno |syscall |path |command |sh |A complete log|This is|not ok|node |npm |cwd |$"
    r"|Tell|Note)"
)
_NPM_CODE_WORD = re.compile(r"(?:ERR! )?(?:E[A-Z0-9_]+|\d{3}|notsup|peerinvalid)\s+")
_REJECTED = re.compile(r"! \[(?P<what>(?:remote )?rejected|remote failure)\]\s+.*\((?P<why>[^()]{1,200})\)$")
_TERRAFORM_NOISE = re.compile(r"(?:on .{1,200} line \d+|with [\w.\[\]\"-]+,|\d+: |while |\s*$)")
_TERRAFORM_MARKS = ("\u2577", "terraform", "Terraform", "provider", "Provider")
_TERRAFORM_PLACE = re.compile(r"\bon \S+ line \d")
_SAYS_MORE = re.compile(r"(?<!^Error): |['\"`(]")
_ANSIBLE = re.compile(r"fatal: \[[^\]]{1,200}\](?: -> [^:]{1,100})?: (?P<what>[A-Z!]+) ?=> (?P<body>\{.*)$")
_GRADLE_REASON = re.compile(r">\s+(?P<words>\S.*)$")
_MAVEN = re.compile(
    r"\[ERROR\] Failed to execute goal (?:on project \S+: "
    r"|(?P<goal>\S+) \([^)]*\) on project \S+: )(?P<words>.+)$"
)
_CONFLICT = re.compile(r"CONFLICT \((?P<what>[^)]{1,60})\): (?P<words>.+)$")
_YARN_PROBLEM = re.compile(r"(?:error )?(?:An unexpected error occurred: |Couldn't find |An )")
_SECOND_LINES = 12


def _npm_said(lines: Sequence[Line], place: int) -> str:
    """The first line under npm's code that says what, or the one that names the package it is about."""
    said = [x.words for x in lines[place + 1 : place + _SECOND_LINES] if not _NPM_NOISE.match(x.words)]
    said = [_NPM_CODE_WORD.sub("", words) for words in said]
    about = next((words for words in said if "'" in words and "is not in" in words), None)
    return about or (said[0] if said else "")


def find_npm(lines: Sequence[Line], text: str) -> Finding | None:
    """Find npm's error code with the line that says what is wrong."""
    if "code E" not in text:
        return None
    for place, line in enumerate(lines):
        found = _NPM_CODE.match(line.words)
        if found and found["code"] != "ELIFECYCLE":
            said = re.sub(r"'(@?[^@'\s]{1,200})@[^'\s]*'", r"'\1'", _npm_said(lines, place))
            return Finding(Rank.TOOL, place, f"npm {found['code']} {said}".strip(), "package_manager")
    return None


def find_git(lines: Sequence[Line], text: str) -> Finding | None:
    """Find why git rejected a push, or which kind of conflict a merge has."""
    if "rejected]" not in text and "CONFLICT (" not in text and "remote failure]" not in text:
        return None
    for place, line in enumerate(lines):
        rejected = _REJECTED.search(line.words)
        if rejected:
            return Finding(Rank.TOOL, place, f"git push {rejected['what']}: {rejected['why']}", "git")
        conflict = _CONFLICT.match(line.words)
        if conflict:
            return Finding(Rank.TOOL, place, line.words, "git")
    return None


def find_terraform(lines: Sequence[Line], text: str) -> Finding | None:
    """Find the summary of a Terraform error and the sentence that names its object."""
    if "Error: " not in text or not (any(mark in text for mark in _TERRAFORM_MARKS) or _TERRAFORM_PLACE.search(text)):
        return None
    for place, line in enumerate(lines):
        announced = any("described below" in other.words for other in lines[place : place + 2])
        if announced or not line.words.startswith("Error: "):
            continue
        below = [x.words for x in lines[place + 1 : place + _SECOND_LINES] if not _TERRAFORM_NOISE.match(x.words)]
        named = next((words for words in below if '"' in words), None)
        if named is None and below and not _SAYS_MORE.search(line.words):
            # Long sentences are broken at the width of a terminal.
            named = " ".join(takewhile(lambda words: words[-1:] != ":", below))
        detail = re.split(r"\.(?: |$)", named)[0] if named and '"' not in line.words else None
        return Finding(Rank.TOOL, place, f"{line.words} {detail or ''}".strip(), "terraform")
    return None


def _command_said(body: str) -> str:
    """The exit code of a command, with the first line that it wrote to its error output."""
    code, errors = re.search(r'"rc": (-?\d{1,6})', body), re.search(r'"stderr": "((?:[^"\\]|\\.){1,1500})"', body)
    line = next((part for part in errors[1].split("\\n") if part.strip()), "") if errors else ""
    return f"rc={code[1] if code else ''} {line}".strip()


def find_ansible(lines: Sequence[Line], text: str) -> Finding | None:
    """Find the message of a failed Ansible task, whatever host it failed on."""
    if "fatal: [" not in text:
        return None
    for place, line in enumerate(lines):
        found = _ANSIBLE.match(line.words)
        if found:
            body = found[("body")] if len(found["body"]) > 3 else " ".join(x.words for x in lines[place : place + 20])
            msg = re.search(r'"msg": "((?:[^"\\]|\\.){1,1500})"', body)
            said = msg[1] if msg else told(body) or ""
            if said == "non-zero return code":
                said = f"{said} {_command_said(body)}"
            return Finding(Rank.TOOL, place, f"ansible {found['what']} {said}", "ansible")
    return None


def find_gradle(lines: Sequence[Line], text: str) -> Finding | None:
    """Find the innermost reason under Gradle's `What went wrong`."""
    if "What went wrong" not in text:
        return None
    start = next(place for place, line in enumerate(lines) if "What went wrong" in line.words)
    best: tuple[int, str] | None = None
    for place in range(start + 1, min(start + 30, len(lines))):
        words = lines[place].words
        if words.startswith("*"):
            break
        reason = _GRADLE_REASON.match(words)
        if reason or best is None:
            best = (place, reason["words"] if reason else words)
    return Finding(Rank.TOOL, best[0], best[1], "gradle") if best else None


def find_maven(lines: Sequence[Line], text: str) -> Finding | None:
    """Find why a Maven goal failed."""
    if "Failed to execute goal" not in text:
        return None
    for place, line in enumerate(lines):
        found = _MAVEN.match(line.words)
        if found:
            words = re.sub(r"for project \S+: ", "", found["words"])
            words = re.split(r" -> \[Help|: Failed to collect|\. See |: Execution ", words)[0]
            weak = words.startswith(("Compilation failure", "There are test failures"))
            goal = (found["goal"] or "").rsplit(":", 1)[-1]
            return Finding(Rank.WRAPPER if weak else Rank.TOOL, place, f"maven {goal} {words}", "maven")
    return None
