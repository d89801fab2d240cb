"""Forks, pools, threads, Ctrl-C, odd inputs and full disks: the same bits, or one clear error."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from functools import lru_cache

import numpy as np
import pytest

import children
import fastbin as fb
import reference as ref
from fastbin import _cellmaps, _cuts, _fixedpoint, _parallel, _steps, cli, ordering
from fastbin._lookup import SMALL_BATCH
from fastbin.passes import COLLECT_ROWS
from sizes import NO_JIT
from surgery import labelled, refuses, run_plan, split, unchanged

# A fit hands work to the thread pool above COLLECT_ROWS, a prediction above SMALL_BATCH.
POOLED = COLLECT_ROWS + 233
SMALL = 1_000

WORK = f"""
import os, signal, sys, threading, time
import numpy as np
import fastbin as fb

n = {POOLED}
rng = np.random.default_rng(5)
scores = rng.random(n).round(2)
labels = (rng.random(n) < scores).astype(np.uint8)

def answers(threads=2):
    calibrator = fb.fit_uniform_mass(scores, labels, 20, threads=threads)
    return calibrator, calibrator.predict(scores, threads=threads)

def same(one, other):
    return one[0] == other[0] and one[1].tobytes() == other[1].tobytes()
"""


@pytest.fixture
def script(tmp_path):
    """Write a script that starts with WORK."""

    def write(code, work=WORK):
        path = tmp_path / "script.py"
        path.write_text(work + textwrap.dedent(code))
        return path

    return write


# --- processes ----------------------------------------------------------------------------------------


def test_a_forked_child_fits_and_predicts(script):
    """A pool's threads do not exist in the child: a plain pool from before the fork waits for ever."""
    code = """
        from concurrent.futures import ThreadPoolExecutor

        plain = ThreadPoolExecutor(1)
        plain.submit(int).result()
        before = answers()
        assert any(thread.name.startswith("fastbin") for thread in threading.enumerate())
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                plain.submit(int).result(timeout=0.5)
            except TimeoutError:
                os._exit(0 if same(answers(), before) else 1)
            os._exit(2)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), same(answers(), before))
    """
    assert children.run(script(code)) == "0 True"


def test_a_fork_in_the_middle_of_other_threads_work(script):
    """Whatever another thread holds at that moment stays held for ever in the child."""
    code = """
        before = answers()
        working, stop = threading.Event(), threading.Event()

        def work():
            while not stop.is_set():
                fb.fit_uniform_mass(scores, labels, 20, threads=2)
                before[0].predict(scores, threads=2)
                working.set()

        worker = threading.Thread(target=work)
        worker.start()
        codes = []
        for _ in range(4):
            working.clear()
            assert working.wait(60)
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                os._exit(0 if same(answers(), before) else 1)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        worker.join()
        print(codes)
    """
    assert children.run(script(code)) == "[0, 0, 0, 0]"


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_process_pool_gives_the_bits_of_one_process(context, script):
    code = """
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        def work(threads):
            return os.getpid(), answers(threads)

        if __name__ == "__main__":
            want = answers()
            with ProcessPoolExecutor(2, mp_context=get_context(sys.argv[1])) as pool:
                got = list(pool.map(work, [1, 2, 3, 7]))
            print(all(same(one, want) for _, one in got), os.getpid() in {process for process, _ in got})
    """
    assert children.run(script(code), context) == "True False"


# --- threads ------------------------------------------------------------------------------------------


def at_once(jobs):
    """Run the jobs in one thread each, released together; their results."""
    barrier, results = threading.Barrier(len(jobs)), [None] * len(jobs)

    def run(i):
        barrier.wait(60)
        results[i] = jobs[i]()

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return results


def fresh_copy(calibrator):
    """The same calibrator without the look-up tables that its first prediction builds."""
    copy = fb.Calibrator.from_dict(calibrator.to_dict())
    assert "_cut_table" not in vars(copy)
    return copy


