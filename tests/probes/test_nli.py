"""transformers_nli over tiny random classifiers: label order, windows, batches, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from demur.core.call import Call
from demur.core.errors import ConfigurationError, ModelError
from demur.core.evidence import Document, Evidence
from demur.core.response import Response
from demur.probes.contradiction import ContradictionProbe, transformers_nli
from demur.probes.nli import TransformersNli, label_order

WORDS = ["oslo", "rome", "lima", "is", "not", "in", "norway", "italy", "the", "capital", "?", "where"]
LABELS = {0: "CONTRADICTION", 1: "neutral", 2: "Entailment"}


def save(
    folder: Path, labels=None, *, kind: str = "Bert", positions: int = 64, seed: int = 0, head: bool = True
) -> Path:
    """A random classifier of 2 blocks with a word-level tokenizer, as a folder."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    specials = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    vocabulary = {word: number for number, word in enumerate([*specials, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    ).save_pretrained(folder)
    labels = LABELS if labels is None else labels
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(vocabulary),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=positions,
        type_vocab_size=2,
        pad_token_id=0,
        initializer_range=0.6,
        id2label=labels,
        label2id={label: number for number, label in labels.items()},
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        auto = transformers.AutoModelForSequenceClassification if head else transformers.AutoModel
        auto.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("nli"))


@pytest.fixture(scope="module")
def nli(folder: Path) -> TransformersNli:
    return transformers_nli(folder)


def by_hand(folder: Path, premise: str, hypothesis: str):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        shares = torch.softmax(model(**tokenizer(premise, hypothesis, return_tensors="pt")).logits[0], -1).tolist()
    return (shares[2], shares[1], shares[0])  # LABELS has them the other way round


def test_probabilities_come_in_the_order_of_the_models_own_labels(folder, nli):
    pairs = [("oslo is in norway", "where is oslo ? norway"), ("rome", "lima is not the capital")]
    assert nli(pairs) == [pytest.approx(by_hand(folder, *pair), abs=1e-5) for pair in pairs]
    assert nli([]) == []


def test_batches_and_padding_change_nothing(folder, nli):
    pairs = [(" ".join(WORDS[: 1 + at]), " ".join(WORDS[at:])) for at in range(8)]
    alone = [nli([pair])[0] for pair in pairs]
    assert nli(pairs) == [pytest.approx(each, abs=1e-5) for each in alone]
    assert transformers_nli(folder, batch=3)(pairs) == [pytest.approx(each, abs=1e-5) for each in alone]


def test_a_long_premise_is_read_in_windows_and_the_least_neutral_speaks(folder, nli):
    premise = " ".join(WORDS[(7 * at) % len(WORDS)] for at in range(150))
    hypothesis = "oslo is the capital"
    room = 64 - 3 - 4  # what [CLS], two [SEP] and the hypothesis leave
    step = room - room // 2  # windows overlap by half of it: less than 64 tokens
    words = premise.split()
    starts = [0]
    while starts[-1] + room < len(words):
        starts.append(starts[-1] + step)
    windows = [by_hand(folder, " ".join(words[start : start + room]), hypothesis) for start in starts]
    assert len(windows) > 3
    (found,) = nli([(premise, hypothesis)])
    assert found == pytest.approx(min(windows, key=lambda triple: triple[1]), abs=1e-5)
    assert sum(found) == pytest.approx(1.0)


def test_every_word_of_a_long_premise_is_in_some_window(nli):
    known = dict(zip(range(0, 300, 25), WORDS, strict=True))
    premise = " ".join(known.get(at, "unknown") for at in range(300))
    windows = nli._windows(premise, "unknown")
    seen = {place for window in windows for place in window["input_ids"]}
    assert seen == set(range(1, 4 + len(WORDS)))  # all but the padding
    assert max(len(window["input_ids"]) for window in windows) <= 64


def test_a_hypothesis_is_never_cut(nli):
    with pytest.raises(ModelError, match="leaves 1 of 64"):
        nli([("oslo", " ".join(["rome"] * 60))])


def test_the_probe_over_a_model(nli):
    documents = (Document(id="1", text="oslo is in norway"), Document(id="2", text="rome is in italy " * 40))
    evidence = Evidence(
        call=Call.ask("where is oslo ?"),
        response=Response(text="norway"),
        documents=documents,
        samples=(Response(text="norway"), Response(text="italy")),
    )
    signals = ContradictionProbe(nli).measure(evidence)
    triples = nli([(document.text, "where is oslo ? norway") for document in documents])
    assert signals[0].value == pytest.approx(max(each[2] for each in triples), abs=1e-6)
    assert signals[1].value == pytest.approx(max(each[0] for each in triples), abs=1e-6)
    assert 0.0 < signals[2].value < 1.0


def test_positions_of_roberta_begin_behind_the_padding(tmp_path):
    judge = transformers_nli(save(tmp_path, kind="Roberta", positions=40))
    assert judge.max_length == 39
    assert len(judge([("oslo " * 100, "rome")])) == 1


@pytest.mark.parametrize(
    "labels",
    [
        {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"},
        {0: "entailment", 1: "not_entailment"},
        {0: "entailment", 1: "neutral", 2: "entailed"},
        {0: "entailment", 1: "neutral", 2: "contradiction", 3: "other"},
    ],
)
def test_labels_that_do_not_say_what_they_mean_are_refused(labels):
    with pytest.raises(ConfigurationError, match="id2label"):
        label_order(labels)


def test_labels_in_any_order_and_case():
    assert label_order({0: "Neutral", 1: " CONTRADICTION", 2: "entailment"}) == (2, 0, 1)


def test_a_model_without_a_trained_classifier_is_refused(tmp_path):
    with pytest.raises(ModelError, match="drawn at random"):
        transformers_nli(save(tmp_path, head=False))


def test_weights_that_would_be_unpickled_are_refused(tmp_path, folder):
    import torch

    for path in folder.iterdir():
        if path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors"):
        transformers_nli(tmp_path)


def test_a_damaged_folder_is_refused(tmp_path, folder):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(ModelError, match="could not be loaded"):
        transformers_nli(tmp_path)


@pytest.mark.parametrize("options", [{"batch": 0}, {"overlap": -1}, {"max_length": 10}])
def test_settings_that_cannot_work_are_refused(folder, options):
    with pytest.raises(ConfigurationError):
        transformers_nli(folder, **options)


def test_logits_that_are_not_finite_are_refused(folder):
    import torch

    judge = transformers_nli(folder)
    with torch.no_grad():
        judge._model.classifier.bias[0] = float("nan")
    with pytest.raises(ModelError, match="not finite"):
        judge([("oslo", "rome")])
