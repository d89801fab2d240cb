"""The public names: they resolve, they are documented with an example, and the stub declares the same."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import fastbin

STUB = Path(fastbin.__file__).with_name("__init__.pyi")

# What the design fixes for the engine; later issues add to it.
PROMISED = {
    "Calibrator", "FitPlan", "Guarantee", "Plan", "bin_index", "bin_means", "boundary_ranks", "bounds",
    "fit_counts", "fit_uniform_mass", "load", "plan", "run_step", "tie_broken_argsort", "warmup",
}  # fmt: skip

PROMISED_BOUNDS = {
    "all_intervals_epsilon", "binomial_epsilon", "binomial_tail", "clopper_pearson", "conditional_epsilon",
    "confidence_sequence", "ece_upper", "expected_ece", "hoeffding_epsilon", "marginal_epsilon", "max_bins",
    "max_mad", "merge_epsilon", "original_epsilon", "required_samples", "sample_split_required",
}  # fmt: skip


def documented_things() -> dict[str, object]:
    """Public functions and classes: those of fastbin, then those of its public modules."""
    found = {}
    for name in fastbin.__all__:
        thing = getattr(fastbin, name)
        if isinstance(thing, ModuleType):
            found |= {f"{name}.{inner}": getattr(thing, inner) for inner in thing.__all__}
        else:
            found[name] = thing
    return {name: thing for name, thing in found.items() if callable(thing)}


THINGS = documented_things()
METHODS = {
    f"{name}.{attribute}": member
    for name, thing in THINGS.items()
    if inspect.isclass(thing)
    for attribute, member in vars(thing).items()
    if not attribute.startswith("_") and callable(getattr(thing, attribute))
}


def sections(thing: object) -> dict[str, str]:
    """A numpydoc docstring cut at its underlined headings; the part before the first is ''."""
    text = inspect.getdoc(thing) or ""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def parameters(thing: object) -> list[str]:
    signature = inspect.signature(thing)
    return [name for name in signature.parameters if name not in {"self", "cls"}]


def described(section: str) -> set[str]:
    """The names at the margin of a Parameters section: ``alpha : float``, ``n, n_bins : int``."""
    names = re.findall(r"^(\S[^:\n]*?)\s*(?::.*)?$", section, flags=re.MULTILINE)
    return {name.strip().lstrip("*") for line in names for name in line.split(",")}


def test_the_promised_names_are_there():
    assert set(fastbin.__all__) >= PROMISED
    assert set(fastbin.bounds.__all__) >= PROMISED_BOUNDS


@pytest.mark.parametrize("name", fastbin.__all__)
def test_name_resolves(name):
    assert getattr(fastbin, name) is not None
    assert name in dir(fastbin)


def test_no_name_twice():
    assert len(set(fastbin.__all__)) == len(fastbin.__all__)


def test_the_version_is_a_version():
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?([a-z.]\w*)?", fastbin.__version__)


def test_an_unknown_name_gets_a_helpful_error():
    with pytest.raises(AttributeError, match=r"fastbin.*fit_unifrom_mass.*fit_uniform_mass"):
        fastbin.fit_unifrom_mass  # noqa: B018


def test_an_unknown_name_is_not_swallowed():
    """``hasattr`` and ``from fastbin import`` rely on the right exception types."""
    assert not hasattr(fastbin, "no_such_name")
    with pytest.raises(ImportError):
        from fastbin import no_such_name  # noqa: F401


@pytest.mark.parametrize("name", THINGS)
def test_docstring(name):
    thing = THINGS[name]
    parts = sections(thing)
    assert parts[""].strip(), "a docstring opens with what it is for"
    assert ">>> " in parts.get("Examples", ""), "a public name comes with an example that pytest runs"
    if inspect.isclass(thing):
        fields = parts.keys() & {"Parameters", "Attributes"}
        assert fields or issubclass(thing, Exception), "a class documents its fields"
    else:
        missing = set(parameters(thing)) - described(parts.get("Parameters", ""))
        assert missing == set(), "every parameter is described"
        if inspect.signature(thing).return_annotation not in {None, "None"}:
            assert parts.get("Returns", "").strip(), "what comes back is described"


@pytest.mark.parametrize("name", METHODS)
def test_method_docstring(name):
    parts = sections(METHODS[name])
    assert parts[""].strip(), "a public method says what it does"
    if "Parameters" in parts:
        assert set(parameters(METHODS[name])) - described(parts["Parameters"]) == set()


@pytest.mark.parametrize("name", THINGS)
def test_the_example_is_where_pytest_looks(name):
    """Doctests are collected from the files of the package; a re-exported foreign object has none."""
    assert THINGS[name].__module__.split(".")[0] == "fastbin"


def declared_by(stub: str) -> set[str]:
    """The names a stub offers to other modules: an import is offered only as ``X as X`` (PEP 484)."""
    tree = ast.parse(stub)
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")}


def test_the_stub_declares_the_same_names():
    assert declared_by(STUB.read_text(encoding="utf-8")) == {
        n for n in fastbin.__all__ if not n.startswith("_")
    }


def test_the_stub_check_can_fail():
    """Negative control: an import that a stub does not re-export, and one that it does."""
    assert declared_by(
        "from .model import Calibrator\nfrom . import bounds as bounds\ndef load() -> int: ..."
    ) == {
        "bounds",
        "load",
    }
