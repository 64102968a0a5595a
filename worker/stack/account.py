"""The account a server runs under that refuses root and wants a user with a name."""

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


async def choose_account(program: Path, data: Path, *, name: str, reads: Sequence[Path] = ()) -> Account:
    """Return a way to run `program` as somebody other than root, with its files in `data`.

    A plain user runs it directly. Root maps itself to an ordinary name in a user namespace, so that its
    files stay its own; where that is forbidden, as in many containers, it becomes an unprivileged user,
    which must be able to reach these paths and those it `reads`. No user is added. Files of an earlier run keep
    their owner. `name` is the server's, for errors.
    """
    if os.geteuid() != 0 and _has_name(os.geteuid()):
        return Account(())
    stranger = _unprivileged(name)
    mapped, become = Account(("unshare", "--user", f"--map-user={stranger.pw_uid}")), _become(stranger)
    root_may = [way for way in (mapped, become) if _may_own(way, data)]
    candidates = root_may if os.geteuid() == 0 else [mapped]
    for account in candidates:
        if shutil.which(account.prefix[0]) and await _works(account, program, [data.parent.parent, *reads]):
            return account
    raise StackError(
        f"{name} does not run as root, user namespaces are not allowed here, and the user {stranger.pw_name} "
        f"cannot reach {' and '.join(str(path) for path in (program, data, *reads))}. Run as an ordinary user, or "
        "move the folder to where every user can reach it."
    )


def _become(stranger: pwd.struct_passwd) -> Account:
    ids = (stranger.pw_uid, stranger.pw_gid)
    prefix = ("setpriv", f"--reuid={ids[0]}", f"--regid={ids[1]}", "--clear-groups", "--pdeathsig=INT", "--")
    return Account(prefix, ids)


def _may_own(account: Account, data: Path) -> bool:
    return not data.exists() or (data.stat().st_uid == 0) == (account.owner is None)


async def _works(account: Account, program: Path, reached: Sequence[Path]) -> bool:
    """Try it: run the program, and reach the folders; of a server's files the state folder, two levels above."""
    script = '"$1" --version && shift && for folder; do test -x "$folder" || exit; done'
    try:
        await run_once([*account.prefix, "sh", "-c", script, "sh", str(program), *map(str, reached)])
    except (ChildError, OSError):
        return False
    return True


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _unprivileged(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        others = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
        if not others:
            raise StackError(f"{name} does not run as root, and this machine knows no other user.") from None
        return others[-1]
