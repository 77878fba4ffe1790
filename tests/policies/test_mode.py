from dataclasses import dataclass, field

import pytest

from demur.core.call import Call, CallKind, SideEffects
from demur.core.decision import Mode
from demur.policies.mode import effective_mode


@dataclass
class Rules:
    mode: Mode = Mode.SHADOW
    irreversible: Mode = Mode.ENFORCE
    tasks: dict[str, tuple[Mode | None, Mode | None]] = field(default_factory=dict)

    def modes_of_task(self, task: str) -> tuple[Mode | None, Mode | None]:
        return self.tasks.get(task, (None, None))

    def effects_of(self, call: Call) -> SideEffects:
        return call.side_effects


def use(effects: SideEffects, task: str = "refunds") -> Call:
    return Call(kind=CallKind.TOOL, tool_name="refund", side_effects=effects, task=task)


def test_a_first_install_changes_nothing_but_guards_what_cannot_be_undone():
    assert effective_mode(Rules(), Call.ask("q")) is Mode.SHADOW
    assert effective_mode(Rules(), use(SideEffects.REVERSIBLE)) is Mode.SHADOW
    assert effective_mode(Rules(), use(SideEffects.IRREVERSIBLE)) is Mode.ENFORCE


def test_only_the_users_own_word_loosens_irreversible_tools():
    assert effective_mode(Rules(irreversible=Mode.SHADOW), use(SideEffects.IRREVERSIBLE)) is Mode.SHADOW
    loosened = Rules(tasks={"refunds": (Mode.SHADOW, None)})
    assert effective_mode(loosened, use(SideEffects.IRREVERSIBLE)) is Mode.ENFORCE
    of_the_task = Rules(tasks={"refunds": (None, Mode.SHADOW)})
    assert effective_mode(of_the_task, use(SideEffects.IRREVERSIBLE)) is Mode.SHADOW
    assert effective_mode(of_the_task, use(SideEffects.IRREVERSIBLE, task="other")) is Mode.ENFORCE


@pytest.mark.parametrize("mode", list(Mode))
def test_a_tasks_own_mode_comes_first(mode):
    rules = Rules(mode=Mode.ADVISE, tasks={"refunds": (mode, None)})
    assert effective_mode(rules, use(SideEffects.NONE)) is mode
    assert effective_mode(rules, use(SideEffects.NONE, task="other")) is Mode.ADVISE
