"""Logs as lines of JSON: one object per event, with the server and the rollout it concerns.

The process of a server writes the same lines to its standard error. The launcher logs them again
unchanged, and everything else that such a process writes as a warning.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

from rollgym.store.settings import hide_secrets_in_text

HALF_TRACEBACK = 2_500
_RELAYED = "rollgym_line"
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_LOGGER = logging.getLogger(__name__)


class JsonLines(logging.Formatter):
    """Formats a record as one line; each item of `extra` becomes a field."""

    def format(self, record: logging.LogRecord) -> str:
        relayed = getattr(record, _RELAYED, None)
        if isinstance(relayed, str):
            return relayed
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": hide_secrets_in_text(record.getMessage()),
        }
        fields |= {
            name: value
            for name, value in record.__dict__.items()
            if name not in _OWN and value not in (None, "")
        }
        if record.exc_info:
            # Cut twice, so that no secret is cut in two before it is hidden.
            traceback = _without_middle(self.formatException(record.exc_info), 2 * HALF_TRACEBACK)
            fields["exception"] = _without_middle(hide_secrets_in_text(traceback), HALF_TRACEBACK)
        return json.dumps(fields, ensure_ascii=False, default=str)


def _without_middle(text: str, half: int) -> str:
    """Bound a traceback. Its ends say the most; an exception's text may have megabytes."""
    left_out = len(text) - 2 * half
    if left_out <= 0:
        return text
    return f"{text[:half]}\n… ({left_out} more characters) …\n{text[-half:]}"


def log_to(level: str, file: Path | None = None) -> None:
    """Send the logs of this process to a file, or else to its standard error.

    Raises OSError where the file cannot be written.
    """
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(file, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    # When the reader of the logs ends, only the logs end.
    logging.raiseExceptions = False


def current_level() -> str:
    """The log level of this process, which processes of servers use too."""
    return logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()


def relay(server: str, pid: int, line: str) -> str:
    """Log a line that the process of a server wrote; returns its message."""
    try:
        fields = json.loads(line)
        message, exception = str(fields["message"]), str(fields.get("exception", ""))
        level = logging.getLevelNamesMapping()[str(fields["level"]).upper()]
    except (ValueError, KeyError, TypeError):
        text = hide_secrets_in_text(line)
        _LOGGER.warning("%s", text, extra={"server": server, "pid": pid})
        return text
    _log_again(_LOGGER, level, message, line)
    return f"{message}\n{exception}" if exception else message


def relay_record(logger: str, level: int, line: str) -> None:
    """Log a line that another process wrote, as a record of the same logger."""
    try:
        message = str(json.loads(line)["message"])
    except (ValueError, KeyError, TypeError):
        message = line
    _log_again(logging.getLogger(logger), level, message, line)


def _log_again(logger: logging.Logger, level: int, message: str, line: str) -> None:
    if logger.isEnabledFor(level):
        record = logger.makeRecord(logger.name, level, __file__, 0, message, (), None)
        setattr(record, _RELAYED, line)
        logger.handle(record)
