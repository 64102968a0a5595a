from dataclasses import replace

import pytest

from executors.command import run_command
from executors.refusal import NotAllowed
from executors.workspace import find_cwd, find_inside, find_workspace


async def test_a_command_runs_in_its_cwd(settings, command, workspace):
    (workspace / "part").mkdir()
    result = await run_command(command("pwd", cwd="part"), settings)
    assert result.head.strip() == str(workspace.resolve() / "part")


@pytest.mark.parametrize(
    "cwd", ["..", "part/../..", "link", "link/below", "/", "/tmp", "gone", "file", "a\0b", "a\ud800"]
)
async def test_a_cwd_that_is_not_a_folder_of_the_workspace_is_refused(settings, command, workspace, tmp_path, cwd):
    (workspace / "part").mkdir()
    (workspace / "file").write_text("")
    (tmp_path / "outside" / "below").mkdir(parents=True)
    (workspace / "link").symlink_to(tmp_path / "outside")
    request = command("touch", "mark").model_copy(update={"cwd": cwd})
    result = await run_command(request, settings)
    assert result.end == "not_allowed"
    assert "cwd" in result.detail
    assert str(tmp_path) not in result.detail
    assert not list(tmp_path.rglob("mark"))


def test_a_symlink_that_stays_inside_is_followed(workspace):
    (workspace / "part").mkdir()
    (workspace / "link").symlink_to("part")
    assert find_cwd(workspace.resolve(), "link") == (workspace / "part").resolve()


def test_a_loop_of_symlinks_is_refused(workspace):
    (workspace / "one").symlink_to("two")
    (workspace / "two").symlink_to("one")
    with pytest.raises(NotAllowed):
        find_cwd(workspace.resolve(), "one")


def test_a_folder_whose_name_begins_like_the_workspace_is_outside(workspace):
    workspace.with_name("workspace-2").mkdir()
    with pytest.raises(NotAllowed, match="outside"):
        find_inside(workspace.resolve(), "../workspace-2", "the file")


def test_without_a_name_the_first_root_is_the_workspace(settings, workspace):
    assert find_workspace(None, settings) == workspace.resolve()


def test_a_workspace_is_found_below_any_root(settings, tmp_path):
    other = tmp_path / "other"
    (other / "api").mkdir(parents=True)
    limits = replace(settings, workspace_roots=(*settings.workspace_roots, other))
    assert find_workspace("api", limits) == (other / "api").resolve()
    assert find_workspace(str(other / "api"), limits) == (other / "api").resolve()


@pytest.mark.parametrize("asked", ["/", "..", "gone", "a\0b"])
def test_a_workspace_outside_the_roots_or_missing_is_refused(settings, asked):
    with pytest.raises(NotAllowed, match="workspace"):
        find_workspace(asked, settings)


def test_without_roots_nothing_runs(settings):
    with pytest.raises(NotAllowed, match="no workspace roots"):
        find_workspace(None, replace(settings, workspace_roots=()))
