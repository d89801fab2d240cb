"""Where compiled code is kept: never in the way, never stale, found again by the next process."""

import ctypes
import json
import os
import shutil
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import children
from fastbin import _jit

# A fit and a prediction; what the kernels' dispatchers say of their cache; warnings are errors in children.
JOB = """
import importlib, json, pkgutil, sys
import numpy as np
import fastbin as fb
from fastbin import _jit, _kernels

scores = np.arange(3000) % 300 / 300
calibrator = fb.fit_uniform_mass(scores, np.arange(3000) % 7 == 0, 5)
values = calibrator.predict(scores, threads=1)

names = [module.name for module in pkgutil.iter_modules(_kernels.__path__)]
modules = [importlib.import_module(f"fastbin._kernels.{name}") for name in names]
kernels = [thing for module in modules for thing in vars(module).values() if hasattr(thing, "stats")]
print(json.dumps({
    "package": fb.__file__,
    "model": calibrator.to_dict()["sha256"],
    "values": values.tobytes().hex(),
    "cache": _jit.CACHE_FOLDER,
    "hits": sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels),
    "misses": sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels),
    "compiled": sum(len(kernel.signatures) for kernel in kernels),
}))
"""

# One small kernel that calls another in another file.
KEYS = """
import numpy as np
from fastbin._kernels.ties import row_keys

keys = np.empty(5, np.uint64)
row_keys(np.uint64(7), keys)
print(keys.tolist())
"""

SHOW_THAT_WRITES_FAIL = """
import sys
from pathlib import Path

for folder in map(Path, sys.argv[1:]):
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plain").write_text("0")
    except OSError:
        continue
    sys.exit(f"a plain write to {folder} succeeds")
"""


@pytest.fixture
def script(tmp_path):
    def write(code, name="job.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(code))
        return path

    return write


@pytest.fixture
def package(tmp_path):
    """A copy of the package, to be locked or changed."""
    return copy_of_package(tmp_path / "site")


def copy_of_package(site):
    ignore = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(children.PACKAGE, site / "fastbin", ignore=ignore))