@pytest.mark.parametrize("rows", [SMALL, 5_000])
@pytest.mark.parametrize("kind", ["grid", "cell map"])
def test_eight_threads_share_a_calibrators_first_prediction(rows, kind):
    """The look-up tables are built on first use: here by eight threads at once."""
    assert 5_000 > SMALL_BATCH >= SMALL
    scores, labels = labelled(5_000, 300)
    scores = scores if kind == "grid" else np.copysign(np.abs(scores) ** 40, scores)
    calibrator = fb.fit_uniform_mass(scores, labels, 90)
    assert calibrator._cut_table._wide.look_up.__name__ == {"grid": "look_up_grid"}.get(kind, "look_up_cells")
    ids = np.arange(rows).astype(str)
    parts = [np.roll(scores, 600 * i)[:rows] for i in range(8)]
    want = [fresh_copy(calibrator).predict(part, row_ids=ids, threads=1) for part in parts]
    for _ in range(1 if NO_JIT else 10):
        shared = fresh_copy(calibrator)
        got = at_once([lambda p=part, c=shared: c.predict(p, row_ids=ids, threads=2) for part in parts])
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(ref.bits(one), ref.bits(other))


def test_eight_threads_fit_predict_and_sort_on_their_own():
    rows = 3_000 if NO_JIT else POOLED

    def everything(seed):
        scores, labels = labelled(rows, 100, seed)
        calibrator = fb.fit_uniform_mass(scores, labels, 12, rng=seed, threads=2)
        order = fb.tie_broken_argsort(scores, rng=seed, threads=2)
        return calibrator, calibrator.predict(scores, threads=2).tobytes(), order.tobytes()

    want = [everything(seed) for seed in range(8)]
    assert len({values for _, values, _ in want}) == 8
    assert at_once([lambda s=seed: everything(s) for seed in range(8)]) == want


def test_eight_threads_use_the_package_for_the_first_time_at_once(script):
    """Lazy imports, lazy kernels, the lazy thread pool: all raced for."""
    code = """
        barrier, results = threading.Barrier(8), [None] * 8

        def run(i):
            barrier.wait(60)
            results[i] = answers(1 + i % 3)

        assert "numba" not in sys.modules
        threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(all(same(one, results[0]) for one in results), same(answers(), results[0]))
    """
    assert children.run(script(code)) == "True True"


@lru_cache
def everything(threads):
    """A sample of all that takes a number of threads, as bytes."""
    rows = 2_999 if NO_JIT else 40_013
    scores, labels = labelled(rows, 150)
    soft = np.random.default_rng(1).random(rows)
    options = {"rng": 3, "threads": threads}
    fits = {
        "binary": fb.fit_uniform_mass(scores, labels, 31, **options),
        "soft": fb.fit_uniform_mass(scores, soft, 31, boundary_points="include", **options),
        "one atom": fb.fit_uniform_mass(np.zeros(rows), labels, 31, delta=0.5, **options),
        "no ties": fb.fit_uniform_mass(soft, labels, 31, **options),
        "plan": run_plan(fb.FitPlan(31, n_cells=16, gather_rows=9, **options), split(scores, labels, [7]))[0],
    }
    arrays = {
        f"{name} {method}": getattr(fit, method)(scores, threads=threads)
        for name, fit in fits.items()
        for method in ("predict", "assign")
    }
    arrays["intervals"] = np.array(fits["binary"].predict_interval(scores, threads=threads))
    arrays["argsort"] = fb.tie_broken_argsort(scores, **options)
    arrays["argsort of one atom"] = fb.tie_broken_argsort(np.zeros(rows), **options)
    arrays["bin_index"] = fb.bin_index(scores, fits["binary"].edges, threads=threads)
    arrays["bin_means"] = np.array(fb.bin_means(soft, arrays["binary assign"], 31, threads=threads))
    dictionaries = {name: json.dumps(fit.to_dict()) for name, fit in fits.items()}
    return dictionaries, {name: (array.dtype.str, array.tobytes()) for name, array in arrays.items()}


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_no_bit_of_anything_depends_on_the_number_of_threads(threads):
    (fits, arrays), (want_fits, want_arrays) = everything(threads), everything(1)
    assert [name for name in fits if fits[name] != want_fits[name]] == []
    assert [name for name in arrays if arrays[name] != want_arrays[name]] == []


