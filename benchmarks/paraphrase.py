"""Rewords TriviaQA questions with a local chat model, and keeps only rewordings that pass checks.

    python benchmarks/paraphrase.py --data DIR

Writes benchmarks/loop/paraphrases.jsonl: {id, of, question, method, cosine}. A rewording has to be one question, in
other words (not only in other case or punctuation), near in meaning (cosine of MiniLM embeddings), with the numbers,
quotations and capitalised names of its original, and without an answer that the original does not hold.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

from main import draw
from rich.console import Console

from demur.evaluation.text import normalise
from demur.integrations.models.store import find_model
from demur.integrations.retrieval.embedders import default_embedder
from demur.router.pipelines.rows import QuestionRow, read_rows

OUT = Path(__file__).parent / "loop" / "paraphrases.jsonl"
SEED, ORIGINALS, WANTED, BATCH, NEAREST = 11, 1400, 600, 24, 0.80
EXAMPLES = (
    ("Which actor played the lead in Casablanca?", "Who had the leading role in the film Casablanca?"),
    ("In what year did the Berlin Wall fall?", "When was it that the Berlin Wall came down?"),
    ("What is the capital of Peru?", "Peru has which city as its capital?"),
)
TASK = "Reword the question so that it asks for exactly the same thing in other words. Keep every name and number. Reply with the new question only."  # noqa: E501
_KEPT = re.compile(r"\d+|\"[^\"]+\"|'[^']{3,}'|(?<=[a-z,'’] )[A-Z][\w'’-]+")
console = Console()


def originals(rows: list[QuestionRow]) -> list[QuestionRow]:
    """The 1,400 questions of the repeats stream, in its seeded order."""
    fit, test = draw(rows)
    everything = [*fit, *test]
    random.Random(SEED).shuffle(everything)
    return everything[:ORIGINALS]


def problem(row: QuestionRow, reworded: str, cosine: float) -> str:
    """What is wrong with a rewording; "" where nothing is."""
    if not reworded.endswith("?") or "\n" in reworded or reworded.count("?") != 1:
        return "not one question"
    if normalise(reworded) == normalise(row.question):
        return "the same words"
    lowered = reworded.lower()
    lost = [part for part in _KEPT.findall(row.question) if part.strip("\"'").lower() not in lowered]
    if lost:
        return f"lost {lost[0]}"
    given = f" {normalise(row.question)} "
    words = f" {normalise(reworded)} "
    if any(f" {gold} " in words and f" {gold} " not in given for gold in map(normalise, row.answers) if gold):
        return "gives the answer away"
    return "" if cosine >= NEAREST else "too far in meaning"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="qwen-1.5b")
    args = parser.parse_args()
    rows = originals(read_rows(args.data / "triviaqa.jsonl"))
    random.Random(SEED + 1).shuffle(rows)
    accepted = {line["of"]: line for line in _written()}
    model, tokenizer = _load(args.model)
    embedder = default_embedder()
    reasons: dict[str, int] = {}
    started, tokens = time.monotonic(), 0
    for begin in range(0, len(rows), BATCH):
        if len(accepted) >= WANTED:
            break
        batch = [row for row in rows[begin : begin + BATCH] if row.id not in accepted]
        if not batch:
            continue
        texts, made = _reword(model, tokenizer, [row.question for row in batch])
        tokens += made
        vectors = embedder.embed([row.question for row in batch]), embedder.embed([text or "?" for text in texts])
        with OUT.open("a", encoding="utf-8") as file:
            for row, text, one, other in zip(batch, texts, *vectors, strict=True):
                cosine = float(one @ other)
                wrong = problem(row, text, cosine)
                if wrong:
                    reasons[wrong.split(" ")[0]] = reasons.get(wrong.split(" ")[0], 0) + 1
                elif len(accepted) < WANTED:
                    line = {"id": f"{row.id}-p", "of": row.id, "question": text, "method": args.model}
                    accepted[row.id] = line | {"cosine": round(cosine, 4)}
                    file.write(json.dumps(accepted[row.id], ensure_ascii=False) + "\n")
        spent = time.monotonic() - started
        console.print(
            f"{begin + len(batch)} asked, {len(accepted)} of {WANTED} kept, refused {reasons}, "
            f"{tokens / spent:.1f} tokens/s, {spent:.0f} s"
        )


def _written() -> list[dict[str, Any]]:
    return [json.loads(line) for line in OUT.read_text(encoding="utf-8").splitlines()] if OUT.exists() else []


def _load(name: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = find_model(name)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, padding_side="left")
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return model.eval(), tokenizer


def _prompt(tokenizer: Any, question: str) -> str:
    shots = [
        message
        for asked, reworded in EXAMPLES
        for message in ({"role": "user", "content": asked}, {"role": "assistant", "content": reworded})
    ]
    messages = [{"role": "system", "content": TASK}, *shots, {"role": "user", "content": question}]
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def _reword(model: Any, tokenizer: Any, questions: list[str]) -> tuple[list[str], int]:
    """One batch. What all prompts begin with is read once and shared: it is most of the work."""
    import torch
    from transformers import DynamicCache

    prompts = [_prompt(tokenizer, question) for question in questions]
    mark = "\x00"
    shared = _prompt(tokenizer, mark).split(mark)[0]
    prefix = tokenizer(shared, return_tensors="pt")["input_ids"]
    rest = tokenizer([prompt.removeprefix(shared) for prompt in prompts], return_tensors="pt", padding=True)
    count, length = len(prompts), prefix.shape[1]
    with torch.inference_mode():
        cache = model(prefix, use_cache=True, past_key_values=DynamicCache()).past_key_values
        cache.batch_repeat_interleave(count)
        ids = torch.cat([prefix.expand(count, -1), rest["input_ids"]], dim=1)
        mask = torch.cat([torch.ones((count, length), dtype=torch.long), rest["attention_mask"]], dim=1)
        made = model.generate(
            input_ids=ids,
            attention_mask=mask,
            past_key_values=cache,
            max_new_tokens=56,
            do_sample=False,
            pad_token_id=tokenizer.pad_token_id,
        )
    fresh = made[:, ids.shape[1] :]
    texts = [text.strip() for text in tokenizer.batch_decode(fresh, skip_special_tokens=True)]
    return texts, int((fresh != tokenizer.pad_token_id).sum())


if __name__ == "__main__":
    sys.exit(main())
