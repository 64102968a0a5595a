"""Where a command may run: below an allowed root, and inside its run's workspace."""

import os
from pathlib import Path

from executors.refusal import NotAllowed, named
from executors.settings import ExecutorSettings


def find_workspace(asked: str | None, settings: ExecutorSettings) -> Path:
    """Return the real path of a workspace; without a name the first root is it.

    A relative one is looked for below each root in turn. Raises NotAllowed.
    """
    roots = [_real(root) for root in settings.workspace_roots]
    if not roots:
        raise NotAllowed("the executor has no workspace roots, so no command may run")
    if asked is None:
        return _existing_folder(roots[0], "the workspace")
    _check_characters(asked, "the workspace")
    candidates = [_real(root / asked) for root in roots]
    allowed = [path for path in candidates if any(path.is_relative_to(root) for root in roots)]
    if not allowed:
        raise NotAllowed("the workspace is outside the executor's allowed roots")
    found = next((path for path in allowed if path.is_dir()), allowed[0])
    return _existing_folder(found, "the workspace")


def find_inside(workspace: Path, relative: str | None, what: str) -> Path:
    """Return the real path of something inside the workspace, which need not exist. Raises NotAllowed."""
    if relative is None:
        return workspace
    _check_characters(relative, what)
    if Path(relative).is_absolute():
        raise NotAllowed(f"{what} is an absolute path; give one relative to the workspace")
    path = _real(workspace / relative)
    if not path.is_relative_to(workspace):
        raise NotAllowed(f"{what} is outside the workspace")
    return path


def find_cwd(workspace: Path, relative: str | None) -> Path:
    """Return the folder a command runs in. Raises NotAllowed."""
    what = named("cwd", relative or ".")
    return _existing_folder(find_inside(workspace, relative, what), what)


def _real(path: Path) -> Path:
    # A loop of symlinks resolves to itself here and is then no folder.
    return Path(os.path.realpath(path))


def _existing_folder(path: Path, what: str) -> Path:
    if not path.is_dir():
        raise NotAllowed(f"{what} is not a folder on the executor")
    return path


def _check_characters(path: str, what: str) -> None:
    if "\0" in path:
        raise NotAllowed(f"{what} contains U+0000")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise NotAllowed(f"{what} contains a lone surrogate") from None
