"""A tiny chat model that says what it is told to, through real forward passes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from demur.integrations.langchain.chat_model import LocalChatModel
from demur.integrations.models.huggingface.decoding import Decoding
from demur.integrations.models.huggingface.model import HuggingFaceModel

CHATML_WITH_TOOLS = """
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n' }}{%- endif %}
    {{- 'Tools:\n' }}
    {%- for tool in tools %}{{- tool | tojson + '\n' }}{%- endfor %}
    {{- '<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
    {%- elif message.role != 'system' or not loop.first %}
        {{- '<|im_start|>' + message.role + '\n' + message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson + '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""

CHATML_WITHOUT_TOOLS = """
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""

Scripted = Callable[..., HuggingFaceModel]
Chat = Callable[..., LocalChatModel]


def _first_position(kwargs: dict[str, Any]) -> int:
    positions = kwargs.get("position_ids")
    return 0 if positions is None else int(positions[0, 0])


def _steer(model: Any, tokenizer: Any, scripts: Mapping[str, str]) -> None:
    """Push the final hidden state towards the token that the script has next.

    The script is the one whose key comes last in the prompt. Everything read off the model (log-probabilities, hidden
    states, lens) stays consistent, because the push comes before the unembedding.
    """
    import torch

    decoder, forward = model.model, model.model.forward
    with torch.no_grad():  # unit rows: the token that is pushed towards always wins
        model.lm_head.weight.div_(model.lm_head.weight.norm(dim=1, keepdim=True))
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    state: dict[str, Any] = {}

    def steered(*args: Any, **kwargs: Any) -> Any:
        ids, past = kwargs["input_ids"], _first_position(kwargs)
        if past == 0:
            prompt = tokenizer.decode(ids[0])
            key = max(scripts, key=prompt.rfind)
            state["script"] = [*tokenizer(scripts[key], add_special_tokens=False)["input_ids"], end, end]
            state["prompt"] = ids.shape[1]
        out = forward(*args, **kwargs)
        step = past + ids.shape[1] - state["prompt"]
        token = state["script"][min(step, len(state["script"]) - 1)]
        out.last_hidden_state = out.last_hidden_state.clone()
        out.last_hidden_state[:, -1] += 30.0 * model.lm_head.weight[token]
        return out

    decoder.forward = steered


@pytest.fixture(scope="session")
def chat_tokenizer(tiny_tokenizer: Any) -> Callable[[str], Any]:
    """`chat_tokenizer(template)`: the shared tokenizer, copied, with the control tokens of ChatML."""

    def make(template: str = CHATML_WITH_TOOLS) -> Any:
        tokenizer = copy.deepcopy(tiny_tokenizer)
        tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"], "eos_token": "<|im_end|>"})
        tokenizer.chat_template = template
        return tokenizer

    return make


@pytest.fixture(scope="session")
def scripted_hf(tiny_model: Any, chat_tokenizer: Any) -> Scripted:
    """`scripted_hf({what is asked: what is answered}, template=..., max_new_tokens=300, ...)`."""
    made = iter(range(1000, 10_000))

    def make(
        scripts: Mapping[str, str],
        *,
        template: str = CHATML_WITH_TOOLS,
        max_new_tokens: int = 300,
        system: str | None = None,
        stop: tuple[str, ...] = (),
    ) -> HuggingFaceModel:
        tokenizer = chat_tokenizer(template)
        model, _ = tiny_model(
            "llama",
            vocab_size=len(tokenizer),
            hidden_size=64,
            max_position_embeddings=4096,
            rms_norm_eps=next(made) * 1e-9,
        )
        _steer(model, tokenizer, scripts)
        return HuggingFaceModel.from_objects(
            model,
            tokenizer,
            name="scripted",
            system=system,
            decoding=Decoding(max_new_tokens=max_new_tokens, stop=stop),
        )

    return make


@pytest.fixture(scope="session")
def chat(scripted_hf: Scripted) -> Chat:
    """`chat(scripts, hf={arguments of scripted_hf}, **fields of LocalChatModel)`."""

    def make(scripts: Mapping[str, str], *, hf: Mapping[str, Any] | None = None, **fields: Any) -> LocalChatModel:
        return LocalChatModel(model=scripted_hf(scripts, **(hf or {})), **fields)

    return make
