"""What becomes of a turn that asserts nothing: of a refusal, or of a question back."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from ..core.call import Call, CallKind
from ..core.decision import Route
from ..core.errors import ConfigurationError
from ..core.turn import TurnKind


class TurnRule(StrEnum):
    """`judge` weighs the turn as an answer, by its own confidence; the others do not ask how sure anybody is."""

    JUDGE = "judge"
    DELIVER = "deliver"
    ABSTAIN = "abstain"


_CALLED = {TurnKind.REFUSAL: "a refusal", TurnKind.CLARIFICATION: "a question back"}


@dataclass(frozen=True)
class TurnRules:
    """One rule for each kind of turn that asserts nothing.

    Raises:
        ConfigurationError: not a rule.
    """

    refusal: TurnRule = TurnRule.JUDGE
    clarification: TurnRule = TurnRule.JUDGE

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            try:
                object.__setattr__(self, each.name, TurnRule(value))
            except ValueError as error:
                raise ConfigurationError(f"turns.{each.name}={value!r}: use one of {', '.join(TurnRule)}") from error

    def settings(self) -> dict[str, str]:
        """The rules that change something; {} where every turn is judged."""
        rules = {each.name: str(getattr(self, each.name)) for each in fields(self)}
        return {name: rule for name, rule in rules.items() if rule != TurnRule.JUDGE}

    def told(self, call: Call, turn: TurnKind | None, cannot_answer: str | None) -> tuple[Route, str] | None:
        """The route that a rule sets, with its reason; None where the turn is to be judged.

        A tool call is never let through here, whatever the text that proposed it looks like.

        Args:
            cannot_answer: why nothing can be delivered now, or None.
        """
        if call.kind is not CallKind.LLM or turn is None or turn not in _CALLED:
            return None
        rule = self.refusal if turn is TurnKind.REFUSAL else self.clarification
        setting = f"turns.{turn.value} is {rule.value!r}"
        if rule is TurnRule.DELIVER and cannot_answer is None:
            return Route.ANSWER, f"Delivered as it stands: it is {_CALLED[turn]} and asserts nothing ({setting})."
        if rule is TurnRule.ABSTAIN:
            said = "the model itself declined" if turn is TurnKind.REFUSAL else "the model asked back"
            return Route.ABSTAIN, f"Not answered: {said} ({setting})."
        return None
