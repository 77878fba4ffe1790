"""A confidence that is set, not computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from ..core.call import Call, CallKind
from ..core.confidence import Confidence, Interval, Probability
from ..core.errors import ConfigurationError
from ..core.evidence import Evidence

Level = float | None
_FITTED_AT = datetime(2026, 1, 1, tzinfo=UTC)
LABELS = 1000


class FrozenConfidence:
    """P(right), as the test wants it.

    Args:
        default: for every call; None: there is no confidence, so the configured fallback acts.
        calls: by question of a model call, or by tool name of a tool call; these win over `default`.
        rule: a function of the evidence; wins over both where it returns a number or None.
        width: of the interval, half of it on each side (cut off at 0 and 1).

    Raises:
        ConfigurationError: a level that is no number in [0, 1].
    """

    def __init__(
        self,
        default: Level = None,
        calls: Mapping[str, Level] | None = None,
        *,
        rule: Callable[[Evidence], Level] | None = None,
        width: float = 0.0,
    ) -> None:
        self._calls = dict(calls or {})
        for name, level in (("default", default), *self._calls.items()):
            if level is not None and not 0.0 <= level <= 1.0:
                raise ConfigurationError(f"FrozenConfidence {name!r} is {level}; use a number in [0, 1] or None")
        if not 0.0 <= width <= 1.0:
            raise ConfigurationError(f"width={width} must lie in [0, 1]")
        self._default, self._rule, self._width = default, rule, width

    def of(self, evidence: Evidence) -> Confidence | None:
        """The confidence of this evidence, or None."""
        level = self._rule(evidence) if self._rule is not None else self._level(evidence.call)
        if level is None:
            return None
        half = self._width / 2.0
        return Confidence(
            probability=Probability(value=level),
            interval=Interval(low=max(level - half, 0.0), high=min(level + half, 1.0)),
            calibrator="frozen for a test",
            labels=LABELS,
            fitted_at=_FITTED_AT,
        )

    def _level(self, call: Call) -> Level:
        name = (call.tool_name or "") if call.kind is CallKind.TOOL else call.question
        return self._calls.get(name, self._default)
