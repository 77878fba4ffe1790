"""Decorated generators: held back until the decision, or emitted at once with a verdict at the end."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from typing import Any

from ...core.call import Call
from ...core.decision import Mode
from ...core.run import Result
from ...policies.mode import effective_mode
from ...router.router import Router
from .arguments import make_call
from .bound_function import BoundFunction, Heard, Items
from .guarded import AsyncGuarded, Base, Guarded
from .kinds import Kind
from .options import GuardOptions


class GeneratorGuarded(Base):
    """What `guard` returns for a generator function.

    Buffered: the function is read to its end and judged before the first item goes out. Late: each item goes out as it
    comes, and the last one is the `Result`. A consumer that stops early closes the function; a late stream that was
    not read to its end is not judged and leaves no run.
    """

    def __call__(self, /, *args: Any, **kwargs: Any) -> Generator[Any, None, Any]:
        return self._late(args, kwargs) if self.options.stream == "late" else self._buffered(args, kwargs)

    def decide(self, /, *args: Any, **kwargs: Any) -> Result[list[Any]]:
        """Read the function to its end and judge it; the value is the list of its items."""
        return self._decide(args, kwargs)

    def resume(self, run_id: str, /, **given: Any) -> Result[Any]:
        """As `Guarded.resume`."""
        return self._resume(run_id, given)

    def _buffered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generator[Any, None, Any]:
        value = self._settle(self._decide(args, kwargs, wait=True))
        yield from _items(value)
        return value.returned if isinstance(value, Items) else None

    def _late(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generator[Any, None, Any]:
        call = make_call(self.options, self._function, args, kwargs)
        heard, returned = Heard(), None
        with closing(self._function(*args, **kwargs)) as source:
            while True:
                started = time.perf_counter()
                try:
                    item = next(source)
                except StopIteration as end:
                    returned = end.value
                    break
                except Exception as error:  # noqa: BLE001 - raised again by the run, which stores it
                    heard.error = error
                    break
                finally:
                    heard.seconds += time.perf_counter() - started
                heard.items.append(item)
                yield item
        bound = BoundFunction(self._function, args, kwargs, self.options, heard=heard)
        yield bound.in_own_type(self._router.run(call, model=bound, mode=_late_mode(self._router, call)))
        return returned


class AsyncGeneratorGuarded(Base):
    """What `guard` returns for an async generator function; otherwise as `GeneratorGuarded`."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        return self._late(args, kwargs) if self.options.stream == "late" else self._buffered(args, kwargs)

    async def decide(self, /, *args: Any, **kwargs: Any) -> Result[list[Any]]:
        """As `GeneratorGuarded.decide`."""
        return await self._adecide(args, kwargs)

    async def resume(self, run_id: str, /, **given: Any) -> Result[Any]:
        """As `Guarded.resume`."""
        return await self._aresume(run_id, given)

    async def _buffered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncGenerator[Any, None]:
        for item in _items(await self._asettle(await self._adecide(args, kwargs, wait=True))):
            yield item

    async def _late(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncGenerator[Any, None]:
        call = make_call(self.options, self._function, args, kwargs)
        heard = Heard()
        async with aclosing(self._function(*args, **kwargs)) as source:
            while True:
                started = time.perf_counter()
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    break
                except Exception as error:  # noqa: BLE001 - raised again by the run, which stores it
                    heard.error = error
                    break
                finally:
                    heard.seconds += time.perf_counter() - started
                heard.items.append(item)
                yield item
        bound = BoundFunction(self._function, args, kwargs, self.options, heard=heard)
        result = await self._router.arun(call, model=bound, mode=_late_mode(self._router, call))
        yield bound.in_own_type(result)


def _late_mode(router: Router, call: Call) -> Mode | None:
    """What is out cannot be held back any more: of enforcing, only the advice is left."""
    return Mode.ADVISE if effective_mode(router.settings, call) is Mode.ENFORCE else None


def _items(value: Any) -> Iterator[Any]:
    """What goes out: the items of a list, tuple or iterator; anything else is one item."""
    if isinstance(value, list | tuple | Iterator):
        yield from value
    else:
        yield value


_CLASSES: dict[Kind, type[Base]] = {
    Kind.PLAIN: Guarded,
    Kind.ASYNC: AsyncGuarded,
    Kind.GENERATOR: GeneratorGuarded,
    Kind.ASYNC_GENERATOR: AsyncGeneratorGuarded,
}


def guarded_as(kind: Kind, router: Router, function: Callable[..., Any], options: GuardOptions) -> Base:
    """The function under guard, as its kind asks."""
    return _CLASSES[kind](router, function, options)
