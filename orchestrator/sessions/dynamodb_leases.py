"""Leases of processes in a table of DynamoDB.

They have whole seconds, which a lease of thirty does not notice, in items of their own: `lease` in
the partition `process#` and the process's name.
"""

from __future__ import annotations

from orchestrator.support.dynamodb import TTL_ATTRIBUTE, DynamoTable

_LEASE = "lease"
_DAY = 86_400


class DynamoLeases:
    """A `LeaseTable` by the time of DynamoDB's answers: clocks of machines do not count.

    Where an answer has no time, that of this machine is taken.
    """

    def __init__(self, table: DynamoTable) -> None:
        """Asks nothing yet."""
        self._table = table

    def renew(self, process: str, seconds: int) -> None:
        """Has the lease of a process last for so many seconds from now."""
        # What time it is says the answer to a question.
        _, now = self._table.get_at(_build_partition_key(process), _LEASE)
        until = int(now) + seconds
        self._table.put(
            {
                "pk": _build_partition_key(process),
                "sk": _LEASE,
                "until": until,
                TTL_ATTRIBUTE: until + _DAY,
            }
        )

    def is_current(self, process: str) -> bool:
        """Whether a process has a lease that has not passed."""
        found, now = self._table.get_at(_build_partition_key(process), _LEASE)
        return found is not None and found.get("until", 0) > now

    def remove(self, process: str) -> None:
        """Ends the lease of a process."""
        self._table.delete(_build_partition_key(process), _LEASE)

    def close(self) -> None:
        """Nothing is open: boto3's client is shared."""


def _build_partition_key(process: str) -> str:
    return f"process#{process}"