def files_below(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def obey_permission_bits():
    """For the superuser, run in the child before exec: without CAP_DAC_OVERRIDE the bits hold for root too.

    Another user id would not do: it may not even read an interpreter that lives below /root.
    """
    if sys.platform == "linux":
        pr_capbset_drop, cap_dac_override = 24, 1
        ctypes.CDLL(None).prctl(pr_capbset_drop, cap_dac_override, 0, 0, 0)


@pytest.fixture
def locked(package, tmp_path):
    """The package and a home folder, neither of which can be written."""
    home = tmp_path / "home"
    home.mkdir()
    folders = [home, package.parent, package, *(path for path in package.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield package, home
    for folder in folders:
        folder.chmod(0o755)


NO_CACHE = {"NUMBA_CACHE_DIR": None, "XDG_CACHE_HOME": None}


def test_nothing_writable_compiles_without_a_cache(locked, script):
    package, home = locked
    folders = [home, home / ".cache", package, package / "_kernels"]
    before = files_below(package)
    environment = {**NO_CACHE, "HOME": home}
    check = script(SHOW_THAT_WRITES_FAIL, "check.py")
    children.run(check, *folders, preexec_fn=obey_permission_bits, package=package, **environment)
    done = children.run(script(JOB), preexec_fn=obey_permission_bits, package=package, **environment)
    result = json.loads(done)
    assert Path(result["package"]).parent == package
    assert (result["cache"], result["hits"]) == (None, 0)
    assert files_below(package) == before
    assert list(home.iterdir()) == []


def test_folders_below_a_regular_file_compile_without_a_cache(script, tmp_path):
    """The superuser cannot write there either."""
    wall = tmp_path / "wall"
    wall.write_text("a regular file")
    environment = {**NO_CACHE, "HOME": wall / "home", "XDG_CACHE_HOME": wall / "cache"}
    check = script(SHOW_THAT_WRITES_FAIL, "check.py")
    children.run(check, wall / "home", wall / "cache", **environment)
    assert children.run(script("from fastbin import _jit\nprint(_jit.CACHE_FOLDER)"), **environment) == "None"
    told = json.loads(children.run(script(KEYS), **environment))
    assert told == known_keys()
    assert wall.read_text() == "a regular file"


def known_keys():
    """What KEYS prints, by Python's own integers."""
    from fastbin import _streams

    return [_streams.mix((7 + _streams.GOLDEN * (i + 1)) & _streams.MASK) for i in range(5)]


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x/cache"}, "/x/cache"),
        ("linux", {"HOME": "/x"}, "/x/.cache"),
        ("linux", {"HOME": "/x", "XDG_CACHE_HOME": ""}, "/x/.cache"),
        ("darwin", {"HOME": "/x"}, "/x/Library/Caches"),
        ("win32", {"LOCALAPPDATA": "/x/Local"}, "/x/Local"),
        ("win32", {"HOME": "/x"}, "/x/AppData/Local"),
    ],
)
def test_the_cache_is_where_the_platform_keeps_caches(platform, variables, expected, monkeypatch):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(_jit._config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "platform", platform)
    assert _jit._user_cache_folder() == Path(expected)
    monkeypatch.setattr(_jit._config, "CACHE_DIR", "/given/by/NUMBA_CACHE_DIR")
    assert _jit._user_cache_folder() == Path("/given/by/NUMBA_CACHE_DIR")


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(_jit._config, "CACHE_DIR", "")
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(RuntimeError, match="home directory"):
        Path.home()
    assert _jit._usable_cache_folder() is None


def test_machine_code_of_old_versions_is_forgotten_after_a_month(tmp_path, monkeypatch):
    monkeypatch.setattr(_jit._config, "CACHE_DIR", str(tmp_path))
    now, day = time.time(), 24 * 3600
    for name, days in (("kernels-old", 31), ("kernels-recent", 29), ("something else", 400)):
        folder = tmp_path / "fastbin" / name
        folder.mkdir(parents=True)
        (folder / "code.nbc").write_text("0")
        os.utime(folder, (now - days * day, now - days * day))
    used = Path(_jit._usable_cache_folder())
    left = {folder.name for folder in (tmp_path / "fastbin").iterdir()}
    assert left == {"kernels-recent", "something else", used.name}


@pytest.mark.parametrize("folder", [None, "given"])
def test_a_kernel_works_with_and_without_a_cache_folder(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(_jit, "CACHE_FOLDER", folder and str(tmp_path))
    before = _jit._config.CACHE_DIR
    assert _jit.jit(one_more)(4) == 5
    assert before == _jit._config.CACHE_DIR


def one_more(x):
    return x + 1


def test_a_function_that_cannot_be_cached_is_compiled_without_a_cache(tmp_path, monkeypatch):
    """Numba finds no place for code whose source is not a file; its error must not reach the user."""
    monkeypatch.setattr(_jit, "CACHE_FOLDER", str(tmp_path))
    names = {}
    exec("def one_more(x):\n    return x + 1", names)
    assert _jit.jit(names["one_more"])(4) == 5
    assert files_below(tmp_path) == {}


def test_the_digest_knows_every_kernel_source_and_the_mode(package, monkeypatch):
    monkeypatch.setattr(_jit, "KERNEL_FOLDER", package / "_kernels")
    digests = [_jit._sources_digest()]
    for source in sorted((package / "_kernels").glob("*.py")):
        source.write_text(source.read_text() + "\n")
        digests.append(_jit._sources_digest())
    (package / "_kernels" / "added.py").write_text("")
    digests.append(_jit._sources_digest())
    monkeypatch.setattr(_jit._config, "BOUNDSCHECK", not _jit._config.BOUNDSCHECK)
    digests.append(_jit._sources_digest())
    assert len(set(digests)) == len(digests) > 6
    assert all(len(digest) == 16 for digest in digests)


# --- machine code kept between processes: in compiled mode only -----------------------------------------

COMPILED = {"NUMBA_DISABLE_JIT": None, "NUMBA_BOUNDSCHECK": None}


@pytest.fixture(scope="module")
def warmed(tmp_path_factory):
    """A job run twice with one cache folder: the first process compiles, the second need not."""
    folder = tmp_path_factory.mktemp("warmed")
    job = folder / "job.py"
    job.write_text(JOB)
    package = copy_of_package(folder / "site")
    places = {"NUMBA_CACHE_DIR": folder / "numba", "XDG_CACHE_HOME": folder / "xdg", "HOME": folder / "home"}
    sources = files_below(package).keys()
    runs = [json.loads(children.run(job, package=package, **places, **COMPILED)) for _ in range(2)]
    written = {path for path in files_below(package).keys() - sources if "__pycache__" not in path.parts}
    return folder, runs, written


@pytest.mark.engines
def test_a_second_process_compiles_nothing(warmed):
    _, (first, second), _ = warmed
    assert first["misses"] > 0 == first["hits"]
    assert second["hits"] > 0 == second["misses"]
    assert {k: first[k] for k in ("model", "values", "cache")} == {
        k: second[k] for k in ("model", "values", "cache")
    }


@pytest.mark.engines
def test_a_warmed_cache_that_cannot_be_written_is_read(warmed, script):
    """A container image is warmed up when it is built, and run read-only or by another user."""
    folder, (first, _), _ = warmed
    cache = Path(first["cache"])
    folders = [cache, *(path for path in cache.rglob("*") if path.is_dir())]
    places = {"NUMBA_CACHE_DIR": folder / "numba", "XDG_CACHE_HOME": folder / "xdg", "HOME": folder / "home"}
    package = folder / "site" / "fastbin"
    before = files_below(cache)
    for path in folders:
        path.chmod(0o555)
    try:
        check = script(SHOW_THAT_WRITES_FAIL, "check.py")
        children.run(check, *folders, preexec_fn=obey_permission_bits, package=package, **places, **COMPILED)
        done = children.run(
            folder / "job.py", preexec_fn=obey_permission_bits, package=package, **places, **COMPILED
        )
    finally:
        for path in folders:
            path.chmod(0o755)
    result = json.loads(done)
    assert result["hits"] > 0 == result["misses"]
    assert result["values"] == first["values"]
    assert files_below(cache) == before


@pytest.mark.engines
def test_the_users_numba_cache_dir_is_honoured_and_nothing_is_written_elsewhere(warmed):
    folder, (first, _), written_to_package = warmed
    cache = Path(first["cache"])
    assert cache.parent == folder / "numba" / "fastbin"
    assert {path.suffix for path in files_below(folder / "numba")} == {".nbi", ".nbc"}
    assert written_to_package == set()
    assert not (folder / "xdg").exists() and not (folder / "home").exists()


def change_the_hash(package):
    """An upgrade that changes one constant of a kernel that others call from other files."""
    source = package / "_kernels" / "hashing.py"
    text = source.read_text()
    assert text.count("0xBF58476D1CE4E5B9") == 1
    source.write_text(text.replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB"))


def forget_the_digest(package):
    """The fault: one cache folder for all versions."""
    source = package / "_jit.py"
    text = source.read_text()
    assert text.count("return digest.hexdigest()[:16]") == 1
    source.write_text(text.replace("return digest.hexdigest()[:16]", 'return "for all versions"'))


@pytest.mark.engines
@pytest.mark.parametrize("fault", [True, False], ids=["without the digest", "as it is"])
def test_an_upgrade_of_a_callee_in_another_file_is_not_answered_by_old_code(fault, package, script, tmp_path):
    if fault:
        forget_the_digest(package)
    job, places = script(KEYS), {"package": package, "NUMBA_CACHE_DIR": tmp_path / "cache", **COMPILED}
    old = children.run(job, **places)
    assert json.loads(old) == known_keys()
    change_the_hash(package)
    changed = children.run(job, package=package, NUMBA_DISABLE_JIT=1)
    assert changed != old
    assert children.run(job, **places) == (old if fault else changed)
    assert len(list((tmp_path / "cache" / "fastbin").iterdir())) == (1 if fault else 2)


@pytest.mark.engines
def test_an_old_cache_full_of_garbage_does_no_harm(script, tmp_path):
    """Folders of other versions are neither read nor touched."""
    job, cache = script(KEYS), tmp_path / "cache"
    places = {"NUMBA_CACHE_DIR": cache, **COMPILED}
    children.run(job, **places)
    (current,) = (cache / "fastbin").iterdir()
    old = current.rename(cache / "fastbin" / "kernels-0123456789abcdef")
    garbage = np.random.default_rng(0).bytes(999)
    files = [path for path in old.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for path in files:
        path.write_bytes(garbage)
    (cache / "fastbin" / "kernels-of-nobody").write_bytes(garbage)
    assert json.loads(children.run(job, **places)) == known_keys()
    assert all(path.read_bytes() == garbage for path in files)
    assert current.is_dir()


@pytest.mark.engines
def test_a_disk_too_full_for_the_cache_does_not_stop_the_work(script, tmp_path):
    limited = script("""
        import resource, tempfile
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            with tempfile.TemporaryFile() as file:
                file.write(b"0" * 8192)
                file.flush()
        except OSError:
            pass
        else:
            raise SystemExit("a plain write succeeds")
    """)
    limited.write_text(limited.read_text() + KEYS)
    places = {"NUMBA_CACHE_DIR": tmp_path / "cache", **COMPILED}
    assert json.loads(children.run(limited, **places)) == known_keys()


@pytest.mark.engines
@pytest.mark.parametrize("kind", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"\x80\x04\x95"])
def test_damaged_files_of_this_version_are_compiled_anew(kind, content, script, tmp_path):
    job, places = script(KEYS), {"NUMBA_CACHE_DIR": tmp_path / "cache", **COMPILED}
    children.run(job, **places)
    damaged = list((tmp_path / "cache").rglob(f"*{kind}"))
    assert damaged
    for path in damaged:
        path.write_bytes(content)
    assert json.loads(children.run(job, **places)) == known_keys()


def test_two_processes_may_make_the_cache_folder_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(_jit._config, "CACHE_DIR", str(tmp_path))
    folder = _jit._usable_cache_folder()
    real = Path.exists
    # The other process makes it between our look and our mkdir.
    monkeypatch.setattr(Path, "exists", lambda self, **o: str(self) != folder and real(self, **o))
    assert _jit._usable_cache_folder() == folder
