"""Model files: every bit comes back, anything unsound is refused, nothing is lost, nothing is executed."""

import dataclasses
import hashlib
import json
import os
import pickle
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import fastbin as fb
import reference as ref
import zoo
from fastbin import _modelfile
from surgery import refuses

MODELS = Path(__file__).parent / "models"

FIELD_NAMES = (
    "format schema_version method n_samples n_bins seed labels boundary_points delta edges edge_keys "
    "edge_labels edge_ties values counts positives interior_counts interior_positives sha256"
).split()


ROWS = np.arange(60)
SCORES, LABELS = (
    ROWS * 37 % 60 % 7 / 8,
    ROWS * ROWS // 3 % 2,
)  # not random: stored in files


def small(**options):
    return fb.fit_uniform_mass(SCORES, options.pop("labels", LABELS), 5, **options)


FITS = {
    "binary": small,
    "soft": lambda: small(labels=ROWS * 29 % 61 / 60),
    "include": lambda: small(boundary_points="include"),
    "delta": lambda: small(delta=0.125),
    "largest seed": lambda: small(rng=2**64 - 1),
    "one bin": lambda: fb.fit_uniform_mass([0.1], [1], 1),
    "infinite edges": lambda: fb.fit_uniform_mass([-np.inf] * 9 + [np.inf] * 9, [0, 1] * 9, 4),
    "subnormal edges": lambda: fb.fit_uniform_mass(5e-324 * np.arange(9), [0, 1, 1] * 3, 4),
    "extreme edges": lambda: fb.fit_uniform_mass(
        np.finfo(float).max * np.linspace(-1, 1, 9), [0, 1, 1] * 3, 4
    ),
    "all labels 1": lambda: small(labels=np.ones(60)),
    "one atom": lambda: fb.fit_uniform_mass(np.full(99, 0.3), np.arange(99) % 2, 50),
    "four billion rows": lambda: fb.fit_counts([1, 2, 3], [5, 1, 7], [2 * 10**9, 1, 2 * 10**9], 2),
    "authors": lambda: small(compat="authors"),
    "sample split": lambda: fb.fit_sample_split(SCORES, LABELS, 5, split=0.4),
    "fixed width": lambda: fb.fit_fixed_width(SCORES, LABELS, 9),
    "isotonic": lambda: fb.fit_isotonic(SCORES, LABELS),
    "isotonic, soft": lambda: fb.fit_isotonic(ROWS, ROWS * 29 % 61 / 60),
    "scaling binning": lambda: fb.fit_scaling_binning(SCORES, LABELS, 5),
    "merged": lambda: small().merge_adjacent("monotone"),
    "automatic": lambda: fb.fit(SCORES, LABELS),
}


