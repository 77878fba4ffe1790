"""Runs `model.generate` with the window open, row by row and step by step."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from ....core.errors import ConfigurationError, DemurError, ModelError
from ....core.protocols import Gate, Generation
from .architecture import Architecture
from .assemble import Assembler, Plan, captured_prompt, stopped_generation
from .decoding import Decoding, neutral_defaults, seeded
from .early_stop import RowWatch
from .lens import check_final_layer
from .question import Question, QuestionReader
from .recorder import Tape, TokenStatistics, Window
from .row import Locate, Row

if TYPE_CHECKING:
    import torch

    from ....core.evidence import Captured


@dataclass
class Listener:
    """What else takes part in a generation.

    Attributes:
        gate: asked after the prompt.
        text: told each new piece of the (single) answer.
        cancel: set from another thread to end early.
        locate: says which part of the answer's text is judged; see `row.Locate`.
    """

    gate: Gate | None = None
    text: Callable[[str], None] | None = None
    cancel: Event = field(default_factory=Event)
    locate: Locate | None = None


@dataclass(frozen=True)
class Engine:
    """A model, its tokenizer and what is known about them. The caller holds the model's lock."""

    model: Any
    tokenizer: Any
    architecture: Architecture
    eos: frozenset[int]
    pad: int
    name: str
    assistant: Any = None

    def run(
        self,
        prompts: Sequence[Sequence[int]],
        decoding: Decoding,
        plan: Plan,
        listener: Listener,
        questions: Sequence[Question] | None = None,
    ) -> list[Generation]:
        """Generate for token-id prompts; a gate or text listener needs exactly one prompt.

        Args:
            questions: where in each prompt the question is, for `Plan.question_logprobs`.

        Raises:
            ModelError: the forward pass failed.
        """
        import torch

        started = time.perf_counter()
        assembler = Assembler(self.tokenizer, self.architecture, plan, self.name)
        rows = [
            Row(
                self.tokenizer,
                stop=decoding.stop,
                eos=self.eos,
                limit=decoding.max_new_tokens,
                own_states=bool(plan.hidden_layers),
                locate=listener.locate,
            )
            for _ in prompts
        ]
        try:
            with torch.no_grad(), neutral_defaults(self.model), seeded(decoding.seed if decoding.do_sample else None):
                if self.assistant is not None:
                    stopped, tape = self._assisted(prompts[0], rows, decoding, plan, listener)
                else:
                    stopped, tape = self._stepwise(prompts, rows, decoding, plan, listener, questions)
        except (RuntimeError, IndexError, TypeError) as error:
            if _raised_by_listener(error):
                raise
            raise ModelError(f"{self.name} failed while generating: {error}") from error
        if stopped is not None:
            return [stopped_generation(stopped, model=self.name, seconds=time.perf_counter() - started)]
        if listener.text is not None and (rest := rows[0].answer.fresh(final=True)):
            listener.text(rest)
        share = (time.perf_counter() - started) / len(prompts)
        return [
            assembler.generation(tape, i, row, prompt_tokens=len(prompt), seconds=share)
            for i, (prompt, row) in enumerate(zip(prompts, rows, strict=True))
        ]

    def _stepwise(
        self,
        prompts: Sequence[Sequence[int]],
        rows: list[Row],
        decoding: Decoding,
        plan: Plan,
        listener: Listener,
        questions: Sequence[Question] | None,
    ) -> tuple[Captured | None, Tape]:
        inputs, mask = self._left_padded(prompts)
        asked = QuestionReader(self.architecture, prompts, questions if plan.question_logprobs else None)
        window = Window(self.architecture, plan.layers, keep_of_prompt=asked.reach)
        watch = RowWatch(decoding.early_stop, rows, self.tokenizer, plan.kept_top)
        follower = _Follower(self, window, rows, plan, listener, asked, watch, prompt_tokens=len(prompts[0]))
        # One token beyond the limit: drawing it reads the last answer token, whose own state is wanted.
        config = decoding.generation_config(eos=sorted(self.eos), pad=self.pad, extra_tokens=bool(plan.hidden_layers))
        with window.open(self.model):
            self.model.generate(
                inputs, attention_mask=mask, generation_config=config, stopping_criteria=_criteria(follower)
            )
        return follower.stopped, follower.tape

    def _assisted(
        self, prompt: Sequence[int], rows: list[Row], decoding: Decoding, plan: Plan, listener: Listener
    ) -> tuple[Captured | None, Tape]:
        """Several tokens are checked per pass here, so what is wanted is read in one pass over the final sequence."""
        import torch

        if decoding.early_stop is not None:
            raise ConfigurationError("early_stop watches every token; an assistant model drafts several: leave one out")
        inputs, mask = self._left_padded([prompt])
        if listener.gate is not None:
            window = Window(self.architecture, plan.layers)
            with window.open(self.model):
                self.model(input_ids=inputs, attention_mask=mask)
            assert window.logits is not None
            statistics = TokenStatistics(window.logits[:, -1], 0)
            captured = captured_prompt(self.architecture, window, statistics, plan, len(prompt))
            if not _ask(listener.gate, captured):
                return captured, Tape()

        def finished(input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
            row = self._fresh_row(decoding, listener)
            for token in input_ids[0, len(prompt) :].tolist():
                row.feed(token)
            return torch.tensor([row.done or listener.cancel.is_set()], device=input_ids.device)

        config = decoding.generation_config(eos=sorted(self.eos), pad=self.pad)
        sequence = self.model.generate(
            inputs,
            attention_mask=mask,
            generation_config=config,
            assistant_model=self.assistant,
            stopping_criteria=_criteria(finished),
        )
        row = rows[0] = self._fresh_row(decoding, listener)
        for token in sequence[0, len(prompt) :].tolist():
            row.feed(token)
            if listener.text is not None and (piece := row.answer.fresh()):
                listener.text(piece)
        return None, self._teacher_forced(prompt, row.ids, plan)

    def _fresh_row(self, decoding: Decoding, listener: Listener) -> Row:
        return Row(
            self.tokenizer,
            stop=decoding.stop,
            eos=self.eos,
            limit=decoding.max_new_tokens,
            own_states=False,
            locate=listener.locate,
        )

    def _teacher_forced(self, prompt: Sequence[int], ids: Sequence[int], plan: Plan) -> Tape:
        import torch

        keep = len(ids) + 1
        window = Window(self.architecture, plan.layers, keep=keep)
        sequence, mask = self._left_padded([[*prompt, *ids]])
        options: dict[str, Any] = {}
        if "logits_to_keep" in inspect.signature(self.model.forward).parameters:
            options["logits_to_keep"] = keep
        with window.open(self.model):
            self.model(input_ids=sequence, attention_mask=mask, use_cache=False, **options)
        assert window.logits is not None
        if plan.lens_layers or plan.fast_lens_layers:
            final = window.states[self.architecture.layer_count]
            check_final_layer(self.architecture, final[0, 0], window.logits[0, 0])
        tape = Tape()
        for step, token in enumerate(ids):
            statistics = TokenStatistics(window.logits[:, step], plan.kept_top)
            tape.add_token(statistics, torch.tensor([token], device=window.logits.device))
            tape.add_states(window.states, step)
        tape.add_states(window.states, len(ids))
        return tape

    def _left_padded(self, prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """(rows, longest) token ids and mask. Padding is on the left: the last position is every row's newest token."""
        import torch

        longest = max(map(len, prompts))
        ids = torch.full((len(prompts), longest), self.pad, dtype=torch.long)
        mask = torch.zeros((len(prompts), longest), dtype=torch.long)
        for i, prompt in enumerate(prompts):
            ids[i, longest - len(prompt) :] = torch.tensor(prompt)
            mask[i, longest - len(prompt) :] = 1
        return ids.to(self.model.device), mask.to(self.model.device)


class _Follower:
    """Called by `generate` after each token: notes what the pass showed, asks the gate, says which rows are done."""

    def __init__(
        self,
        engine: Engine,
        window: Window,
        rows: list[Row],
        plan: Plan,
        listener: Listener,
        asked: QuestionReader,
        watch: RowWatch,
        *,
        prompt_tokens: int,
    ) -> None:
        self._watch = watch
        self._engine = engine
        self._window = window
        self._rows = rows
        self._plan = plan
        self._listener = listener
        self._asked = asked
        self._prompt_tokens = prompt_tokens
        self.tape = Tape()
        self.stopped: Captured | None = None

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        import torch

        window = self._window
        assert window.logits is not None
        statistics = TokenStatistics(window.logits[:, -1], self._plan.kept_top)
        first = not self.tape.ids
        chosen = input_ids[:, -1]
        self.tape.add_token(statistics, chosen)
        self.tape.add_states(window.states, -1)
        if first:
            self.tape.question_logprobs = self._asked.logprobs(window.prompt_states)
            if self._plan.lens_layers or self._plan.fast_lens_layers:
                final = window.states[self._engine.architecture.layer_count]
                check_final_layer(self._engine.architecture, final[0, -1], window.logits[0, -1])
            if self._listener.gate is not None:
                captured = captured_prompt(
                    self._engine.architecture,
                    window,
                    statistics,
                    self._plan,
                    self._prompt_tokens,
                    self._asked.first(self.tape.question_logprobs),
                )
                if not _ask(self._listener.gate, captured):
                    self.stopped = captured
                    return torch.ones_like(chosen, dtype=torch.bool)
        going_on = [not row.closed for row in self._rows]
        for row, token in zip(self._rows, chosen.tolist(), strict=True):
            row.feed(token)
        if self._watch.watches:
            self._watch.tell(statistics, chosen, going_on)
        if self._listener.text is not None and (piece := self._rows[0].answer.fresh()):
            self._listener.text(piece)
        cancelled = self._listener.cancel.is_set()
        return torch.tensor([row.done or cancelled for row in self._rows], device=chosen.device)


def _criteria(criterion: Callable[..., torch.Tensor]) -> Any:
    from transformers import StoppingCriteriaList

    return StoppingCriteriaList([criterion])  # pyright: ignore[reportArgumentType]


_MARK = "raised by the gate"


def _ask(gate: Gate, captured: Captured) -> bool:
    """Ask the gate; what it raises is its own affair and is not dressed up as the model's failure."""
    try:
        answer = gate(captured)
    except Exception as error:
        error.add_note(_MARK)
        raise
    if not isinstance(answer, bool):
        raise ModelError(f"the gate returned {answer!r}; it must return True (go on) or False (stop)")
    return answer


def _raised_by_listener(error: BaseException) -> bool:
    return _MARK in getattr(error, "__notes__", ()) or isinstance(error, DemurError)
