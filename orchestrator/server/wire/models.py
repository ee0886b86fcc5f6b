"""The service models that botocore ships: what says everything about a request and its answer."""

from __future__ import annotations

from functools import cache

from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel

SERVICES = ("bedrock-agent", "bedrock-agent-runtime", "bedrock-runtime")
"""The services on the port. Where a path is in two, the first one's operation is tried first."""


@cache
def service_model(service: str) -> ServiceModel:
    """The model of a service, loaded once in a process."""
    return ServiceModel(Loader().load_service_model(service, "service-2"), service)


@cache
def operation_model(service: str, operation: str) -> OperationModel:
    """The model of an operation; the same object for the same names, for all that is made of it."""
    return service_model(service).operation_model(operation)
