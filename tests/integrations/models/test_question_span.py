"""Where a question stands among the tokens of its prompt, whatever the template and the tokenizer do with spaces."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from demur.core.call import Call, CallKind
from demur.core.evidence import CaptureRequest, Document
from demur.evaluation.answer_parts import last_number, tool_call
from demur.integrations.models.huggingface.decoding import Decoding
from demur.integrations.models.huggingface.model import HuggingFaceModel
from demur.integrations.models.huggingface.prompt import PromptTemplate
from demur.integrations.models.huggingface.row import Row
from demur.integrations.models.huggingface.writer import PromptWriter

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Gemma's way: content is trimmed, the assistant is called model, and the sequence begins with a token of its own.
GEMMA = (
    "<s>{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
    "{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
LLAMA2 = "<s>{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}"
PLAIN = PromptTemplate(prefix="Q: Who? A\nA: He. A\n\n")
DOCUMENTS = [Document(id="1", text="A model of A: Who wrote it?")]
REASONED = "She had 9 - 4 = 5. The answer is 11."
CALLED = '{"name": "book", "arguments": {"to": "a:b", "n": 37}}'
TEXTS = [
    "Q: Who wrote the book about the whale?\nA: Herman Melville wrote it.",
    "a model, an assistant: 2 + 2? no number",
    REASONED,
    CALLED,
]


def byte_level(*, add_prefix_space: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    specials = ["<pad>", "<eos>", "<s>"]
    tokenizer.train_from_iterator(
        TEXTS * 9,
        trainers.BpeTrainer(vocab_size=330, special_tokens=specials, initial_alphabet=alphabet, show_progress=False),
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", bos_token="<s>")


def metaspace() -> Any:
    """As of Llama 2 and Gemma: a space belongs to the word behind it, and a token of its own begins every text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    specials = ["<pad>", "<eos>", "<s>", "<unk>"]
    tokenizer.train_from_iterator(
        TEXTS * 9,
        trainers.BpeTrainer(vocab_size=200, special_tokens=specials, show_progress=False),
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", bos_token="<s>", unk_token="<unk>"
    )


TOKENIZERS = {
    "byte-level": lambda: byte_level(add_prefix_space=False),
    "byte-level with a space put before": lambda: byte_level(add_prefix_space=True),
    "metaspace": metaspace,
}


@pytest.fixture(scope="module", params=sorted(TOKENIZERS))
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return TOKENIZERS[request.param]()


def writer_of(tokenizer: Any, template: str | None) -> PromptWriter:
    own = copy.deepcopy(tokenizer)
    own.chat_template = template
    return PromptWriter("tiny", own, PLAIN, template is not None, None, None, frozenset())


@pytest.mark.parametrize("template", [None, CHATML, GEMMA, LLAMA2], ids=["plain", "chatml", "gemma", "llama2"])
@pytest.mark.parametrize("documents", [[], DOCUMENTS], ids=["alone", "with passages"])
# Texts that stand in the template behind the question as well; and spaces around it.
@pytest.mark.parametrize("question", ["Who wrote it?", "A", "model", "assistant", "Q", "  Who wrote it?\n", "2 + 2?"])
def test_it_is_the_newest_question_and_nothing_else(
    tokenizer: Any, template: str | None, documents: list[Document], question: str
) -> None:
    writer = writer_of(tokenizer, template)
    call = Call.ask(question)
    prompt = writer.text(call, documents)
    span = writer.question(call, documents)
    assert span is not None
    ids = writer.encode(call, documents, room=1)
    places = writer.tokenizer(prompt, add_special_tokens=not writer.chats, return_offsets_mapping=True)
    assert places["input_ids"][: len(ids)] == ids
    wanted = question.strip()
    behind = {
        None: "\nA:",
        CHATML: "<|im_end|>\n<|im_start|>assistant\n",
        GEMMA: "<end_of_turn>\n<start_of_turn>model\n",
        LLAMA2: " [/INST]",
    }[template]
    assert prompt.endswith(behind)
    end = len(prompt.removesuffix(behind).rstrip())
    begin = end - len(wanted)
    assert prompt[begin:end] == wanted
    # Every token of the span writes some of the question, and those beside it write none.
    offsets = places["offset_mapping"]
    touches = [first < end and last > begin for first, last in offsets]
    assert [i for i, touched in enumerate(touches) if touched] == list(range(*span))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_in_a_chat_it_is_read_as_a_plain_pass_reads_it(family: str, tiny_model: Any, tiny_tokenizer: Any) -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = CHATML
    model, _ = tiny_model(family)
    ours = HuggingFaceModel.from_objects(model, tokenizer, decoding=Decoding(max_new_tokens=2))
    calls = [Call.ask("assistant"), Call.ask("Who wrote the book?"), Call.ask("A")]
    capture = CaptureRequest(question_logprobs=True)
    together = ours.generate_batch(calls, capture=capture, batch_size=3)
    for call, batched in zip(calls, together, strict=True):
        prompt = f"<|im_start|>user\n{call.question}<|im_end|>\n<|im_start|>assistant\n"
        assert ours.prompt(call) == prompt
        encoded = tokenizer(prompt, add_special_tokens=False, return_offsets_mapping=True)
        begin = len("<|im_start|>user\n")
        asked = [
            place
            for place, (first, last) in enumerate(encoded["offset_mapping"])
            if first < begin + len(call.question) and last > begin
        ]
        ids = encoded["input_ids"]
        with torch.no_grad():
            logp = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].double(), dim=-1)
        expected = [float(logp[place - 1, ids[place]]) for place in asked]
        single = ours.generate(call, capture=capture).captured
        assert single is not None and batched.captured is not None
        np.testing.assert_allclose(single.question_logprobs, expected, atol=3e-4)
        np.testing.assert_allclose(batched.captured.question_logprobs, expected, atol=3e-4)


def test_a_proposed_tool_call_is_the_question(tokenizer: Any) -> None:
    writer = writer_of(tokenizer, CHATML)
    call = Call(kind=CallKind.TOOL, tool_name="f", arguments={"a": 1})
    span = writer.question(call, [])
    prompt = writer.text(call)
    assert span is not None
    offsets = writer.tokenizer(prompt, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert prompt[offsets[span[0]][0] : offsets[span[1] - 1][1]].strip().startswith("f({")


@pytest.mark.parametrize(
    ("text", "locate", "content"),
    [
        (REASONED, last_number, ["11"]),
        (CALLED, tool_call, ["book", "to", "a:b", "n", "37"]),
        ("no number", last_number, ["no number"]),
    ],
)
def test_content_is_every_token_that_writes_a_judged_character(
    tokenizer: Any, text: str, locate: Any, content: list[str]
) -> None:
    row = Row(tokenizer, stop=(), eos=(), limit=500, own_states=False, locate=locate)
    for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
        row.feed(token)
    written = "".join(row.pieces)
    kept, begin = set(row.content), 0
    judged: set[int] = set()
    for part in content:
        begin = written.rindex(part) if len(content) == 1 else written.index(part, begin)
        judged |= set(range(begin, begin + len(part)))
        begin += len(part)
    offset = 0
    for place, piece in enumerate(row.pieces):
        if not piece:  # part of what comes next
            continue
        writes = bool(judged & set(range(offset, offset + len(piece))))
        assert (place in kept) is writes, (place, piece)
        offset += len(piece)
    assert row.span == (min(kept), max(kept) + 1)
