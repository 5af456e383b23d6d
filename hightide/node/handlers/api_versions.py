"""ApiVersions (18), versions 0-4: what this node serves, and nothing else.

A version we do not know is answered in version 0 with UNSUPPORTED_VERSION, so that a newer client can step down; the
dispatcher then passes no message. From version 3 on the client names its software, which must look like a name.
"""

import re
from typing import TYPE_CHECKING

from hightide.errors import ErrorCode
from hightide.node.apis import ADVERTISED_FROM
from hightide.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request

SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(node: "Node", message: ApiVersionsRequest | None, request: "Request") -> ApiVersionsResponse:
    """The table of served APIs."""
    if message is None:
        own = request.api
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[ApiVersion(api_key=own.key, min_version=own.first, max_version=own.last)],
        )
    if request.version >= 3 and not (
        SOFTWARE_NAME.fullmatch(message.client_software_name)
        and SOFTWARE_NAME.fullmatch(message.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.key, min_version=ADVERTISED_FROM.get(api.key, api.first), max_version=api.last)
            for api in request.session.serves.values()
        ]
    )
