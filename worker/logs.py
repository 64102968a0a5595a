"""Logs: one JSON line an event on standard error, with secrets masked and control characters escaped."""

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog

Mask = Callable[[str], str]
_SHARED: list[Any] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure(form: str, level: str, mask: Mask | None = None) -> None:
    """Send everything that is logged to standard error: ``json`` or ``text``, from a level on."""
    render: Any = structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=False)
    finish = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        *([_masked(mask)] if mask else []),
        render,
    ]
    output = logging.StreamHandler(sys.stderr)
    # The SDK's loggers are the standard ones; both kinds take the same way out.
    chain = [structlog.stdlib.ExtraAdder(), *_SHARED]
    output.setFormatter(structlog.stdlib.ProcessorFormatter(processors=finish, foreign_pre_chain=chain))
    root = logging.getLogger()
    root.handlers = [output]
    root.setLevel(level.upper())
    # The driver's pool says at every failed try what is said here once.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def flush() -> None:
    """Write out what is buffered; before a hard exit nothing else does."""
    for output in logging.getLogger().handlers:
        output.flush()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()


def _masked(mask: Mask) -> Any:
    def processor(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {name: _clean(value, mask) for name, value in event.items()}

    return processor


def _clean(value: Any, mask: Mask) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {name: _clean(item, mask) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, mask) for item in value]
    return value
