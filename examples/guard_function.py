"""Guard a plain function: shadow on the first day, then enforce with an artefact fitted on graded answers.

Runs offline, without a model: the "model" here is a table that also says how unlikely it found its own words.
"""

import json
import random
import subprocess
import sys
from dataclasses import dataclass

from demur import Abstained, Deferred, Router, Settings


@dataclass
class Answer:
    """What our function returns; the guard hands it out as it is."""

    text: str
    logprobs: list[float]


def call_model(ticket: str) -> Answer:
    """Stands for a model call: sure about invoices, guessing about everything else."""
    return Answer("billing", [-0.05, -0.02]) if "invoice" in ticket else Answer("support", [-2.9, -2.4])


# 1. The first day: nothing is fitted, nothing changes. Answers go out; the log says what else could have been.
router = Router(settings=Settings(), database="shadow.db")


@router.guard(task="triage", text=lambda answer: answer.text, logprobs=lambda answer: answer.logprobs)
def triage(ticket: str) -> Answer:
    return call_model(ticket)


answer = triage("My invoice is wrong")
result = triage.decide("My invoice is wrong")
print(f"shadow delivers {answer.text!r}; enforced it would have been: {result.recommended}, because {result.reason}")
assert answer == result.value == call_model("My invoice is wrong")

# 2. Somebody graded answers: sure ones were mostly right. Fit an artefact on them.
draw = random.Random(7)
with open("graded.jsonl", "w") as file:
    for number in range(300):
        surprise = draw.random() * 3
        row = {
            "id": f"ticket-{number}",
            "prompt": f"Ticket {number}: {draw.random():.6f}",
            "response": "billing",
            "correct": draw.random() < 1 / (1 + surprise**4),
            "logprobs": [-surprise, -surprise],
        }
        file.write(json.dumps(row) + "\n")
fit = [sys.executable, "-m", "demur.integrations.cli.main", "fit", "--data", "graded.jsonl"]
subprocess.run([*fit, "--task", "triage", "--out", "triage-artefact"], check=True)

# 3. Enforce: sure answers go out, the others wait for a human, or are withheld where that is cheaper.
strict = Router(settings=Settings(mode="enforce"), artefacts=["triage-artefact"], database="enforce.db")


@strict.guard(task="triage", text=lambda answer: answer.text, logprobs=lambda answer: answer.logprobs)
def strict_triage(ticket: str) -> Answer:
    return call_model(ticket)


print("enforced:", strict_triage("My invoice is wrong").text)
try:
    strict_triage("It is broken")
    raise AssertionError("an unsure answer went out")
except Deferred as waiting:
    print("a human decides, review", waiting.review_id)
except Abstained as withheld:
    print("withheld:", withheld.result.reason)
