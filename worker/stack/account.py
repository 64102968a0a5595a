"""The account PostgreSQL runs under: it refuses root and wants a user with a name."""

import os
import pwd
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.stack.child import ChildError, run_once
from worker.stack.state import StackError


@dataclass(frozen=True)
class Account:
    """A prefix for command lines, and the owner its files need (None: the present user)."""

    prefix: Sequence[str]
    owner: tuple[int, int] | None = None


async def choose_account(program: Path, folder: Path) -> Account:
    """Return a way to run `program` as somebody other than root, with `folder` for its files.

    A plain user runs it directly. Root maps itself to an ordinary name in a user namespace, so that its
    files stay its own; where that is forbidden, as in many containers, it becomes an unprivileged user,
    which must be able to reach both paths. No user is added and no permission outside `folder` changed.
    """
    if os.geteuid() != 0 and _has_name(os.geteuid()):
        return Account(())
    stranger = _unprivileged()
    candidates = [Account(("unshare", "--user", f"--map-user={stranger.pw_uid}"))]
    if os.geteuid() == 0:
        candidates.append(_become(stranger))
    for account in candidates:
        if shutil.which(account.prefix[0]) and await _works(account, program, folder):
            return account
    raise StackError(
        f"PostgreSQL does not run as root, user namespaces are not allowed here, and the user "
        f"{stranger.pw_name} cannot reach both {program} and {folder}. Run as an ordinary user, or move the "
        "folder to where every user can reach it."
    )


def _become(stranger: pwd.struct_passwd) -> Account:
    ids = (stranger.pw_uid, stranger.pw_gid)
    prefix = ("setpriv", f"--reuid={ids[0]}", f"--regid={ids[1]}", "--clear-groups", "--pdeathsig=INT", "--")
    return Account(prefix, ids)


async def _works(account: Account, program: Path, folder: Path) -> bool:
    """Try it: run the program, and look into the folder, which its owner-to-be must be able to reach."""
    script = '"$1" --version && test -x "$2"'
    try:
        await run_once([*account.prefix, "sh", "-c", script, "sh", str(program), str(folder.parent)])
    except (ChildError, OSError):
        return False
    return True


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _unprivileged() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        others = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
        if not others:
            raise StackError("PostgreSQL does not run as root, and this machine knows no other user.") from None
        return others[-1]
