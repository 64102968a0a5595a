"""Both distributions, built and installed as anybody would, away from the checkout."""

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.packaging.programs import ROOT, inherited, run_program


@dataclass(frozen=True)
class Wheels:
    """The two built wheels."""

    client: Path
    application: Path


@dataclass(frozen=True)
class Installed:
    """A virtual environment, and a folder outside the checkout to run it from."""

    venv: Path
    folder: Path

    @property
    def programs(self) -> Path:
        return self.venv / "bin"

    def run(self, *argv: str, expected: int = 0) -> str:
        """Run a program of the environment and return what it prints."""
        environment = inherited(PATH=f"{self.programs}:{inherited()['PATH']}", HOME=str(self.folder))
        program = str(self.programs / argv[0])
        return run_program([program, *argv[1:]], cwd=self.folder, environment=environment, expected=expected)


def uv(*arguments: str) -> None:
    """Run the project's own uv, or the machine's; first from what it has cached, then with the index."""
    own = ROOT / ".uv/bin"
    program = str(own / "uv") if (own / "uv").exists() else "uv"
    environment = inherited(UV_PYTHON_DOWNLOADS="never", UV_NO_PROGRESS="1")
    # As in the Makefile: uv does not read the settings of pip, and what it has cached is filed by index.
    index = environment.get("PIP_INDEX_URL") or _index_of_pip(own / "python")
    if index and not environment.get("UV_DEFAULT_INDEX"):
        environment["UV_DEFAULT_INDEX"] = index
    try:
        run_program([program, *arguments, "--offline"], environment=environment)
    except AssertionError:
        run_program([program, *arguments], environment=environment)


@cache
def _index_of_pip(python: Path) -> str:
    if not python.exists():
        return ""
    try:
        return run_program([str(python), "-m", "pip", "config", "get", "global.index-url"]).strip()
    except AssertionError:
        return ""  # it is not set


def make_venv(path: Path, *requirements: str) -> Path:
    """Make an environment with what a lock file names, checked by hash."""
    uv("venv", "--quiet", "--python", sys.executable, str(path))
    for name in requirements:
        lock = str(ROOT / "requirements" / name)
        uv("pip", "install", "--quiet", "--python", str(path / "bin/python"), "--require-hashes", "-r", lock)
    return path


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Both wheels, each built from the source archive, so that the archive is known to be whole."""
    folder = tmp_path_factory.mktemp("built")
    tools = make_venv(folder / "tools", "build.lock")
    where = ("--python", str(tools / "bin/python"), "--out-dir", str(folder / "dist"))
    for source in (ROOT / "client", ROOT):
        uv("build", "--quiet", "--no-build-isolation", *where, str(source))
    (client,) = (folder / "dist").glob("poimen_client-*.whl")
    (application,) = (folder / "dist").glob("poimen_memory-*.whl")
    return Wheels(client, application)


@pytest.fixture(scope="session")
def installed(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The application with what `runtime.lock` names, as the image has it."""
    folder = tmp_path_factory.mktemp("application")
    venv = make_venv(folder / "venv", "runtime.lock")
    python = str(venv / "bin/python")
    uv("pip", "install", "--quiet", "--python", python, "--no-deps", str(wheels.client), str(wheels.application))
    return Installed(venv, folder)


@pytest.fixture(scope="session")
def client_alone(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """`poimen-client` with its own dependencies, at the versions of `runtime.lock`."""
    folder = tmp_path_factory.mktemp("client")
    venv = make_venv(folder / "venv")
    lock = str(ROOT / "requirements/runtime.lock")
    uv("pip", "install", "--quiet", "--python", str(venv / "bin/python"), "--constraint", lock, str(wheels.client))
    return Installed(venv, folder)
