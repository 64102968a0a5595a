"""Every command of README and docs is typed in order, with the files that the page tells the reader to write."""

from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, Block, Command, blocks, commands
from tests.docs.conftest import Shell

WITH_COMMANDS = [page for page in PAGES if any(block.language == "console" for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_the_commands_of_a_page_do_what_it_says(page: Path, shell: Shell) -> None:
    for block in blocks(page):
        if block.file is not None:
            (shell.folder / block.file).write_text(block.text, encoding="utf-8")
        if block.language == "console":
            for command in commands(block):
                type_in(shell, block, command)


def type_in(shell: Shell, block: Block, command: Command) -> None:
    status, output = shell.run(command.line)
    told = f"{block.where}: {command.line}\n{output}"
    assert status == 0, told
    assert command.prints(output), f"{told}\n--- the page shows ---\n{command.shown}"
    if "-o json" in command.line and "COMPLETED" in output:
        assert '"warnings": []' in output, told
