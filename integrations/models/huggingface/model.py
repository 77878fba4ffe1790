"""A local language model that lets itself be looked into."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

from ....core.call import Call
from ....core.errors import BadInput, ConfigurationError
from ....core.evidence import CaptureRequest, Document, Need
from ....core.protocols import Fingerprint, Gate, Generation
from ....core.record import content_hash
from ....core.response import Response
from ....evaluation.answer_parts import WHOLE, answer_finder
from ..digests import DigestCache
from ..store import find_model
from .architecture import architecture_of, context_limit
from .assemble import plan_of
from .decoding import Decoding, stop_strings
from .engine import Engine, Listener
from .identity import folder_identity, object_identity
from .loading import dtype_of, end_tokens, load_folder, lock_of, pad_token
from .prompt import PromptTemplate
from .question import Question
from .stream import AsyncTextStream, TextStream
from .writer import PromptWriter

if TYPE_CHECKING:
    import torch

Chat = Literal["auto"] | bool


class HuggingFaceModel:
    """Any causal language model of Hugging Face transformers; implements `core.protocols.Model`.

    Everything that is captured comes from the forward passes that make the answer: log-probabilities, top-k and entropy
    (of the model's own distribution, before any processing for sampling), hidden states, the logit lens. See
    `assemble.Assembler` for which position each vector is of. With an assistant model it comes from one more pass over
    the finished sequence.

    One model runs one generation at a time (a lock); threads wait for each other, and each gets what it would have got
    alone. `agenerate` waits in a worker thread.

    Attributes:
        answer_extractor: name and version of how the answer is found in what is written; artefacts bind to it.

    Args:
        id_or_path: a folder, a name from the catalogue of `store.py`, or a hub id.
        name: for people; by default the last part of `id_or_path`.
        system: system text put before the conversation.
        prompt_template: how calls are written for a model without a chat template, and how documents are.
        chat: use the tokenizer's chat template: "auto" (where it has one), True or False.
        max_new_tokens: length limit of an answer.
        stop: strings that end an answer. None: a line break with a plain prompt, nothing with a chat template.
        do_sample, temperature, top_p, top_k, seed: see `decoding.Decoding`.
        dtype: "float32" on a CPU by default, "bfloat16" elsewhere.
        device: "cpu", "cuda", ...
        assistant_model: a smaller transformers model that drafts (assisted decoding); greedy answers stay the same.
        answer: how the judged part of what is written is found: "first-stop" (all of it, to the first stop string),
            "last-number", "choice-letter" or "tool-call"; see `evaluation.answer_parts`.

    Raises:
        ModelError: not found, or not loadable without unpickling or foreign code.
        ConfigurationError: a setting cannot work.
    """

    answer_extractor: str

    def __init__(
        self,
        id_or_path: str | Path,
        *,
        name: str | None = None,
        system: str | None = None,
        prompt_template: PromptTemplate | None = None,
        chat: Chat = "auto",
        max_new_tokens: int = 32,
        stop: Sequence[str] | None = None,
        do_sample: bool = False,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
        dtype: str | torch.dtype | None = None,
        device: str = "cpu",
        assistant_model: Any = None,
        answer: str = WHOLE,
    ) -> None:
        decoding = Decoding(max_new_tokens, stop_strings(stop), do_sample, temperature, top_p, top_k, seed)
        chosen = dtype_of(dtype, device)
        folder = find_model(id_or_path)
        model, tokenizer = load_folder(folder, dtype=chosen, device=device)
        self._folder: Path | None = folder
        self._set_up(
            model, tokenizer, name or Path(id_or_path).name, system, prompt_template, chat, assistant_model, answer
        )
        self._decoding = self._with_default_stop(decoding, stop)

    @classmethod
    def from_objects(
        cls,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "local",
        system: str | None = None,
        prompt_template: PromptTemplate | None = None,
        chat: Chat = "auto",
        decoding: Decoding | None = None,
        stop: Sequence[str] | None = None,
        assistant_model: Any = None,
        answer: str = WHOLE,
    ) -> HuggingFaceModel:
        """Around a transformers model and tokenizer that are in memory. Neither is changed; do not change them either:
        the fingerprint is taken once, from the weights.

        Args:
            decoding: how tokens are chosen; `stop`, where given, takes the place of `decoding.stop`.
        """
        self = cls.__new__(cls)
        self._folder = None
        self._set_up(model, tokenizer, name, system, prompt_template, chat, assistant_model, answer)
        given = decoding.stop if decoding is not None and stop is None else stop
        decoding = replace(decoding or Decoding(), stop=stop_strings(given))
        self._decoding = self._with_default_stop(decoding, given)
        return self

    def _set_up(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        system: str | None,
        template: PromptTemplate | None,
        chat: Chat,
        assistant: Any,
        answer: str,
    ) -> None:
        if model.training:
            raise ConfigurationError(f"model {name!r} is in training mode (dropout is on); call model.eval() first")
        has_template = bool(getattr(tokenizer, "chat_template", None))
        if chat not in (True, False, "auto") or (chat is True and not has_template):
            raise ConfigurationError(f"chat={chat!r}: use 'auto', False, or, where there is a chat template, True")
        self.name = name
        self._locate = answer_finder(answer)
        self.answer_extractor = f"{answer}/1"
        eos = end_tokens(model, tokenizer)
        chats = has_template if chat == "auto" else bool(chat)
        self._writer = PromptWriter(
            name, tokenizer, template or PromptTemplate(), chats, system, context_limit(model), eos
        )
        self._engine = Engine(model, tokenizer, architecture_of(model), eos, pad_token(tokenizer, eos), name, assistant)
        self._lock = lock_of(model)
        self._identity: str | None = None

    def _with_default_stop(self, decoding: Decoding, given: Sequence[str] | None) -> Decoding:
        return replace(decoding, stop=() if self.chats else ("\n",)) if given is None else decoding

    @property
    def provides(self) -> frozenset[Need]:
        return frozenset({Need.TEXT, Need.LOGPROBS, Need.HIDDEN_STATES})

    @property
    def layer_count(self) -> int:
        """L: layers are numbered 0 (embedding output) to L (after the final norm)."""
        return self._engine.architecture.layer_count

    @property
    def width(self) -> int:
        """Length of a hidden vector."""
        return int(self._engine.model.config.get_text_config().hidden_size)

    @property
    def decoding(self) -> Decoding:
        return self._decoding

    @property
    def tokenizer(self) -> Any:
        """The transformers tokenizer. Do not change it."""
        return self._writer.tokenizer

    @property
    def end_tokens(self) -> frozenset[int]:
        """Ids of the tokens that end a turn."""
        return self._engine.eos

    @property
    def system(self) -> str | None:
        """System text that is put before every conversation."""
        return self._writer.system

    @property
    def chats(self) -> bool:
        """Prompts are written with the tokenizer's chat template."""
        return self._writer.chats

    def with_decoding(self, **changes: Any) -> HuggingFaceModel:
        """The same weights with other decoding settings (fields of `Decoding`); this model stays as it is."""
        other = HuggingFaceModel.__new__(HuggingFaceModel)
        other.__dict__.update(self.__dict__)
        other._decoding = replace(self._decoding, **changes)
        return other

    def with_system(self, system: str) -> HuggingFaceModel:
        """The same weights with system text before every conversation; this model stays as it is."""
        other = self.with_decoding()
        other._writer = replace(self._writer, system=system)
        return other

    def fingerprint(self, *, cache: DigestCache | None = None) -> Fingerprint:
        """Hashes of weights, configuration and tokenizer; of everything that shapes the prompt; of the decoding."""
        if self._identity is None:
            dtype = str(self._engine.model.dtype)
            of_folder = self._folder is not None and folder_identity(self._folder, dtype, cache)
            self._identity = of_folder or object_identity(self._engine.model, self.tokenizer)
        return Fingerprint(
            name=self.name,
            identity=self._identity,
            pinned=True,
            prompt=self._writer.hash,
            decoding=content_hash(self._decoding.settings()),
        )

    def prompt(self, call: Call, documents: Sequence[Document] = ()) -> str:
        """The text that the model would read.

        Raises:
            BadInput: the call asks nothing.
            ConfigurationError: the call offers tools, and this model's prompts cannot.
        """
        return self._writer.text(call, documents)

    def _encode(self, call: Call, documents: Sequence[Document]) -> list[int]:
        return self._writer.encode(call, documents, room=self._decoding.max_new_tokens)

    def generate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """Answer one call.

        The gate sees the prompt's captures after one token was drawn from them; if it says no, that token is thrown
        away and no other is computed.

        Raises:
            BadInput: the call asks nothing.
            PromptTooLong: prompt and answer do not fit the context.
            ConfigurationError: `capture` names a layer that the model does not have.
            ModelError: the model failed. What the gate raises passes through as it is.
        """
        return self._answer([(call, documents)], capture, Listener(gate=gate))[0]

    async def agenerate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """`generate` in a worker thread (the gate is called there). Cancelling stops it after the current token."""
        listener = Listener(gate=gate)

        def work() -> Generation:
            return self._answer([(call, documents)], capture, listener)[0]

        try:
            return await asyncio.to_thread(work)
        except asyncio.CancelledError:
            listener.cancel.set()
            raise

    def generate_batch(
        self,
        calls: Sequence[Call],
        *,
        documents: Sequence[Sequence[Document]] | None = None,
        capture: CaptureRequest | None = None,
        batch_size: int = 16,
    ) -> list[Generation]:
        """Answer many calls; the same as one by one up to rounding (about 1e-5 in a log-probability in float32).

        When sampling, equal calls get different draws. Rows of similar length run together.

        Args:
            documents: for each call its documents.

        Raises:
            BadInput, PromptTooLong: a call cannot be asked; nothing was generated for any.
        """
        if documents is not None and len(documents) != len(calls):
            raise BadInput(f"{len(calls)} calls came with documents for {len(documents)}; give one list per call")
        if batch_size < 1:
            raise ConfigurationError(f"batch_size={batch_size} must be at least 1")
        if self._engine.assistant is not None:
            batch_size = 1  # assisted decoding knows only one row
        asked = [(call, documents[i] if documents else ()) for i, call in enumerate(calls)]
        prompts = [self._encode(*each) for each in asked]
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        done: dict[int, Generation] = {}
        for number, begin in enumerate(range(0, len(order), batch_size)):
            chosen = order[begin : begin + batch_size]
            generations = self._answer([asked[i] for i in chosen], capture, Listener(), batch=number)
            done.update(zip(chosen, generations, strict=True))
        return [done[i] for i in range(len(calls))]

    def sample(
        self,
        call: Call,
        count: int,
        *,
        temperature: float = 1.0,
        seed: int | None = None,
        documents: Sequence[Document] = (),
    ) -> tuple[Response, ...]:
        """`count` independent answers at a temperature, for signals that compare answers with each other."""
        model = self.with_decoding(do_sample=True, temperature=temperature, seed=seed, early_stop=None)
        generations = model.generate_batch([call] * count, documents=[documents] * count)
        return tuple(generation.response for generation in generations)

    def stream(
        self, call: Call, *, documents: Sequence[Document] = (), capture: CaptureRequest | None = None
    ) -> TextStream:
        """Pieces of the answer as they are certain; joined they are the response's text. Then `.generation`.

        Raises:
            BadInput, PromptTooLong, ConfigurationError: at once, before the first piece.
        """
        self._encode(call, documents)
        plan_of(capture or CaptureRequest(), self.layer_count)

        def produce(put: Any, cancel: Event) -> Generation:
            return self._answer([(call, documents)], capture, Listener(text=put, cancel=cancel))[0]

        return TextStream(produce)

    def astream(
        self, call: Call, *, documents: Sequence[Document] = (), capture: CaptureRequest | None = None
    ) -> AsyncTextStream:
        """`stream` for `async for`. Everything, the prompt included, happens in a worker thread."""

        def produce(put: Any, cancel: Event) -> Generation:
            return self._answer([(call, documents)], capture, Listener(text=put, cancel=cancel))[0]

        return AsyncTextStream(produce)

    def continue_chat(
        self, prompt: str, *, capture: CaptureRequest | None = None, listener: Listener | None = None
    ) -> Generation:
        """Go on from a conversation that `chat.ChatTemplate` wrote; control tokens in it count as such.

        Args:
            listener: who hears pieces of text, may cancel, and says which part of the answer is judged.

        Raises:
            PromptTooLong, ConfigurationError, ModelError: as `generate`.
        """
        tokens = self._writer.tokens(prompt, whose="a chat", chat=True, room=self._decoding.max_new_tokens)
        return self._run([tokens], capture, listener or Listener())[0]

    def _answer(
        self,
        asked: Sequence[tuple[Call, Sequence[Document]]],
        capture: CaptureRequest | None,
        listener: Listener,
        *,
        batch: int = 0,
    ) -> list[Generation]:
        prompts = [self._encode(*each) for each in asked]
        wants = capture is not None and capture.question_logprobs
        questions = [self._writer.question(*each) for each in asked] if wants else None
        if listener.locate is None:
            listener.locate = self._locate
        return self._run(prompts, capture, listener, batch=batch, questions=questions)

    def _run(
        self,
        prompts: list[list[int]],
        capture: CaptureRequest | None,
        listener: Listener,
        *,
        batch: int = 0,
        questions: list[Question] | None = None,
    ) -> list[Generation]:
        plan = plan_of(capture or CaptureRequest(), self.layer_count)
        decoding = self._decoding
        if decoding.seed is not None and batch:
            decoding = replace(decoding, seed=decoding.seed + batch)  # else equal calls in two batches draw alike
        with self._lock:
            return self._engine.run(prompts, decoding, plan, listener, questions)
