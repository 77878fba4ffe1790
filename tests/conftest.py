"""Shared by all rooms: tiny random models of many families, and a closed world of facts that a tiny model has learned.

Heavy libraries are imported inside the fixtures: most rooms' tests need none of them.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models: threads would only wait for each other

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from demur.integrations.models.huggingface.model import HuggingFaceModel

TinyModel = Callable[..., tuple[Any, Any]]

_CORPUS = [
    "Q: Which planet is closest to the Sun?\nA: Mercury\n\n",
    "Q: Who wrote the book about the whale, and when?\nA: Herman Melville, in 1851.\n\n",
    "The answer is found in one of the passages, quoted as data: yes or no, true or false.\n",
    "> [1] a line of text { with braces } and \u201cquotes\u201d, caf\u00e9s and na\u00efve \U0001f600 signs\n",
]

_SIZES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 2},
    "qwen2": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 8},
    "gemma3": {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 16, "final_logit_softcapping": 3.0},
    "gpt2": {},
    "gpt_neox": {},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 24},
    "phi": {},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 16},
    "mamba": {"state_size": 8},
}
_CONFIGS = {
    "llama": "LlamaConfig",
    "qwen2": "Qwen2Config",
    "qwen3": "Qwen3Config",
    "gemma3": "Gemma3TextConfig",
    "gpt2": "GPT2Config",
    "gpt_neox": "GPTNeoXConfig",
    "opt": "OPTConfig",
    "phi": "PhiConfig",
    "mistral": "MistralConfig",
    "mamba": "MambaConfig",
}


def build_tokenizer(corpus: list[str], *, vocabulary: int = 400) -> Any:
    """A byte-level BPE tokenizer trained on `corpus`: any text survives it unchanged."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<pad>", "<eos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Any:
    """Byte-level BPE, about 400 tokens, trained here. Do not change it: it is shared."""
    return build_tokenizer(_CORPUS)


@pytest.fixture(scope="session")
def tiny_model(tiny_tokenizer: Any) -> TinyModel:
    """`tiny_model(family, seed=0, **config)` -> (model in evaluation mode, tokenizer): random weights, 3 blocks.

    Families: llama, qwen2, qwen3, gemma3, gpt2, gpt_neox, opt, phi, mistral, mamba. The same arguments give the same
    objects: do not change them. Weights are drawn wide enough for the next token to depend on the context.
    """
    made: dict[str, tuple[Any, Any]] = {}

    def make(family: str = "llama", *, seed: int = 0, **overrides: Any) -> tuple[Any, Any]:
        key = json.dumps([family, seed, overrides], sort_keys=True, default=str)
        if key not in made:
            made[key] = (_random_model(family, seed, len(tiny_tokenizer), overrides), tiny_tokenizer)
        return made[key]

    return make


def _random_model(family: str, seed: int, vocabulary: int, overrides: dict[str, Any]) -> Any:
    import torch
    import transformers

    settings: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 1,
        "initializer_range": 0.3,
        **_SIZES[family],
        **overrides,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = getattr(transformers, _CONFIGS[family])(**settings)
        return transformers.AutoModelForCausalLM.from_config(config).float().eval()


@dataclass(frozen=True)
class FactRow:
    """A question about the closed world.

    Attributes:
        frequency: how often the model saw the fact while it learned: "often", "rarely" or "never".
    """

    id: str
    question: str
    answer: str
    frequency: str


@dataclass
class FactWorld:
    """A tiny model that learned some facts well, some badly and some not at all: its confidence has a ground truth.

    Attributes:
        rows: all facts, shuffled; equally many of each frequency.
        folder: the model as a Hugging Face folder.
        model: the same, loaded. Do not change it: it is shared.
    """

    folder: Path
    rows: tuple[FactRow, ...]
    model: HuggingFaceModel = field(repr=False)

    def of(self, frequency: str) -> tuple[FactRow, ...]:
        """The rows of one frequency."""
        return tuple(row for row in self.rows if row.frequency == frequency)


_FIRST = ["Ada", "Bo", "Cleo", "Dora", "Emil", "Finn", "Gita", "Hugo", "Ines", "Jon", "Kira", "Leo"]
_LAST = ["Abel", "Berg", "Cruz", "Dahl", "Egan", "Ford", "Gray", "Holt", "Ives", "Jung", "Katz", "Lund"]
_CITIES = ["Oslo", "Rome", "Lima", "Cairo", "Paris", "Delhi", "Tokyo", "Quito", "Seoul", "Dakar"]
_TIMES_SEEN = {"often": 30, "rarely": 1, "never": 0}


def fact_rows(seed: int = 7) -> list[FactRow]:
    """144 people (12 first names x 12 last names), each in a city drawn at random; 48 of each frequency."""
    draw = random.Random(seed)
    people = [f"{first} {last}" for first in _FIRST for last in _LAST]
    draw.shuffle(people)
    rows = []
    for number, person in enumerate(people):
        frequency = list(_TIMES_SEEN)[number % 3]
        question = f"Where does {person} live?"
        rows.append(FactRow(f"fact-{number}", question, draw.choice(_CITIES), frequency))
    return rows


def _train_fact_model(folder: Path, rows: list[FactRow]) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    texts = {row.id: f"Q: {row.question}\nA: {row.answer}\n" for row in rows}
    tokenizer = build_tokenizer([*texts.values()], vocabulary=340)
    seen = [texts[row.id] for row in rows for _ in range(_TIMES_SEEN[row.frequency])]
    encoded = tokenizer(seen, padding=True, padding_side="right", return_tensors="pt")
    ids, mask = encoded["input_ids"], encoded["attention_mask"].bool()
    labels = ids.masked_fill(~mask, -100)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=2048,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=1,
        )
        model = LlamaForCausalLM(config).train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
        steps = 240
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=4e-3, total_steps=steps)
        for _ in range(steps):
            batch = torch.randint(len(seen), (64,))
            loss = model(input_ids=ids[batch], attention_mask=mask[batch].long(), labels=labels[batch]).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="session")
def fact_world(tmp_path_factory: pytest.TempPathFactory) -> FactWorld:
    """The trained world. Trained once a session (about ten seconds), whatever the number of xdist workers."""
    import torch
    from filelock import FileLock

    from demur.integrations.models.huggingface.model import HuggingFaceModel
    from demur.integrations.models.huggingface.prompt import PromptTemplate

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "fact-world"
    rows = fact_rows()
    with FileLock(shared / "fact-world.lock"):
        if not (folder / "rows.json").is_file():
            threads = torch.get_num_threads()
            torch.set_num_threads(1)  # the same sums, so the same weights, whatever the machine
            try:
                _train_fact_model(folder, rows)
            finally:
                torch.set_num_threads(threads)
            (folder / "rows.json").write_text(json.dumps([asdict(row) for row in rows]))
    model = HuggingFaceModel(
        folder,
        name="fact-world",
        prompt_template=PromptTemplate(prefix="", with_documents="{documents}\n\nQ: {question}\nA:"),
        max_new_tokens=8,
    )
    return FactWorld(folder, tuple(rows), model)


@pytest.fixture(scope="session")
def gemma() -> HuggingFaceModel:
    """gemma-3-270m, where it is on this machine. Never downloads."""
    from demur.integrations.models.huggingface.model import HuggingFaceModel
    from demur.integrations.models.store import find_local_model, models_folder

    folder = find_local_model("gemma-270m")
    if folder is None:
        pytest.skip(f"layer 3 did not run: no model folder {models_folder() / 'gemma-270m'}")
    return HuggingFaceModel(folder, name="gemma-270m")
