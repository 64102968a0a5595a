import pytest

from memory.why import Explanation
from worker.cli.why import _told


@pytest.mark.parametrize(
    ("decisions", "said"),
    [
        ((), "No step of this run is on record yet."),
        (("run failed: no room",), "No step of this run is on record.\nrun failed: no room"),
    ],
)
def test_only_of_a_run_that_goes_on_are_steps_awaited(decisions: tuple[str, ...], said: str) -> None:
    assert _told(Explanation("rel-1", "id-1", (), (), decisions)) == said
