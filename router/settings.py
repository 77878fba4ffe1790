"""Settings: `demur.toml`, overridden by DEMUR_* variables, validated whole before anything runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from ..core.call import Call, SideEffects
from ..core.decision import Mode, Route
from ..core.errors import ConfigurationError
from ..core.review_item import SafeEnd
from ..policies.costs import Costs
from ..policies.policy import CostPolicy
from ..policies.tool_policy import ToolPolicy, graver_effects
from ..policies.turn_rules import TurnRule, TurnRules
from .settings_errors import check_variables, explained
from .settings_file import check_types, example, read_toml
from .waiting_texts import check_places

DEFAULT_FILE = "demur.toml"


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not true or false")
    return value


Money = Annotated[float, BeforeValidator(_no_bool), Field(ge=0.0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(_no_bool), Field(ge=0.0, le=1.0, allow_inf_nan=False)]
InsideShare = Annotated[float, BeforeValidator(_no_bool), Field(gt=0.0, lt=1.0, allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(_no_bool), Field(gt=0.0, allow_inf_nan=False)]
Count = Annotated[int, BeforeValidator(_no_bool), Field(ge=1)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Withheld = Literal["defer", "abstain"]


class Section(BaseModel):
    """A table of the file. Unknown keys are refused: a typo must not pass for a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class CostSettings(Section):
    """`[costs]`: the defaults take one wrong answer as the unit."""

    wrong: Money = 1.0
    abstain: Money = 0.3
    right: Money = 0.0
    review: Money | None = 0.2
    review_wait: Money = 0.0
    per_second: Money = 0.0
    human_accuracy: InsideShare = 0.95
    human_accuracy_source: Literal["given", "measured"] = "given"
    generate: Money = 0.001
    retrieve: Money | None = 0.01
    escalate: dict[Name, Money] = Field(default_factory=dict)
    unit: str = Field(default="", max_length=16)


class TaskCostSettings(Section):
    """`[tasks.NAME.costs]`: only what differs from `[costs]`."""

    wrong: Money | None = None
    abstain: Money | None = None
    right: Money | None = None
    review: Money | None = None
    review_wait: Money | None = None
    per_second: Money | None = None
    human_accuracy: InsideShare | None = None
    human_accuracy_source: Literal["given", "measured"] | None = None
    generate: Money | None = None
    retrieve: Money | None = None
    escalate: dict[Name, Money] | None = None
    unit: str | None = Field(default=None, max_length=16)


class PolicySettings(Section):
    """`[policy]`: the arguments of `CostPolicy`."""

    fallback_effects: Withheld = "defer"
    fallback_answers: Withheld = "abstain"
    label_rate: Share = 0.02
    max_rounds: Count = 3
    min_labels: Count = 20
    use_lower_for_irreversible: bool = True
    draft_insight: Share = 1.0
    later_insight: Share = 0.0


UserText = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(check_places)]


class WaitingSettings(Section):
    """`[waiting]`: what the end user is told, and how often who waits looks again (seconds, growing).

    `{review_id}` and `{run_id}` may stand in the texts.
    """

    message: UserText = "I have asked a person to check this; the answer follows."
    abstained: UserText = "I am not sure enough to answer this."
    rejected: UserText = "A person looked at this and decided against it."
    expired: UserText = "Nobody could look at this in time, so it was not done."
    poll_first: Positive = 0.05
    poll_longest: Positive = 2.0

    @model_validator(mode="after")
    def _ordered(self) -> WaitingSettings:
        if self.poll_first > self.poll_longest:
            raise ValueError(f"poll_first={self.poll_first} must not be above poll_longest={self.poll_longest}")
        return self


class TaskWaitingSettings(Section):
    """`[tasks.NAME.waiting]`: only the texts that differ from `[waiting]`."""

    message: UserText | None = None
    abstained: UserText | None = None
    rejected: UserText | None = None
    expired: UserText | None = None


class TurnSettings(Section):
    """`[turns]`: what becomes of a refusal or of a question back."""

    refusal: TurnRule = TurnRule.JUDGE
    clarification: TurnRule = TurnRule.JUDGE


class TaskTurnSettings(Section):
    """`[tasks.NAME.turns]`: only what differs from `[turns]`."""

    refusal: TurnRule | None = None
    clarification: TurnRule | None = None


class TaskSettings(Section):
    """`[tasks.NAME]`. None: as in general."""

    mode: Mode | None = None
    irreversible: Mode | None = None
    costs: TaskCostSettings = TaskCostSettings()
    waiting: TaskWaitingSettings = TaskWaitingSettings()
    turns: TaskTurnSettings = TaskTurnSettings()
    artefact: Name | None = None
    grader: Name | None = None
    refusal: Annotated[str, Field(min_length=1, max_length=2000)] | None = None


class ToolSettings(Section):
    """`[tools.NAME]`; `[tools."*"]` is for every tool not named."""

    side_effects: SideEffects = SideEffects.NONE
    idempotent: bool = False
    loss: Positive = 1.0
    always_review: bool = False

    def policy(self) -> ToolPolicy:
        return ToolPolicy(self.side_effects, self.idempotent, self.loss, self.always_review)


class ReviewSettings(Section):
    """`[review]`. Times in seconds; `expires_after` None: never; `capacity`: waiting items, None: any number.

    `max_rejections`: of the very same tool call in one conversation; then it is cut without asking again.
    """

    lease_seconds: Positive = 300.0
    expires_after: Positive | None = None
    on_expiry: SafeEnd = SafeEnd.ABSTAIN
    capacity: Count | None = None
    max_rejections: Count = 1


