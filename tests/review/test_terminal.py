"""`demur review` in the terminal."""

import json

import pytest
from typer.testing import CliRunner

from demur.core.call import Call, CallKind
from demur.core.clock import SystemClock
from demur.core.confidence import Confidence, Contribution, Interval, Probability
from demur.core.decision import Mode, Route
from demur.core.errors import BadInput, StaleItem
from demur.core.review_item import ReviewKind, ReviewState, Verdict
from demur.core.run import Result, Run, RunState
from demur.integrations.cli.review import app, parse_arguments
from demur.integrations.cli.review_panel import confidence_in_words
from demur.review.queue import ReviewQueue

EDITED = {"n": 3, "x": [1, {"a": None}]}


@pytest.fixture
def demur(database):
    """demur("approve", ID, ...): the command's result; errors on purpose are in `.exception`."""

    def run(*arguments, text=None):
        command = [arguments[0], "--database", database.url, *arguments[1:]]
        environment = {"DEMUR_REVIEWER": "ada", "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
        return CliRunner().invoke(app, command, input=text, env=environment)

    return run


def test_the_list_shows_every_item_and_the_counts(demur, queue, make_item):
    queue.enqueue(make_item(1))
    queue.enqueue(make_item(2))
    shown = demur("list").stdout
    assert "rev_1" in shown
    assert "question 2" in shown
    assert "2 open, 0 claimed, 0 resolved, 0 expired" in shown
    assert "rev_1" not in demur("list", "--state", "resolved").stdout
    assert "rev_1" not in demur("list", "--after", "rev_1").stdout


def test_an_item_shows_what_is_needed_to_decide(demur, defer):
    _, item_id, _ = defer()
    shown = demur("show", item_id).stdout
    for part in (
        "What is the capital of France?",
        "Paris",
        "about 7 in 10 like this were right (between 55% and 81%, at level 90%; 120 labels)",
        "a review is cheaper than a wrong answer",
    ):
        assert part in shown


def test_a_tool_call_is_shown_as_json(demur, defer, refund):
    _, item_id, _ = defer(refund)
    shown = demur("show", item_id).stdout
    assert "refund" in shown
    assert '"cents": 1250' in shown


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["approve"], "Paris"),
        (["edit", "--answer", "Lyon"], "Lyon"),
        (["respond", "--answer", "Ask."], "Ask."),
        (["reject", "--note", "no"], None),
    ],
)
def test_decisions_without_questions(demur, defer, log, arguments, value):
    run_id, item_id, _ = defer()
    done = demur(arguments[0], item_id, *arguments[1:])
    assert (done.exit_code, done.stdout) == (0, f"{item_id} {arguments[0]}: stored\n")
    assert log.get(run_id).result.value == value
    assert demur(arguments[0], item_id, *arguments[1:]).exit_code == 0  # the same again
    assert isinstance(demur("respond", item_id, "--answer", "other").exception, StaleItem)


def test_types_survive_an_edit_without_questions_and_with(demur, defer, log, refund, tmp_path):
    (tmp_path / "edited.json").write_text(json.dumps(EDITED), encoding="utf-8")
    for how in ("option", "file", "prompt"):
        run_id, item_id, _ = defer(refund)
        if how == "option":
            demur("edit", item_id, "--arguments", json.dumps(EDITED))
        elif how == "file":
            demur("edit", item_id, "--arguments-file", str(tmp_path / "edited.json"))
        else:
            demur("next", text=f"e\n{json.dumps(EDITED)}\n")
        assert json.dumps(log.resume(run_id, "host/1/1.00").arguments) == json.dumps(EDITED), how


def test_next_goes_through_the_queue_and_gives_back_what_was_skipped(demur, queue, make_item):
    for number in range(4):
        queue.enqueue(make_item(number, priority=-number))
    done = demur("next", text="a\ns\nx\nr\nnot good\nq\n")
    assert done.exit_code == 0, done.exception
    items = queue.list()
    assert [item.state for item in items] == [
        ReviewState.RESOLVED,
        ReviewState.OPEN,
        ReviewState.RESOLVED,
        ReviewState.OPEN,
    ]
    assert items[2].resolution.note == "not good"
    assert items[0].resolution.reviewer == "ada"
    assert "Nothing else is waiting (2 skipped)" in demur("next", text="s\ns\n").stdout
    assert queue.counts()[ReviewState.OPEN] == 2


def test_next_says_what_was_wrong_and_asks_again(demur, queue, defer, refund, log):
    run_id, item_id, _ = defer(refund)
    done = demur("next", text="e\n[1]\ne\n{oops\ne\n{}\n")
    assert "must be a JSON object" in done.stdout
    assert "are not JSON" in done.stdout
    assert "Nothing is waiting." in done.stdout
    assert queue.get(item_id).resolution.arguments == {}
    assert log.get(run_id).state is RunState.WAITING


