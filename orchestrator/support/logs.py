"""The loggers of this program: whatever is logged, one record is one line.

A name, a path or an error's text may come from a caller. With line ends in it, it would write lines
of its own into the log; with escape sequences it would rule the terminal that shows the log. The
filter is on the loggers themselves, so that it holds for every handler.
"""

from __future__ import annotations

import codecs
import logging
import re
from traceback import format_exception

# Controls, what else ends a line, what changes the order of a line or is invisible in it, and
# halves of surrogate pairs, which no file can hold.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)

# Looked up while the process can still open files: to say that it cannot needs it as well.
_ENCODE = codecs.getencoder("unicode_escape")


def get_logger(name: str) -> logging.Logger:
    """The logger of a part of this program."""
    logger = logging.getLogger(name)
    if _escape_record not in logger.filters:
        logger.addFilter(_escape_record)
    return logger


def escape(text: str) -> str:
    r"""A text on one line, with `\n` for a line end and the like."""
    return text if text.isprintable() else _UNSAFE.sub(_escape_character, text)


def _escape_character(found: re.Match[str]) -> str:
    return _ENCODE(found[0])[0].decode("ascii")


FRAMES = "orchestrator_frames"
"""The attribute of a record that holds the lines of a traceback without the error's text."""


# The frames, an error's traceback and the stack are lines; each is indented, as no record is.
def _escape_record(record: logging.LogRecord) -> bool:
    try:
        message = record.getMessage()
    except Exception:  # which a handler would report, and not raise
        message = f"a message that cannot be formatted: {record.msg!r}"
        record.msg, record.args = message, None
    if (escaped := escape(message)) != message:
        record.msg, record.args = escaped, None
    frames: str = getattr(record, FRAMES, "")
    if record.stack_info:
        frames, record.stack_info = f"{frames}{record.stack_info}\n", None
    if record.exc_info and record.exc_info[0] is not None:
        frames += "".join(format_exception(*record.exc_info))
    if frames:
        record.exc_text = "\n".join(f"  {escape(line)}" for line in frames.split("\n") if line)
    return True