class LearningSettings(Section):
    """`[learning]`: what outcomes change after fitting."""

    online: bool = True
    min_outcomes: Count = 20
    refit_growth: Annotated[float, BeforeValidator(_no_bool), Field(ge=0.0, allow_inf_nan=False)] = 0.25


class ModelSettings(Section):
    """`[models]`: what to load by name."""

    default: Name | None = None
    larger: tuple[Name, ...] = ()


class _Variables(EnvSettingsSource):
    """DEMUR_* variables, one key each. A whole section as one JSON text is not taken: see `check_variables`."""

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:
        is_section, _ = self._field_is_complex(field)
        return super().prepare_field_value(field_name, field, None if is_section else value, value_is_complex)


class Settings(BaseSettings):
    """Everything that can be set, with its default. See docs/settings.md.

    Variables win over the file: `DEMUR_MODE=enforce`, `DEMUR_COSTS__WRONG=5`. Their names do not tell upper from lower
    case, so names of tasks, tools and models that have capitals belong into the file.

    Raises:
        ConfigurationError: a value cannot work; the message has the file, the dotted key and the value.
    """

    model_config = SettingsConfigDict(
        env_prefix="DEMUR_", env_nested_delimiter="__", extra="forbid", frozen=True, protected_namespaces=()
    )

    database: Annotated[str, Field(min_length=1, max_length=2000)] = "demur.db"
    mode: Mode = Mode.SHADOW
    irreversible: Mode = Mode.ENFORCE
    costs: CostSettings = CostSettings()
    policy: PolicySettings = PolicySettings()
    tasks: dict[Name, TaskSettings] = Field(default_factory=dict)
    tools: dict[Name, ToolSettings] = Field(default_factory=dict)
    review: ReviewSettings = ReviewSettings()
    turns: TurnSettings = TurnSettings()
    models: ModelSettings = ModelSettings()
    learning: LearningSettings = LearningSettings()
    waiting: WaitingSettings = WaitingSettings()

    def __init__(self, **values: Any) -> None:
        self._build(values, "settings")

    def _build(self, values: Mapping[str, Any], where: str) -> None:
        check_variables(type(self), os.environ)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise explained(type(self), error, where) from None
        except SettingsError as error:
            raise ConfigurationError(f"{where}: a DEMUR_* variable is not the JSON it must be: {error}") from error
        self._check_together(where)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return _Variables(settings_cls), init_settings

    @classmethod
    def load(cls, path: str | Path | None = None) -> Settings:
        """Read a file; by default `demur.toml` in the working folder, or the defaults where there is none.

        Raises:
            ConfigurationError: the file is missing (where one was named), unreadable, not TOML, or holds a value that
                cannot work.
        """
        if path is None:
            path = Path(DEFAULT_FILE)
            if not path.exists():
                return cls()
        file = Path(path)
        values = read_toml(file)
        check_types(cls, values, str(file))
        settings = cls.__new__(cls)
        settings._build(values, str(file))
        return settings

    @staticmethod
    def example() -> str:
        """A commented `demur.toml` that names every key and loads as it stands."""
        return example()

    def policy_for(self, task: str) -> CostPolicy:
        """The policy of a task: the general one with the task's own costs."""
        known = self._policies.get(task)
        return self._policy if known is None else known

    def modes_of_task(self, task: str) -> tuple[Mode | None, Mode | None]:
        """What the task sets instead of `mode` and of `irreversible`."""
        found = self.tasks.get(task)
        return (None, None) if found is None else (found.mode, found.irreversible)

    def effects_of(self, call: Call) -> SideEffects:
        """The graver of what the call says of itself and what its tool is declared as."""
        return graver_effects(call, self.tool_policies)

    def waiting_for(self, task: str) -> WaitingSettings:
        """The texts of a task: the general ones with the task's own."""
        own = self.tasks[task].waiting.model_dump(exclude_none=True) if task in self.tasks else {}
        return self.waiting.model_copy(update=own)

    @cached_property
    def tool_policies(self) -> dict[str, ToolPolicy]:
        return {name: tool.policy() for name, tool in self.tools.items()}

    @cached_property
    def _policy(self) -> CostPolicy:
        return self._make_policy(TaskCostSettings())

    @cached_property
    def _policies(self) -> dict[str, CostPolicy]:
        return {name: self._make_policy(task.costs, task.turns) for name, task in self.tasks.items()}

    def _make_policy(self, own: TaskCostSettings, own_turns: TaskTurnSettings | None = None) -> CostPolicy:
        prices = self.costs.model_dump()
        override = {name: value for name, value in own.model_dump().items() if value is not None}
        override["escalate"] = {**prices["escalate"], **override.get("escalate", {})}
        options = self.policy.model_dump()
        for name in ("fallback_effects", "fallback_answers"):
            options[name] = Route(options[name])
        turns = self.turns.model_dump() | (own_turns.model_dump(exclude_none=True) if own_turns is not None else {})
        return CostPolicy(
            Costs(**{**prices, **override}), tools=self.tool_policies, turns=TurnRules(**turns), **options
        )

    def _check_together(self, where: str) -> None:
        """What no single key shows: prices against each other, and larger models without a price."""
        try:
            policies = {"": self._policy}
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from error
        for name, task in self.tasks.items():
            try:
                policies[name] = self._make_policy(task.costs, task.turns)
            except ConfigurationError as error:
                raise ConfigurationError(f"{where}: tasks.{name}: {error}") from error
        for model in self.models.larger:
            if all(model not in policy.costs.escalate for policy in policies.values()):
                raise ConfigurationError(
                    f"{where}: models.larger names {model!r}, but what asking it costs is not set; "
                    f'add costs.escalate."{model}"'
                )
