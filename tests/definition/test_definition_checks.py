import copy
from typing import Any

import pytest

from poimen.contracts.definition import GoTo, Step, WorkflowDef
from poimen.contracts.message import decode, encode
from poimen.contracts.problems import InvalidInput

Fields = dict[str, Any]


def step(step_id: str = "fix", **fields: Any) -> Fields:
    return {"id": step_id, "run": {"command": ["do-it"]}, **fields}


def phase(*steps: Fields, phase_id: str = "T0", **fields: Any) -> Fields:
    return {"id": phase_id, "steps": list(steps), **fields}


def definition(*phases: Fields, **fields: Any) -> Fields:
    return {"name": "release", "scope": "acme/api", "phases": list(phases) or [phase(step())], **fields}


def refused(data: Fields) -> str:
    with pytest.raises(InvalidInput) as caught:
        decode(WorkflowDef, data, "The definition")
    return str(caught.value)


def accepted(data: Fields) -> WorkflowDef:
    return decode(WorkflowDef, data, "The definition").message


def running(**run: Any) -> Fields:
    return definition(phase({"id": "fix", "run": run}))


RUN = "phases[0].steps[0].run"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (running(comand=["x"]), f'{RUN} has no field "comand"; did you mean "command"?'),
        (definition(colour="red"), 'The definition has no field "colour".'),
        (definition(**{"a\nb": 1}), "The definition has a field that is not known."),
        (
            definition(phase(step(judge={"command": ["x"], "pass_": 1}))),
            'phases[0].steps[0].judge has no field "pass_"; did you mean "pass"?',
        ),
        (running(), f'{RUN} needs one of "command", "model", "activity".'),
        (running(command=["x"], model="m", prompt="p"), f"{RUN} has command and model; give only one."),
        (running(model="small"), f"{RUN} has a model and no prompt."),
        (running(command="x"), f"{RUN}.command is text; a list is needed."),
        (running(command=[]), f"{RUN}.command is empty; give the program and its arguments."),
        (running(command=["x", 5]), f"{RUN}.command[1] is a number; text is needed."),
        (running(command=["x", "a\0b"]), f"{RUN}.command contains U+0000 in item 2."),
        (running(command=["x", "a\ud800"]), f"{RUN}.command contains a lone surrogate or U+FFFD in item 2."),
        (running(command=["x"] * 1_001), f"{RUN}.command has 1,001 items; at most 1,000."),
        (running(command=["x", "a" * 131_072]), f"{RUN}.command has 131,072 bytes in item 2; at most 131,071."),
        (running(command=["x"], cwd="/etc"), f"{RUN}.cwd is absolute; give a path inside the workspace."),
        (running(command=["x"], cwd="a/../../b"), f"{RUN}.cwd leaves the workspace."),
        (running(command=["x"], cwd=""), f"{RUN}.cwd is empty; leave it out for the workspace itself."),
        (running(command=["x"], env={"A B": "1"}), f"{RUN}.env has a name that is no variable name (variable 1)."),
        (
            running(command=["x"], env={"POIMEN_X": "1"}),
            f"{RUN}.env sets POIMEN_X; names that begin with POIMEN_ are the harness's own.",
        ),
        (running(command=["x"], env={"A": "env:"}), f'{RUN}.env has no variable name after "env:" in A.'),
        (running(command=["x"], env={"A": 5}), f"{RUN}.env.A is a number; text is needed."),
        (running(command=["x"], max_tokens=0), f"{RUN}.max_tokens is too small; at least 1 is needed."),
        (
            running(command=["x"], prompt="x" * 5_000_000),
            "Step fix: prompt has 5,000,000 bytes; at most 65,536. Pass a file.",
        ),
        (
            running(command=["x"], prompt="ä" * 32_769),
            "Step fix: prompt has 65,538 bytes; at most 65,536. Pass a file.",
        ),
        (
            running(activity={"name": "a", "queue": "/_sys/default-worker-tq/0"}),
            f'{RUN}.activity.queue begins with "/_sys/", which is reserved; choose another.',
        ),
        (
            running(activity={"name": "a" * 201}),
            f"{RUN}.activity.name has 201 characters; at most 200.",
        ),
        (definition(phase(step(verify={}))), 'phases[0].steps[0].verify needs one of "command", "activity".'),
        (definition(phase(step(judge={"model": "m"}))), "phases[0].steps[0].judge has a model and no rubric."),
        (
            definition(phase(step(judge={"command": ["x"], "pass": 1.5}))),
            "phases[0].steps[0].judge.pass is too large; at most 1 is allowed.",
        ),
        (
            definition(phase(step(judge={"command": ["x"], "pass": "0.5"}))),
            "phases[0].steps[0].judge.pass is text; a number is needed.",
        ),
        (definition(phase(step(on_failure="retry"))), 'phases[0].steps[0].on_failure must be one of "stop" or "skip".'),
        (
            definition(phase(step(on_failure=5))),
            'phases[0].steps[0].on_failure is a number; "stop", "skip" or {go_to: …, at_most: …} is needed.',
        ),
        (definition(phase(step(on_failure={"go_to": "a"}))), "phases[0].steps[0].on_failure.at_most is missing."),
        (
            definition(phase(step(on_failure={"go_to": "a", "at_most": 101}))),
            "phases[0].steps[0].on_failure.at_most is too large; at most 100 is allowed.",
        ),
        (definition(budget={"attempts": -1}), "budget.attempts is too small; at least 1 is needed."),
        (definition(budget={"attempts": True}), "budget.attempts is true; a whole number is needed."),
        (definition(budget={"time": 30}), 'budget.time has no unit; write "30s".'),
        (definition(retry={"attempts": 1_001}), "retry.attempts is too large; at most 1,000 is allowed."),
        (definition(retry={"first_delay": "2m"}), "retry has a first_delay above longest_delay (1m when left out)."),
        (definition(environment={"py": {}}), 'environment.py needs one of "command", "file", "env".'),
        (
            definition(environment={"py": "python"}),
            'environment.py is no source; write {command: […]}, {file: …} or "env:NAME".',
        ),
        (definition(environment={"py": "env:"}), 'environment.py has no variable name after "env:".'),
        (definition(environment={"py": {"fil": "x"}}), 'environment.py has no field "fil"; did you mean "file"?'),
        (definition(phase()), "phases[0].steps is empty; give at least 1 item."),
        (definition() | {"phases": []}, "phases is empty; give at least 1 item."),
        (definition() | {"scope": "@library"}, 'scope is "@library", which is reserved; choose another.'),
        (definition() | {"scope": ""}, "scope is empty; give 1 to 256 characters."),
        (definition(phase(step("a/b"))), 'phases[0].steps[0].id contains "/" at character 2.'),
        (definition(phase(step(), step())), "Step fix is there twice; step ids are unique in a definition."),
        (
            definition(phase(step()), phase(step(), phase_id="T1")),
            "Step fix is there twice; step ids are unique in a definition.",
        ),
        (
            definition(phase(step("a")), phase(step("b"))),
            "Phase T0 is there twice; phase ids are unique in a definition.",
        ),
        (
            definition(phase(step(repairs=[{"id": "r", "command": ["x"]}] * 2))),
            "Step fix: repair r is there twice; repair ids are unique in a step.",
        ),
        (
            definition(phase(step("install"), step("plan", needs=["instal"]))),
            'Step plan needs "instal", which is no step; did you mean "install"?',
        ),
        (
            definition(phase(step("a", needs=["b"])), phase(step("b"), phase_id="T1")),
            'Step a needs "b", a step of a later phase.',
        ),
        (definition(phase(step("a"), step("b", needs=["a", "a"]))), 'Step b needs "a" twice.'),
        (
            definition(phase(step("build", needs=["test"]), step("test", needs=["build"]))),
            "Phase T0: needs form a cycle: build → test → build.",
        ),
        (definition(phase(step("a", needs=["a"]))), "Phase T0: needs form a cycle: a → a."),
        (
            definition(phase(step("a", on_failure={"go_to": "b", "at_most": 1}), step("b"))),
            'Step a goes back to "b", which is no earlier step.',
        ),
        (
            definition(phase(step(on_failure={"go_to": "fix", "at_most": 1}))),
            'Step fix goes back to "fix", which is no earlier step.',
        ),
        (
            definition(phase(step("late", needs=["early"]), step("early", on_failure={"go_to": "late", "at_most": 1}))),
            'Step early goes back to "late", which is no earlier step.',
        ),
        (
            definition(
                phase(step("a"), gate={"command": ["x"], "on_failure": {"go_to": "b", "at_most": 1}}),
                phase(step("b"), phase_id="T1"),
            ),
            'The gate of phase T0 goes back to "b", which is no earlier step.',
        ),
        (
            definition(phase(*(step(f"s{number}") for number in range(501)))),
            "The definition has 501 steps; at most 500.",
        ),
    ],
)
def test_a_bad_definition_is_refused_in_one_sentence(data: Fields, sentence: str) -> None:
    assert refused(data) == sentence