def test_an_unknown_effect_is_settled_by_yes_or_no(demur, queue, make_item):
    call = Call(kind=CallKind.TOOL, tool_name="pay")
    queue.enqueue(make_item(1, kind=ReviewKind.EFFECT_UNKNOWN, call=call))
    assert "Did it happen?" in demur("show", "rev_1").stdout
    assert isinstance(demur("respond", "rev_1", "--answer", "?").exception, BadInput)
    assert queue.get("rev_1").state is ReviewState.OPEN  # given back
    assert demur("approve", "rev_1").exit_code == 0
    assert queue.get("rev_1").resolution.verdict is Verdict.APPROVE


def test_what_another_holds_is_not_decided(demur, queue, database, make_item):
    queue.enqueue(make_item(1))
    ReviewQueue(database, SystemClock()).claim("bob")
    refused = demur("approve", "rev_1")
    assert isinstance(refused.exception, StaleItem)
    assert "leased to 'bob'" in str(refused.exception)


def test_expire_tells_what_it_ended(demur, queue, make_item, clock):
    queue.enqueue(make_item(1, due_at=clock.now()))
    assert demur("expire").stdout.splitlines()[-1] == "1 expired"


@pytest.mark.parametrize(
    "arguments",
    [("show", "rev_none"), ("approve", "rev_none"), ("edit", "rev_none"), ("list", "--after", "rev_none")],
)
def test_an_id_that_is_not_there_is_bad_input(demur, arguments):
    assert isinstance(demur(*arguments).exception, BadInput)


def test_a_database_that_is_not_there_is_not_made(tmp_path):
    done = CliRunner().invoke(app, ["list", "--database", str(tmp_path / "no.db")])
    assert isinstance(done.exception, BadInput)
    assert not (tmp_path / "no.db").exists()


HOSTILE = "\x1b]0;owned\x07\x1b[2J[bold red]x[/bold red] [/] \u202egnp.exe\u2066\u200b\x9b31m\r\x00 {{7*7}}"


def test_hostile_text_is_shown_and_does_nothing(demur, queue, make_item):
    queue.enqueue(make_item(1, call=Call.ask(HOSTILE, system=HOSTILE), proposed=HOSTILE, reason=HOSTILE))
    tool = Call(kind=CallKind.TOOL, tool_name=HOSTILE, arguments={HOSTILE: HOSTILE})
    queue.enqueue(make_item(2, call=tool, reason=HOSTILE))
    outputs = [demur("show", "rev_1"), demur("show", "rev_2"), demur("list"), demur("next", text="r\nno\nq\n")]
    for done in outputs:
        assert done.exit_code == 0, done.exception
        assert not set(done.stdout) & set("\x1b\x07\x00\r\x9b\u202e\u2066\u200b")
        assert "⟨U+001B⟩" in done.stdout
    assert "[bold red]x[/bold red]" in outputs[0].stdout
    assert "⟨U+202E⟩gnp.exe" in outputs[0].stdout


def test_a_long_text_says_how_much_is_not_shown(demur, queue, make_item):
    queue.enqueue(make_item(1, proposed="x" * 100_000 + "END"))
    assert "(+96003 characters)" in demur("show", "rev_1").stdout
    assert "END" in demur("show", "rev_1", "--full").stdout


@pytest.mark.parametrize("text", ["[]", "1", "null", '{"a": NaN}', '{"a": -Infinity}', '{"a": 1, "a": 2}', "{", ""])
def test_what_is_not_one_strict_json_object_is_refused(text):
    with pytest.raises(BadInput):
        parse_arguments(text)


def test_big_integers_and_floats_keep_their_kind():
    assert json.dumps(parse_arguments('{"a": 123456789012345678901, "b": 1.0, "c": true, "d": "1"}')) == (
        '{"a": 123456789012345678901, "b": 1.0, "c": true, "d": "1"}'
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.7, "about 7 in 10"),
        (0.1, "about 1 in 10"),
        (0.05, "about 5 in 100"),
        (0.97, "about 97 in 100"),
        (0.999, "more than 99 in 100"),
        (0.001, "fewer than 1 in 100"),
    ],
)
def test_confidence_in_words(value, said):
    confidence = Confidence(
        probability=Probability(value=value),
        interval=Interval(low=0.0, high=1.0),
        contributions=(Contribution(signal="mean_logprob", log_odds=-1.25),),
        calibrator="a",
        labels=50,
        missing=("lens.kl",),
    )
    words = confidence_in_words(confidence)
    assert words.startswith(f"{said} like this were right")
    assert "mean_logprob: -1.25 (less sure)" in words
    assert "missing: lens.kl" in words


