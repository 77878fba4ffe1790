"""MICE's similarities: worked by hand with a fake encoder, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.call import Call
from demur.core.errors import ConfigurationError, ModelError
from demur.core.evidence import Captured, Evidence, LensTrace
from demur.core.protocols import Probe
from demur.core.response import Response
from demur.core.signal import Direction, RawScore, Signal
from demur.probes.lens_similarity import LensSimilarity
from demur.probes.text_similarity import BertScore, RapidFuzz, transformers_token_encoder

LAYERS = (3, 6, 9)
WORDS = {"oslo": (1.0, 0.0), "rome": (0.0, 1.0), "bergen": (0.8, 0.6), "in": (0.0, -1.0)}


def encoder(texts: Sequence[str]) -> list[np.ndarray]:
    """One vector of the plane a word."""
    return [np.array([WORDS[word] for word in text.split()]).reshape(-1, 2) for text in texts]


def trace(said: tuple[str, ...] = ("rome", "bergen", "oslo"), candidates: int = 0) -> LensTrace:
    agreement = np.array([[0, 0, 0, 0], [1, 0, 1, 1], [1, 1, 1, 1]], dtype=np.float32)
    rest = [np.zeros((3, 4), np.float32)] * 4
    return LensTrace(LAYERS, agreement, *rest, said=said, candidates=candidates)


def measured(probe: Probe, lens: LensTrace | None, response: Response | None = None) -> dict[str, Signal]:
    found = probe.measure(Evidence(call=Call.ask("q"), response=response, captured=Captured(lens=lens)))
    assert tuple(signal.name for signal in found) == probe.signal_names
    return {signal.name: signal for signal in found}


def test_token_match_worked_by_hand() -> None:
    got = measured(LensSimilarity((3, 6), "token_match"), trace(said=()))
    assert [s.value for s in got.values()] == [0.0, 0.75, 0.375]
    assert list(got) == ["mice.token_match.L3", "mice.token_match.L6", "mice.token_match.mean"]


def test_rapidfuzz_worked_by_hand() -> None:
    # "oslo" and "oslos": one insertion in 9 characters. "rome" and "oslo" share "o" only: 6 of 8 change.
    got = measured(LensSimilarity((3, 6)), trace(("rome", "oslos", "oslo")))
    assert [s.value for s in got.values()] == pytest.approx([2 / 8, 8 / 9, (2 / 8 + 8 / 9) / 2])


def test_bertscore_worked_by_hand() -> None:
    # "bergen rome" against "oslo": best matches .8 and 0, so P = .4; the best match of oslo is .8 = R; F1 = .64 / 1.2.
    assert BertScore(encoder).similarities(["bergen rome"], "oslo") == pytest.approx([0.64 / 1.2])
    got = measured(LensSimilarity((3, 6), BertScore(encoder)), trace())
    assert [s.value for s in got.values()] == pytest.approx([0.0, 0.8, 0.4])
    assert next(iter(got)) == "mice.bertscore.L3"
    # Opposite and empty texts: no F1 of negative parts.
    assert BertScore(encoder).similarities(["in", "", "rome"], "rome") == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "metric", ["token_match", "rapidfuzz", BertScore(encoder)], ids=["token_match", "rapidfuzz", "bertscore"]
)
def test_layers_that_say_the_answer_are_surer_than_those_that_say_something_else(metric: str | BertScore) -> None:
    lens = LensTrace(
        LAYERS, trace().agreement[[0, 2, 2]], *[np.zeros((3, 4), np.float32)] * 4, said=("rome", "oslo", "oslo")
    )
    scores = [s.score for s in measured(LensSimilarity((3, 6), metric), lens).values()]
    assert all(isinstance(score, RawScore) and score.direction is Direction.HIGHER_IS_SURER for score in scores)
    lesser, surer = scores[0], scores[1]
    assert isinstance(surer, RawScore) and isinstance(lesser, RawScore)
    assert surer.value == pytest.approx(1.0) and surer.oriented > lesser.oriented


def test_the_final_layer_says_the_output_itself() -> None:
    got = measured(LensSimilarity(LAYERS), trace())
    assert not got["mice.rapidfuzz.L9"].available
    assert got["mice.rapidfuzz.mean"] == measured(LensSimilarity((3, 6)), trace())["mice.rapidfuzz.mean"]
    assert not measured(LensSimilarity((9,)), trace())["mice.rapidfuzz.mean"].available


def test_the_response_as_output() -> None:
    probe = LensSimilarity((3,), output="response")
    assert measured(probe, trace(), Response(text="rome"))["mice.rapidfuzz.L3"].value == 1.0
    assert not measured(probe, trace())["mice.rapidfuzz.L3"].available


def test_what_cannot_be_read_is_unavailable() -> None:
    probe = LensSimilarity((3, 6))
    for lens in (None, trace(said=()), trace(("a", "b")), trace(("a", "b", " ")), trace(candidates=8)):
        assert not any(s.available for s in measured(probe, lens).values())
    got = measured(LensSimilarity((3, 4)), trace())
    assert [s.available for s in got.values()] == [True, False, False]
    holed = trace()
    holed.agreement[1, 2] = np.nan
    assert [s.available for s in measured(LensSimilarity((3, 6), "token_match"), holed).values()] == [
        True,
        False,
        False,
    ]
    fast = LensSimilarity((3, 6), candidates=8)
    (*_, mean) = fast.measure(Evidence(call=Call.ask("q"), captured=Captured(fast_lens=trace(candidates=8))))
    assert mean.name == "fast_mice.rapidfuzz.mean" and mean.available
    assert not any(signal.available for signal in measured(fast, trace()).values())


class Custom:
    """Any object with a name and a comparison."""

    name = "custom"
    cost_rank = 2

    def __init__(self, scores: list[float] | Exception) -> None:
        self.scores = scores

    def similarities(self, texts: Sequence[str], reference: str) -> list[float]:
        if isinstance(self.scores, Exception):
            raise self.scores
        return self.scores


def test_a_metric_of_your_own() -> None:
    probe = LensSimilarity((3, 6), Custom([0.25, math.inf]))
    assert (probe.name, probe.cost_rank, isinstance(probe, Probe)) == ("mice.custom", 2, True)
    assert [s.value for s in measured(probe, trace()).values()] == [0.25, None, None]
    for broken in (Custom([0.5]), Custom(ModelError("the encoder failed"))):
        assert not any(s.available for s in measured(LensSimilarity((3, 6), broken), trace()).values())
    broken.name = "Not a name"
    with pytest.raises(ConfigurationError, match="lower-case"):
        LensSimilarity((3,), broken)


def test_settings_that_cannot_work(tmp_path: Path) -> None:
    for broken in (
        lambda: LensSimilarity((3,), "bleu"),
        lambda: LensSimilarity(()),
        lambda: LensSimilarity((3,), output="prompt"),  # type: ignore[arg-type]
        lambda: transformers_token_encoder(tmp_path),
    ):
        with pytest.raises(ConfigurationError):
            broken()


@pytest.mark.parametrize("block", [np.zeros((1, 2)), np.full((1, 2), np.nan), np.ones(2)])
def test_an_encoder_without_directions_is_refused(block: np.ndarray) -> None:
    with pytest.raises(ModelError):
        BertScore(lambda texts: [block] * len(texts)).similarities(["a"], "b")
    with pytest.raises(ModelError):
        BertScore(lambda texts: [np.ones((1, 2))]).similarities(["a"], "b")


@given(text=st.text(max_size=30), other=st.text(max_size=30))
def test_edit_similarity_is_symmetric_bounded_and_one_for_itself(text: str, other: str) -> None:
    (there,), (back,) = RapidFuzz().similarities([text], other), RapidFuzz().similarities([other], text)
    assert there == pytest.approx(back) and 0.0 <= there <= 1.0
    assert RapidFuzz().similarities([text], text) == [1.0]


@given(
    texts=st.lists(st.lists(st.sampled_from([*WORDS]), min_size=1, max_size=5).map(" ".join), min_size=2, max_size=2)
)
def test_bertscore_is_symmetric_bounded_and_one_for_itself(texts: list[str]) -> None:
    score = BertScore(encoder)
    (there,), (back,) = score.similarities(texts[:1], texts[1]), score.similarities(texts[1:], texts[0])
    assert there == pytest.approx(back) and 0.0 <= there <= 1.0
    assert score.similarities(texts[:1], texts[0]) == pytest.approx([1.0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random encoder of one block with a word-level tokenizer."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    path = tmp_path_factory.mktemp("encoder")
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    ).save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=12,
    )
    transformers.BertModel(config).save_pretrained(path)
    return path


def test_an_encoder_from_a_folder(folder: Path) -> None:
    read = transformers_token_encoder(folder, batch=2)
    blocks = read(["oslo in rome", "", "oslo"])
    assert [block.shape for block in blocks] == [(3, 8), (0, 8), (1, 8)]
    # Padding changes nothing.
    assert blocks[2] == pytest.approx(read(["oslo"])[0], abs=1e-5)
    got = measured(LensSimilarity((3, 6), BertScore(read)), trace(("oslo", "in rome", "oslo")))
    assert got["mice.bertscore.L3"].value == pytest.approx(1.0)
    assert got["mice.bertscore.L6"].available
    too_long = measured(LensSimilarity((3,), BertScore(read)), trace(("oslo " * 20, "a", "oslo")))
    assert not too_long["mice.bertscore.L3"].available


def test_a_folder_without_an_encoder(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="could not be loaded"):
        transformers_token_encoder(tmp_path)(["a"])
