"""The table of APIs agrees with the messages and loads none of them by itself."""

import subprocess
import sys

import pytest

from hightide.wire.versions import (
    API_NAMES,
    BROKER_APIS,
    CONTROLLER_APIS,
    FLEXIBLE_FROM,
    VALID_VERSIONS,
    request_class,
    response_class,
)

UNSTABLE = {22}  # InitProducerId 6


def test_every_living_api_is_there() -> None:
    assert len(API_NAMES) == 89
    assert not {4, 5, 6, 7} & set(API_NAMES)


@pytest.mark.parametrize("api_key", API_NAMES)
def test_the_table_says_what_the_messages_say(api_key: int) -> None:
    request, response = request_class(api_key), response_class(api_key)
    assert (request.__name__, response.__name__) == (f"{API_NAMES[api_key]}Request", f"{API_NAMES[api_key]}Response")
    assert request.api_key == response.api_key == api_key
    assert request.flexible_from == response.flexible_from == FLEXIBLE_FROM[api_key]
    lowest, highest = VALID_VERSIONS[api_key]
    assert request.valid_versions == response.valid_versions == (lowest, highest + (api_key in UNSTABLE))
    assert api_key in BROKER_APIS | CONTROLLER_APIS


def test_an_unknown_api_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        request_class(4)


def test_the_table_imports_no_message() -> None:
    script = (
        "import sys, hightide.wire.versions; print([m for m in sys.modules if '.messages' in m or m == 'dataclasses'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
