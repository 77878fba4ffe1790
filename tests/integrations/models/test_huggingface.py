"""The model with a window: what it captures, and that nothing else changes the answer."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from demur.core.call import Call
from demur.core.errors import ConfigurationError, ModelError
from demur.core.evidence import Captured, CaptureRequest, Document, Need
from demur.core.protocols import Generation, Model
from demur.integrations.models.huggingface.decoding import Decoding
from demur.integrations.models.huggingface.model import HuggingFaceModel

CALL = Call.ask("Who wrote the book?")
QUESTIONS = ["Who?", "Which planet is closest to the Sun?", "Who wrote the book about the whale, and when?", "Why so?"]
FULL = CaptureRequest(top_k=3, hidden_layers=(0, 2, -1), lens_layers=(1,))


def hooks_of(model: Any) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def assert_same(a: Generation, b: Generation, *, atol: float = 1e-4) -> None:
    assert a.response.text == b.response.text
    one, two = a.response.trace, b.response.trace
    assert one is not None and two is not None
    assert one.ids == two.ids
    assert (one.answer_start, one.answer_end) == (two.answer_start, two.answer_end)
    np.testing.assert_allclose(one.logprobs, two.logprobs, atol=atol)
    np.testing.assert_allclose(one.entropy, two.entropy, atol=atol)
    assert a.captured is not None and b.captured is not None
    assert a.captured.hidden.keys() == b.captured.hidden.keys()
    for key, vector in a.captured.hidden.items():
        np.testing.assert_allclose(vector, b.captured.hidden[key], atol=atol * 10, err_msg=key)
    assert (a.captured.lens is None) == (b.captured.lens is None)
    if a.captured.lens is not None and b.captured.lens is not None:
        np.testing.assert_allclose(a.captured.lens.logprob, b.captured.lens.logprob, atol=atol * 10)


def test_it_is_a_model(hugging: Any) -> None:
    model = hugging()
    assert isinstance(model, Model)
    assert model.provides == {Need.TEXT, Need.LOGPROBS, Need.HIDDEN_STATES}


def test_trace_against_one_plain_pass(hugging: Any, tiny_model: Any) -> None:
    model, tokenizer = tiny_model("llama")
    ours = hugging()
    generation = ours.generate(CALL, capture=FULL)
    trace, captured = generation.response.trace, generation.captured
    prompt = tokenizer(ours.prompt(CALL))["input_ids"]
    with torch.no_grad():
        out = model(input_ids=torch.tensor([[*prompt, *trace.ids]]), output_hidden_states=True)
    logp = torch.log_softmax(out.logits[0, len(prompt) - 1 : -1].double(), dim=-1)
    for t, token in enumerate(trace.ids):
        assert trace.logprobs[t] == pytest.approx(float(logp[t, token]), abs=1e-4)
        assert trace.entropy[t] == pytest.approx(float(-(logp[t].exp() * logp[t]).sum()), abs=1e-4)
        best = logp[t].topk(3)
        assert [top.logprob for top in trace.top[t]] == pytest.approx(best.values.tolist(), abs=1e-4)
        assert trace.top[t][0].token == tokenizer.decode([best.indices[0]])
    assert captured.prompt_tokens == len(prompt) == generation.response.cost.tokens_in
    assert generation.response.cost.tokens_out == len(trace.ids)
    assert captured.prompt_entropy == pytest.approx(trace.entropy[0])
    assert captured.prompt_top_logprob == pytest.approx(trace.top[0][0].logprob)


@pytest.mark.parametrize("question", QUESTIONS)
def test_answer_vectors_are_of_the_tokens_own_positions(question: str, hugging: Any, tiny_model: Any) -> None:
    model, tokenizer = tiny_model("llama")
    ours, call = hugging(), Call.ask(question)
    generation = ours.generate(call, capture=FULL)
    trace, hidden = generation.response.trace, generation.captured.hidden
    assert generation.response.truncated  # the last token's own state exists although generating ended there
    prompt = tokenizer(ours.prompt(call))["input_ids"]
    with torch.no_grad():
        out = model(input_ids=torch.tensor([[*prompt, *trace.ids]]), output_hidden_states=True)
    assert set(hidden) == {f"{kind}.L{n}" for kind in ("prompt_last", "answer_mean", "answer_last") for n in (0, 2, 3)}
    start, end = len(prompt) + trace.answer_start, len(prompt) + trace.answer_end
    for layer in (0, 2, 3):
        states = out.hidden_states[layer][0]
        np.testing.assert_allclose(hidden[f"prompt_last.L{layer}"], states[len(prompt) - 1], atol=1e-4)
        np.testing.assert_allclose(hidden[f"answer_mean.L{layer}"], states[start:end].mean(dim=0), atol=1e-4)
        np.testing.assert_allclose(hidden[f"answer_last.L{layer}"], states[end - 1], atol=1e-4)
        assert hidden[f"answer_mean.L{layer}"].dtype == np.float32


def test_capturing_changes_no_answer_and_takes_no_second_pass(hugging: Any, tiny_model: Any) -> None:
    model, _ = tiny_model("llama")
    passes: list[int] = []
    handle = model.register_forward_hook(lambda module, args, output: passes.append(1) and None)
    try:
        counts = []
        for call in map(Call.ask, QUESTIONS):
            bare = hugging().generate(call)
            without = len(passes)
            passes.clear()
            lens = hugging().generate(call, capture=CaptureRequest(lens_layers="all"))
            assert without == len(passes) == 6
            passes.clear()
            full = hugging().generate(call, capture=FULL)
            counts.append(len(passes))
            # One pass more only where the last token of all belongs to the answer: it has to be read itself.
            assert counts[-1] == 6 + (full.response.trace.answer_end == 6)
            passes.clear()
            assert bare.response.trace.ids == lens.response.trace.ids == full.response.trace.ids
    finally:
        handle.remove()
    assert 7 in counts


def test_only_wanted_positions_are_kept(hugging: Any, tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from demur.integrations.models.huggingface.recorder import Window

    sizes: list[int] = []
    tail = Window._tail
    monkeypatch.setattr(
        Window,
        "_tail",
        lambda self, tensor: sizes.append((kept := tail(self, tensor)).untyped_storage().nbytes()) or kept,
    )
    hugging().generate(Call.ask("why " * 40), capture=CaptureRequest(hidden_layers=(0, 1, 2, 3)))
    vocabulary = tiny_model("llama")[0].config.vocab_size
    assert max(sizes) <= vocabulary * 4  # one position, not the prompt's


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3", "opt", "mamba"])
def test_batch_equals_one_by_one(family: str, hugging: Any) -> None:
    model = hugging(family, stop=("\n",), max_new_tokens=4)
    calls = [Call.ask(q) for q in QUESTIONS]
    documents = [[], [Document(id="d", text="Mercury is closest.")], [], []]
    together = model.generate_batch(calls, documents=documents, capture=FULL)
    in_twos = model.generate_batch(calls, documents=documents, capture=FULL, batch_size=2)
    for call, passages, a, b in zip(calls, documents, together, in_twos, strict=True):
        alone = model.generate(call, documents=passages, capture=FULL)
        assert_same(alone, a)
        assert_same(alone, b)
    assert model.generate_batch([]) == []


def test_batch_arguments(hugging: Any) -> None:
    from demur.core.errors import BadInput

    with pytest.raises(BadInput, match="one list per call"):
        hugging().generate_batch([CALL], documents=[])
    with pytest.raises(ConfigurationError, match="batch_size"):
        hugging().generate_batch([CALL], batch_size=0)


def test_stop_string_ends_the_row(hugging: Any) -> None:
    long = hugging(max_new_tokens=12).generate(CALL)
    text = long.response.text
    assert len(text) > 4
    stop = text[3:5]
    position = text.find(stop)
    cut = hugging(max_new_tokens=12, stop=(stop,)).generate(CALL, capture=FULL)
    assert cut.response.text == text[:position].rstrip()
    assert not cut.response.truncated
    assert long.response.truncated
    assert len(cut.response.trace.ids) < len(long.response.trace.ids)
    assert cut.response.trace.ids == long.response.trace.ids[: len(cut.response.trace.ids)]
    assert cut.captured.lens.logprob.shape[1] == cut.response.trace.answer_end - cut.response.trace.answer_start


def test_end_token_ends_the_row_and_is_no_answer(tiny_model: Any) -> None:
    model, tokenizer = tiny_model("llama", seed=3)
    free = HuggingFaceModel.from_objects(model, tokenizer, decoding=Decoding(max_new_tokens=6), stop=())
    ids = free.generate(CALL).response.trace.ids
    from copy import deepcopy

    other = deepcopy(model)
    other.generation_config.eos_token_id = [1, ids[3]]
    ended = HuggingFaceModel.from_objects(other, tokenizer, decoding=Decoding(max_new_tokens=6), stop=())
    generation = ended.generate(CALL, capture=FULL)
    cut = ids.index(ids[3])
    assert generation.response.trace.ids == ids[: cut + 1]
    assert generation.response.trace.answer_end <= cut
    assert not generation.response.truncated
    assert other.generation_config.eos_token_id == [1, ids[3]]  # put back after generating


def test_gate_sees_the_prompt_and_stops_after_one_token(hugging: Any, tiny_model: Any) -> None:
    model, _ = tiny_model("llama")
    passes: list[int] = []
    seen: list[Captured] = []
    handle = model.register_forward_hook(lambda module, args, output: passes.append(1) and None)
    try:
        stopped = hugging().generate(CALL, capture=FULL, gate=lambda captured: seen.append(captured) or False)
    finally:
        handle.remove()
    assert len(passes) == 1
    assert stopped.response.text == ""
    assert stopped.response.stopped_before_generating
    assert stopped.response.trace is None
    assert stopped.response.cost.tokens_out == 0
    assert stopped.response.cost.tokens_in == seen[0].prompt_tokens > 0
    full = hugging().generate(CALL, capture=FULL, gate=lambda captured: seen.append(captured) or True)
    assert len(seen) == 2
    assert not full.response.stopped_before_generating
    assert set(seen[1].hidden) == {"prompt_last.L0", "prompt_last.L2", "prompt_last.L3"}
    for key, vector in seen[0].hidden.items():
        np.testing.assert_allclose(vector, full.captured.hidden[key], atol=1e-5)
    assert seen[0].prompt_entropy == pytest.approx(full.captured.prompt_entropy)
    assert seen[0].prompt_top_logprob == pytest.approx(full.captured.prompt_top_logprob)


@pytest.mark.parametrize("error", [ValueError("mine"), RuntimeError("mine"), KeyboardInterrupt("mine")])
def test_what_the_gate_raises_passes_and_leaves_nothing_behind(
    error: BaseException, hugging: Any, tiny_model: Any
) -> None:
    def gate(captured: Captured) -> bool:
        raise error

    model, _ = tiny_model("llama")
    before, defaults = hooks_of(model), model.generation_config
    with pytest.raises(type(error), match="mine"):
        hugging().generate(CALL, capture=FULL, gate=gate)
    assert hooks_of(model) == before
    assert model.generation_config is defaults
    assert hugging().generate(CALL).response.text  # the lock is free again
    with pytest.raises(ModelError, match="must return True"):
        hugging().generate(CALL, gate=lambda captured: None)


def test_hooks_are_gone_and_failures_are_typed(hugging: Any, tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = tiny_model("llama")
    before = hooks_of(model)

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(model.model.layers[1], "forward", fail)
    with pytest.raises(ModelError, match="out of memory"):
        hugging().generate(CALL, capture=FULL)
    assert hooks_of(model) == before


def test_assisted_decoding_captures_the_same(hugging: Any, tiny_model: Any) -> None:
    draft, _ = tiny_model("llama", seed=9, num_hidden_layers=1)
    assisted = hugging(assistant_model=draft, max_new_tokens=10)
    plain = hugging(max_new_tokens=10)
    assert_same(plain.generate(CALL, capture=FULL), assisted.generate(CALL, capture=FULL))
    both = assisted.generate_batch([CALL, Call.ask("Why so?")], capture=FULL)
    assert_same(plain.generate(Call.ask("Why so?"), capture=FULL), both[1])
    seen: list[Captured] = []
    stopped = assisted.generate(CALL, capture=FULL, gate=lambda captured: seen.append(captured) or False)
    assert stopped.response.stopped_before_generating
    reference = plain.generate(CALL, capture=FULL).captured
    np.testing.assert_allclose(seen[0].hidden["prompt_last.L2"], reference.hidden["prompt_last.L2"], atol=1e-4)
    stop = plain.generate(CALL).response.text[2:4]
    assert_same(
        hugging(max_new_tokens=10, stop=(stop,)).generate(CALL, capture=FULL),
        hugging(max_new_tokens=10, stop=(stop,), assistant_model=draft).generate(CALL, capture=FULL),
    )


def test_shipped_generation_defaults_change_nothing(tiny_model: Any) -> None:
    from copy import deepcopy

    model, tokenizer = tiny_model("llama")
    other = deepcopy(model)
    other.generation_config.repetition_penalty = 5.0
    other.generation_config.suppress_tokens = list(range(200))
    decoding = Decoding(max_new_tokens=10)
    a = HuggingFaceModel.from_objects(model, tokenizer, decoding=decoding, stop=()).generate(CALL)
    b = HuggingFaceModel.from_objects(other, tokenizer, decoding=decoding, stop=()).generate(CALL)
    assert a.response.trace.ids == b.response.trace.ids


def test_threads_get_what_they_would_get_alone(hugging: Any) -> None:
    model, other_wrapper = hugging(), hugging()
    calls = [Call.ask(q) for q in QUESTIONS] * 3
    alone = [model.generate(call, capture=FULL) for call in calls]
    with ThreadPoolExecutor(6) as pool:
        jobs = [
            pool.submit((model if i % 2 else other_wrapper).generate, call, capture=FULL)
            for i, call in enumerate(calls)
        ]
        for a, job in zip(alone, jobs, strict=True):
            assert_same(a, job.result(), atol=1e-6)


async def test_async_equals_sync_and_does_not_block(hugging: Any) -> None:
    model = hugging()
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticker = asyncio.create_task(tick())
    results = await asyncio.gather(*(model.agenerate(Call.ask(q), capture=FULL) for q in QUESTIONS))
    ticker.cancel()
    assert ticks > 10
    for question, result in zip(QUESTIONS, results, strict=True):
        assert_same(model.generate(Call.ask(question), capture=FULL), result, atol=1e-6)


async def test_cancelling_ends_the_generation_early(hugging: Any) -> None:
    model = hugging(max_new_tokens=200)
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(
        model.agenerate(Call.ask("x"), gate=lambda _: loop.call_soon_threadsafe(asked.set) is None)
    )
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await hugging().agenerate(CALL)).response.text  # the lock comes free


def test_stream_pieces_join_to_the_answer(hugging: Any) -> None:
    model = hugging(max_new_tokens=12, stop=("\n",))
    stream = model.stream(CALL, capture=FULL)
    with pytest.raises(ModelError, match="not ended"):
        _ = stream.generation
    pieces = list(stream)
    assert len(pieces) > 1
    assert "".join(pieces) == stream.generation.response.text
    assert_same(model.generate(CALL, capture=FULL), stream.generation)
    assert list(stream) == []


def test_a_stream_that_is_closed_ends_early(hugging: Any) -> None:
    with hugging(max_new_tokens=200).stream(Call.ask("x")) as stream:
        next(stream)
    rest = list(stream)
    assert stream.generation.response.cost.tokens_out <= 200
    assert isinstance(rest, list)


async def test_async_stream(hugging: Any) -> None:
    model = hugging(max_new_tokens=12)
    stream = model.astream(CALL)
    pieces = [piece async for piece in stream]
    assert "".join(pieces) == stream.generation.response.text == model.generate(CALL).response.text
    assert [piece async for piece in stream] == []


async def test_stream_errors_reach_the_reader(hugging: Any, tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from demur.core.errors import BadInput

    with pytest.raises(BadInput):
        hugging().stream(Call.ask(" "))
    with pytest.raises(BadInput):
        await anext(hugging().astream(Call.ask(" ")))

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(tiny_model("llama")[0].model.layers[0], "forward", fail)
    with pytest.raises(ModelError, match="broken"):
        list(hugging().stream(CALL))


def test_sampling_is_seeded_and_leaves_the_generator_alone(hugging: Any) -> None:
    model = hugging()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = [r.text for r in model.sample(CALL, 5, temperature=2.0, seed=1)]
    assert torch.equal(torch.rand(3), expected)
    assert first == [r.text for r in model.sample(CALL, 5, temperature=2.0, seed=1)]
    assert len(set(first)) > 1
    assert first != [r.text for r in model.sample(CALL, 5, temperature=2.0, seed=2)]
    many = [r.text for r in model.sample(CALL, 20, temperature=2.0, seed=1)]
    assert many[:16] != many[16:]
    assert model.decoding.do_sample is False


def test_sampled_logprobs_are_of_the_models_own_distribution(hugging: Any) -> None:
    cold = hugging().with_decoding(do_sample=True, temperature=0.01, seed=0).generate(CALL)
    greedy = hugging().generate(CALL)
    assert cold.response.trace.ids == greedy.response.trace.ids
    np.testing.assert_allclose(cold.response.trace.logprobs, greedy.response.trace.logprobs, atol=1e-5)


def test_nan_weights_show_as_nan_not_as_confidence(tiny_model: Any) -> None:
    from copy import deepcopy

    model, tokenizer = tiny_model("llama")
    broken = deepcopy(model)
    with torch.no_grad():
        broken.lm_head.weight.fill_(float("nan"))
    generation = HuggingFaceModel.from_objects(broken, tokenizer, stop=()).generate(CALL)
    assert all(np.isnan(value) for value in generation.response.trace.logprobs)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_new_tokens": 0},
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"top_p": 1.5},
        {"top_k": -1},
        {"stop": ("",)},
        {"stop": "abc"},
    ],
)
def test_decoding_that_cannot_work_is_refused_at_construction(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Decoding(**settings)


def test_a_model_in_training_mode_is_refused(tiny_model: Any) -> None:
    from copy import deepcopy

    model, tokenizer = tiny_model("llama")
    with pytest.raises(ConfigurationError, match=r"model.eval\(\)"):
        HuggingFaceModel.from_objects(deepcopy(model).train(), tokenizer)
    with pytest.raises(ConfigurationError, match="list of strings"):
        HuggingFaceModel.from_objects(model, tokenizer, stop="x")
    with pytest.raises(ConfigurationError, match="top_k"):
        HuggingFaceModel.from_objects(model, tokenizer).generate(CALL, capture=CaptureRequest(top_k=-1))
