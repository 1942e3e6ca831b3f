"""What the server says of the kinds that it serves: OpenAPI v3 by group and version, and v2 as one document of them all."""

from modelplane.server.openapi.documents import Documents
from modelplane.server.openapi.swagger import Swagger

__all__ = ["Documents", "Swagger"]
