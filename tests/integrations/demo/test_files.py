"""What the demo ships fits together: questions, artefact, passages, figures."""

from demur.core.decision import Route
from demur.integrations.demo import files
from demur.integrations.demo.larger import SHIPPED
from demur.integrations.demo.model import TASK, TEMPLATE
from demur.integrations.retrieval.hybrid import read_documents
from demur.probes.artefact import Artefact
from demur.router.settings import Settings


def test_the_questions_were_used_for_neither_fitting_nor_tuning() -> None:
    artefact = Artefact.load(files.folder() / "artefact")
    questions = files.questions()
    assert len(questions) == 24
    assert len({each.id for each in questions}) == 24
    assert artefact.overlap([each.id for each in questions]) == ()
    # The check can fail: the measuring rows were used for tuning.
    measuring = [each.id for each in files.measuring_questions()]
    assert len(artefact.overlap(measuring)) == len(measuring) > 200


def test_the_artefact_serves_the_demos_task_with_every_route() -> None:
    artefact = Artefact.load(files.folder() / "artefact")
    assert artefact.binding.task == TASK
    assert artefact.heads["answer/after"].labels >= 1500
    assert {"answer/before", "answer/after", "retrieve/after"} <= set(artefact.heads)
    assert {"retrieve", f"escalate:{SHIPPED}"} <= set(artefact.chances)
    assert all(chance.labels > 0 and not chance.given for chance in artefact.chances.values())


def test_no_shipped_question_is_an_example_of_the_prompt() -> None:
    asked = {each.question.casefold() for each in (*files.questions(), *files.measuring_questions())}
    examples = [line.removeprefix("Question: ") for line in TEMPLATE.prefix.split("\n") if line.startswith("Question")]
    assert len(examples) == 5
    assert not asked & {example.casefold() for example in examples}


def test_the_figures_are_of_200_rows_and_of_this_artefact() -> None:
    report = files.report()
    assert report["artefact"] == Artefact.load(files.folder() / "artefact").id
    for name in ("without_large", "with_large"):
        if report[name] is None:
            assert name == "with_large"  # the larger model's 200 rows are an extra; the others are always there
            continue
        account = report[name]["account"]
        assert account["n"] == 200
        assert sum(account["routes"].values()) == 200
        delivered = sum(account["routes"][route] for route in (Route.ANSWER, Route.RETRIEVE, Route.ESCALATE))
        assert account["delivered"] == delivered
    assert report["without_large"]["account"]["routes"]["escalate"] == 0


def test_the_policy_loads_and_the_passages_can_be_read() -> None:
    settings = Settings.load(files.folder() / "settings.toml")
    assert settings.policy_for(TASK).costs.unit == "$"
    passages = read_documents(files.folder() / "passages.jsonl")
    assert len(passages) == 230
