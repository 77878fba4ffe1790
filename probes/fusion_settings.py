"""Every default of fusion by trees and stacking, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..core.errors import ConfigurationError

METHODS = ("auto", "logistic", "forest", "boosted", "stacked")
"""What `fit_head` can be asked for."""

LOGISTIC, FOREST, BOOSTED, VECTORS, STACKED = "logistic", "forest", "boosted", "vectors", "stacked"
MEMBERS = (LOGISTIC, FOREST, BOOSTED, VECTORS)
"""What can be stacked: `vectors` is a logistic regression on the scores of the hidden-state probes alone."""


@dataclass(frozen=True)
class ForestSettings:
    """A random forest.

    Attributes:
        trees: how many.
        depth: of each at most.
        max_features: signals that are tried at each split; all where there are fewer.
        leaf: rows in a leaf at least.
    """

    trees: int
    depth: int
    max_features: int
    leaf: int

    def __post_init__(self) -> None:
        for name in ("trees", "depth", "max_features", "leaf"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)} must be at least 1")


@dataclass(frozen=True)
class BoostedSettings:
    """Gradient-boosted trees.

    Attributes:
        rounds: trees, each of which corrects those before it.
        rate: how much of its correction counts (learning rate).
        leaves: of each tree at most.
        leaf: rows in a leaf at least.
        l2: pull of leaf values towards 0.
        bins: values that a signal is rounded to while fitting, at most 255.
        share: of the signals that are tried at each split, in (0, 1].
        monotone: never less sure where a signal says surer.
    """

    rounds: int
    rate: float
    leaves: int
    leaf: int
    l2: float
    bins: int
    share: float
    monotone: bool

    def __post_init__(self) -> None:
        for name, least, most in (
            ("rounds", 1, 10_000),
            ("leaves", 2, 1024),
            ("leaf", 1, 1_000_000),
            ("bins", 2, 255),
        ):
            if not least <= getattr(self, name) <= most:
                raise ConfigurationError(f"{name}={getattr(self, name)} must lie in [{least}, {most}]")
        if not 0.0 < self.rate <= 1.0 or not 0.0 < self.share <= 1.0 or not self.l2 >= 0.0:
            raise ConfigurationError(
                f"rate={self.rate} and share={self.share} must lie in (0, 1], l2={self.l2} must not be negative"
            )


MICE_FOREST = ForestSettings(trees=1000, depth=20, max_features=10, leaf=1)
"""The forest of MICE (arXiv 2504.20168); leaves of one row are scikit-learn's default."""

LIGHT_FOREST = ForestSettings(trees=300, depth=20, max_features=10, leaf=5)
"""What a head takes: larger leaves and fewer trees, a tenth of the size."""

BOOSTED_TREES = BoostedSettings(rounds=80, rate=0.08, leaves=8, leaf=20, l2=5.0, bins=64, share=0.3, monotone=True)


@dataclass(frozen=True)
class FusionSettings:
    """What `fit_head` fuses by.

    Attributes:
        forest, boosted: of the methods of these names, and of the members.
        members: what is stacked, some of `MEMBERS`.
        fold_trees: trees of a stack's forest while `fit_head` holds rows out: few more change what it says of them.
        cross_fit_trees: trees of the forests that only help to find the members' weights.
        pull: how strongly the weights are drawn to those of the plain average, 1 / members: as strongly as `pull`
            rows would that each say so with one unit of information. With few labels stacking is averaging.
    """

    forest: ForestSettings = LIGHT_FOREST
    boosted: BoostedSettings = BOOSTED_TREES
    members: tuple[str, ...] = field(default=MEMBERS)
    fold_trees: int = 100
    cross_fit_trees: int = 50
    pull: float = 16.0

    def __post_init__(self) -> None:
        strangers = [name for name in self.members if name not in MEMBERS]
        if strangers or not self.members or len(set(self.members)) != len(self.members):
            raise ConfigurationError(f"members={self.members} must be distinct and among {MEMBERS}")
        for name in ("fold_trees", "cross_fit_trees"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)} must be at least 1")
        if not self.pull > 0.0:
            raise ConfigurationError(f"pull={self.pull} must be above 0")

    def within_folds(self) -> FusionSettings:
        """The same with the forest of a held-out fold."""
        forest = replace(self.forest, trees=min(self.forest.trees, self.fold_trees))
        return replace(self, forest=forest)


DEFAULTS = FusionSettings()