def test_the_thread_pool_is_made_anew_where_there_is_none(monkeypatch):
    monkeypatch.setattr(_parallel, "_pool", _parallel._pool)
    _parallel._forget_pool()
    assert list(_parallel.parallel_map(abs, [-1, 2, -3], 2)) == [1, 2, 3]
    assert _parallel._pool is not None
    _parallel._pool.shutdown()


def test_an_error_in_one_chunk_drops_those_that_wait():
    done = []

    def work(item):
        if item == 0:
            raise ValueError("chunk 0")
        time.sleep(0.01)
        done.append(item)

    with pytest.raises(ValueError, match="chunk 0"):
        list(_parallel.parallel_map(work, range(100), 3))
    time.sleep(0.1)
    assert len(done) < 5


@pytest.mark.parametrize("cores", [4, None])
def test_without_an_affinity_the_cores_of_the_machine_are_counted(cores, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert _parallel.available_threads() == (cores or 1)


# --- Ctrl-C -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_fit_at_once_and_leaves_the_package_usable(threads, script):
    code = f"""
        n = {POOLED if NO_JIT else 4_000_000}
        scores, labels = np.resize(scores, n), np.resize(labels, n)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job is born ignoring it
        want = answers({threads})
        for _ in range(3):
            print("ready", flush=True)
            try:
                while True:
                    answers({threads})
            except KeyboardInterrupt:
                caught = time.monotonic()
            print(caught, same(answers({threads}), want), flush=True)
    """
    child = subprocess.Popen(
        children.command(script(code)),
        env=children.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(children.SECONDS, child.kill)
    watchdog.start()
    try:
        for pause in (0.05, 0.1, 0.15):
            assert child.stdout.readline() == "ready\n", child.stderr.read()
            time.sleep(pause)
            sent = time.monotonic()  # one clock for all processes
            child.send_signal(signal.SIGINT)
            caught, works = child.stdout.readline().split()
            assert 0 <= float(caught) - sent < 2
            assert works == "True"
        assert (child.wait(30), child.stderr.read()) == (0, "")
    finally:
        watchdog.cancel()
        child.kill()
        child.communicate()


# --- forms of input -----------------------------------------------------------------------------------


def mapped(array, folder):
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def locked(array, folder):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


# How to make each form, and what shows that it is one.
FORMS = {
    "memory-mapped": (mapped, lambda a: isinstance(a, np.memmap) and not a.flags.writeable),
    "Fortran-ordered column": (
        lambda a, _: np.asfortranarray(np.column_stack([a, a, a]))[:, 1],
        lambda a: a.base.flags.f_contiguous and a.base.ndim == 2,
    ),
    "big-endian": (lambda a, _: a.astype(a.dtype.newbyteorder(">")), lambda a: not a.dtype.isnative),
    "strided": (lambda a, _: np.repeat(a, 3)[1::3], lambda a: not a.flags.c_contiguous),
    "read-only": (locked, lambda a: not a.flags.writeable),
    "memory-mapped, strided, big-endian": (
        lambda a, folder: mapped(np.repeat(a.astype(a.dtype.newbyteorder(">")), 2), folder)[::2],
        lambda a: isinstance(a, np.memmap) and not a.flags.c_contiguous and not a.dtype.isnative,
    ),
}


@lru_cache
def plain_answers(rows, dtype):
    scores, labels = labelled(rows, 200)
    columns = scores.astype(dtype), labels.astype(np.int32), np.arange(rows) * 3 - 7
    calibrator = fb.fit_uniform_mass(*columns[:2], 15)
    return columns, calibrator, calibrator.predict(columns[0], row_ids=columns[2])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rows", [SMALL, POOLED])
@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_array_gives_the_bits_of_a_plain_one(form, rows, dtype, tmp_path):
    """Below and above the sizes at which a fit and a prediction change their ways."""
    columns, calibrator, values = plain_answers(rows, dtype)
    make, is_one = FORMS[form]
    odd_columns = [make(column, tmp_path) for column in columns]
    assert all(is_one(column) for column in odd_columns)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with unchanged(*odd_columns):
        scores, labels, ids = odd_columns
        fitted = fb.fit_uniform_mass(scores, labels, 15, threads=2)
        assert fitted == calibrator
        got = fitted.predict(scores, row_ids=ids, threads=2)
        np.testing.assert_array_equal(ref.bits(got), ref.bits(values))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


# --- full disks ---------------------------------------------------------------------------------------


def old_and_new():
    scores, labels = labelled(SMALL)
    return fb.fit_uniform_mass(scores, labels, 5), fb.fit_uniform_mass(scores, labels, 200)


@pytest.mark.parametrize("limit", [0, 4096])
def test_a_disk_that_fills_up_leaves_the_old_model_and_nothing_else(limit, tmp_path, script):
    """The limit of a file's size fails a write, at once or half-way, as a full disk does."""
    old, new = old_and_new()
    folder, source = tmp_path / "models", tmp_path / "new.json"
    folder.mkdir()
    old.save(folder / "model.json")
    new.save(source)
    assert source.stat().st_size > 2 * 4096
    code = """
        import resource, sys
        from pathlib import Path
        import fastbin as fb

        target, calibrator, limit = Path(sys.argv[1]), fb.load(sys.argv[2]), int(sys.argv[3])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            target.with_name("plain").write_bytes(b"0" * (limit + 1))
        except OSError as error:
            target.with_name("plain").unlink()
            print("plain write:", error.errno)
        try:
            calibrator.save(target)
        except OSError as error:
            print("save:", type(error).__name__, error.errno, str(target) in str(error))
    """
    told = children.run(script(code, work=""), folder / "model.json", source, limit)
    assert told.splitlines() == [f"plain write: {errno.EFBIG}", f"save: OSError {errno.EFBIG} True"]
    assert [path.name for path in folder.iterdir()] == ["model.json"]
    assert fb.load(folder / "model.json") == old


def full_device(path):
    """A device like /dev/full at ``path``: not /dev/full itself, which root could replace by a file."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    except PermissionError:  # then nobody here can write to /dev, and a link is as safe
        path.symlink_to("/dev/full")


@pytest.mark.parametrize(
    ("make", "is_one"), [(full_device, stat.S_ISCHR), (os.mkfifo, stat.S_ISFIFO)], ids=["device", "pipe"]
)
def test_what_is_no_regular_file_is_neither_written_nor_replaced(make, is_one, tmp_path):
    path = tmp_path / "model.json"
    make(path)
    if make is full_device:
        with pytest.raises(OSError, match="No space left"), path.open("wb", buffering=0) as file:
            file.write(b"0")
    with refuses("model.json", "regular file", error=OSError):
        old_and_new()[0].save(path)
    assert is_one(path.stat().st_mode)
    assert [one.name for one in tmp_path.iterdir()] == ["model.json"]


@pytest.mark.parametrize("command", [["plan", "--n", "5000"], ["show", "MODEL", "--json"]])
def test_the_command_line_reports_a_full_disk_in_one_line(command, tmp_path):
    old_and_new()[1].save(tmp_path / "model.json")
    arguments = [str(tmp_path / "model.json") if word == "MODEL" else word for word in command]
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123 - the descriptor itself is needed
        with pytest.raises(OSError, match="No space left"):
            full.write(b"0")
        done = subprocess.run(
            [sys.executable, "-m", "fastbin", *arguments],
            env=children.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=children.SECONDS,
            check=False,
        )
    assert done.returncode == 4, done.stderr
    assert done.stderr.splitlines() == ["fastbin: [Errno 28] No space left on device"]


# --- small batches without the compiler ---------------------------------------------------------------


def test_a_small_batch_is_predicted_without_the_compiler_and_with_the_same_bits(tmp_path, script):
    """A service that scores a record loads the model, and never numba."""
    scores, labels = labelled(5_000, 40)
    calibrator = fb.fit_uniform_mass(scores, labels, 25)
    ids = np.arange(5_000) * 11 + 3
    tied = np.flatnonzero(np.isin(scores, calibrator.edges))
    order = np.concatenate([tied[:1], np.delete(np.arange(5_000), tied[0])])
    scores, ids = scores[order], ids[order]
    assert np.isin(scores[:SMALL], calibrator.edges).sum() > SMALL // 4
    calibrator.save(tmp_path / "model.json")
    np.savez(tmp_path / "rows.npz", scores=scores, ints=ids, texts=ids.astype(str))
    code = """
        import sys
        import numpy as np
        import fastbin as fb

        calibrator, rows, results = fb.load(sys.argv[1]), np.load(sys.argv[2]), {}
        for n in (1, 1000):
            for kind in ("ints", "texts"):
                results[f"{kind} {n}"] = calibrator.predict(rows["scores"][:n], row_ids=rows[kind][:n])
                calibrator.assign(rows["scores"][:n], row_ids=rows[kind][:n])
        np.savez(sys.argv[3], **results)
        print(sorted({"numba", "llvmlite"} & sys.modules.keys()))
    """
    files = [tmp_path / name for name in ("model.json", "rows.npz", "results.npz")]
    assert children.run(script(code, work=""), *files) == "[]"
    with np.load(files[2]) as results:
        assert len(results.files) == 4
        for kind, row_ids in (("ints", ids), ("texts", ids.astype(str))):
            whole = calibrator.predict(scores, row_ids=row_ids)
            assert len(scores) > SMALL_BATCH, "the whole goes through the kernels"
            for n in (1, SMALL):
                np.testing.assert_array_equal(ref.bits(results[f"{kind} {n}"]), ref.bits(whole[:n]))
    assert calibrator.predict(scores, row_ids=ids).tobytes() != whole.tobytes(), "ids settle the ties"


# --- rare paths ---------------------------------------------------------------------------------------


def unseen_rows(n):
    """Rows that the sample behind the argsort's cells does not look at."""
    return np.setdiff1d(np.arange(n), _cellmaps.sample_of(np.arange(n)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["crowd", "copies", "neighbours", "pairs"])
def test_argsort_where_the_cells_are_no_help(kind, threads):
    """Rows that share a cell without the sample knowing: a crowd in one cell is sorted again by itself; in
    a cell that spans 600 decades, copies and near neighbours look alike until their full keys are read.
    """
    n = ordering.SMALL * 2
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.5, 0.6, n)
    if kind == "crowd":
        scores = 1.0 + rng.integers(0, 2_000, n) * 2.0**-52
    hidden = unseen_rows(n)[: 3 * ordering.LONGEST_RUN]
    assert hidden.size == 3 * ordering.LONGEST_RUN
    if kind == "copies":
        scores[hidden] = 1e10
    if kind == "neighbours":
        scores[hidden] = 1e10 * (1 + rng.permutation(hidden.size) * 2.0**-52)
    if kind == "pairs":
        scores[hidden] = 1e10 ** (1 + np.arange(hidden.size) // 2 / hidden.size)
        scores[hidden[::6]] *= 1 + 2.0**-51
    scores[hidden[-1]] = 1e200
    scores[unseen_rows(n)[-2:]] = -1e300, 1e300
    got = fb.tie_broken_argsort(scores, rng=4, threads=threads)
    np.testing.assert_array_equal(got, ref.argsort_vectorised(scores, 4))


def plan_at(kind, scores, labels):
    """A plan whose next step is of this kind."""
    plan = fb.FitPlan(4, n_cells=4, gather_rows=20)
    while plan.step().kind != kind:
        plan.feed([fb.run_step(plan.step(), scores, labels)])
    return plan


def test_scores_that_change_between_two_passes_are_noticed():
    scores, labels = labelled(200)
    plan = plan_at("gather", scores, labels)
    partial = fb.run_step(plan.step(), np.full(200, scores.max()), labels)
    with refuses("changed during the fit", "rows were to be gathered", error=RuntimeError):
        plan.feed([partial])


@pytest.mark.parametrize("kind", ["refine", "gather"])
def test_labels_that_change_between_two_passes_are_noticed(kind):
    scores, labels = labelled(200)
    plan = plan_at(kind, scores, labels)
    with refuses("labels changed between two passes", error=RuntimeError):
        fb.run_step(plan.step(), scores, np.full(200, 0.5))


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("hint", [None, "the scores"])
def test_sums_that_are_emptied_between_blocks_lose_nothing(soft, hint, monkeypatch):
    """Half words and limbs are emptied long before they overflow: here after every few hundred rows."""
    scores, labels = labelled(3_000, 60)
    if soft:
        labels = np.random.default_rng(2).random(3_000)
    options = {"n_cells": 16, "gather_rows": 9, "hint": None if hint is None else scores}
    want, _ = run_plan(fb.FitPlan(9, **options), split(scores, labels, [1_100]))
    emptied = []
    monkeypatch.setattr(_steps, "BLOCK_ROWS", 64)
    monkeypatch.setattr(_steps, "ROWS_PER_HALF_WORD", 200)
    monkeypatch.setattr(_fixedpoint, "ROWS_BETWEEN_CARRIES", 200)
    carry = _steps._carry
    monkeypatch.setattr(_steps, "_carry", lambda totals: (emptied.append(1), carry(totals)))
    got, passes = run_plan(fb.FitPlan(9, **options), split(scores, labels, [1_100]))
    assert got == want
    assert len(emptied) > 2 * passes + (10 if soft else 0)


def test_the_accumulators_are_emptied_before_they_can_overflow():
    assert _steps.ROWS_PER_HALF_WORD + _steps.BLOCK_ROWS < 2**32  # rows and positives share a 64-bit word
    rows = _fixedpoint.ROWS_BETWEEN_CARRIES + _steps.BLOCK_ROWS
    assert (rows + 1) * _fixedpoint.LOW_MASK < 2**63  # low limbs add up in an int64


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_a_tie_group_split_on_the_fly_is_the_group_sorted(threads, monkeypatch):
    """A large group's keys are generated twice and never stored; a small one's are simply sorted."""
    scores, labels = labelled(3_000, 2)
    assert _cuts.SMALL_GROUP > 3_000
    want = fb.fit_uniform_mass(scores, labels, 40, threads=threads)
    monkeypatch.setattr(_cuts, "SMALL_GROUP", 100)
    monkeypatch.setattr(_cuts, "ROWS_PER_TASK", 128)
    assert fb.fit_uniform_mass(scores, labels, 40, threads=threads) == want


def test_many_text_ids_are_hashed_as_few_are():
    calibrator = fb.fit_uniform_mass(np.zeros(99), np.arange(99) % 2, 20)
    n = SMALL_BATCH + 500
    ids = np.array([f"row \N{SNOWMAN} {i * i}"[: 5 + i % 20] for i in range(n)])
    pieces = [calibrator.predict(np.zeros(100), row_ids=ids[i : i + 100]) for i in range(0, n - 100, 100)]
    whole = calibrator.predict(np.zeros(n), row_ids=ids, threads=1)
    assert np.unique(whole).size > 15
    np.testing.assert_array_equal(whole[: 100 * len(pieces)], np.concatenate(pieces))


def test_a_plan_fed_with_something_else_says_so():
    scores, labels = labelled(200)
    plan = fb.FitPlan(4, n_samples=201)
    with refuses("step", "str", error=TypeError):
        fb.run_step("histogram", scores, labels)
    with refuses("partials", "int", error=TypeError):
        plan.feed([1])
    with refuses("n_samples", r"\b201\b", r"\b200\b"):
        plan.feed([fb.run_step(plan.step(), scores, labels)])


@pytest.mark.parametrize(
    "arguments", [["demo", "--seed", str(2**64)], ["plan", "--n", "9", "--alpha", "few"]]
)
def test_numbers_that_the_command_line_cannot_use_are_usage_errors(arguments, capsys):
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and arguments[-1] in err


def test_equality_and_hash_are_those_of_the_content():
    calibrator, other = old_and_new()
    copy = fresh_copy(calibrator)
    assert calibrator == copy and hash(calibrator) == hash(copy) and calibrator != other
    assert calibrator != calibrator.to_dict()
    guarantee = calibrator.guarantee()
    assert guarantee == copy.guarantee() and hash(guarantee) == hash(copy.guarantee())
    assert guarantee != other.guarantee() and guarantee != guarantee.to_dict()
    assert "conditional=" in repr(guarantee)


@pytest.mark.parametrize("value", [np.nan, np.inf, {1, 2}, b"0.5"])
def test_a_dictionary_with_what_json_does_not_allow_is_refused(value):
    data = old_and_new()[0].to_dict()
    with refuses("JSON does not allow", error=fb.ModelFileError):
        fb.Calibrator.from_dict({**data, "delta": value})


def test_counts_and_bins_of_the_wrong_kind_are_refused():
    with refuses("totals", r"below 2\*\*63"):
        fb.fit_counts([0.5], [1], np.array([2**63], np.uint64), 1)
    with refuses("bins", "integers", "float64", error=TypeError):
        fb.bin_means([0, 1], [0.0, 1.0], 2)


def test_the_command_line_when_interrupted(monkeypatch, capsys):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(fb, "plan", interrupted)
    assert cli.main(["plan", "--n", "5000"]) == 130
    assert capsys.readouterr() == ("", "fastbin: interrupted\n")


def test_the_command_line_breaks_long_sentences_on_a_terminal_only(tmp_path, monkeypatch, capsys):
    old_and_new()[0].save(tmp_path / "model.json")
    command = ["show", str(tmp_path / "model.json")]
    assert cli.main(command) == 0
    piped = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "90")
    assert cli.main(command) == 0
    shown = capsys.readouterr().out
    assert max(map(len, piped.splitlines())) > 180 > 90 >= max(map(len, shown.splitlines()))
    assert shown.split() == piped.split()


def test_a_fork_while_another_thread_builds_its_look_up_tables(tmp_path):
    """Python 3.11's cached_property takes a lock for all instances: the child would wait for ever."""
    path = tmp_path / "script.py"
    path.write_text(
        WORK
        + """
from fastbin import _lookup

before = answers()
slow_one, inside, go_on = fb.Calibrator.from_dict(before[0].to_dict()), threading.Event(), threading.Event()
real = _lookup._grid

def slow(*arguments, **options):
    inside.set()
    go_on.wait()
    return real(*arguments, **options)

_lookup._grid = slow
worker = threading.Thread(target=slow_one.predict, args=(scores,))
worker.start()
inside.wait()
_lookup._grid = real
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if same(answers(), before) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
go_on.set()
worker.join()
"""
    )
    assert children.run(path) == "0"


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_output_that_is_lost_is_an_error(argument):
    """Not only of commands: what argparse prints itself is flushed too."""
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123 - the descriptor itself is needed
        with pytest.raises(OSError, match="No space"):
            full.write(b"0")
        done = subprocess.run(
            [sys.executable, "-m", "fastbin", argument],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
