"""Every setting there is: its name, what it accepts, its default; and how values are read from variables or a file."""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

from poimen.contracts.message import check_identifier
from poimen.contracts.problems import hint, quoted, safe_name
from worker.yaml_text import Mapping as YamlMapping
from worker.yaml_text import Node, Scalar, YamlRefused, read_tree

PREFIX = "POIMEN_"
_FILE_SUFFIX = "_FILE"
_LARGEST_BYTES = 1024 * 1024
# The queues of executors are named after it: "-executor-", at most 40 characters of a host's name, and 9 of its own.
_LONGEST_QUEUE = 140
# What a step's command is given by its executor: a command that starts the command line again inherits them.
_OF_STEPS = frozenset(
    PREFIX + name for name in ("RUN", "STEP", "ATTEMPT", "CONTEXT", "CONTEXT_JSON", "RESULT", "CHECKPOINT", "MARK")
)
_SWITCH = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}

T = TypeVar("T")


class SettingsError(Exception):
    """A setting is missing, not known or not valid; the message is a sentence without its value."""


@dataclass(frozen=True)
class Option:
    """One setting. `read` takes a text, or a list from a file, and raises ValueError with what is wrong."""

    read: Callable[[Any], Any]
    default: Any = None
    secret: bool = False


def _text(value: Any) -> str:
    if isinstance(value, bool | list | dict):
        raise ValueError("must be text")
    return str(value)


def _queue(value: Any) -> str:
    try:
        name = check_identifier(_text(value), _LONGEST_QUEUE)
    except PydanticCustomError as refused:
        raise ValueError((refused.context or {})["predicate"]) from None
    if name.startswith("/_sys/"):
        raise ValueError('begins with "/_sys/", which is reserved; choose another')
    return name


def _number(kind: Callable[[str], T], least: float, wanted: str) -> Callable[[Any], T]:
    def read(value: Any) -> T:
        try:
            number = kind(_text(value))
        except ValueError:
            raise ValueError(f"must be {wanted}") from None
        if not least <= float(number) < 1e9:  # type: ignore[arg-type]  # because T is int or float
            raise ValueError(f"must be {wanted}")
        return number

    return read


def _names(value: Any) -> tuple[str, ...]:
    parts = value if isinstance(value, list) else _text(value).split(",")
    return tuple(part for part in (_text(part).strip() for part in parts) if part)


def _url(value: Any) -> str:
    url = _text(value).strip()
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise ValueError("must be a URL that begins with http:// or https://")
    if parts.username or parts.password:
        raise ValueError("must not hold a user or a password; they have settings of their own")
    return url.rstrip("/")


def _urls(value: Any) -> tuple[str, ...]:
    return tuple(_url(part) for part in _names(value))


def _paths(value: Any) -> tuple[Path, ...]:
    parts = value if isinstance(value, list) else _text(value).split(os.pathsep)
    return tuple(_path(part) for part in parts if part)


def _path(value: Any) -> Path:
    return Path(_text(value)).expanduser().absolute()


def _lines(value: Any) -> tuple[str, ...]:
    parts = value if isinstance(value, list) else _text(value).split("\n")
    return tuple(part for part in (_text(part).strip() for part in parts) if part)


def _switch(value: Any) -> bool:
    try:
        return value if isinstance(value, bool) else _SWITCH[_text(value).lower()]
    except KeyError:
        raise ValueError('must be "on" or "off"') from None


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {quoted(words)}")
        return str(value)

    return read


_seconds = _number(float, 0.01, "a number of seconds")
_count = _number(int, 1, "a whole number, 1 or more")

OPTIONS: Mapping[str, Option] = {
    "role": Option(_one_of("memory", "executor", "all"), "all"),
    "task_queue": Option(_queue, "poimen"),
    "identity": Option(_text),
    # Between being told to end and cancelling what still runs.
    "grace_seconds": Option(_seconds, 10.0),
    "connect_seconds": Option(_seconds, 30.0),
    "reconcile_seconds": Option(_seconds, 10.0),
    "log": Option(_one_of("json", "text"), "json"),
    "log_level": Option(_one_of("debug", "info", "warning", "error"), "info"),
    "ui_url": Option(_text),
    "postgres_dsn": Option(_text, secret=True),
    "postgres_owner_dsn": Option(_text, secret=True),
    "pool_size": Option(_count, 8),
    "index": Option(_one_of("pgvector", "opensearch"), "pgvector"),
    "opensearch_url": Option(_urls, ()),
    "opensearch_user": Option(_text),
    "opensearch_password": Option(_text, secret=True),
    # What https is verified by, instead of what the system trusts.
    "opensearch_ca": Option(_path),
    "opensearch_seconds": Option(_seconds, 5.0),
    "opensearch_replicas": Option(_number(int, 0, "a whole number"), 0),
    # Where the local stack keeps programs that it put together itself; left out, a folder of the user's cache.
    "cache": Option(_path),
    # Left out, it is minilm where the `embedding` extra is installed, and none elsewhere.
    "embedder": Option(_one_of("minilm", "endpoint", "none")),
    "embedding_url": Option(_url),
    "embedding_model": Option(_text),
    "embedding_key": Option(_text, secret=True),
    "embedding_dimension": Option(_count),
    "vault": Option(_path, Path(".poimen/vault")),
    "masking_key": Option(_text, secret=True),
    "secrets": Option(_lines, (), secret=True),
    "tenants": Option(_names, ("local",)),
    "default_tenant": Option(_text),
    # An executor keeps its host id, its outputs and the folders of running attempts here.
    "state": Option(_path, Path(".poimen/executor")),
    "workspaces": Option(_paths, ()),
    "commands": Option(_switch, True),
    "commands_at_once": Option(_count, 16),
    "command_path": Option(_text),
    # After which a stored output is removed, unless it was stored again.
    "output_days": Option(_number(float, 0.01, "a number of days"), 14.0),
    "allowed_variables": Option(_names, ()),
    "models_file": Option(_path),
}


