"""Opening a model folder: safetensors only, no code from the folder, no network."""

from __future__ import annotations

from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ....core.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    import torch

_locks: WeakKeyDictionary[Any, RLock] = WeakKeyDictionary()  # pyright: ignore[reportInvalidTypeForm]
_locks_guard = Lock()


def lock_of(model: Any) -> Any:
    """The lock of a torch module: hooks are on the module, so it runs one generation at a time whoever wraps it."""
    with _locks_guard:
        return _locks.setdefault(model, RLock())


def dtype_of(name: str | torch.dtype | None, device: str) -> torch.dtype:
    """float32 on a CPU unless said otherwise; elsewhere bfloat16.

    Raises:
        ConfigurationError: not a floating-point type of torch.
    """
    import torch

    if name is None:
        return torch.float32 if device == "cpu" else torch.bfloat16
    dtype = getattr(torch, name, None) if isinstance(name, str) else name
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ConfigurationError(f"dtype={name!r} is not a floating-point type of torch; use 'float32' or 'bfloat16'")
    return dtype


def load_folder(folder: Path, *, dtype: torch.dtype, device: str) -> tuple[Any, Any]:
    """Model (in evaluation mode) and tokenizer.

    Raises:
        ModelError: the folder does not hold a causal language model that opens without running foreign code.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not any(folder.glob("*.safetensors")):
        raise ModelError(f"{folder} holds no .safetensors weights; only these are loaded (nothing is unpickled)")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, trust_remote_code=False, local_files_only=True
        )
        model = model.to(device)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise ModelError(f"{folder} could not be loaded as a causal language model: {error}") from error
    model.eval()
    return model, tokenizer


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a turn, as the model and its tokenizer say."""
    found: set[int] = set()
    for source in (model.generation_config.eos_token_id, tokenizer.eos_token_id):
        if source is not None:
            found |= {int(source)} if isinstance(source, int) else {int(i) for i in source}
    return frozenset(found)


def pad_token(tokenizer: Any, eos: frozenset[int]) -> int:
    """A token to fill rows with; masked, so which one does not matter."""
    if tokenizer.pad_token_id is not None:
        return int(tokenizer.pad_token_id)
    return min(eos, default=0)