def test_a_long_cycle_is_shortened() -> None:
    steps = [step(f"s{number}", needs=[f"s{(number + 1) % 50}"]) for number in range(50)]
    assert refused(definition(phase(*steps))) == ("Phase T0: needs form a cycle: s0 → s1 → s2 → s3 → s4 → s5 → … → s0.")


def test_steps_that_wait_for_a_cycle_are_not_part_of_it() -> None:
    steps = [step("first", needs=["build"]), step("build", needs=["test"]), step("test", needs=["build"])]
    assert refused(definition(phase(*steps))) == "Phase T0: needs form a cycle: build → test → build."


def test_several_faults_are_told_at_once() -> None:
    data = definition(phase(step(needs=["nothing"])), budget={"atempts": 1}, retry={"attempts": 0})
    assert refused(data) == (
        'budget has no field "atempts"; did you mean "attempts"? retry.attempts is too small; at least 1 is needed.'
    )


def test_a_refused_item_does_not_make_its_list_too_short() -> None:
    assert refused(running(command=["x"], timeout="soon")).count(".run") == 1


def test_a_misspelt_way_back_is_told_as_one() -> None:
    assert refused(definition(phase(step(on_failure={"goto": "a", "at_most": 1})))) == (
        "phases[0].steps[0].on_failure.go_to is missing. "
        'phases[0].steps[0].on_failure has no field "goto"; did you mean "go_to"?'
    )


