"""How likely the model found the question itself when it read it, in the pass that reads the prompt anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .architecture import Architecture

if TYPE_CHECKING:
    import torch

Question = tuple[int, int] | None
"""Half-open token span of a question in its prompt; None where it is not known."""

_MOST_TOKENS = 512
"""Tokens of a long question that are read, from its end: each costs a pass over the vocabulary."""


class QuestionReader:
    """Reads the log-probability of each token of the question off the final layer's states.

    Args:
        prompts: token ids; padding on the left is not among them.
        questions: a span for each prompt; None: nothing is read.
    """

    def __init__(
        self, architecture: Architecture, prompts: Sequence[Sequence[int]], questions: Sequence[Question] | None
    ) -> None:
        self._architecture = architecture
        self._prompts = prompts
        self._spans = [self._readable(span) for span in questions or ()]

    @staticmethod
    def _readable(span: Question) -> Question:
        """The part that can be read: nothing predicts a prompt's first token."""
        if span is None:
            return None
        first, last = max(span[0], 1, span[1] - _MOST_TOKENS), span[1]
        return (first, last) if last > first else None

    @property
    def reach(self) -> int:
        """Positions from the prompt's end back to the one that predicted the question's first token; 0: none."""
        needed = [
            len(prompt) - span[0] + 1
            for prompt, span in zip(self._prompts, self._spans, strict=False)
            if span is not None
        ]
        return max(needed, default=0)

    def logprobs(self, states: torch.Tensor | None) -> list[torch.Tensor | None]:
        """(tokens,) nats for each row; [] where nothing was asked for.

        Args:
            states: (rows, reach, width), the final layer at the last positions of the prompts.
        """
        if states is None:
            return [None for _ in self._spans]
        return [self._of_row(row, span, states[row]) for row, span in enumerate(self._spans)]

    def _of_row(self, row: int, span: Question, states: torch.Tensor) -> torch.Tensor | None:
        import torch

        if span is None:
            return None
        prompt = self._prompts[row]
        # The state at position t - 1 predicts token t; states end with the prompt's last position.
        begin = len(states) - len(prompt) + span[0] - 1
        predicting = states[begin : begin + span[1] - span[0]]
        tokens = torch.tensor(list(prompt[span[0] : span[1]]), device=states.device)
        logp = torch.log_softmax(self._architecture.logits(predicting, final=True), dim=-1)
        return logp.gather(1, tokens[:, None]).squeeze(1)

    @staticmethod
    def first(found: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
        """Of the only row."""
        return found[0] if found else None


def question_span(tokenizer: Any, prompt: str, question: str, *, special: bool, tail: int = 0) -> Question:
    """The tokens of `prompt` that write its last occurrence of `question`; None where it is not there, or where the
    tokenizer does not tell where its tokens stand.

    Args:
        special: the tokenizer puts its own control tokens around the text.
        tail: characters at the end of the prompt that are the template's: an "A" asked about is not that of "A:".
    """
    wanted = question.strip()
    begin = prompt.rfind(wanted, 0, len(prompt) - tail) if wanted else -1
    if begin < 0 or not getattr(tokenizer, "is_fast", False):
        return None
    encoded = tokenizer(prompt, add_special_tokens=special, return_offsets_mapping=True, verbose=False)
    end = begin + len(wanted)
    inside = [i for i, (first, last) in enumerate(encoded["offset_mapping"]) if first < end and last > begin]
    return (inside[0], inside[-1] + 1) if inside else None
