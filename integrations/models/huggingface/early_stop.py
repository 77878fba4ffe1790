"""Lets a rule watch the rows of a batch while they are generated, and ends those it gives up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....core.errors import ModelError
from ....core.response import TopToken
from ....core.text import said
from .decoding import EarlyStopRule
from .recorder import TokenStatistics
from .row import Row

if TYPE_CHECKING:
    import torch


class RowWatch:
    """One hook a row.

    Args:
        rule: None: nothing is watched.
        kept_top: likeliest tokens that are told, as many as are captured.
    """

    def __init__(self, rule: EarlyStopRule | None, rows: Sequence[Row], tokenizer: Any, kept_top: int) -> None:
        self._rows = rows
        self._hooks = [] if rule is None else [rule.begin() for _ in rows]
        self._tokenizer = tokenizer
        self._kept_top = kept_top

    @property
    def watches(self) -> bool:
        """Is there anything to tell?"""
        return bool(self._hooks)

    def tell(self, statistics: TokenStatistics, chosen: torch.Tensor, going_on: Sequence[bool]) -> None:
        """Tell the hooks of the rows that were going on about the token each has just taken.

        Raises:
            ModelError: a hook raised, or gave back no verdict.
        """
        logprobs, entropies = statistics.logprob(chosen).tolist(), statistics.entropy.tolist()
        uniform_kls = statistics.uniform_kl.tolist()
        for place, (row, hook) in enumerate(zip(self._rows, self._hooks, strict=True)):
            if not going_on[place]:
                continue
            try:
                verdict = hook(
                    row.pieces[-1],
                    logprobs[place],
                    top=self._top(statistics, place),
                    entropy=entropies[place],
                    uniform_kl=uniform_kls[place],
                )
                stop, reason = bool(verdict.stop), str(verdict.reason)
            except Exception as error:
                # Without its judgement there is no telling whether the answer may go on.
                raise ModelError(f"early_stop failed at token {len(row.ids)}: {said(error, 200)}") from error
            if stop:
                row.stop_early(reason or "no reason given")

    def _top(self, statistics: TokenStatistics, place: int) -> tuple[TopToken, ...]:
        if not self._kept_top:
            return ()
        ids, values = statistics.top_ids[place].tolist(), statistics.top_logprobs[place].tolist()
        return tuple(
            TopToken(token=self._tokenizer.decode([token]), logprob=value)
            for token, value in zip(ids, values, strict=True)
        )
