"""What all rooms share that ask AWS through boto3, which is imported at the first request.

`get_shared_client` makes one client for each configuration; a `Target` says what is asked, and
`failure` and `translate_errors` make one of the tree's errors of what boto3 raises.
"""

from __future__ import annotations

from orchestrator.support.aws.clients import (
    STARTED,
    Settings,
    body_of,
    get_shared_client,
    read_object,
    region_of,
    serving_at,
)
from orchestrator.support.aws.failures import (
    Target,
    UnusableCredentials,
    code_of,
    failure,
    get_safe_message,
    is_unanswered,
    is_unsent,
    translate_errors,
)
from orchestrator.support.aws.replies import (
    bound_replies,
    credentials_of,
    keep_sent_credentials,
    note_sent_credentials,
    use_bounds,
)

__all__ = [
    "STARTED",
    "Settings",
    "Target",
    "UnusableCredentials",
    "body_of",
    "bound_replies",
    "code_of",
    "credentials_of",
    "failure",
    "get_safe_message",
    "get_shared_client",
    "is_unanswered",
    "is_unsent",
    "keep_sent_credentials",
    "note_sent_credentials",
    "read_object",
    "region_of",
    "serving_at",
    "translate_errors",
    "use_bounds",
]