def test_a_value_is_never_part_of_the_sentence() -> None:
    secret = "hunter2 hunter2"
    data = definition(
        phase(step(secret, needs=[secret + "x"], on_failure=secret, run={"command": secret, secret: 1})),
        environment={secret: secret},
    )
    assert "hunter2" not in refused(data)


def test_a_need_of_an_earlier_phase_is_allowed() -> None:
    data = definition(phase(step("a")), phase(step("b", needs=["a"]), phase_id="T1"))
    assert accepted(data).phases[1].steps[0].needs == ("a",)


@pytest.mark.parametrize(
    "data",
    [
        definition(phase(step("a"), step("b", on_failure={"go_to": "a", "at_most": 2}))),
        definition(phase(step("b", needs=["a"], on_failure={"go_to": "a", "at_most": 2}), step("a"))),
        definition(phase(step("a")), phase(step("b", on_failure={"go_to": "a", "at_most": 2}), phase_id="T1")),
        definition(phase(step("a"), gate={"command": ["x"], "on_failure": {"go_to": "a", "at_most": 2}})),
    ],
)
def test_a_way_back_to_what_ran_before_is_allowed(data: Fields) -> None:
    places = [part for group in accepted(data).phases for part in (*group.steps, group.gate) if part]
    assert [part.on_failure for part in places if part.on_failure != "stop"] == [GoTo(go_to="a", at_most=2)]


def test_what_is_left_out_has_its_documented_default() -> None:
    plain = accepted(definition())
    only = plain.phases[0].steps[0]
    assert (only.tool, only.on_failure, only.run.timeout, only.retry) == ("executor", "stop", 600_000, None)
    retry = plain.retry
    assert (retry.attempts, retry.first_delay, retry.factor, retry.longest_delay) == (4, 1_000, 2, 60_000)
    assert (plain.budget.attempts, plain.budget.tokens, plain.budget.time) == (None, None, None)


def test_a_path_may_turn_back_inside_the_workspace() -> None:
    assert accepted(running(command=["x"], cwd="a/../b")).phases[0].steps[0].run.cwd == "a/../b"


def test_a_definition_survives_its_wire_form() -> None:
    data = definition(
        phase(
            step("a", judge={"command": ["x"], "pass": 0.8}, retry={"factor": 1.5}, budget={"time": "90s"}),
            gate={"activity": {"name": "check"}, "on_failure": {"go_to": "a", "at_most": 3}},
        ),
        environment={"image": "env:IMAGE", "lock": {"file": "uv.lock"}, "py": {"command": ["python", "-V"]}},
    )
    first = accepted(copy.deepcopy(data))
    assert accepted(encode(first)) == first
    assert encode(first)["environment"]["image"] == "env:IMAGE"
    assert encode(first)["phases"][0]["steps"][0]["judge"]["pass"] == 0.8


def test_a_step_alone_is_checked_like_one_in_a_definition() -> None:
    with pytest.raises(InvalidInput, match=r"Step fix: prompt has 70,000 bytes; at most 65,536\. Pass a file\."):
        decode(Step, step(run={"command": ["x"], "prompt": "x" * 70_000}), "HarnessStep")
