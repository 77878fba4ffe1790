"""Work the review queue from Python: an answer and a refund wait for a human, who corrects one and rejects the other.

Runs offline, without a model. `demur review` does the same in a terminal.
"""

from demur import Abstained, Deferred, Router, Settings
from demur.core.review_item import Resolution, Verdict

settings = Settings(mode="enforce", policy={"fallback_answers": "defer"})
router = Router(settings=settings, database="queue.db")


@router.guard(
    task="support",
    question=lambda ticket, question: question,
    idempotency_key=lambda ticket, question: f"answer-{ticket}",
)
def answer(ticket: str, question: str) -> str:
    return "Sydney"  # your model call stands here


@router.guard(name="refund", side_effects="irreversible", idempotency_key=lambda order, amount: f"refund-{order}")
def refund(order: str, amount: float) -> str:
    raise AssertionError("no money moves without a human")


# Nothing is fitted yet, so there is no confidence: both wait for a human, and the refund has not run.
waiting = []
for attempt in (lambda: answer("T-1", "What is the capital of Australia?"), lambda: refund("A-17", 400.0)):
    try:
        attempt()
    except Deferred as deferred:
        waiting.append(deferred.review_id)
        print("waits:", deferred)
assert len(waiting) == 2
assert router.queue.waiting() == 2

# A reviewer takes one item at a time; nobody else gets it while the lease lasts.
while (item := router.queue.claim("ada")) is not None:
    print(f"\n{item.call.question}\n  draft: {item.proposed}\n  why it is here: {item.reason}")
    if item.call.tool_name == "refund":
        decision = Resolution(verdict=Verdict.REJECT, note="the order was never paid", reviewer="ada")
    else:
        decision = Resolution(verdict=Verdict.EDIT, answer="Canberra", reviewer="ada")
    router.queue.resolve(item.id, decision, version=item.version)

# The same call under the same key now gets what the human decided. The functions do not run again.
print("\nanswered:", corrected := answer("T-1", "What is the capital of Australia?"))
assert corrected == "Canberra"
try:
    refund("A-17", 400.0)
    raise AssertionError("a rejected refund went through")
except Abstained as rejected:
    print("rejected:", rejected.result.reason)

# What the reviewer said of the draft is a grade, too: it was wrong.
draft = router.queue.get(waiting[0])
assert draft is not None and draft.response_id is not None
grade = router.queue.outcomes.effective(draft.response_id)
assert grade is not None
print(f"graded: {draft.proposed!r} is {'right' if grade.is_right else 'wrong'}, says a {grade.source}")
assert not grade.is_right
