"""Who may import whom (design, section 2), read off the source with ``ast``: nothing is imported here.

The rules are functions of ``{module name: source}``, so the second half can feed them small packages that
break each rule and see them caught.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parent.parent / "fastbin"

WITHOUT_NUMBA = (
    "fastbin",
    "fastbin.bounds",
    "fastbin.planning",
    "fastbin.model",
    "fastbin.platt",
    "fastbin._modelfile",
    "fastbin._calibratorfile",
    "fastbin._plattfile",
    "fastbin.cli",
)
SHELLS = ("plots", "report", "sklearn", "dask", "spark", "cli", "paper", "__main__")
KERNELS_MAY_IMPORT = ("numpy", "typing", "__future__", "fastbin._jit", "fastbin._kernels")
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "core", "common", "misc"}

Sources = Mapping[str, str]


class Import(NamedTuple):
    """One imported thing: ``from target import name`` (name None: the module itself)."""

    target: str
    name: str | None
    at_module_level: bool


def read_package(folder: Path = PACKAGE) -> dict[str, str]:
    sources = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return sources


def is_package(module: str, sources: Sources) -> bool:
    return any(other.startswith(module + ".") for other in sources)


def imports_of(module: str, sources: Sources) -> Iterator[Import]:
    """Every import statement of a module. Those under ``if TYPE_CHECKING`` never run and do not count."""

    def visit(node: ast.AST, at_module_level: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, None, at_module_level)
            elif isinstance(child, ast.ImportFrom):
                base = module.split(".")
                # One dot is the package that holds the module; a package's own __init__ is already there.
                up = child.level - is_package(module, sources)
                above = base[: len(base) - up] if child.level else []
                target = ".".join([*above, *([child.module] if child.module else [])])
                for alias in child.names:
                    yield Import(target, alias.name, at_module_level)
            else:
                # A class body runs at import; a function body does not.
                is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from visit(child, at_module_level and not is_function)

    yield from visit(ast.parse(sources[module]), True)


def modules_run_by(imported: Import, sources: Sources) -> Iterator[str]:
    """The modules that an import runs: the target, the packages above it, the name if it is a module."""
    parts = imported.target.split(".")
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])
    if f"{imported.target}.{imported.name}" in sources:
        yield f"{imported.target}.{imported.name}"


def path_to_numba(module: str, sources: Sources) -> list[str]:
    """The chain of module-level imports that leads from a module to numba; empty when there is none."""
    todo, seen = [[module]], {module}
    while todo:
        chain = todo.pop(0)
        for imported in imports_of(chain[-1], sources):
            for reached in modules_run_by(imported, sources) if imported.at_module_level else ():
                if reached == "numba":
                    return [*chain, "numba"]
                if reached in sources and reached not in seen:
                    seen.add(reached)
                    todo.append([*chain, reached])
    return []


def is_inside(module: str, owners: tuple[str, ...]) -> bool:
    return any(module == owner or module.startswith(owner + ".") for owner in owners)


def declared(module: str, sources: Sources) -> set[str]:
    """The strings of a module's ``__all__``, and of the tables it names: ``[*sorted(_HOMES)]``."""
    values = {
        target.id: node.value
        for node in ast.parse(sources.get(module, "")).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if "__all__" not in values:
        return set()
    leaves = list(ast.walk(values["__all__"]))
    leaves += [key for leaf in leaves if isinstance(leaf, ast.Name) for key in keys_of(values.get(leaf.id))]
    return {leaf.value for leaf in leaves if isinstance(leaf, ast.Constant)}


def keys_of(table: ast.expr | None) -> list[ast.expr | None]:
    return table.keys if isinstance(table, ast.Dict) else []


# --- the rules: each returns sentences, none when all is well ----------------------------------------


def kernels_import_only_jit(sources: Sources) -> list[str]:
    return [
        f"{module} imports {imported.target}: kernels import numpy, _jit and each other"
        for module in sources
        if is_inside(module, ("fastbin._kernels",))
        for imported in imports_of(module, sources)
        if not is_inside(
            f"{imported.target}.{imported.name}" if imported.target == "fastbin" else imported.target,
            KERNELS_MAY_IMPORT,
        )
    ]


def numba_only_in_jit(sources: Sources) -> list[str]:
    return [
        f"{module} imports {imported.target}: only fastbin._jit may"
        for module in sources
        if module != "fastbin._jit"
        for imported in imports_of(module, sources)
        if is_inside(imported.target, ("numba",))
    ]


def light_modules_stay_light(sources: Sources) -> list[str]:
    chains = (path_to_numba(module, sources) for module in WITHOUT_NUMBA if module in sources)
    return [f"importing {chain[0]} imports numba: {' -> '.join(chain)}" for chain in chains if chain]


def shells_use_public_names(sources: Sources) -> list[str]:
    """A shell imports ``fastbin``, its public modules, and names that some public module declares."""
    faults = []
    shells = tuple(f"fastbin.{shell}" for shell in SHELLS)
    for module in (module for module in sources if is_inside(module, shells)):
        aliases = {"fastbin"}
        for node in ast.walk(ast.parse(sources[module])):
            if isinstance(node, ast.Import):
                aliases |= {alias.asname for alias in node.names if alias.name == "fastbin" and alias.asname}
        for imported in imports_of(module, sources):
            if not is_inside(imported.target, ("fastbin",)) or is_inside(imported.target, shells):
                continue
            whole = f"{imported.target}.{imported.name}" if imported.name else imported.target
            private = [
                part for part in whole.split(".") if part.startswith("_") and not part.startswith("__")
            ]
            public = (
                imported.name is None
                or whole in sources
                or imported.name == "__version__"
                or imported.name in declared(imported.target, sources) | declared("fastbin", sources)
            )
            if private or not public:
                faults.append(f"{module} imports {whole}, which is not a public name")
        for node in ast.walk(ast.parse(sources[module])):
            if (
                isinstance(node, ast.Attribute)
                and node.attr.startswith("_")
                and not node.attr.startswith("__")
            ):
                owner = ast.unparse(node.value)
                if owner.split(".")[0] in aliases:
                    faults.append(f"{module} uses {owner}.{node.attr}, which is not a public name")
    return faults


def names_say_something(sources: Sources) -> list[str]:
    return [
        f"{module}: a module is named after what it does, not {module.rsplit('.', 1)[-1]!r}"
        for module in sources
        if module.rsplit(".", 1)[-1].strip("_") in EMPTY_NAMES
    ]


RULES = [
    kernels_import_only_jit,
    numba_only_in_jit,
    light_modules_stay_light,
    shells_use_public_names,
    names_say_something,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule):
    assert rule(read_package()) == []


def test_the_walk_sees_the_package():
    """The rules are worth something only if the walk finds the modules and imports they speak of."""
    sources = read_package()
    assert {
        "fastbin",
        "fastbin._jit",
        "fastbin.bounds",
        "fastbin.planning",
        "fastbin.model",
        "fastbin.cli",
    } <= set(sources)
    assert sum(module.startswith("fastbin._kernels.") for module in sources) >= 3
    assert {"fit_uniform_mass", "load"} <= declared("fastbin", sources)
    assert path_to_numba("fastbin._jit", sources) == ["fastbin._jit", "numba"]
    kernels = [module for module in sources if module.startswith("fastbin._kernels.")]
    assert all(any(i.target == "fastbin._jit" for i in imports_of(module, sources)) for module in kernels)


# --- negative controls: a sound little package, then one fault at a time --------------------------------

SOUND = {
    "fastbin": "_HOMES = {'fit': 'fastbin.calibrators'}\n__all__ = [*_HOMES, 'bounds']\n__version__ = '1'",
    "fastbin._jit": "import numba",
    "fastbin._kernels": "",
    "fastbin._kernels.passes": "import numpy\nfrom fastbin._jit import jit\nfrom . import hashing",
    "fastbin._kernels.hashing": "from __future__ import annotations\nfrom .._jit import jit",
    "fastbin.bounds": "from scipy import special",
    "fastbin.planning": "from fastbin import bounds",
    "fastbin.model": "def predict():\n    from fastbin._kernels import passes",
    "fastbin.calibrators": "from fastbin._kernels import passes\n__all__ = ['fit']",
    "fastbin.cli": "import fastbin as fb\nfrom fastbin import bounds, fit, __version__\nfb.fit(fb.__doc__)",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_sound_package_passes(rule):
    assert rule(SOUND) == []


@pytest.mark.parametrize(
    ("rule", "module", "source"),
    [
        (kernels_import_only_jit, "fastbin._kernels.passes", "from fastbin._validate import check_scores"),
        (kernels_import_only_jit, "fastbin._kernels.passes", "from fastbin import model"),
        (kernels_import_only_jit, "fastbin._kernels.passes", "from .. import model"),
        (kernels_import_only_jit, "fastbin._kernels.passes", "def f():\n    import scipy.special"),
        (numba_only_in_jit, "fastbin._kernels.passes", "from numba import njit"),
        (numba_only_in_jit, "fastbin._parallel", "import numba.core.config"),
        (numba_only_in_jit, "fastbin.calibrators", "def f():\n    import numba as nb"),
        (light_modules_stay_light, "fastbin.bounds", "import numba"),
        (light_modules_stay_light, "fastbin.model", "from fastbin._kernels import passes"),
        (light_modules_stay_light, "fastbin.model", "from ._kernels.passes import histogram"),
        (light_modules_stay_light, "fastbin.planning", "from fastbin.calibrators import fit"),
        (light_modules_stay_light, "fastbin.planning", "class A:\n    import fastbin._jit"),
        (
            light_modules_stay_light,
            "fastbin",
            "try:\n    from fastbin import calibrators\nexcept ImportError:\n    pass",
        ),
        (shells_use_public_names, "fastbin.cli", "from fastbin._validate import check_scores"),
        (shells_use_public_names, "fastbin.cli", "from fastbin import _jit"),
        (shells_use_public_names, "fastbin.cli", "from .calibrators import secret"),
        (shells_use_public_names, "fastbin.cli", "import fastbin as fb\nfb.model._load()"),
        (shells_use_public_names, "fastbin.sklearn.onnx", "from fastbin._kernels.passes import histogram"),
        (names_say_something, "fastbin._utils", ""),
        (names_say_something, "fastbin.core.fit", ""),
    ],
)
def test_a_fault_is_found(rule, module, source):
    broken = {**SOUND, module: source}
    if module == "fastbin.core.fit":
        broken["fastbin.core"] = ""
    assert rule(broken) != []


def test_types_alone_are_no_import():
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numba"
    assert light_modules_stay_light({**SOUND, "fastbin.model": guarded}) == []
