"""A refund waits for a human: it is paid once, an edit into another tool is gated again, a rejection is final.

Runs offline, without a model. The reviewer works in a thread of this program; yours use `demur review`.
"""

import threading
import time

from demur import Abstained, Call, Deferred, Router, Settings
from demur.core.review_item import Resolution, ReviewItem, Verdict
from demur.router.site import Tool

settings = Settings(
    mode="enforce",
    tools={"refund": {"side_effects": "irreversible"}, "voucher": {"side_effects": "irreversible"}},
    waiting={"message": "A colleague looks at your refund ({review_id})."},
)
router = Router(settings=settings, database="waiting.db")
paid: list[tuple[str, float]] = []
sent: list[str] = []


def pay(order: str, amount: float) -> str:
    paid.append((order, amount))
    return f"paid {amount}"


def decide(verdict: Verdict, **parts: object) -> ReviewItem:
    """What a reviewer does: claim the next item, decide about it."""
    while (item := router.queue.claim("ada")) is None:
        time.sleep(0.01)
    resolution = Resolution.model_validate({"verdict": verdict, "reviewer": "ada", **parts})
    return router.queue.resolve(item.id, resolution, version=item.version)


# 1. The program waits. Nothing is fitted, so every refund needs a human; meanwhile the user is told so.
refund = router.guard(name="refund", side_effects="irreversible", on_defer="wait", wait_timeout=60)(pay)
colleague = threading.Thread(target=decide, args=[Verdict.APPROVE])
colleague.start()
print("waited for:", refund("A-17", 40.0))
colleague.join()
assert paid == [("A-17", 40.0)]

# 2. The program does not wait, and ends. Later another one starts, has the tool, and carries out what was approved.
try:
    router.guard(name="refund", side_effects="irreversible")(pay)("A-18", 15.0)
    raise AssertionError("no money moves without a human")
except Deferred as deferred:
    waiting = deferred.result
print("told the user:", router.message_for(waiting))
decide(Verdict.EDIT, arguments={"order": "A-18", "amount": 10})
router.close()

router = Router(settings=settings, database="waiting.db")
router.register_tool(Tool("refund", run=pay))
print("carried out at start-up:", [result.value for result in router.resume_all().values()])
print("and only once:", router.resume(waiting.run_id).value)
assert paid[1:] == [("A-18", 10)]


# 3. A reviewer makes another tool of it. That one is irreversible too, so a second look is asked for.
def send_voucher(order: str) -> str:
    sent.append(order)
    return "voucher sent"


router.register_tool(Tool("voucher", run=send_voucher))


def propose(conversation: str):
    call = Call(
        kind="tool", tool_name="refund", arguments={"order": "A-19", "amount": 90}, conversation_id=conversation
    )
    return router.run(call, tool=Tool("refund", run=pay))


first = propose("chat-1")
decide(Verdict.EDIT, tool_name="voucher", arguments={"order": "A-19"})
again = router.resume(first.run_id)
print("gated again:", again.state.value, "as review", again.review_id)
assert again.review_id != first.review_id
assert sent == []
future = router.future(first.run_id)  # one thread looks after all futures
decide(Verdict.APPROVE)
print("after the second look:", future.result(timeout=60).value)
assert sent == ["A-19"]

# 4. Rejected is rejected: in this conversation the model does not get the same call past a human by asking again.
propose("chat-2")
decide(Verdict.REJECT, note="the order was never paid")
repeated = propose("chat-2")
print("cut:", repeated.reason)
assert router.queue.waiting() == 0
try:
    raise Abstained(repeated)
except Abstained as cut:
    print("told the user:", router.message_for(cut.result))
assert len(paid) == 2
router.close()
