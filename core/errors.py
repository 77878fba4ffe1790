"""Every error that Demur raises on purpose.

Each says what was wrong, with the value, and what to do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import Result


class DemurError(Exception):
    """Base of all errors that Demur raises on purpose."""


class ConfigurationError(DemurError, ValueError):
    """A setting, policy or argument cannot work. Raised at construction, never at the first call."""


class BadInput(DemurError, ValueError):
    """A row, file or value handed in is not usable. Exit code 2 on the command line."""


class Refused(DemurError):
    """Demur could go on, but the result would not deserve its name. Exit code 3 on the command line."""


class NotEnoughLabels(Refused):
    """There are too few graded rows for what was asked.

    Attributes:
        have: number of rows of the rarer class (or of rows, where the message says so).
        need: the number asked for.
    """

    def __init__(self, message: str, *, have: int, need: int) -> None:
        super().__init__(message)
        self.have = have
        self.need = need


class ArtefactMismatch(Refused):
    """An artefact was fitted for another model, prompt, decoding, grader or feature schema."""


class MissingExtra(DemurError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package!r} is not installed. Install it with: pip install 'demur[{extra}]'")


class ModelError(DemurError):
    """A model could not be loaded or did not answer."""


class PromptTooLong(ModelError, ValueError):
    """The prompt does not fit the model's context window. It is never cut silently."""

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            f"the prompt has {tokens} tokens and leaves no room to answer in a context of {limit}; "
            "shorten it or use a model with a longer context"
        )
        self.tokens = tokens
        self.limit = limit


class RetrievalError(DemurError):
    """A retriever or an embedder failed, or gave back something that is not passages or vectors."""


class SnapshotMismatch(DemurError):
    """A snapshot of an index is missing, damaged or not the one that was written. Rebuild it from SQL."""


class StoreError(DemurError):
    """The database could not be read or written (full disk, locked, damaged). Nothing was acted on."""


class EffectBusy(DemurError):
    """A live process is carrying out the effect under this key right now; ask again later."""


class EffectUnknown(DemurError):
    """Nobody knows whether the effect happened; a human has to find out. It is not run again."""


class EffectFailed(DemurError):
    """The tool reported a failure under this key earlier; use a new key to try again on purpose."""


class ResultNotStored(DemurError):
    """The effect happened, but what the tool returned could not be kept as JSON.

    Attributes:
        type_name: the type of what the tool returned.
        text: its `repr`, length-limited.
    """

    def __init__(self, message: str, *, type_name: str, text: str) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.text = text


class LeaseLost(DemurError):
    """The review item is no longer leased to this reviewer; somebody else may have it."""


class StaleItem(DemurError):
    """The record changed since it was read; read it again before deciding."""


class StillWaiting(DemurError):
    """The run has not ended; it goes on waiting.

    Attributes:
        run_id, review_id: what waits, and where; of an edited call that is looked at again, the newest review.
        why: what it waits for.
    """

    def __init__(self, run_id: str, review_id: str | None, why: str = "nobody has decided yet") -> None:
        where = f" under review {review_id}" if review_id is not None else ""
        super().__init__(f"run {run_id!r} still waits{where}: {why}; ask again later")
        self.run_id = run_id
        self.review_id = review_id
        self.why = why


class Withheld(DemurError):
    """The route did not deliver an answer. `result` holds everything that is known."""

    def __init__(self, result: Result[Any], message: str) -> None:
        super().__init__(message)
        self.result = result


class Abstained(Withheld):
    """The call was withheld: too likely to be wrong, and nothing better was available."""

    def __init__(self, result: Result[Any]) -> None:
        super().__init__(result, f"abstained: {result.reason}")


class Deferred(Withheld):
    """The call waits for a human under `review_id`."""

    def __init__(self, result: Result[Any], review_id: str) -> None:
        super().__init__(result, f"deferred to a human as review {review_id}: {result.reason}")
        self.review_id = review_id


class CallFailed(Withheld):
    """The wrapped model or tool raised, or what it did is unknown after a crash."""

    def __init__(self, result: Result[Any]) -> None:
        super().__init__(result, f"call failed: {result.reason}")