def test_no_labels_no_odds():
    prior = Confidence(
        probability=Probability(value=0.5), interval=Interval(low=0, high=1), calibrator="prior", labels=0
    )
    assert "nothing is known" in confidence_in_words(prior)
    assert "too little to go on" in confidence_in_words(None)


@pytest.fixture
def talk(queue, make_item, clock):
    """Three calls of one conversation, and one that stands alone and is less urgent."""
    for number in range(3):
        call = Call.ask(f"question {number}", conversation_id="chat-7")
        queue.enqueue(make_item(number, call=call, priority=float(number)))
        clock.advance(1)
    queue.enqueue(make_item(9, priority=-1.0))


def test_a_conversation_is_one_row_with_the_number_of_its_calls(demur, talk, queue):
    rows = [line for line in demur("list").stdout.splitlines() if "rev_" in line]
    assert len(rows) == 2
    assert [cell.strip() for cell in rows[0].strip("│┃").split("│")][:3] == ["rev_0", "3", "open"]
    assert "4 open" in demur("list").stdout
    assert "rev_9" in demur("list", "--after", "rev_0").stdout
    assert "rev_0" not in demur("list", "--after", "rev_0").stdout


def test_next_walks_through_a_conversation_call_by_call(demur, talk, queue):
    done = demur("next", text="a\nr\nbecause\na\nq\n")
    assert done.exit_code == 0, done.exception
    shown = [line for line in done.stdout.splitlines() if "rev_" in line and ("of 3" in line or "╭" in line)]
    assert [f"rev_{number} · {number + 1} of 3" in shown[number] for number in range(3)] == [True] * 3
    assert "rev_9 ·" not in done.stdout
    assert [queue.get(f"rev_{number}").resolution.verdict for number in range(3)] == ["approve", "reject", "approve"]
    assert queue.get("rev_9").state is ReviewState.OPEN


def test_what_is_skipped_or_quit_in_a_conversation_is_given_back_whole(demur, talk, queue):
    demur("next", text="s\na\nq\n")
    assert [item.state.value for item in queue.list()] == ["open", "resolved", "open", "open"]
    assert "(3 skipped)" in demur("next", text="s\ns\ns\n").stdout
    assert {item.lease_owner for item in queue.list()} == {None}


def test_next_for_one_task_shows_only_that_and_gives_the_rest_back(demur, queue, make_item):
    for number, task in enumerate(["x", "y"]):
        queue.enqueue(make_item(number, call=Call.ask("?", conversation_id="c", task=task)))
    done = demur("next", "--task", "y", text="a\n")
    assert "rev_0" not in done.stdout
    assert [item.state.value for item in queue.list()] == ["open", "resolved"]


def test_deciding_one_call_leaves_its_conversation_free(demur, talk, queue):
    assert demur("approve", "rev_1").exit_code == 0
    assert [item.state.value for item in queue.list()] == ["open", "resolved", "open", "open"]
    assert isinstance(demur("respond", "rev_0").exception, BadInput)
    assert queue.get("rev_2").state is ReviewState.OPEN


def test_a_call_whose_conversation_another_holds_is_not_decided(demur, database, queue, talk):
    ReviewQueue(database, SystemClock()).claim("bob", item_id="rev_0")
    refused = demur("approve", "rev_2")
    assert isinstance(refused.exception, StaleItem)
    assert "leased to 'bob'" in str(refused.exception)


@pytest.mark.parametrize("turn", ["refusal", "clarification", "answer", "tool_call"])
def test_the_kind_of_turn_is_said(demur, defer, database, turn):
    _, item_id, _ = defer()
    with database.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE rounds SET turn = '{turn}'")
    said = {"refusal": "refusing is right", "clarification": "asking is right", "answer": "an answer"}
    assert said.get(turn, "a tool call") in demur("show", item_id).stdout


def test_earlier_turns_stand_above_and_do_nothing(demur, log, queue, make_item, clock):
    def before(question, answer):
        call = Call.ask(question, conversation_id=HOSTILE)
        run = log.start(Run(call=call, created_at=clock.now()), Mode.ENFORCE, "x/1/1.00")
        route = Route.ABSTAIN if answer is None else Route.ANSWER
        result = Result(value=answer, route=route, recommended=route, mode=Mode.ENFORCE, confidence=None, run_id=run.id)
        log.finish(run.id, RunState.DONE, result)
        clock.advance(1)

    before(HOSTILE, HOSTILE)
    before("x" * 10_000, None)
    queue.enqueue(make_item(1, call=Call.ask("now", conversation_id=HOSTILE)))
    shown = demur("show", "rev_1").stdout
    assert not set(shown) & set("\x1b\x07\x00\r\x9b\u202e\u2066\u200b")
    assert shown.index("Earlier in it") < shown.index("Why it is here")
    assert "[bold red]x[/bold red]" in shown
    assert "(abstain: nothing was delivered)" in shown
    assert "(+9700 characters)" in shown
