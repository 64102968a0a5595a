"""The canonical form of a definition and its hash: what decides whether two definitions are the same."""

import hashlib
import json
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from poimen.contracts.definition import EnvironmentSource, WorkflowDef


def canonical_text(definition: WorkflowDef) -> str:
    """Return the definition as JSON: defaults left out, keys sorted, durations in ms, decimals as text."""
    return json.dumps(_canonical(definition), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def definition_hash(definition: WorkflowDef) -> str:
    """Return "wd1:" and the SHA-256 of the canonical text in UTF-8."""
    return f"wd1:{hashlib.sha256(canonical_text(definition).encode()).hexdigest()}"


def _canonical(value: Any) -> Any:
    if isinstance(value, EnvironmentSource) and value.env is not None:
        return f"env:{value.env}"
    if isinstance(value, BaseModel):
        return _without_defaults(value)
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_canonical(item) for item in value]
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


def _without_defaults(part: BaseModel) -> dict[str, Any]:
    kept = {}
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if field.is_required() or value != field.default:
            kept[field.alias or name] = _canonical(value)
    return kept
