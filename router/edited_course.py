"""The course of a call that a reviewer's edit turned into a use of another tool: the edit is gated again."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.call import SideEffects
from ..core.decision import Decision, Route, Stage
from ..core.review_item import ReviewItem, ReviewKind
from ..core.run import Round
from .answer_plan import ANSWER_ARM
from .assessor import Assessment
from .decide import Options, build_decision
from .tool_plan import ToolCourse

_NOTHING = "a reviewer wrote this call, and no signal speaks about it"


@dataclass
class EditedCourse(ToolCourse):
    """Decides by the policy of the tool that the call became, not by what the model said of another one.

    What is known is how often a human is right (`[costs] human_accuracy`). Where the tool's policy asks for a human,
    where the use cannot be undone, or where that accuracy does not reach the tool's threshold, what the policy does
    without confidence is done: a human looks at the call as it now stands, or it is withheld.
    """

    edited_from: ReviewItem | None = None

    def _rejected(self) -> ReviewItem | None:
        """What others rejected before does not count: it is a human who asks."""
        return None

    def _judge(self) -> Decision:
        site, call = self.site, self.call
        options = Options({}, None, generations=0, draw=self.draw)
        chosen = build_decision(site, call, self.run_id, 0, Stage.AFTER, Assessment((), None, _NOTHING), options)
        assert self.edited_from is not None and self.edited_from.resolution is not None
        changes: dict[str, object] = {"label_propensity": 0.0, "sampled_for_label": False}
        who, was = self.edited_from.resolution.reviewer, self.edited_from.call.tool_name
        said = f"{who} edited a call of {was} into this one"
        if self._may_run(chosen.threshold):
            costs = site.policy.costs
            said += (
                f". A human is right in {costs.human_accuracy:.1%} of cases ({costs.human_accuracy_source}), and "
                f"{chosen.threshold:.1%} is enough to run {call.tool_name}."
            )
            changes |= {"route": Route.ANSWER, "target": None, "fallback": False, "reason": said}
        else:
            changes |= {"reason": f"{said}, which its own policy gates again. {chosen.reason}"}
        decision = chosen.model_copy(update=changes)
        review = site.review_for(call, decision, None)
        recorded = Round(number=0, arm=ANSWER_ARM, response=None, signals=(), confidence=None, decision=decision)
        site.log.record_round(self.run_id, recorded, review=review)
        self.review_id = review.id if review is not None and review.kind is ReviewKind.DEFERRED else None
        return decision

    def _may_run(self, threshold: float | None) -> bool:
        policy, call = self.site.policy, self.call
        if self.site.past_deadline(call) or policy.tool_policy(call).review_demanded(call) is not None:
            return False
        if policy.effects_of(call) is SideEffects.IRREVERSIBLE:
            return False
        return threshold is not None and policy.costs.human_accuracy >= threshold
