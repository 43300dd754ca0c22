"""What ends code in the middle when its process is killed."""

from __future__ import annotations


class Killed(BaseException):
    """The process of this code is no more. Not an Exception: nothing may handle it and go on."""
