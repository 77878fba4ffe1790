"""What makes a local model itself: hashes of its weights, configuration and tokenizer (rule 4)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ....core.errors import ModelError
from ....core.record import content_hash
from ..digests import DigestCache

_SUFFIXES = (".safetensors", ".json", ".jinja", ".txt", ".model")


def folder_identity(folder: Path, dtype: str, cache: DigestCache | None = None) -> str:
    """Hash of every weight, configuration and tokenizer file, and of the number type the weights are loaded as.

    Raises:
        ModelError: the folder holds no safetensors file.
    """
    cache = cache or DigestCache()
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix in _SUFFIXES)
    if not any(p.suffix == ".safetensors" for p in files):
        raise ModelError(f"{folder} holds no .safetensors weights; only these are loaded (nothing is unpickled)")
    return content_hash({"dtype": dtype, "files": {p.name: cache.sha256(p) for p in files}})


def object_identity(model: Any, tokenizer: Any) -> str:
    """Hash of a model's weights and configuration and of a tokenizer, all in memory."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    config = model.config.to_dict()
    for key in ("_name_or_path", "transformers_version"):
        config.pop(key, None)
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    backend = getattr(tokenizer, "backend_tokenizer", None)
    written = backend.to_str() if backend is not None else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    digest.update(written.encode())
    digest.update(str(getattr(tokenizer, "chat_template", None)).encode())
    return digest.hexdigest()
