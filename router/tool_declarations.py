"""What programs say about their tools beside the settings. The graver of the two always counts."""

from __future__ import annotations

import copy
from types import MappingProxyType

from ..core.errors import ConfigurationError
from ..core.record import content_hash
from ..policies.policy import CostPolicy
from ..policies.tool_policy import ToolPolicy, graver_policy


class ToolDeclarations:
    """Policies of tools by name, laid over those of the settings."""

    def __init__(self) -> None:
        self._declared: dict[str, ToolPolicy] = {}
        self._merged: dict[str, CostPolicy] = {}

    def declare(self, name: str, policy: ToolPolicy) -> None:
        """Say what a tool does; said twice, the graver counts.

        Raises:
            ConfigurationError: no name, or no policy.
        """
        if not isinstance(name, str) or not 1 <= len(name) <= 200:
            raise ConfigurationError(f"tool name {name!r}: needs a text of 1 to 200 characters")
        if not isinstance(policy, ToolPolicy):
            raise ConfigurationError(f"policy of tool {name!r} is {policy!r}; use ToolPolicy(...)")
        known = self._declared.get(name)
        self._declared[name] = policy if known is None else graver_policy(known, policy)
        self._merged.clear()

    def over(self, policy: CostPolicy) -> CostPolicy:
        """The policy, with what was declared."""
        if not self._declared:
            return policy
        merged = self._merged.get(policy.id)
        if merged is None:
            merged = self._merged[policy.id] = self._merge(policy)
        return merged

    def _merge(self, policy: CostPolicy) -> CostPolicy:
        tools = dict(policy.tools)
        for name, declared in self._declared.items():
            known = tools.get(name) or policy.tools.get("*")
            tools[name] = declared if known is None else graver_policy(known, declared)
        merged = copy.copy(policy)  # whatever else it was made with stays
        merged.tools = MappingProxyType(tools)
        merged.id = content_hash(merged.settings())
        return merged
