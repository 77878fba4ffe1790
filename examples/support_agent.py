"""A support agent: sure lookups run, an unsure refund waits for a human, and after approval it is paid once.

    python support_agent.py               # a scripted chat model and a set confidence: no key, no download
    python support_agent.py qwen-0.5b     # a real local model (`demur models fetch qwen-0.5b` first)

Any LangChain chat model can stand in its place. With a real model nothing is fitted yet, so the refund waits because
too little is known, not because the model is unsure: fit on your own graded calls to tell the two apart.
"""

import sys

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from demur import DemurMiddleware, Router, Settings
from demur.testing import FrozenConfidence, FrozenRouter, ScriptedChatModel

ORDERS = {"A-17": {"item": "kettle", "paid": 40.0}}
refunds: list[tuple[str, float]] = []


@tool
def lookup(order: str) -> dict:
    """Look an order up."""
    return ORDERS.get(order, {"error": "no such order"})


@tool
def refund(order: str, amount: float) -> str:
    """Pay money back for an order."""
    refunds.append((order, amount))
    return f"paid {amount} back for {order}"


settings = Settings(
    mode="enforce",
    costs={"wrong": 1.0, "abstain": 0.9, "review": 0.1},
    database=":memory:",
    tools={"lookup": {"side_effects": "none"}, "refund": {"side_effects": "irreversible", "loss": 10.0}},
    waiting={"message": "I have asked a colleague about this; you will hear from us ({review_id})."},
)

if len(sys.argv) > 1:
    from demur import HuggingFaceModel, LocalChatModel

    model = LocalChatModel(model=HuggingFaceModel(sys.argv[1]), max_tokens=120)
    # What cannot be undone waits; whatever can is let through, as nothing is fitted that could judge it.
    router = Router(settings=settings.model_copy(update={"mode": "shadow"}), database=":memory:")
else:
    model = ScriptedChatModel(
        turns=[
            ScriptedChatModel.call_tool("lookup", {"order": "A-17"}, id="call_1"),
            ScriptedChatModel.call_tool("refund", {"order": "A-17", "amount": 40.0}, id="call_2"),
            "Your 40.00 for the kettle are on their way.",
        ]
    )
    # What a fitted router would say: sure of the lookup and of the answer, unsure of the refund.
    router = FrozenRouter(confidence=FrozenConfidence(0.97, {"refund": 0.6}), settings=settings)

agent = create_agent(
    model,
    tools=[lookup, refund],
    system_prompt="You work for a shop. Look an order up before you refund it.",
    middleware=[DemurMiddleware(router, task="support")],
    checkpointer=InMemorySaver(),
)
thread = {"configurable": {"thread_id": "customer-1"}}

state = agent.invoke({"messages": [("user", "My kettle (order A-17) is broken. I want my 40.00 back.")]}, thread)
for interrupt in state.get("__interrupt__", ()):
    print(
        "waits for a human:",
        interrupt.value["action_requests"][0]["name"],
        interrupt.value["action_requests"][0]["args"],
    )
assert refunds == [], "no money moves without a human"

(item,) = router.queue.list() if "__interrupt__" in state else (None,)
if item is not None:
    print("in the queue:", item.reason)
    for _ in range(2):  # pressing the button twice pays once
        state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
    assert len(refunds) == 1
    run = router.log.get(item.run_id)
    print("paid:", refunds, "- the run is", run.state)
print("the agent says:", state["messages"][-1].text)