@dataclass(frozen=True)
class Read:
    """What was read: a value for every option, and the tables of `models`."""

    values: Mapping[str, Any]
    models: Mapping[str, Any]
    # Names of the options that were set, and not left to their default.
    given: frozenset[str]


def read_options(environment: Mapping[str, str]) -> Read:
    """Read every option: a variable first, then the file POIMEN_CONFIG names, then the default.

    An empty variable counts as absent. Raises SettingsError.
    """
    variables = {name: value for name, value in environment.items() if name.startswith(PREFIX) and value}
    config = variables.pop(PREFIX + "CONFIG", None)
    table = dict(read_table(Path(config), PREFIX + "CONFIG")) if config else {}
    models = _models(table.pop("models", {}), "models")
    given = _from_file(table, Path(config or "").name) | _from_variables(variables)
    values = {name: given.get(name, option.default) for name, option in OPTIONS.items()}
    if values["models_file"]:
        models |= _models(dict(read_table(values["models_file"], PREFIX + "MODELS_FILE")), "the models file")
    return Read(values, models, frozenset(given))


def read_table(file: Path, named_by: str) -> Mapping[str, Any]:
    """Read a .toml, .yaml or .yml file that holds one table; `named_by` is who names the file, for errors."""
    try:
        content = file.read_bytes()[: _LARGEST_BYTES + 1]
        text = content.decode()
    except (OSError, UnicodeDecodeError):
        raise SettingsError(f"The file that {named_by} names cannot be read as text.") from None
    name = safe_name(file.name) or "The file"
    if len(content) > _LARGEST_BYTES:
        raise SettingsError(f"{name} is larger than {_LARGEST_BYTES:,} bytes.")
    if file.suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            where = str(error).rpartition("(at ")[2].rstrip(")")
            raise SettingsError(f"{name} is not valid TOML ({where}).") from None
    if file.suffix in {".yaml", ".yml"}:
        return _yaml_table(text, name)
    raise SettingsError(f"{name} has no known form; name it .toml, .yaml or .yml.")


def _yaml_table(text: str, name: str) -> Mapping[str, Any]:
    try:
        tree = read_tree(text)
    except YamlRefused as error:
        raise SettingsError(f"{name} {error.sentence}") from None
    if not isinstance(tree, YamlMapping):
        raise SettingsError(f"{name} needs one table of settings.")
    found = _plain(tree)
    assert isinstance(found, dict)
    return found


def _plain(node: Node) -> str | list[Any] | dict[str, Any]:
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, YamlMapping):
        return {key: _plain(value) for key, (_, value) in node.entries.items()}
    return [_plain(item) for item in node.items]


def _from_file(table: Mapping[str, Any], file: str) -> dict[str, Any]:
    known = [*OPTIONS, "models", *(f"{name}_file" for name, option in OPTIONS.items() if option.secret)]
    for name in table:
        if name not in known:
            raise SettingsError(f"{file} has no setting {quoted([name]) or 'of such a name'}{hint(name, known)}")
    return _values({name.upper(): value for name, value in table.items()}, f"{file}: ", str.lower)


def _from_variables(variables: Mapping[str, str]) -> dict[str, Any]:
    known = _variable_names()
    for name in variables:
        if name not in known and name not in _OF_STEPS:
            raise SettingsError(f"{safe_name(name) or 'A variable'} is not a setting{hint(name, known)}")
    given = {name.removeprefix(PREFIX): value for name, value in variables.items() if name not in _OF_STEPS}
    return _values(given, "", lambda name: PREFIX + name)


def _variable_names() -> list[str]:
    names = [PREFIX + name.upper() for name in OPTIONS]
    return [*names, *(PREFIX + name.upper() + _FILE_SUFFIX for name, option in OPTIONS.items() if option.secret)]


def _values(given: Mapping[str, Any], before: str, shown: Callable[[str], str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        upper = name.upper()
        text, file = given.get(upper), given.get(upper + _FILE_SUFFIX) if option.secret else None
        if text is not None and file is not None:
            raise SettingsError(f"{before}Both {shown(upper)} and {shown(upper + _FILE_SUFFIX)} are set; set one.")
        if file is not None:
            text, upper = _secret_file(file, shown(upper + _FILE_SUFFIX)), upper + _FILE_SUFFIX
        if text is not None:
            try:
                values[name] = option.read(text)
            except ValueError as error:
                raise SettingsError(f"{before}{shown(upper)} {error}.") from None
    return values


def _secret_file(path: object, named_by: str) -> str:
    try:
        text = Path(str(path)).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError):
        raise SettingsError(f"The file that {named_by} names cannot be read.") from None
    if not text:
        raise SettingsError(f"The file that {named_by} names is empty.")
    return text


def _models(tables: Any, where: str) -> dict[str, Any]:
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise SettingsError(f"{where} needs one table for each model, by its name.")
    return tables
