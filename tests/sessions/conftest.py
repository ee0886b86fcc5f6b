"""The fixture of `left_turns`."""

from left_turns import places

__all__ = ["places"]
