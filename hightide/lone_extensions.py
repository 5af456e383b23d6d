"""Extension modules without the packages around them.

Some packages do much when they are imported of which we need nothing, such as asking `importlib.metadata` for their own
version: tens of milliseconds of every start. So the one module we want is loaded by itself; a release that lays its
files out differently is imported the ordinary way.
"""

from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType


def load_alone(package: str, name: str) -> ModuleType:
    """The module `package.name`; ImportError where there is none."""
    around = PathFinder.find_spec(package)
    locations = around.submodule_search_locations if around is not None else None
    spec = PathFinder.find_spec(f"{package}.{name}", locations) if locations is not None else None
    if spec is None or spec.loader is None:
        return import_module(f"{package}.{name}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
