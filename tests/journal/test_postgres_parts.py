"""Named queries, and the translation of the driver's errors."""

import ast
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import psycopg
import psycopg_pool
import pytest
from psycopg import errors

import memory
from memory.errors import FinalError, NotFound, PoimenError, Rejected, SchemaDiffers, StoreUnavailable, TooLarge
from memory.postgres import Pool, load_queries, tenant_transaction
from memory.postgres.driver_errors import translated

ROOT = Path(memory.__file__).parent


def driver_errors() -> Iterator[type[psycopg.Error]]:
    waiting: list[type[psycopg.Error]] = [psycopg.Error]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(found.__subclasses__())


def translate(error: psycopg.Error) -> PoimenError:
    with pytest.raises(PoimenError) as caught, translated():
        raise error
    return caught.value


@pytest.mark.parametrize("kind", sorted(set(driver_errors()), key=str), ids=lambda kind: kind.__name__)
def test_no_error_of_the_driver_escapes_and_none_shows_its_text(kind: type[psycopg.Error]) -> None:
    error = translate(kind("secret text of host db.internal"))
    assert isinstance(error, FinalError | StoreUnavailable)
    assert "secret" not in str(error)
    assert "db.internal" not in str(error)
    assert isinstance(error.__cause__, kind)


@pytest.mark.parametrize(
    ("kind", "meaning"),
    [
        (psycopg.OperationalError, StoreUnavailable),
        (psycopg.InterfaceError, StoreUnavailable),
        (psycopg_pool.PoolTimeout, StoreUnavailable),
        (psycopg_pool.TooManyRequests, StoreUnavailable),
        (psycopg_pool.PoolClosed, StoreUnavailable),
        (errors.AdminShutdown, StoreUnavailable),
        (errors.CannotConnectNow, StoreUnavailable),
        (errors.ConnectionFailure, StoreUnavailable),
        (errors.SerializationFailure, StoreUnavailable),
        (errors.DeadlockDetected, StoreUnavailable),
        (errors.LockNotAvailable, StoreUnavailable),
        (errors.QueryCanceled, StoreUnavailable),
        (errors.TooManyConnections, StoreUnavailable),
        (errors.DiskFull, StoreUnavailable),
        (errors.TransactionTimeout, StoreUnavailable),
        (errors.ReadOnlySqlTransaction, StoreUnavailable),
        (errors.UniqueViolation, Rejected),
        (errors.CheckViolation, SchemaDiffers),
        (errors.NotNullViolation, SchemaDiffers),
        (errors.ForeignKeyViolation, SchemaDiffers),
        (errors.InsufficientPrivilege, SchemaDiffers),
        (errors.UndefinedFunction, SchemaDiffers),
        (errors.InvalidSchemaName, SchemaDiffers),
        (errors.RaiseException, SchemaDiffers),
        (psycopg.ProgrammingError, SchemaDiffers),
        (errors.FeatureNotSupported, StoreUnavailable),
        (errors.InvalidPassword, StoreUnavailable),
        (errors.InFailedSqlTransaction, StoreUnavailable),
        (errors.UntranslatableCharacter, Rejected),
        (psycopg.DataError, Rejected),
        (errors.NumericValueOutOfRange, Rejected),
        (errors.UndefinedTable, SchemaDiffers),
        (errors.UndefinedColumn, SchemaDiffers),
        (errors.ProgramLimitExceeded, TooLarge),
        (errors.StringDataRightTruncation, TooLarge),
    ],
    ids=lambda each: each.__name__,
)
def test_an_error_says_whether_asking_again_helps(kind: type[psycopg.Error], meaning: type[PoimenError]) -> None:
    assert type(translate(kind("x"))) is meaning


def test_the_memorys_own_errors_pass_through() -> None:
    with pytest.raises(NotFound), translated():
        raise NotFound("les-1 is not on record.")


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
async def test_text_that_cannot_be_stored_is_a_rejection_not_an_accident(text: str, pool: Pool) -> None:
    with pytest.raises(Rejected):
        await select(pool, text)


async def select(pool: Pool, text: str) -> None:
    async with tenant_transaction(pool, "local", deadline_seconds=5) as tx:
        await tx.row("select %(text)s::text", text=text)


def modules() -> list[ModuleType]:
    files = [path for path in ROOT.rglob("*.py") if path.name != "__init__.py"]
    return [import_module(".".join(["memory", *path.relative_to(ROOT).with_suffix("").parts])) for path in files]


def used_queries(module: ModuleType) -> Iterator[tuple[Mapping[str, str], str]]:
    """The catalogue and the name of every `SQL["name"]` and `other.SQL["name"]`."""
    assert module.__file__ is not None
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        match node:
            case ast.Subscript(value=ast.Name(id="SQL"), slice=ast.Constant(value=str() as name)):
                yield vars(module)["SQL"], name
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=owner), attr="SQL"), slice=ast.Constant(value=str() as name)
            ):
                yield vars(module)[owner].SQL, name


def test_every_named_query_is_used_and_every_used_name_exists() -> None:
    catalogues = {id(module.SQL): (module.__name__, module.SQL) for module in modules() if hasattr(module, "SQL")}
    unused = {key: set(catalogue) for key, (_, catalogue) in catalogues.items()}
    for module in modules():
        for catalogue, name in used_queries(module):
            assert name in catalogue, f"{module.__name__} uses {name}"
            unused[id(catalogue)].discard(name)
    assert {catalogues[key][0]: names for key, names in unused.items() if names} == {}
    files = [path for path in ROOT.rglob("*.sql") if path.parent.name != "migrations"]
    assert len(catalogues) == len(files), "a file of queries is loaded twice, or never"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("select 1", "before the first name"),
        ("-- name: a\nselect 1", "needs a description"),
        ("-- name: a\n-- Says one.\n", "needs a description line and a statement"),
        ("-- name: a\n-- Says one.\nselect 1\n-- name: a\n-- Again.\nselect 1", "named twice"),
    ],
)
def test_a_query_file_that_is_not_well_formed_is_refused(
    text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "queries_under_test"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "some.sql").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, package.name, raising=False)
    with pytest.raises(ValueError, match=reason):
        load_queries(package.name, "some.sql")


def test_only_this_package_imports_the_driver() -> None:
    users = {
        path.parent.name
        for path in ROOT.rglob("*.py")
        if re.search(r"^\s*(import|from) psycopg", path.read_text(), re.MULTILINE)
    }
    assert users == {"postgres"}
