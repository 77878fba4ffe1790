"""How much a decision may change: nothing, only what is said beside the answer, or what happens."""

from __future__ import annotations

from typing import Protocol

from ..core.call import Call, SideEffects
from ..core.decision import Mode


class ModeRules(Protocol):
    """What is configured about modes. `router.settings.Settings` has these."""

    @property
    def mode(self) -> Mode:
        """For answers and reversible tools."""
        ...

    @property
    def irreversible(self) -> Mode:
        """For irreversible tools: enforced unless the user wrote otherwise."""
        ...

    def modes_of_task(self, task: str) -> tuple[Mode | None, Mode | None]:
        """What the task sets instead of `mode` and of `irreversible`; None where it sets nothing."""
        ...

    def effects_of(self, call: Call) -> SideEffects:
        """The graver of what the call says of itself and what its tool is declared as."""
        ...


def effective_mode(settings: ModeRules, call: Call) -> Mode:
    """The mode of one call.

    A task's own mode comes before the general one. Neither loosens an irreversible tool: only `irreversible`, general
    or of the task, does.
    """
    mode, irreversible = settings.modes_of_task(call.task)
    if settings.effects_of(call) is SideEffects.IRREVERSIBLE:
        return settings.irreversible if irreversible is None else irreversible
    return settings.mode if mode is None else mode
