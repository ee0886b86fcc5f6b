"""Encryption of what stores keep, with a key of the environment's or of AWS KMS.

`get_cipher` gives the cipher that the environment describes, which stores seal and open texts with.
"""

from orchestrator.support.encryption.cipher import (
    KEYS,
    Cipher,
    get_cipher,
    is_sealed,
    refuse_sealed,
    require_cipher,
)

__all__ = ["KEYS", "Cipher", "get_cipher", "is_sealed", "refuse_sealed", "require_cipher"]
