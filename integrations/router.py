"""The router that users meet: the core router and its decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from ..core.call import SideEffects
from ..core.errors import ConfigurationError
from ..router.router import Router as CoreRouter
from .guard.arguments import takes_self
from .guard.guarded import Base, BoundToClass, Guarded
from .guard.guarded_generators import guarded_as
from .guard.kinds import check_function, name_of
from .guard.logged import logged_tool
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
        conversation: Callable[..., Any] | str | None = None,
        on_abstain: Any = RAISE,
        on_defer: Any = RAISE,
        wait_timeout: float | None = None,
        stream: str | None = None,
    ) -> Callable[[Callable[P, R]], Guarded[P, R]]:
        """Decorate a sync, async or generator function, or a method. The options are those of `GuardOptions`.

        The decorated function returns its own type when the route delivers, and otherwise raises `Abstained` or
        `Deferred`; `decorated.decide(...)` always returns the `Result`. Goes above or below @classmethod and
        @staticmethod. A function that the settings declare as a tool with side effects is one, whatever is said here.

        Raises:
            ConfigurationError: an option cannot work, at decoration.
        """
        try:
            effects = SideEffects(side_effects)
        except ValueError as error:
            choices = ", ".join(member.value for member in SideEffects)
            raise ConfigurationError(f"guard(side_effects={side_effects!r}): use one of {choices}") from error

        def decorate(function: Callable[P, R]) -> Guarded[P, R]:
            # Methods of the class are functions of their own, wrapped in a descriptor.
            inner = function.__func__ if isinstance(function, classmethod | staticmethod) else function
            if isinstance(inner, Base):
                raise ConfigurationError(f"{inner!r} is guarded already; one guard judges all of it")
            called = name or name_of(inner)
            declared = self.settings.tool_policies.get(called)
            options = GuardOptions(
                name=called,
                task=task,
                tenant=tenant,
                text=text,
                logprobs=logprobs,
                question=question,
                build=build,
                documents=documents,
                side_effects=_graver(effects, SideEffects.NONE if declared is None else declared.side_effects),
                tool=tool,
                proposal=proposal,
                idempotent=idempotent,
                idempotency_key=idempotency_key,
                conversation=conversation,
                on_abstain=on_abstain,
                on_defer=on_defer,
                wait_timeout=wait_timeout,
                stream=stream,
            )
            checked = check_function(inner, options)
            guarded: Any = guarded_as(checked, self, inner, options)
            if options.is_tool and not takes_self(inner):
                self.resumer.register(logged_tool(inner, options), strict=False)
            if isinstance(function, classmethod):
                guarded = BoundToClass(guarded)
            elif isinstance(function, staticmethod):
                guarded = staticmethod(guarded)
            # The four kinds call alike; async ones return awaitables, as the function itself does.
            return cast("Guarded[P, R]", guarded)

        return decorate


def _graver(one: SideEffects, other: SideEffects) -> SideEffects:
    return max(one, other, key=list(SideEffects).index)
