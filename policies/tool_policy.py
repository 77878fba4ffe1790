"""What is declared about a tool: its side effects, how bad a wrong use is, whether a human always looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.call import Call, CallKind, SideEffects
from ..core.errors import ConfigurationError

_GRAVITY = (SideEffects.NONE, SideEffects.REVERSIBLE, SideEffects.IRREVERSIBLE)


@dataclass(frozen=True)
class ToolPolicy:
    """The policy of one tool.

    Args:
        side_effects: what carrying it out does to the world.
        idempotent: declared to have its effect once per idempotency key, however often it runs.
        loss: a wrong use costs `loss` times `costs.wrong`.
        always_review: True, or a function of the call; a human looks unless it returns exactly False. None, 0, an
            exception: all of them mean review.

    Raises:
        ConfigurationError: a value cannot work.
    """

    side_effects: SideEffects = SideEffects.NONE
    idempotent: bool = False
    loss: float = 1.0
    always_review: bool | Callable[[Call], object] = False

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "side_effects", SideEffects(self.side_effects))
        except ValueError:
            raise ConfigurationError(
                f"tool policy side_effects={self.side_effects!r}; use none, reversible or irreversible"
            ) from None
        if not isinstance(self.idempotent, bool):
            raise ConfigurationError(f"tool policy idempotent={self.idempotent!r} must be True or False")
        if isinstance(self.loss, bool) or not isinstance(self.loss, (int, float)) or not math.isfinite(self.loss):
            raise ConfigurationError(f"tool policy loss={self.loss!r} must be a finite number")
        if self.loss <= 0.0:
            raise ConfigurationError(f"tool policy loss={self.loss!r} must be above 0; 1 means: as any wrong answer")
        if not isinstance(self.always_review, bool) and not callable(self.always_review):
            raise ConfigurationError(
                f"tool policy always_review={self.always_review!r} must be True, False or a function of the call"
            )

    def review_demanded(self, call: Call) -> str | None:
        """Why a human must look, or None."""
        if isinstance(self.always_review, bool):
            return "its policy sends every use to a human" if self.always_review else None
        try:
            verdict = self.always_review(call)
        except Exception as error:  # noqa: BLE001  a rule that crashes must not let anything through
            return f"its review rule raised {type(error).__name__}"
        if verdict is False:
            return None
        if verdict is True:
            return "its review rule asks for a human"
        return f"its review rule returned {type(verdict).__name__} instead of True or False"

    def settings(self) -> dict[str, Any]:
        """Everything that sets it apart, as JSON values. A function is known by its module and name."""
        rule = self.always_review
        if not isinstance(rule, bool):
            rule = f"{getattr(rule, '__module__', '?')}.{getattr(rule, '__qualname__', type(rule).__qualname__)}"
        return {
            "side_effects": str(self.side_effects),
            "idempotent": self.idempotent,
            "loss": float(self.loss),
            "always_review": rule,
        }


def tool_policy_of(call: Call, tools: Mapping[str, ToolPolicy]) -> ToolPolicy:
    """The policy of the tool that the call names now (an edited call: of the tool it became), else that of "*"."""
    if call.kind is not CallKind.TOOL:
        return ToolPolicy()
    return tools.get(call.tool_name or "") or tools.get("*") or ToolPolicy()


def graver_policy(one: ToolPolicy, other: ToolPolicy) -> ToolPolicy:
    """What holds where two parties declared the same tool: the graver of each part."""
    rules = [rule for rule in (one.always_review, other.always_review) if rule is not False]
    return ToolPolicy(
        side_effects=max(one.side_effects, other.side_effects, key=_GRAVITY.index),
        idempotent=one.idempotent and other.idempotent,
        loss=max(one.loss, other.loss),
        always_review=True if True in rules else _either(one, other) if len(rules) == 2 else (rules or [False])[0],
    )


def _either(one: ToolPolicy, other: ToolPolicy) -> Callable[[Call], object]:
    """A human looks where either rule asks for it."""

    def either_rule(call: Call) -> bool:
        return any(policy.review_demanded(call) is not None for policy in (one, other))

    return either_rule


def graver_effects(call: Call, tools: Mapping[str, ToolPolicy]) -> SideEffects:
    """The graver of what the call says of itself and what its tool is declared as."""
    declared = tool_policy_of(call, tools).side_effects
    return max(call.side_effects, declared, key=_GRAVITY.index)
