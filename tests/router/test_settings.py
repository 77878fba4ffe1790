import math
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from demur.core.call import Call, CallKind, SideEffects
from demur.core.decision import Mode, Route
from demur.core.errors import ConfigurationError
from demur.core.review_item import SafeEnd
from demur.policies.costs import Costs
from demur.policies.mode import effective_mode
from demur.policies.policy import CostPolicy
from demur.router.settings import CostSettings, PolicySettings, Settings, TaskCostSettings
from demur.router.settings_errors import known_keys


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.upper().startswith("DEMUR_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def load(tmp_path: Path):
    def of(text: str | bytes) -> Settings:
        file = tmp_path / "demur.toml"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return Settings.load(file)

    return of


def dotted_keys(model: type[BaseModel], location: tuple[str, ...] = ()) -> list[str]:
    """Every key there is; a name that users choose is `*`."""
    found = []
    for key in known_keys(model, location):
        for below in ((*location, key), (*location, key, "*")):
            if known_keys(model, below):
                found.extend(dotted_keys(model, below))
                break
        else:
            found.append(".".join((*location, key)))
    return found


def shown_keys(text: str) -> set[str]:
    """The dotted keys of an example, those commented out included; a name that users choose is `*`."""
    found, table = set(), ""
    for line in text.splitlines():
        if heading := re.match(r"\[([\w.]+)\]", line):
            table = re.sub(r"^(tasks|tools)\.\w+", r"\1.*", heading[1]) + "."
            found.add(table[:-1])
        elif key := re.match(r"(?:# )?(\w+) = ", line):
            found.add(table + key[1])
    return found


# --- loading -----------------------------------------------------------------------------------------------------


def test_without_a_file_the_defaults_change_nothing():
    settings = Settings.load()
    assert (settings.mode, settings.irreversible) == (Mode.SHADOW, Mode.ENFORCE)
    assert settings.database == "demur.db"
    assert settings.review.on_expiry is SafeEnd.ABSTAIN


def test_the_file_in_the_working_folder_is_found(tmp_path):
    (tmp_path / "demur.toml").write_text('mode = "advise"')
    assert Settings.load().mode is Mode.ADVISE


def test_the_example_loads_and_names_every_key(load):
    settings = load(Settings.example())
    assert settings.policy_for("triage").costs.wrong == 5.0
    assert settings.tools["refund"].side_effects is SideEffects.IRREVERSIBLE
    for key in dotted_keys(Settings):
        assert key in shown_keys(Settings.example()) or key.startswith("tasks.*.costs."), key


def test_the_example_shows_the_defaults():
    shown, defaults = tomllib.loads(Settings.example()), Settings()
    for section in ("policy", "review", "models"):
        for key, value in shown[section].items():
            held = getattr(getattr(defaults, section), key)
            assert (list(held) if isinstance(held, tuple) else held) == value, f"{section}.{key}"
    for key, value in shown["costs"].items():
        assert key == "escalate" or getattr(defaults.costs, key) == value, key
    assert (shown["mode"], shown["irreversible"], shown["database"]) == ("shadow", "enforce", "demur.db")


def test_the_page_in_the_docs_names_every_key():
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
    sections = page.split("\n## ")
    for key in dotted_keys(Settings):
        table, _, name = key.rpartition(".")
        heading = {"": "`demur.toml`"}.get(table, f"`[{table.replace('*', 'NAME')}]`")
        section = next((text for text in sections if text.startswith(heading)), None)
        assert section is not None, f"docs/settings.md has no section {heading}"
        if table != "tasks.*.costs":
            assert f"`{name}`" in section, f"docs/settings.md says nothing of {key}"


def test_the_cost_section_of_a_task_has_the_keys_of_the_general_one():
    assert set(TaskCostSettings.model_fields) == set(CostSettings.model_fields) == set(Costs.__dataclass_fields__)
    assert set(PolicySettings.model_fields) <= set(CostPolicy.__init__.__annotations__)


# --- what cannot work --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("moed = 'enforce'", "moed = 'enforce': unknown key; did you mean mode?"),
        ("mode = 'enforec'", "did you mean 'enforce'?"),
        ("mode = 1", "mode = 1"),
        ("irreversible = 'off'", "irreversible = 'off'"),
        ("[cost]\nwrong = 1", "did you mean costs?"),
        ("[costs]\nworng = 3.0", "costs.worng = 3.0: unknown key; did you mean costs.wrong?"),
        ("[costs]\nwrong = '1'", "costs.wrong = '1'"),
        ("[costs]\nwrong = true", "costs.wrong = True"),
        ("[costs]\nwrong = nan", "costs.wrong = nan"),
        ("[costs]\nwrong = inf", "costs.wrong"),
        ("[costs]\nwrong = -inf", "costs.wrong"),
        ("[costs]\nwrong = -1", "costs.wrong = -1"),
        ("[costs]\nwrong = 1" + "0" * 400, "costs.wrong"),
        ("[costs]\nabstain = 2.0", "costs.abstain=2.0 must be below costs.wrong=1.0"),
        ("[costs]\nhuman_accuracy = 1.0", "costs.human_accuracy"),
        ("[costs.escalate]\nbig = -1", "costs.escalate.big = -1"),
        ("[costs]\nescalate = 3", "costs.escalate = 3"),
        ("[policy]\nfallback_effects = 'answer'", "policy.fallback_effects"),
        ("[policy]\nlabel_rate = 1.5", "policy.label_rate = 1.5"),
        ("[policy]\nmax_rounds = 1.5", "policy.max_rounds = 1.5"),
        ("[policy]\nmax_rounds = 0", "policy.max_rounds = 0"),
        ("[policy]\nuse_lower_for_irreversible = 1", "policy.use_lower_for_irreversible = 1"),
        ("[tasks.t]\nmoed = 'shadow'", "tasks.t.moed = 'shadow': unknown key; did you mean tasks.t.mode?"),
        ("[tasks.t.costs]\nwrongg = 3", "did you mean tasks.t.costs.wrong?"),
        ("[tasks.t.costs]\nabstain = 7.0", "tasks.t: costs.abstain=7.0 must be below"),
        ("[tasks.t]\nmode = 2026-01-01", "tasks.t.mode"),
        ("tasks = 3", "tasks = 3"),
        ("[tools.x]\nalways_reviw = true", "did you mean tools.x.always_review?"),
        ("[tools.x]\nside_effects = 'reversable'", "did you mean 'reversible'?"),
        ("[tools.x]\nidempotent = 'yes'", "tools.x.idempotent = 'yes'"),
        ("[tools.x]\nloss = 0", "tools.x.loss = 0"),
        ("[tools.x]\nloss = 0.1", "tools['x'].loss=0.1 does not go with the costs"),
        ("[review]\non_expiry = 'approve'", "review.on_expiry = 'approve'"),
        ("[review]\nlease_seconds = 0", "review.lease_seconds = 0"),
        ("[models]\nlarger = ['big']", 'add costs.escalate."big"'),
        ("[models]\nlarger = 'big'", "models.larger = 'big'"),
        ("mode = 'shadow'\nmode = 'enforce'", "not TOML"),
        ("[costs]\n[costs]", "not TOML"),
        ("mode = shadow", "not TOML"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        ("a = " + "[" * 5000, "not readable as TOML"),
        ("a = 1" + "0" * 9000, "not readable as TOML"),
        ("#" * (1 << 20) + "\n", "over 1048576 bytes"),
        ("#" * (10 << 20), "over 1048576 bytes"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_file_that_cannot_work_is_refused_with_the_reason(load, tmp_path, text, said):
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    assert said in str(caught.value)
    assert str(tmp_path / "demur.toml") in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_all_faults_are_told_at_once(load):
    with pytest.raises(ConfigurationError) as caught:
        load("moed = 1\n[costs]\nworng = 2\n[review]\nlese = 3")
    assert all(name in str(caught.value) for name in ("moed", "costs.worng", "review.lese"))


def test_control_characters_in_a_key_do_not_reach_the_terminal(load):
    with pytest.raises(ConfigurationError) as caught:
        load('"\\u001b[31mred" = 1')
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing.toml", ".", "demur\0.toml"])
def test_no_file_at_all_is_refused_where_one_was_named(tmp_path, name):
    with pytest.raises(ConfigurationError):
        Settings.load(tmp_path / name)


@pytest.mark.parametrize("values", [{"mode": "x"}, {"moed": "shadow"}, {"costs": {"wrong": math.nan}}], ids=str)
def test_settings_made_in_code_raise_the_same_error(values):
    with pytest.raises(ConfigurationError, match="settings: "):
        Settings(**values)


# --- variables ---------------------------------------------------------------------------------------------------


def test_variables_win_over_the_file(load, monkeypatch):
    monkeypatch.setenv("DEMUR_MODE", "enforce")
    monkeypatch.setenv("DEMUR_COSTS__WRONG", "5")
    monkeypatch.setenv("DEMUR_TASKS__TRIAGE__MODE", "advise")
    monkeypatch.setenv("DEMUR_MODELS__DEFAULT", "gemma-270m")
    settings = load("mode = 'shadow'\n[costs]\nwrong = 2.0\nabstain = 0.5\n[tasks.triage]\nirreversible = 'shadow'")
    assert settings.mode is Mode.ENFORCE
    assert (settings.costs.wrong, settings.costs.abstain) == (5.0, 0.5)
    assert (settings.tasks["triage"].mode, settings.tasks["triage"].irreversible) == (Mode.ADVISE, Mode.SHADOW)
    assert settings.models.default == "gemma-270m"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DEMUR_MOED", "enforce", "did you mean DEMUR_MODE?"),
        ("DEMUR_COST__WRONG", "5", "did you mean DEMUR_COSTS?"),
        ("DEMUR_COSTS__WORNG", "5", "did you mean costs.wrong?"),
        ("DEMUR_COSTS__WRONG", "nan", "costs.wrong"),
        ("DEMUR_COSTS__WRONG", "much", "costs.wrong = 'much'"),
        ("DEMUR_COSTS", '{"wrong": 2}', "one by one"),
        ("DEMUR_MODE", "", "mode = ''"),
        ("DEMUR_XYZ__ABC", "1", "sets nothing that Demur knows"),
        ("DEMUR_MODELS__LARGER", "not json", "JSON"),
    ],
)
def test_a_variable_that_cannot_work_is_refused(monkeypatch, name, value, said):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        Settings.load()
    assert said in str(caught.value)


def test_the_folder_of_models_is_not_taken_for_the_section(monkeypatch):
    monkeypatch.setenv("DEMUR_MODELS", "somewhere/models")
    assert Settings.load().models.default is None


# --- what comes of them ------------------------------------------------------------------------------------------


def test_a_task_has_its_own_costs_and_shares_the_rest(load):
    settings = load(
        "[costs]\nwrong = 2.0\nreview = 0.4\n[costs.escalate]\nbig = 0.1\n"
        "[tasks.refunds.costs]\nwrong = 9.0\n[tasks.refunds.costs.escalate]\nhuge = 0.5\n"
        "[policy]\nlabel_rate = 0.5\nfallback_answers = 'defer'"
    )
    own, other = settings.policy_for("refunds"), settings.policy_for("anything")
    assert (own.costs.wrong, own.costs.review, dict(own.costs.escalate)) == (9.0, 0.4, {"big": 0.1, "huge": 0.5})
    assert (other.costs.wrong, dict(other.costs.escalate)) == (2.0, {"big": 0.1})
    assert own.fallback_answers is Route.DEFER
    assert own.label_rate == other.label_rate == 0.5
    assert own.id != other.id
    assert settings.policy_for("refunds") is own


def test_equal_settings_give_equal_policy_ids(load):
    text = "[costs]\nwrong = 2.0\n[tools.x]\nloss = 3.0"
    assert load(text).policy_for("t").id == load(text).policy_for("t").id


def test_the_mode_of_a_call(load):
    settings = load(
        "mode = 'advise'\n[tasks.triage]\nmode = 'enforce'\n[tasks.pay]\nirreversible = 'shadow'\n"
        "[tools.refund]\nside_effects = 'irreversible'"
    )

    def use(task: str) -> Call:
        return Call(kind=CallKind.TOOL, tool_name="refund", task=task)

    assert effective_mode(settings, Call.ask("q")) is Mode.ADVISE
    assert effective_mode(settings, Call.ask("q", task="triage")) is Mode.ENFORCE
    assert effective_mode(settings, use("triage")) is Mode.ENFORCE
    assert effective_mode(settings, use("other")) is Mode.ENFORCE
    assert effective_mode(settings, use("pay")) is Mode.SHADOW


def test_settings_cannot_be_changed_later():
    settings: Any = Settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.mode = Mode.ENFORCE
    with pytest.raises(ValueError, match="frozen"):
        settings.costs.wrong = 0.0
