"""The router that users meet: the core router and its decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from ..core.call import SideEffects
from ..core.errors import ConfigurationError
from ..router.router import Router as CoreRouter
from .guard.guarded import Guarded, guarded_kind
from .guard.options import RAISE, GuardOptions

P = ParamSpec("P")
R = TypeVar("R")


class Router(CoreRouter):
    """One call from end to end, and `guard` to put it around plain Python functions. See `demur.router.router`."""

    def guard(
        self,
        *,
        task: str = "default",
        tenant: str = "default",
        name: str | None = None,
        text: Callable[[Any], str] | None = None,
        logprobs: Callable[[Any], Any] | None = None,
        question: Callable[..., str] | None = None,
        build: Callable[[str], Any] | None = None,
        documents: str | None = None,
        side_effects: SideEffects | str = SideEffects.NONE,
        tool: bool = False,
        proposal: Callable[..., Any] | None = None,
        idempotent: bool = False,
        idempotency_key: Callable[..., str] | None = None,
        on_abstain: Any = RAISE,
        on_defer: Any = RAISE,
        stream: str | None = None,
    ) -> Callable[[Callable[P, R]], Guarded[P, R]]:
        """Decorate a sync, async or generator function, or a method. The options are those of `GuardOptions`.

        The decorated function returns its own type when the route delivers, and otherwise raises `Abstained` or
        `Deferred`; `decorated.decide(...)` always returns the `Result`.

        Raises:
            ConfigurationError: an option cannot work, at decoration.
        """
        try:
            effects = SideEffects(side_effects)
        except ValueError as error:
            choices = ", ".join(member.value for member in SideEffects)
            raise ConfigurationError(f"guard(side_effects={side_effects!r}): use one of {choices}") from error

        def decorate(function: Callable[P, R]) -> Guarded[P, R]:
            options = GuardOptions(
                name=name or getattr(function, "__qualname__", repr(function)).replace("<locals>.", ""),
                task=task,
                tenant=tenant,
                text=text,
                logprobs=logprobs,
                question=question,
                build=build,
                documents=documents,
                side_effects=effects,
                tool=tool,
                proposal=proposal,
                idempotent=idempotent,
                idempotency_key=idempotency_key,
                on_abstain=on_abstain,
                on_defer=on_defer,
                stream=stream,
            )
            # The four kinds call alike; async ones return awaitables, as the function itself does.
            return cast("Guarded[P, R]", guarded_kind(function, options)(self, function, options))

        return decorate
