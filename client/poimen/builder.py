"""Write a definition in Python: the same fields, checks and hash as in YAML.

definition = (
    Harness("release-checks", scope="acme/api", budget={"attempts": 30})
    .phase("T0", title="Environment")
    .step("install", run=command("pip", "install", "-e", "."), verify=command("python", "-c", "import api"))
    .step("plan", needs=["install"], run=model("small", prompt="Plan the release.\\n{{context}}"))
    .gate(command("./smoke"))
    .build()
)
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Self

from poimen.contracts.definition import WorkflowDef
from poimen.contracts.durations import format_duration
from poimen.contracts.message import Part, decode, encode
from poimen.contracts.problems import InvalidInput, Problem

Fields = Mapping[str, Any]
Time = str | timedelta


def command(
    program: str,
    *arguments: str,
    prompt: str | None = None,
    timeout: Time | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Fields:
    """Return a command, for a step's run, a check, a judge or an environment source."""
    argv = [program, *arguments]
    return _given(command=argv, prompt=prompt, timeout=timeout, cwd=cwd, env=env)


def model(
    name: str, *, prompt: str | None = None, timeout: Time | None = None, max_tokens: int | None = None
) -> Fields:
    """Return a named model, for a step's run (with a prompt) or a judge (with a rubric)."""
    return _given(model=name, prompt=prompt, timeout=timeout, max_tokens=max_tokens)


def activity(
    name: str, *, queue: str | None = None, start_within: Time | None = None, timeout: Time | None = None
) -> Fields:
    """Return an activity of your own, for a step's run, a check or a judge."""
    return _given(activity=_given(name=name, queue=queue, start_within=start_within), timeout=timeout)


def judge(by: Fields, *, passes: float | Decimal | None = None, rubric: str | None = None) -> Fields:
    """Return a judge: who scores from 0 to 1, and the least score that passes."""
    return {**by, **_given(rubric=rubric), **({} if passes is None else {"pass": _plain(passes)})}


def repair(
    repair_id: str,
    program: str,
    *arguments: str,
    before: bool | None = None,
    timeout: Time | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Fields:
    """Return a repair of a step; `before` allows it to run before a failure."""
    argv = [program, *arguments]
    return _given(id=repair_id, command=argv, before=before, timeout=timeout, cwd=cwd, env=env)


def go_to(step: str, *, at_most: int) -> Fields:
    """Return an `on_failure` that goes back to an earlier step a bounded number of times."""
    return {"go_to": step, "at_most": at_most}


class Harness:
    """A definition in the making: phases in order, each with its steps and a gate. Ends with `build()`."""

    def __init__(
        self,
        name: str,
        *,
        scope: str,
        budget: Fields | Part | None = None,
        retry: Fields | Part | None = None,
        environment: Mapping[str, Fields | str] | None = None,
    ) -> None:
        self._fields = _given(name=name, scope=scope, budget=budget, retry=retry, environment=environment)
        self._phases: list[dict[str, Any]] = []

    def phase(self, phase_id: str, *, title: str | None = None) -> Self:
        """Begin the next phase."""
        self._phases.append({**_given(id=phase_id, title=title), "steps": []})
        return self

    def step(
        self,
        step_id: str,
        *,
        run: Fields | Part,
        title: str | None = None,
        tool: str | None = None,
        needs: Sequence[str] | None = None,
        verify: Fields | Part | None = None,
        judge: Fields | Part | None = None,
        repairs: Sequence[Fields | Part] | None = None,
        retry: Fields | Part | None = None,
        budget: Fields | Part | None = None,
        on_failure: str | Fields | None = None,
    ) -> Self:
        """Add a step to the phase."""
        roles = _given(id=step_id, title=title, tool=tool, needs=needs, run=run, verify=verify, judge=judge)
        bounds = _given(repairs=repairs, retry=retry, budget=budget, on_failure=on_failure)
        self._phase("step")["steps"].append({**roles, **bounds})
        return self

    def gate(self, check: Fields, *, on_failure: str | Fields | None = None) -> Self:
        """End the phase with a check on what its steps made together."""
        self._phase("gate")["gate"] = {**check, **_given(on_failure=on_failure)}
        return self

    def build(self) -> WorkflowDef:
        """Return the definition, or raise InvalidInput with a sentence for every fault."""
        return decode(WorkflowDef, {**self._fields, "phases": self._phases}, "The definition").message

    def _phase(self, part: str) -> dict[str, Any]:
        if not self._phases:
            raise InvalidInput(Problem("phases", f"A {part} needs a phase; call phase() first."))
        return self._phases[-1]


def _given(**fields: Any) -> dict[str, Any]:
    return {name: _plain(value) for name, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(value // timedelta(milliseconds=1))
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Part):
        return encode(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