def resigned(data):
    """The dictionary with a checksum that fits: an edit by someone who knows the format."""
    body = {k: v for k, v in data.items() if k != "sha256"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {**body, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def edited(name, value):
    data = small().to_dict()
    data[name] = value(data[name]) if callable(value) else value
    return resigned(data)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.json"
    small().save(path)
    return path


# --- every bit comes back -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FITS)
def test_save_and_load_give_every_bit_back(kind, tmp_path):
    cal = FITS[kind]()
    cal.save(tmp_path / "model.json")
    again = fb.load(tmp_path / "model.json")
    assert again == cal
    ref.assert_same_bits(again, cal)
    for name in ("edge_labels", "positives", "interior_positives", "edge_ties", "counts"):
        assert getattr(again, name).dtype == getattr(cal, name).dtype
        assert not getattr(again, name).flags.writeable
    assert (again.delta, again.boundary_points, again.method) == (cal.delta, cal.boundary_points, cal.method)


@pytest.mark.parametrize("kind", FITS)
def test_the_dictionary_is_plain_json_and_gives_every_bit_back(kind):
    cal = FITS[kind]()
    text = json.dumps(cal.to_dict(), allow_nan=False)
    assert fb.Calibrator.from_dict(json.loads(text)) == cal
    assert fb.Calibrator.from_dict(cal.to_dict()) == cal


@pytest.mark.parametrize("name", zoo.COLUMN_NAMES)
def test_awkward_edges_survive_the_file(name, tmp_path):
    scores = zoo.columns(101)[name]
    cal = fb.fit_uniform_mass(scores, np.arange(101) % 2, 20)
    cal.save(tmp_path / "model.json")
    assert fb.load(tmp_path / "model.json") == cal


def test_a_loaded_model_predicts_and_promises_the_same(saved):
    cal, again = small(), fb.load(saved)
    scores = np.resize(SCORES, 3_000)
    np.testing.assert_array_equal(again.predict(scores), cal.predict(scores))
    assert again.guarantee(0.1).conditional == cal.guarantee(0.1).conditional


def test_the_file_is_written_as_promised(saved):
    text = saved.read_text(encoding="utf-8")
    data = json.loads(text)
    assert data["schema_version"] == 2
    assert all(len(key) == 16 and int(key, 16) >= 0 for key in data["edge_keys"])
    assert data["values"] == small().values.tolist()
    infinite = FITS["infinite edges"]().to_dict()["edges"]
    assert set(infinite) == {"-inf", "inf"}


def test_a_calibrator_can_be_pickled_between_processes():
    cal = small()
    cal.predict(np.zeros(5_000))  # caches must not travel
    again = pickle.loads(pickle.dumps(cal))
    assert again == cal
    assert not again.edges.flags.writeable


@pytest.mark.parametrize("form", [str, Path, os.fspath])
def test_paths_of_any_kind(form, tmp_path):
    path = form(tmp_path / "a model ü.json")
    small().save(path)
    assert fb.load(path) == small()


# --- re-formatting is harmless ------------------------------------------------------------------------

REFORMATTED = {
    "compact": lambda d: json.dumps(d, separators=(",", ":")),
    "indented": lambda d: json.dumps(d, indent=8),
    "sorted": lambda d: json.dumps(d, sort_keys=True),
    "reversed keys": lambda d: json.dumps(dict(reversed(d.items()))),
    "escaped": lambda d: json.dumps(d).replace("uniform", "\\u0075niform"),
    "windows line ends": lambda d: json.dumps(d, indent=2).replace("\n", "\r\n"),
    "blank space around": lambda d: "\n\n  " + json.dumps(d) + "\n\n",
}


@pytest.mark.parametrize("how", REFORMATTED)
def test_reformatting_the_file_is_harmless(how, saved):
    text = REFORMATTED[how](json.loads(saved.read_text()))
    saved.write_bytes(text.encode())
    assert fb.load(saved) == small()


# --- damaged files ------------------------------------------------------------------------------------


def test_a_file_cut_short_anywhere_is_refused(saved):
    whole = saved.read_bytes()
    for size in [*range(0, len(whole) - 2, 97), len(whole) - 3]:
        saved.write_bytes(whole[:size])
        with refuses("model.json", error=fb.ModelFileError):
            fb.load(saved)


def test_a_digit_changed_anywhere_is_refused(saved):
    whole = saved.read_bytes()
    places = [i for i, byte in enumerate(whole) if chr(byte) in "0123456789"]
    for i in places[::11]:
        other = b"7" if whole[i : i + 1] != b"7" else b"8"
        saved.write_bytes(whole[:i] + other + whole[i + 1 :])
        with refuses("model.json", error=fb.ModelFileError):
            fb.load(saved)


def test_a_changed_value_is_reported_by_its_checksum(saved):
    data = json.loads(saved.read_text())
    data["values"][0] = 0.123
    saved.write_text(json.dumps(data))
    with refuses("model.json", "checksum", "restore|damaged", error=fb.ModelFileError):
        fb.load(saved)


FOREIGN = {
    "empty": b"",
    "text": b"not a model",
    "a JSON list": b"[1, 2, 3]",
    "a JSON string": b'"fastbin calibrator"',
    "null": b"null",
    "another JSON object": b'{"model": "xgboost", "version": [2, 0, 0]}',
    "NaN": b'{"format": NaN}',
    "bytes": bytes(range(256)),
    "not UTF-8": b'{"format": "\xff"}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "deep nesting": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "absurd number": b'{"n": ' + b"9" * 10_000 + b"}",
    "two documents": b"{}{}",
    "gzip": b"\x1f\x8b\x08\x00" + b"\0" * 50,
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files_are_refused_by_name(kind, tmp_path):
    path = tmp_path / "other.json"
    path.write_bytes(FOREIGN[kind])
    with refuses("other.json", error=fb.ModelFileError):
        fb.load(path)


def test_an_oversized_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(5 * 2**30)  # sparse
    with refuses("huge.json", "bytes|large|size", error=fb.ModelFileError):
        fb.load(path)


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_and_not_executed(protocol, tmp_path):
    witness, path = tmp_path / "executed", tmp_path / "model.json"
    path.write_bytes(pickle.dumps(Bomb(witness), protocol))
    with refuses("model.json", error=fb.ModelFileError):
        fb.load(path)
    assert not witness.exists()
    pickle.loads(path.read_bytes())
    assert witness.exists(), "the bomb must be real for this test to mean anything"


def test_loading_imports_nothing(saved):
    before = set(sys.modules)
    fb.load(saved)
    assert not {m for m in set(sys.modules) - before if not m.startswith(("fastbin", "encodings"))}


# --- files that are signed but unsound ----------------------------------------------------------------


def swap(x):
    return [x[1], x[0], *x[2:]]


UNSOUND = {
    "unknown schema": ("schema_version", 3, ("schema", r"\b3\b", "upgrade")),
    "schema as text": ("schema_version", "1", ("schema",)),
    "schema missing": ("schema_version", None, ("schema",)),
    "another format": ("format", "joblib", ("format", "joblib")),
    "unknown method": ("method", "magic", ("method", "magic")),
    "method not text": ("method", ["uniform_mass"], ("method",)),
    "cuts out of order": ("edges", swap, ("edges", "order|ascend")),
    "NaN cut as text": ("edges", lambda x: ["nan", *x[1:]], ("edges",)),
    "cut as text": ("edges", lambda x: ["0.5", *x[1:]], ("edges",)),
    "cut null": ("edges", lambda x: [None, *x[1:]], ("edges",)),
    "cut bool": ("edges", lambda x: [False, *x[1:]], ("edges",)),
    "cut beyond float64": ("edges", lambda x: [*x[:-1], 10**400], ("edges",)),
    "delta beyond float64": ("delta", 10**400, ("delta",)),
    "cuts as one number": ("edges", 0.5, ("edges",)),
    "cuts nested": ("edges", lambda x: [x], ("edges",)),
    "one cut missing": ("edges", lambda x: x[1:], ("edges", r"\b4\b")),
    "one key missing": ("edge_keys", lambda x: x[1:], ("edge_keys", r"\b4\b")),
    "key too short": ("edge_keys", lambda x: [x[0][1:], *x[1:]], ("edge_keys", "hex|16")),
    "key not hex": ("edge_keys", lambda x: ["g" * 16, *x[1:]], ("edge_keys", "hex|16")),
    "key with sign": ("edge_keys", lambda x: ["+" + "1" * 15, *x[1:]], ("edge_keys", "hex|16")),
    "key as number": ("edge_keys", lambda x: [5, *x[1:]], ("edge_keys", "hex|16")),
    "seed as number": ("seed", 0, ("seed", "hex|16")),
    "value above one": ("values", lambda x: [1.5, *x[1:]], ("values", r"\[0, 1\]")),
    "value below zero": ("values", lambda x: [-0.1, *x[1:]], ("values", r"\[0, 1\]")),
    "value infinite": ("values", lambda x: ["inf", *x[1:]], ("values",)),
    "values equal": ("values", lambda x: [x[0]] * 5, ("values", "distinct")),
    "one value more": ("values", lambda x: [*x, 0.99], ("values", r"\b5\b")),
    "count negative": ("counts", lambda x: [-1, *x[1:]], ("counts",)),
    "count fractional": ("counts", lambda x: [11.5, *x[1:]], ("counts", "integer")),
    "count as float": ("counts", lambda x: [float(x[0]), *x[1:]], ("counts", "integer")),
    "count too large": ("counts", lambda x: [2**70, *x[1:]], ("counts",)),
    "counts shifted": ("counts", lambda x: [x[0] + 1, x[1] - 1, *x[2:]], ("counts",)),
    "interior counts shifted": (
        "interior_counts",
        lambda x: [x[0] + 1, x[1] - 1, *x[2:]],
        ("interior_counts",),
    ),
    "more positives than rows": ("positives", lambda x: [1_000, *x[1:]], ("positives",)),
    "more interior positives": ("interior_positives", lambda x: [1_000, *x[1:]], ("interior_positives",)),
    "positives bool": ("positives", lambda x: [True, *x[1:]], ("positives", "integer")),
    "edge label 2": ("edge_labels", lambda x: [2, *x[1:]], ("edge_labels",)),
    "edge ties 0": ("edge_ties", lambda x: [0, *x[1:]], ("edge_ties",)),
    "schema true": ("schema_version", True, ("schema",)),
    "schema 1.0": ("schema_version", 1.0, ("schema",)),
    "values of other labels": ("values", lambda x: [x[0] + 1e-9, *x[1:]], ("values", "positives / counts")),
    "positives moved": ("positives", lambda x: [x[0] + 1, *x[1:]], ("positives", "interior_positives")),
    "n_samples 2^63 - 1": ("n_samples", 2**63 - 1, ("n_samples", "2\\*\\*63")),
    "n_samples 0": ("n_samples", 0, ("n_samples",)),
    "n_samples bool": ("n_samples", True, ("n_samples",)),
    "n_samples float": ("n_samples", 60.0, ("n_samples",)),
    "n_samples too few": ("n_samples", 8, ("n_samples|counts",)),
    "n_samples other": ("n_samples", 61, ("interior_counts|n_samples",)),
    "n_samples 2^63": ("n_samples", 2**63, ("n_samples",)),
    "n_bins 0": ("n_bins", 0, ("n_bins",)),
    "n_bins other": ("n_bins", 6, ("edges",)),
    "n_bins absurd": ("n_bins", 2**61, ("n_bins|n_samples|edges",)),
    "labels other": ("labels", "ordinal", ("labels", "ordinal")),
    "boundary other": ("boundary_points", "both", ("boundary_points", "both")),
    "boundary flipped": ("boundary_points", "include", ("counts",)),
    "delta negative": ("delta", -0.5, ("delta",)),
    "delta text": ("delta", "0.5", ("delta",)),
    "delta infinite": ("delta", "inf", ("delta",)),
    "an extra field": ("comment", "hello", ("comment",)),
}


@pytest.mark.parametrize("case", UNSOUND)
def test_unsound_models_are_refused_by_the_field_that_is_wrong(case, tmp_path):
    name, value, parts = UNSOUND[case]
    data = edited(name, value) if name in small().to_dict() else resigned({**small().to_dict(), name: value})
    with refuses(*parts, error=fb.ModelFileError):
        fb.Calibrator.from_dict(data)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(data))
    with refuses("model.json", *parts, error=fb.ModelFileError):
        fb.load(path)


@pytest.mark.parametrize("name", FIELD_NAMES)
def test_a_missing_field_is_refused_by_name(name):
    data = small().to_dict()
    del data[name]
    with refuses(f"{name}|format|schema", error=fb.ModelFileError):
        fb.Calibrator.from_dict(data if name == "sha256" else resigned(data))


@pytest.mark.parametrize("ties", [[99] * 48 + [98], [48] * 49])
def test_equal_cuts_with_ties_that_cannot_be_are_refused(ties):
    data = FITS["one atom"]().to_dict()
    assert data["edge_ties"] == [99] * 49
    with refuses("edge_ties", "alike", "one a cut", error=fb.ModelFileError):
        fb.Calibrator.from_dict(resigned({**data, "edge_ties": ties}))


def test_equal_cuts_with_keys_out_of_order_are_refused():
    data = FITS["one atom"]().to_dict()
    with refuses("edges|edge_keys", "order|ascend", error=fb.ModelFileError):
        fb.Calibrator.from_dict(resigned({**data, "edge_keys": swap(data["edge_keys"])}))


@pytest.mark.parametrize("data", [None, [], "model", 5, {}, {"format": "fastbin calibrator"}], ids=repr)
def test_what_is_not_a_model_dictionary_is_refused(data):
    with pytest.raises(fb.ModelFileError):
        fb.Calibrator.from_dict(data)


def test_a_model_error_is_a_value_error():
    assert issubclass(fb.ModelFileError, ValueError)


# --- writing ------------------------------------------------------------------------------------------


def test_saving_over_a_file_replaces_it_whole(saved):
    other = small(rng=9)
    other.save(saved)
    assert fb.load(saved) == other
    assert [p.name for p in saved.parent.iterdir()] == ["model.json"]


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_whole_and_nothing_beside_it(where, saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, where, full)
    with pytest.raises(OSError, match="space"):
        small(rng=9).save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["model.json"]


def test_an_interrupted_write_leaves_the_old_file_whole(saved, monkeypatch):
    before = saved.read_bytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        small(rng=9).save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["model.json"]


def test_a_path_below_a_regular_file_is_refused_by_name(saved):
    target = saved / "below" / "model.json"
    with refuses("model.json", error=OSError):
        small().save(target)
    assert fb.load(saved) == small()


def test_a_missing_folder_is_refused_by_name_and_not_created(tmp_path):
    with refuses("nowhere", error=OSError):
        small().save(tmp_path / "nowhere" / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_the_file_is_refused_and_kept(tmp_path):
    (tmp_path / "model.json").mkdir()
    with refuses("model.json", error=OSError):
        small().save(tmp_path / "model.json")
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_the_file_gets_the_usual_mode_and_keeps_the_old_one(tmp_path):
    path = tmp_path / "model.json"
    plain = tmp_path / "plain"
    plain.touch()
    small().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    small().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_loading_a_file_that_is_not_there_says_so(tmp_path):
    with refuses("path", "absent.json", r"save\(\)", error=FileNotFoundError):
        fb.load(tmp_path / "absent.json")


@pytest.mark.parametrize("path", [None, 5, b"model.json", 1.5])
@pytest.mark.parametrize("work", [fb.load, small().save])
def test_a_path_of_the_wrong_type_is_refused(path, work):
    with refuses("path must be", repr(path), "Pass", error=TypeError):
        work(path)


@pytest.mark.parametrize("work", [fb.load, small().save])
def test_a_path_with_a_nul_character_is_refused(work):
    with refuses("path must be", "null", "Pass", error=ValueError):
        work("a\0b")


def test_a_loop_of_links_is_refused_by_name(tmp_path):
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with refuses("path must be", "loop.json", error=OSError):
        small().save(loop)


def test_a_name_as_long_as_the_system_allows_is_saved(tmp_path):
    path = tmp_path / ("b" * 250 + ".json")
    small().save(path)
    assert fb.load(path) == small()
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_too_large_to_be_loaded_is_not_saved(tmp_path, monkeypatch):
    """What was lost would be noticed only when it is needed."""
    path = tmp_path / "model.json"
    small().save(path)
    before = path.read_bytes()
    monkeypatch.setattr(_modelfile, "LARGEST_FILE", len(before))
    small().save(path)
    monkeypatch.setattr(_modelfile, "LARGEST_FILE", len(before) - 1)
    with refuses("at most", str(len(before)), "fewer bins"):
        small().save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# --- files of released versions -----------------------------------------------------------------------

STORED = {
    1: ("binary", "soft", "include", "delta", "largest seed", "one bin", "infinite edges", "one atom"),
    2: (
        "binary", "authors", "sample split", "fixed width", "isotonic", "isotonic, soft", "scaling binning",
        "merged", "automatic",
    ),
}  # fmt: skip
STORED_FILES = [(schema, kind) for schema, kinds in STORED.items() for kind in kinds]


def model_path(schema, kind):
    return MODELS / f"schema{schema}-{kind.replace(',', '').replace(' ', '-')}.json"


@pytest.mark.parametrize(("schema", "kind"), STORED_FILES)
def test_a_file_of_every_schema_still_loads_as_the_same_fit(schema, kind):
    path = model_path(schema, kind)
    assert json.loads(path.read_text())["schema_version"] == schema
    cal = fb.load(path)
    assert cal == FITS[kind]()
    assert cal.predict(np.zeros(3_000)).shape == (3_000,)


def test_every_stored_model_file_is_tested():
    assert set(MODELS.glob("schema*.json")) == {model_path(*one) for one in STORED_FILES}


def test_saving_through_a_link_replaces_what_it_points_to(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    small().save(link)
    assert link.is_symlink()
    assert fb.load(real) == small()


def test_what_is_not_a_regular_file_is_neither_replaced_nor_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(OSError, match="path must be a file"):
            small().save(path)
        with pytest.raises(OSError, match="regular file"):
            fb.load(path)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(OSError, match="regular file"):
        fb.load("/dev/zero")


def test_an_error_names_the_users_path_and_not_the_temporary_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/model\.json") as caught:
        small().save(tmp_path / "nowhere" / "model.json")
    assert ".tmp" not in str(caught.value)


def test_a_new_file_has_the_mode_of_the_umask_and_a_replaced_one_keeps_its_own(tmp_path):
    path = tmp_path / "model.json"
    before = os.umask(0o027)
    try:
        small().save(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o604)
    small().save(path)
    assert path.stat().st_mode & 0o777 == 0o604


def test_building_a_calibrator_leaves_the_given_arrays_writable():
    data = {name: np.array(getattr(small(), name)) for name in ("edges", "values", "counts")}
    dataclasses.replace(small(), **data)
    assert all(array.flags.writeable for array in data.values())


if __name__ == "__main__":  # writes the files of a new schema version; never touches an old one
    for schema, kind in STORED_FILES:
        if not model_path(schema, kind).exists():
            FITS[kind]().save(model_path(schema, kind))
