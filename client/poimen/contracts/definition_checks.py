"""What a definition must hold beyond the types of its fields, each fault as a sentence."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from poimen.contracts.json_text import MENDED
from poimen.contracts.problems import (
    MOST_PROBLEMS,
    SHOWN_PROBLEMS,
    Fault,
    Place,
    counted,
    hint,
    path_text,
    safe_name,
)
from poimen.contracts.step_order import StepOrder

if TYPE_CHECKING:
    from pydantic.main import IncEx

    from poimen.contracts.definition import Gate, Phase, Step, WorkflowDef

MAX_STEPS = 500
MAX_ITEMS = 1_000
MAX_ITEM_BYTES = 131_071  # Linux refuses a longer argument or variable
MAX_PROMPT_BYTES = 65_536
MAX_VARIABLES = 200
MAX_SOURCES = 100
MAX_STEP_BYTES = 262_144
MAX_DEFINITION_BYTES = 1_048_576  # half of what the server takes as one payload
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_CYCLE_SHOWN = 8


def odd_character(text: str) -> str | None:
    """Return the name of a character no program can be given, U+0000 or what a lone surrogate became, or None."""
    return next((name for odd, name in (("\0", "U+0000"), ("\ufffd", MENDED)) if odd in text), None)


def argv_refusal(argv: Sequence[str]) -> str | None:
    """Return why a program cannot be started with these arguments, as a predicate, or None."""
    if not argv or not argv[0]:
        return "is empty; give the program and its arguments"
    if len(argv) > MAX_ITEMS:
        return f"has {len(argv):,} items; at most {MAX_ITEMS:,}"
    for number, item in enumerate(argv, 1):
        if odd := odd_character(item):
            return f"contains {odd} in item {number:,}"
        if len(item.encode()) > MAX_ITEM_BYTES:
            return f"has {len(item.encode()):,} bytes in item {number:,}; at most {MAX_ITEM_BYTES:,}"
    return None


def path_refusal(path: str) -> str | None:
    """Return why a path is not one inside the workspace, as a predicate, or None."""
    if not path:
        return "is empty; leave it out for the workspace itself"
    if odd := odd_character(path):
        return f"contains {odd}"
    if len(path.encode()) > 4_095:
        return f"has {len(path.encode()):,} bytes; at most 4,095"
    if path.startswith("/"):
        return "is absolute; give a path inside the workspace"
    depth = 0
    for part in PurePosixPath(path).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return "leaves the workspace"
    return None


def env_refusal(env: Mapping[str, str]) -> str | None:
    """Return why these variables cannot be set, as a predicate, or None."""
    if len(env) > MAX_VARIABLES:
        return f"has {len(env):,} variables; at most {MAX_VARIABLES}"
    for number, (name, value) in enumerate(env.items(), 1):
        if not _VARIABLE.fullmatch(name):
            return f"has a name that is no variable name (variable {number:,})"
        if name.startswith("POIMEN_"):
            return f"sets {name}; names that begin with POIMEN_ are the harness's own"
        if predicate := _value_refusal(value):
            return f"{predicate} in {name if safe_name(name) else f'variable {number:,}'}"
    return None


def _value_refusal(value: str) -> str | None:
    if odd := odd_character(value):
        return f"contains {odd}"
    size = len(value.encode())
    if size > MAX_ITEM_BYTES:
        return f"has {size:,} bytes (at most {MAX_ITEM_BYTES:,})"
    return variable_refusal(value.removeprefix("env:")) if value.startswith("env:") else None


def variable_refusal(name: str) -> str | None:
    """Return why this is no name after "env:", as a predicate, or None."""
    return None if _VARIABLE.fullmatch(name) else 'has no variable name after "env:"'


def step_faults(step: Step) -> list[Fault]:
    """Return what is wrong within one step."""
    name = _named("Step", step.id)
    faults = []
    texts = {("run", "prompt"): step.run.prompt, ("judge", "rubric"): step.judge and step.judge.rubric}
    for place, text in texts.items():
        size = len((text or "").encode())
        if size > MAX_PROMPT_BYTES:
            sentence = f"{name}: {place[-1]} has {size:,} bytes; at most {MAX_PROMPT_BYTES:,}. Pass a file."
            faults.append(Fault(place, sentence))
    for number in _repeats([repair.id for repair in step.repairs]):
        repair = _named("repair", step.repairs[number].id)
        sentence = f"{name}: {repair} is there twice; repair ids are unique in a step."
        faults.append(Fault(("repairs", number, "id"), sentence))
    size = _json_size(step, exclude={"run": {"prompt"}, "judge": {"rubric"}})
    if size > MAX_STEP_BYTES:
        limit = f"at most {MAX_STEP_BYTES:,} without the prompt and the rubric. Pass a file."
        faults.append(Fault((), f"{name}: its commands, variables and repairs have {size:,} bytes as JSON; {limit}"))
    return faults


def size_faults(value: object) -> list[Fault]:
    """Return which lists of a definition are too long; `value` is its JSON or its fields, not yet checked."""
    if not isinstance(value, Mapping):
        return []
    faults = []
    phases = value.get("phases")
    count = sum(_step_count(phase) for phase in phases) if isinstance(phases, list | tuple) else 0
    if count > MAX_STEPS:
        faults.append(Fault(("phases",), f"The definition has {counted(count, 'step')}; at most {MAX_STEPS}."))
    sources = value.get("environment")
    if isinstance(sources, Mapping) and len(sources) > MAX_SOURCES:
        faults.append(Fault(("environment",), f"environment has {len(sources):,} entries; at most {MAX_SOURCES}."))
    return faults


def _step_count(phase: object) -> int:
    steps = phase.get("steps") if isinstance(phase, Mapping) else getattr(phase, "steps", None)
    # A phase that cannot be read counts too, for it is looked at as well.
    return max(1, len(steps)) if isinstance(steps, list | tuple) else 1


def definition_faults(definition: WorkflowDef) -> list[Fault]:
    """Return what is wrong between the parts of a definition: ids, needs, ways back and its size.

    It runs in a workflow, where seconds count: the work grows with the definition's size, and no fault is looked for
    beyond those that are told.
    """
    size = _json_size(definition)
    if size > MAX_DEFINITION_BYTES:
        return [Fault((), f"The definition has {size:,} bytes as JSON; at most {MAX_DEFINITION_BYTES:,}. Pass files.")]
    faults = list(islice(_repeated_ids(definition), MOST_PROBLEMS))
    # What is between steps speaks of them by id.
    return faults or list(islice(_faults_between(definition), MOST_PROBLEMS))


def _json_size(part: Step | WorkflowDef, exclude: IncEx | None = None) -> int:
    """Return the bytes of a part as it travels: its defaults written out, all in ASCII."""
    values = part.model_dump(mode="json", by_alias=True, exclude=exclude)
    return len(json.dumps(values, separators=(",", ":")))


def _faults_between(definition: WorkflowDef) -> Iterator[Fault]:
    phase_of = {step.id: number for number, phase in enumerate(definition.phases) for step in phase.steps}
    hints = _Hints()
    for number, phase in enumerate(definition.phases):
        order = StepOrder({step.id: step.needs for step in phase.steps})
        yield from _needs_faults(phase, number, phase_of, hints)
        if order.cycle:
            yield _cycle_fault(phase, number, order.cycle)
        else:
            yield from _way_back_faults(phase, number, phase_of, order, hints)


class _Hints:
    """Hints for the problems that are shown; to look through all names for each of the others would take seconds."""

    def __init__(self) -> None:
        self._left = SHOWN_PROBLEMS

    def near(self, name: str, known: Iterable[str]) -> str:
        """Return the hint at a known name, or a full stop."""
        self._left -= 1
        return hint(name, known) if self._left >= 0 else "."


def _repeated_ids(definition: WorkflowDef) -> Iterator[Fault]:
    for number in _repeats([phase.id for phase in definition.phases]):
        name = _named("Phase", definition.phases[number].id)
        yield Fault(("phases", number, "id"), f"{name} is there twice; phase ids are unique in a definition.")
    placed: list[tuple[Place, str]] = [
        (("phases", number, "steps", place, "id"), step.id)
        for number, phase in enumerate(definition.phases)
        for place, step in enumerate(phase.steps)
    ]
    for index in _repeats([step_id for _, step_id in placed]):
        where, step_id = placed[index]
        name = _named("Step", step_id)
        yield Fault(where, f"{name} is there twice; step ids are unique in a definition.")


def _needs_faults(phase: Phase, number: int, phase_of: Mapping[str, int], hints: _Hints) -> Iterator[Fault]:
    for place, step in enumerate(phase.steps):
        name = _named("Step", step.id)
        seen: set[str] = set()
        for index, need in enumerate(step.needs):
            where: Place = ("phases", number, "steps", place, "needs", index)
            shown = f'"{need}"' if safe_name(need) else f"a step ({path_text(where)})"
            if need not in phase_of:
                known = (other for other, owner in phase_of.items() if owner <= number and other != step.id)
                yield Fault(where, f"{name} needs {shown}, which is no step{hints.near(need, known)}")
            elif phase_of[need] > number:
                yield Fault(where, f"{name} needs {shown}, a step of a later phase.")
            elif need in seen:
                yield Fault(where, f"{name} needs {shown} twice.")
            seen.add(need)


def _cycle_fault(phase: Phase, number: int, cycle: Sequence[str]) -> Fault:
    shown = [safe_name(step_id) or "(a step)" for step_id in cycle]
    if len(shown) > _CYCLE_SHOWN:
        shown[_CYCLE_SHOWN - 2 : -1] = ["…"]
    place = next(place for place, step in enumerate(phase.steps) if step.id == cycle[0])
    sentence = f"{_named('Phase', phase.id)}: needs form a cycle: {' → '.join(shown)}."
    return Fault(("phases", number, "steps", place, "needs"), sentence)


def _way_back_faults(
    phase: Phase, number: int, phase_of: Mapping[str, int], order: StepOrder, hints: _Hints
) -> Iterator[Fault]:
    before = {step_id for step_id, owner in phase_of.items() if owner < number}
    for place, step in enumerate(phase.steps):
        where: Place = ("phases", number, "steps", place, "on_failure", "go_to")
        target = _target(step)
        if target is not None and not _runs_before(target, step.id, order, before):
            yield _no_way_back(_named("Step", step.id), target, where, hints.near(target, before - {target}))
        before.add(step.id)
    target = _target(phase.gate) if phase.gate is not None else None
    if target is not None and target not in before:
        name = f"The gate of {_named('phase', phase.id)}"
        yield _no_way_back(name, target, ("phases", number, "gate", "on_failure", "go_to"), hints.near(target, before))


def _runs_before(target: str, step_id: str, order: StepOrder, listed: set[str]) -> bool:
    if order.is_needed(target, step_id):
        return True
    return target in listed and not order.is_needed(step_id, target)


def _target(part: Step | Gate) -> str | None:
    return None if isinstance(part.on_failure, str) else part.on_failure.go_to


def _no_way_back(name: str, target: str, where: Place, near: str) -> Fault:
    shown = f'"{target}"' if safe_name(target) else "a step"
    return Fault(where, f"{name} goes back to {shown}, which is no earlier step{near}")


def _repeats(names: Sequence[str]) -> list[int]:
    seen: Counter[str] = Counter()
    repeats = []
    for number, name in enumerate(names):
        seen[name] += 1
        if seen[name] == 2:
            repeats.append(number)
    return repeats


def _named(kind: str, name: str) -> str:
    return f"{kind} {name}" if safe_name(name) else f"{kind} (a name)"
