"""Parameters by name, as scikit-learn's estimators have them."""

from __future__ import annotations

from inspect import signature
from typing import Any, Self

from ..core.errors import ConfigurationError


class Estimator:
    """`get_params` and `set_params`, so that `sklearn.base.clone` and searches over settings work.

    Every argument of the constructor is kept under its own name and not checked before `fit`; what is learned gets a
    trailing underscore.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments; `deep` is there for scikit-learn: nothing is nested."""
        return {name: getattr(self, name) for name in _parameters(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Set some of them.

        Raises:
            ConfigurationError: there is no such parameter.
        """
        known = _parameters(type(self))
        for name, value in params.items():
            if name not in known:
                raise ConfigurationError(f"{type(self).__name__} has no parameter {name!r}; there are {known}")
            setattr(self, name, value)
        return self


def _parameters(kind: type) -> list[str]:
    return [name for name in signature(kind.__init__).parameters if name != "self"]
