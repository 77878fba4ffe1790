"""A reviewer that a test can speak through."""

from __future__ import annotations

from typing import Any

from ..core.errors import BadInput
from ..core.review_item import Resolution, ReviewItem, ReviewState, Verdict
from ..router.router import Router


class Reviewer:
    """Claims and resolves the items of a router's queue.

    Every verb takes the review id or the run id of the item (default: the only one that waits), and returns the item
    as it is then stored.

    Args:
        router: whose queue.
        name: of the reviewer.
    """

    def __init__(self, router: Router, name: str = "test reviewer") -> None:
        self._queue = router.queue
        self.name = name

    def waiting(self) -> tuple[ReviewItem, ...]:
        """Everything that nobody has decided yet, oldest first."""
        undecided = [*self._queue.list(state=ReviewState.OPEN), *self._queue.list(state=ReviewState.CLAIMED)]
        return tuple(sorted(undecided, key=lambda item: (item.created_at, item.id)))

    def approve(self, which: str | None = None, *, note: str = "") -> ReviewItem:
        return self._resolve(which, verdict=Verdict.APPROVE, note=note)

    def reject(self, which: str | None = None, *, note: str = "") -> ReviewItem:
        return self._resolve(which, verdict=Verdict.REJECT, note=note)

    def respond(self, answer: str, which: str | None = None, *, note: str = "") -> ReviewItem:
        return self._resolve(which, verdict=Verdict.RESPOND, answer=answer, note=note)

    def edit(
        self,
        which: str | None = None,
        *,
        answer: str | None = None,
        arguments: dict[str, Any] | None = None,
        tool_name: str | None = None,
        note: str = "",
    ) -> ReviewItem:
        """Another answer, other arguments, or another tool."""
        return self._resolve(
            which, verdict=Verdict.EDIT, answer=answer, arguments=arguments, tool_name=tool_name, note=note
        )

    def _resolve(self, which: str | None, **resolution: Any) -> ReviewItem:
        item = self._find(which)
        claimed = self._queue.claim(self.name, item_id=item.id)
        if claimed is None:
            raise BadInput(f"review item {item.id!r} is {item.state} and cannot be claimed")
        decided = self._queue.resolve(item.id, Resolution(reviewer=self.name, **resolution), version=claimed.version)
        # A claim leases the whole conversation; the rest goes back, so that another reviewer can speak in the test.
        for sibling in self._queue.conversation(decided):
            if sibling.state is ReviewState.CLAIMED and sibling.lease_owner == self.name:
                self._queue.release(sibling.id, self.name)
                break
        return decided

    def _find(self, which: str | None) -> ReviewItem:
        found = [item for item in self.waiting() if which in (None, item.id, item.run_id)]
        if len(found) != 1:
            have = ", ".join(f"{item.id} ({item.call.question[:60]})" for item in self.waiting()) or "nothing"
            raise BadInput(f"{len(found)} items wait as {which!r}; name one of: {have}")
        return found[0]
