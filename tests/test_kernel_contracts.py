"""The kernels' contracts, each kernel called by itself: exact arrays for inputs that fit on a page.

The other files hold the kernels to the reference through fits and predictions, so only with such inputs as
the Python around a kernel makes today. A mutation run (CONTRIBUTING.md) showed what that leaves open: a loop
that the number of threads kept every test away from, orders that random rows hardly ever ask for.
"""

import itertools

import numpy as np
import pytest

import fastbin as fb
import reference as ref
from fastbin import _cuts, _fixedpoint, _steps, _values
from fastbin._cellmaps import cells_from_keys, keys_of, scores_of
from fastbin._cuts import Pieces
from fastbin._kernels import cells, hashing, lookup, order, ties
from fastbin._pools import Pool

BASE = 0xBFF0000000000004  # the order key of 1.0, and four more: there is room below it
STATE = np.uint64(0x0123456789ABCDEF)
UNTOUCHED = 77
LIMB_MASK = 2**38 - 1


def read_only(values, dtype):
    """An array as the kernels get their scores and labels: one compiled version serves all callers."""
    array = np.array(values, dtype)
    array.flags.writeable = False
    return array


def words_of(numbers):
    return np.array(numbers, np.uint64)


def scores_at(offsets):
    """The scores whose order keys are BASE + offset (one ulp is one key)."""
    return read_only(scores_of(words_of([BASE + offset for offset in offsets])), np.float64)


def row_hash(row):
    return ref.row_key(int(STATE), row)


def limbs(total):
    return [total >> 38, total & LIMB_MASK]


# --- a cell map with all that a cell map can have -----------------------------------------------------
# Offsets from BASE: 0-15 in four cells of 4, 16-31 in one cell, 32-47 in two of 8, 48-63 in sixteen of 1.

N_CELLS = 23
LOWEST, HIGHEST = scores_of(words_of([BASE, BASE + 63])).tolist()
CELL_MAP = cells.CellMap(
    np.uint64(BASE),
    np.uint64(BASE + 63),
    LOWEST,
    HIGHEST,
    True,
    np.uint64(4),
    words_of([2 << 32 | 0, 63 << 32 | 4, 3 << 32 | 1, 0 << 32 | (7 - 48) % 2**32]),
)


def cell_at(offset):
    offset = min(max(offset, 0), 63)
    return [offset // 4, 4, 5 + (offset - 32) // 8, 7 + (offset - 48)][offset // 16]


# Two ranges in cell 4 with a gap between them, one in cell 7.
RANGES = cells.Ranges(
    np.array([cell in (4, 7) for cell in range(N_CELLS)]),
    np.array([0] * 5 + [2] * 3 + [3] * 16, np.int32),
    words_of([BASE + 16, BASE + 20, BASE + 48]),
    words_of([BASE + 17, BASE + 27, BASE + 48]),
)


def test_a_key_goes_to_its_cell_and_the_ends_are_clamped():
    offsets = range(-4, 70)
    got = [int(cells.cell_of(np.uint64(BASE + offset), CELL_MAP)) for offset in offsets]
    assert got == [cell_at(offset) for offset in offsets]
    assert int(cells.cell_of(np.uint64(0), CELL_MAP)) == 0
    assert int(cells.cell_of(np.uint64(2**64 - 1), CELL_MAP)) == N_CELLS - 1


def test_a_key_is_found_in_its_range_among_any_neighbours():
    low, high = [10, 20, 21, 40, 50], [15, 20, 30, 44, 59]
    for begin, end in itertools.combinations(range(6), 2):
        for key in range(8, 62):
            own = [j for j in range(begin, end) if low[j] <= key <= high[j]]
            found = cells.range_of(np.uint64(key), words_of(low), words_of(high), begin, end)
            assert found == (own[0] if own else -1)


HISTOGRAM_OFFSETS = [-4, 0, 3, 4, 16, 31, 40, 48, 63, 69, 0]
HISTOGRAM_LABELS = [1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1]


def histogram_rows():
    """The rows above and two NaN, which are counted like the smallest score."""
    scores = read_only([*scores_at(HISTOGRAM_OFFSETS), np.nan, np.nan], np.float64)
    return scores, [*HISTOGRAM_LABELS, 1, 0], [cell_at(offset) for offset in [*HISTOGRAM_OFFSETS, 0, 0]]


def test_the_binary_histogram_adds_rows_and_positives_in_one_word():
    scores, labels, homes = histogram_rows()
    packed = np.full(N_CELLS, UNTOUCHED, np.uint64)
    want = packed.tolist()
    for cell, label in zip(homes, labels, strict=True):
        want[cell] += 1 + (label << 32)
    assert cells.histogram_binary(scores, read_only(labels, np.uint8), CELL_MAP, packed)
    assert packed.tolist() == want


def test_the_atom_histogram_counts_an_atom_apart_from_all_other_keys_of_its_cell():
    """Also from the key that differs in the top bit alone: a far negative score, clamped into cell 0."""
    atoms = np.zeros(N_CELLS, np.uint64)
    atoms[[0, 4, 22]] = BASE, BASE + 31, BASE + 69
    opposite = scores_of(words_of([BASE ^ 2**63]))
    assert opposite[0] < -3
    scores, labels, homes = histogram_rows()
    homes[-2:] = [cell_at(70)] * 2  # by its key, a NaN is above all scores
    keys = [*(BASE + offset for offset in HISTOGRAM_OFFSETS), None, None, None]
    packed = np.full(2 * N_CELLS, UNTOUCHED, np.uint64)
    want = packed.tolist()
    for cell, label, key in zip([*homes, 0], [*labels, 1], keys, strict=True):
        want[2 * cell + (key != atoms[cell])] += 1 + (label << 32)
    has_nan = cells.histogram_atoms(
        read_only([*scores, *opposite], np.float64),
        read_only([*labels, 1], np.uint8),
        CELL_MAP,
        atoms,
        packed,
    )
    assert has_nan
    assert packed.tolist() == want
    assert packed[0] == UNTOUCHED + 2 + (1 << 32)


def test_the_soft_histogram_adds_rows_and_both_limbs():
    scores, labels, homes = histogram_rows()
    soft = [label * (2**61 + 12345) + 7 * i for i, label in enumerate(labels)]
    totals = np.full((N_CELLS, 3), UNTOUCHED)
    want = totals.tolist()
    for cell, word in zip(homes, soft, strict=True):
        want[cell] = [a + b for a, b in zip(want[cell], [1, *limbs(word)], strict=True)]
    assert cells.histogram_soft(scores, np.array(soft), CELL_MAP, totals)
    assert totals.tolist() == want


def test_refine_counts_the_wanted_ranges_and_notes_their_extreme_keys():
    subcells = cells.Subcells(np.array([0, 2, 4]), words_of([0, 2, 0]))
    homes = {16: 0, 17: 1, 20: 2, 21: 2, 22: 2, 23: 2, 24: 3, 26: 3, 27: 3, 48: 4}
    # Rows that are not wanted come first and in between: none of them may end the loop.
    offsets = [0, 15, 18, 22, 21, 16, 17, 19, 17, 49, 23, 27, 26, 24, 28, 31, 48, 47, 20, -4]
    labels = [i * (2**40 + 3) for i in range(1, len(offsets) + 1)]
    totals, span = np.full((5, 3), UNTOUCHED), np.zeros((5, 2), np.uint64)
    span[:, 0] = 2**64 - 1
    cells.refine(scores_at(offsets), np.array(labels), CELL_MAP, RANGES, subcells, totals, span)
    want = [[UNTOUCHED] * 3 for _ in range(5)]
    for offset, word in zip(offsets, labels, strict=True):
        if offset in homes:
            sub = homes[offset]
            want[sub] = [a + b for a, b in zip(want[sub], [1, *limbs(word)], strict=True)]
    assert totals.tolist() == want
    assert (span - np.uint64(BASE)).tolist() == [[16, 16], [17, 17], [20, 23], [24, 27], [48, 48]]


def test_gather_lists_the_rows_of_the_ranges_in_their_order():
    offsets = [0, 15, 18, 22, 16, 17, 19, 17, 49, 27, 28, 31, 48, 47, 20, -4]
    keys, rows = np.full(16, UNTOUCHED, np.uint64), np.full(16, UNTOUCHED)
    found = cells.gather(scores_at(offsets), CELL_MAP, RANGES, keys, rows)
    wanted = [3, 4, 5, 7, 9, 12, 14]
    assert found == 7
    assert rows.tolist() == wanted + [UNTOUCHED] * 9
    assert keys.tolist() == [BASE + offsets[row] for row in wanted] + [UNTOUCHED] * 9


# --- the hash and the order key -----------------------------------------------------------------------

ORDER_KEYS = {
    -np.inf: 0x000FFFFFFFFFFFFF,
    -1.0: 0x400FFFFFFFFFFFFF,
    -5e-324: 0x7FFFFFFFFFFFFFFE,
    0.0: 0x8000000000000000,
    5e-324: 0x8000000000000001,
    1.0: 0xBFF0000000000000,
    np.inf: 0xFFF0000000000000,
}


def test_order_keys_have_known_answers():
    scores = read_only([*ORDER_KEYS, -0.0, np.nan], np.float64)
    keys = np.empty(scores.size, np.uint64)
    assert hashing.order_keys(scores, keys) == 1
    assert keys[:-1].tolist() == [*ORDER_KEYS.values(), 2**63]


def test_texts_are_hashed_one_by_one_whatever_lies_beside_them():
    """Direct, because two threads halve a batch of 2,500 ids, and a half is small enough for Python."""
    texts = ["", "a", "1234567", "12345678", "123456789", "Zoë and sixteen..", "\u00ff" * 12, "", "z"]
    for chosen in (texts, texts[:-1], texts[3:4]):  # an odd and an even number, and one alone
        data = [text.encode() for text in chosen]
        starts = np.cumsum([0, *map(len, data)])
        words = np.full(len(chosen), UNTOUCHED, np.uint64)
        hashing.text_words(read_only(list(b"".join(data)), np.uint8), starts, np.uint64(ref.TEXT), words)
        assert words.tolist() == [ref.text_word(text) for text in chosen]


# --- look-up ------------------------------------------------------------------------------------------


def test_the_grid_look_up_counts_the_cuts_at_or_below_a_score_and_lists_ties():
    cuts = [0.1, 0.25, 0.5, 0.9, 1.5]  # cells of a quarter: 0, 1, 2, 3 and 6; 0.25 begins its cell
    start = np.array([0, 1, 2, 3, 4, 4, 4, 5], np.uint16)
    grid = lookup.Grid(0.0, 4.0, 0.0, 7.0, start, np.array([np.nan, *cuts, np.nan]), True)
    scores = [np.nan, 0.5, -np.inf, -1.0, -0.1, 0.0, 0.1, 0.2, 0.25, 0.4, 0.5, 0.6, 0.9, 1.0, 1.4, 1.5, 1.6]
    scores += [1.9, 2.5, np.inf]
    places = [sum(cut <= score for cut in cuts) for score in scores]
    out, (tie_rows, tie_places) = np.full(len(scores), np.nan), np.full((2, lookup.TILE), UNTOUCHED)
    table = 10.0 * np.arange(6)
    reached = lookup.look_up_grid(read_only(scores, np.float64), 0, grid, table, out, tie_rows, tie_places)
    assert tuple(reached) == (len(scores), 6, 1)
    assert out[1:].tolist() == [10.0 * place for place in places[1:]]
    assert tie_rows[:7].tolist() == [1, 6, 8, 10, 12, 15, UNTOUCHED]
    assert tie_places[:7].tolist() == [3, 1, 2, 3, 4, 5, UNTOUCHED]
    assert_lists_nothing_without_keys(lookup.look_up_grid, read_only(scores, np.float64), grid, table, out)


def assert_lists_nothing_without_keys(look_up, scores, grid, table, expected):
    out, (tie_rows, tie_places) = np.full(scores.size, np.nan), np.full((2, lookup.TILE), UNTOUCHED)
    reached = look_up(scores, 0, grid._replace(keyed=False), table, out, tie_rows, tie_places)
    assert tuple(reached) == (scores.size, 0, 1)
    is_number = scores == scores
    assert out[is_number].tolist() == expected[is_number].tolist()
    assert (tie_rows == UNTOUCHED).all()


def test_the_cell_look_up_parts_up_to_seven_cuts_in_one_cell():
    at = [2, 16, 18, 20, 22, 24, 26, 30, 48]  # seven of them in cell 4
    start = np.searchsorted([cell_at(offset) for offset in at], np.arange(N_CELLS)).astype(np.uint32)
    cuts = np.concatenate([[np.nan], scores_at(at), np.full(8, np.nan)])
    offsets = list(range(-4, 70))
    scores = read_only([*scores_at(offsets), np.nan], np.float64)
    out, (tie_rows, tie_places) = np.full(scores.size, np.nan), np.full((2, lookup.TILE), UNTOUCHED)
    table = 10.0 * np.arange(len(at) + 1)
    grid = lookup.CellGrid(CELL_MAP, 3, start, cuts, True)
    reached = lookup.look_up_cells(scores, 0, grid, table, out, tie_rows, tie_places)
    assert tuple(reached) == (scores.size, 9, 1)
    assert out[:-1].tolist() == [10.0 * sum(cut <= offset for cut in at) for offset in offsets]
    assert tie_rows[:10].tolist() == [*(offsets.index(cut) for cut in at), UNTOUCHED]
    assert tie_places[:10].tolist() == [*range(1, 10), UNTOUCHED]
    assert_lists_nothing_without_keys(lookup.look_up_cells, scores, grid, table, out)


@pytest.mark.parametrize("tied", [0, 1, lookup.TILE])
@pytest.mark.parametrize("look_up", [lookup.look_up_grid, lookup.look_up_cells])
def test_a_look_up_goes_on_where_it_stopped_for_want_of_room(look_up, tied):
    """With room for one tile of ties it stops after a tile that has some; it begins where it is told to."""
    cuts = np.array([np.nan, 0.5, np.nan])
    grid = lookup.Grid(0.0, 2.0, 0.0, 1.0, np.array([0, 0], np.uint16), cuts, True)
    if look_up is lookup.look_up_cells:
        cell_map = cells_from_keys(keys_of(np.array([0.5])), 16).cell_map
        grid = lookup.CellGrid(cell_map, 1, np.zeros(1, np.uint32), cuts, True)
    n, begin = 3 * lookup.TILE + 5, 7 + lookup.TILE  # the second tile, counted from where it starts
    scores = np.full(n, 0.3)
    scores[begin : begin + tied] = 0.5
    out, (tie_rows, tie_places) = np.full(n, -1.0), np.full((2, lookup.TILE), UNTOUCHED)
    arguments = (grid, np.array([1.0, 2.0]), out, tie_rows, tie_places)
    stop = begin + lookup.TILE if tied else n
    assert tuple(look_up(read_only(scores, np.float64), 7, *arguments)) == (stop, tied, 0)
    assert (out[:7] == -1).all()
    assert (out[7:stop] == np.where(scores[7:stop] == 0.5, 2.0, 1.0)).all()
    assert tie_rows[:tied].tolist() == list(range(begin, begin + tied))
    if tied:
        assert tuple(look_up(read_only(scores, np.float64), stop, *arguments)) == (n, 0, 0)
        assert (out[stop:] == 1).all()


@pytest.mark.parametrize("values", [[0.0, 1.0], [-1.0, 1.0], [-5.0, -1e-300], [1e-310, 1e30]])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_cell_of_a_score_is_the_cell_of_its_key(values, dtype):
    rng = np.random.default_rng(0)
    cell_map = cells_from_keys(np.sort(keys_of(rng.uniform(*values, 300))), 64).cell_map
    assert cell_map.no_sign == (values[0] >= 0)
    near = np.array([0.0, -0.0, 5e-324, -5e-324, *values, np.inf, -np.inf])
    scores = np.concatenate([near, rng.uniform(-6, 6, 200), rng.uniform(*values, 200)]).astype(dtype)
    for score in scores:
        want = cells.cell_of(np.uint64(hashing.order_key(score)), cell_map)
        assert cells.cell_of_score(score, cell_map) == want
    assert cells.cell_of_score(dtype(np.nan), cell_map) == 0


@pytest.mark.parametrize("edges", [[0.5, 0.5, 0.5], [0.2, 0.5, 0.5, 0.5, 0.9]])
def test_a_tied_row_passes_the_cuts_whose_key_it_reaches(edges):
    """Where all cuts are one atom, a row may fall below the first of them and no further."""
    ids = words_of(range(12))
    by_key = sorted(range(12), key=row_hash)
    at_atom = [row_hash(by_key[rank]) for rank in (2, 5, 6)]
    keys = [at_atom[edges[: i + 1].count(0.5) - 1] if edge == 0.5 else 2**63 for i, edge in enumerate(edges)]
    scores = np.full(30, 0.1)
    tie_rows = np.arange(3, 27, 2)
    scores[tie_rows] = 0.5
    out = np.full(30, -1.0)
    table = np.arange(len(edges) + 1.0)
    distinct = np.unique(edges)
    bins_reached = np.append(0, np.searchsorted(edges, distinct, side="right"))
    places = np.full(12, 1 + distinct.tolist().index(0.5))
    lookup.resolve_ties(
        read_only(scores, np.float64), tie_rows, places, ids, STATE, bins_reached,
        np.array(edges), words_of(keys), table, out,
    )  # fmt: skip
    want = np.full(30, -1.0)
    want[tie_rows] = [edges.index(0.5) + sum(key <= row_hash(i) for key in at_atom) for i in range(12)]
    assert out.tolist() == want.tolist()


def test_bin_sums_add_rows_and_both_limbs():
    totals = np.full((3, 3), UNTOUCHED)
    labels = [2**62, 5, 3 * 2**38 + 7, LIMB_MASK]
    lookup.bin_sums(np.array([2, 0, 2, 0]), np.array(labels), totals)
    assert (totals - UNTOUCHED).tolist() == [[2, 0, LIMB_MASK + 5], [0, 0, 0], [2, 2**24 + 3, 7]]


# --- ordering -----------------------------------------------------------------------------------------


def test_cells_are_counted_with_their_smallest_and_largest_key():
    offsets = [20, 17, 30, 17, 0, 3, 63, 90]
    counts, span = np.zeros(N_CELLS, np.int64), np.zeros((N_CELLS, 2), np.uint64)
    span[:, 0] = 2**64 - 1
    counts[1] = UNTOUCHED
    order.count_cells(words_of([BASE + offset for offset in offsets]), CELL_MAP, counts, span)
    assert {c: n for c, n in enumerate(counts.tolist()) if n} == {0: 2, 1: UNTOUCHED, 4: 4, 22: 2}
    assert (span[[0, 4, 22]] - np.uint64(BASE)).tolist() == [[0, 3], [17, 30], [63, 90]]
    assert span[1].tolist() == [2**64 - 1, 0]


def test_each_word_holds_offset_and_row_at_its_cells_next_place():
    offsets = [20, 3, 31, 17, 2]
    lowest, shifts, places = (
        np.zeros(N_CELLS, np.uint64),
        np.zeros(N_CELLS, np.uint64),
        np.zeros(N_CELLS, np.int64),
    )
    lowest[[0, 4]] = BASE + 1, BASE + 17
    shifts[4] = 2
    places[[0, 4]] = 1, 4
    words = np.full(8, UNTOUCHED, np.uint64)
    keys = words_of([BASE + offset for offset in offsets])
    order.scatter_words(keys, 100, CELL_MAP, lowest, shifts, np.uint64(10), places, words)
    by_cell = {1: (2, 101), 2: (1, 104), 4: (0, 100), 5: (3, 102), 6: (0, 103)}  # place: offset, row
    want = [by_cell[p][0] << 10 | by_cell[p][1] if p in by_cell else UNTOUCHED for p in range(8)]
    assert words.tolist() == want
    assert places[[0, 4]].tolist() == [3, 7]


def test_a_rows_hash_is_by_its_id_or_by_its_number():
    ids, none = np.array([40, 2**40, 7]), np.empty(0, np.int64)
    assert int(order.hash_of(1, ids, STATE)) == row_hash(2**40)
    assert int(order.hash_of(1, none, STATE)) == row_hash(1)
    hashes = np.zeros(2, np.uint64)
    order.fill_hashes(ids, 1, STATE, hashes)
    assert hashes.tolist() == [row_hash(2**40), row_hash(7)]
    order.fill_hashes(none, 5, STATE, hashes)
    assert hashes.tolist() == [row_hash(5), row_hash(6)]


@pytest.mark.parametrize(
    ("keys", "one"),
    [
        ([5, 5, 5, 5], True),
        ([5, 6, 5, 5], False),
        ([5, 4, 5, 5], False),
        ([5, 5, 5, 6], False),
        ([5, 5, 5, 4], False),
        ([6, 5, 5, 5], False),
        ([5], True),
    ],
)
def test_one_key_is_told_from_several(keys, one):
    """Rows 2, 3, ...: rows 0 and 1 have other keys, and the words' high bits are not the row's."""
    words = words_of([(9 + i) << 4 | (2 + i) for i in range(len(keys))])
    assert order.has_one_key(words, words_of([1, 99, *keys]), np.uint64(4)) == one


@pytest.mark.parametrize("ids", [[], [50, 60, 70, 80]])
def test_hash_words_keep_the_row_and_take_the_hashes_high_bits(ids):
    words = words_of([2**60 | 3, 2**61 | 0, 2**62 | 2])
    order.hash_words(words, np.array(ids, np.int64), STATE, np.uint64(12))
    assert words.tolist() == [row_hash(ids[row] if ids else row) >> 12 << 12 | row for row in (3, 0, 2)]


@pytest.mark.parametrize("n_slots", [3, 7, 40])
def test_words_are_sorted_from_any_order(n_slots):
    rng = np.random.default_rng(n_slots)
    columns = [
        [5],
        [2**64 - 1, 0],  # the widest span there is: its size in slots must not wrap around
        [3, 2, 1, 0],
        [2**63, 2**63 + 1, 7, 2**63 - 1, 9, 8],
        rng.integers(0, 2**64, 40, dtype=np.uint64).tolist(),
        rng.permutation(40).tolist(),
        (np.uint64(2**64 - 1) - rng.permutation(40).astype(np.uint64)).tolist(),
    ]
    for column in columns:
        words = words_of(column)
        scratch = np.full(words.size, UNTOUCHED, np.uint64)
        assert order.sort_words(words, scratch, np.full(n_slots, UNTOUCHED))
        assert words.tolist() == sorted(column)


@pytest.mark.parametrize("crowd", [order.FULLEST_SLOT, order.FULLEST_SLOT + 1])
@pytest.mark.parametrize("crowd_is_low", [True, False])
def test_a_slot_that_is_too_full_leaves_the_words_as_they_were(crowd, crowd_is_low):
    """Insertion is quadratic in a slot: one word too many in the first or the last, and nothing moves."""
    many, one = ([*range(crowd)], 2**62) if crowd_is_low else ([*range(2**62, 2**62 + crowd)], 0)
    column = [*reversed(many), one]
    words = words_of(column)
    done = order.sort_words(words, np.empty(words.size, np.uint64), np.empty(4, np.int64))
    assert done == (crowd <= order.FULLEST_SLOT)
    assert words.tolist() == (sorted(column) if done else column)


@pytest.mark.parametrize("ids", [[], list(range(500, 532))])
@pytest.mark.parametrize("longest", [4, 5])
def test_runs_of_equal_offset_are_ordered_by_key_then_hash(ids, longest):
    """Short runs are settled, those over ``longest`` are listed and left as they are."""
    keys = [0] * 32
    runs = [[7], [9, 3, 30, 4], [1, 2], [21, 22, 23, 24, 25], [5], [11, 12, 13, 14, 15, 16], [31, 6], [8]]
    for row, key in zip(runs[1], [90, 70, 80, 60], strict=True):
        keys[row] = key  # falling and rising, all distinct
    for row, key in zip(runs[3], [50, 49, 50, 49, 50], strict=True):
        keys[row] = key  # two keys that repeat: the hash decides within each
    words = words_of([offset << 5 | row for offset, run in enumerate(runs) for row in run])
    listed_rows = np.full((8, 2), UNTOUCHED)
    own_ids = np.array(ids, np.int64)
    listed = order.settle_runs(words, words_of(keys), own_ids, STATE, np.uint64(5), longest, listed_rows)

    def settled(run):
        return sorted(run, key=lambda row: (keys[row], row_hash(ids[row] if ids else row)))

    want = [settled(run) if len(run) <= longest else run for run in runs]
    assert any(a != b for a, b in zip(want, runs, strict=True))
    assert words.tolist() == [offset << 5 | row for offset, run in enumerate(want) for row in run]
    spans = [[7, 12], [13, 19]] if longest == 4 else [[13, 19]]
    assert listed == len(spans)
    assert listed_rows.tolist() == spans + [[UNTOUCHED] * 2] * (8 - len(spans))


def test_a_long_run_at_the_end_is_listed_too():
    words = words_of([0 << 3 | 1, 1 << 3 | 0, 1 << 3 | 2, 1 << 3 | 3])
    listed_rows = np.full((2, 2), UNTOUCHED)
    none = np.empty(0, np.int64)
    assert order.settle_runs(words, words_of([0] * 4), none, STATE, np.uint64(3), 2, listed_rows) == 1
    assert listed_rows.tolist() == [[1, 4], [UNTOUCHED] * 2]


def test_a_run_may_be_all_there_is():
    """First and last word are then of one run, and the run still begins with the first."""
    column, none = [4, 0, 3, 1, 2], np.empty(0, np.int64)
    keys = words_of([5, 5, 6, 5, 4])
    words, listed_rows = words_of(column), np.full((1, 2), UNTOUCHED)
    assert order.settle_runs(words, keys, none, STATE, np.uint64(3), 4, listed_rows) == 1
    assert listed_rows.tolist() == [[0, 5]]
    assert words.tolist() == column
    assert order.settle_runs(words, keys, none, STATE, np.uint64(3), 5, listed_rows) == 0
    assert words.tolist() == [4, *sorted([0, 1, 3], key=row_hash), 2]


def test_rows_are_read_out_of_the_words():
    rows = np.full(3, UNTOUCHED)
    order.write_rows(words_of([2**63 | 5, 1 << 10 | 1023, 0]), np.uint64(10), rows)
    assert rows.tolist() == [5, 1023, 0]


# --- tie groups and label sums ------------------------------------------------------------------------


def test_row_keys_number_the_rows_from_zero():
    keys = np.zeros(4, np.uint64)
    ties.row_keys(STATE, keys)
    assert keys.tolist() == [row_hash(row) for row in range(4)]


def test_the_first_value_not_below_is_found_in_any_stretch():
    values = [2, 4, 4, 4, 9, 11]
    for begin, end in itertools.combinations_with_replacement(range(7), 2):
        for value in range(13):
            want = begin + sum(own < value for own in values[begin:end])
            assert ties.first_not_below(words_of(values), np.uint64(value), begin, end) == want


@pytest.mark.parametrize("copies", [1, 3, 2**19 + 1, 2**37 - 1])
@pytest.mark.parametrize(
    "word", [0, 1, 2**19 - 1, 2**19, LIMB_MASK, 2**38, 2**61 + 2**37 + 2**18 + 5, 2**62 - 1]
)
@pytest.mark.parametrize("held", [0, LIMB_MASK])
def test_any_number_of_copies_of_a_label_is_added_without_overflow(copies, word, held):
    target = np.array([[UNTOUCHED] * 3, [10, 20, held]])
    ties.add_labels(target, 1, np.int64(copies), np.int64(word))
    total = (20 << 38) + held + copies * word
    assert target.tolist() == [[UNTOUCHED] * 3, [10 + copies, *limbs(total)]]


@pytest.mark.parametrize("low", [0, LIMB_MASK, 2**38, 5 * 2**38 + 9, -1, -3 * 2**38 - 9])
def test_a_carry_keeps_the_sum_and_brings_the_low_limb_into_its_range(low):
    target = np.array([[4, 100, low], [UNTOUCHED] * 3])
    ties.carry(target, 0)
    assert target.tolist() == [[4, *limbs((100 << 38) + low)], [UNTOUCHED] * 3]


@pytest.mark.parametrize("with_copies", [True, False])
def test_rows_below_and_at_each_cut_are_counted_within_its_piece(with_copies):
    """Two pieces, 10-19 and 30-39, rows in no order, some above their piece's last cut; cuts repeat."""
    rng = np.random.default_rng(5)
    keys = np.concatenate([rng.integers(10, 20, 60), rng.integers(30, 40, 60), [10, 19, 30, 39]])
    rng.shuffle(keys)
    labels = rng.integers(0, 2**62, keys.size)
    copies = rng.integers(1, 9, keys.size) if with_copies else np.empty(0, np.int64)
    cuts, floors = [12, 12, 15, 31, 31, 31, 38], [10] * 3 + [30] * 4
    bases = {10: [1000, 7, LIMB_MASK], 30: [5000, 9000, 3]}
    below, equal = np.zeros((2, 7, 3), np.int64)
    ties.count_around_cuts(
        words_of(keys),
        labels,
        copies,
        words_of(cuts),
        words_of(floors),
        np.array([bases[floor] for floor in floors]),
        below,
        equal,
    )
    weights = copies.tolist() if with_copies else [1] * keys.size
    rows = list(zip(keys.tolist(), labels.tolist(), weights, strict=True))

    def summed(base, chosen):
        total = (base[1] << 38) + base[2] + sum(y * k for _, y, k in chosen)
        return [base[0] + sum(k for _, _, k in chosen), *limbs(total)]

    pairs = list(zip(cuts, floors, strict=True))
    assert below.tolist() == [
        summed(bases[f], [row for row in rows if f <= row[0] < cut]) for cut, f in pairs
    ]
    assert equal.tolist() == [summed([0, 0, 0], [row for row in rows if row[0] == cut]) for cut in cuts]


def test_the_state_of_a_tie_group_absorbs_all_that_is_known_of_it():
    below, equal = np.array([[1, 2, 3], [4, 5, 6]]), np.array([[7, 8, 9], [10, 11, 12]])
    got = ties.tie_state(STATE, np.int64(99), below, equal, 1)
    assert int(got) == ref.stream(int(STATE), 99, 4, 5, 6, 10, 11, 12)


@pytest.mark.parametrize("largest", [6, 7, 8])
def test_groups_are_split_at_the_keys_of_their_rows(largest):
    """Groups of every kind: one row, several cuts, all of one label, at the size limit and above it."""
    groups = [  # (rows, positives, ranks of its cuts within the group)
        (1, 1, [1]),
        (1, 0, [1]),
        (5, 3, [2, 4]),
        (6, 6, [1, 2, 6]),
        (4, 0, [3]),
        (7, 2, [1, 3, 5, 7]),
        (2, 1, [1, 2]),
    ]
    n, below_rows, below_positives = 60, 3, 1
    ranks, cuts, below, equal, want = [], [], [], [], []
    for number, (size, positives, own) in enumerate(groups):
        state = ref.stream(int(STATE), n, below_rows, below_positives, 0, size, positives, 0)
        keys = [ref.row_key(state, row) for row in range(size)]
        ordered = sorted(range(size), key=keys.__getitem__)
        for rank in own:
            ranks.append(below_rows + rank)
            cuts.append(100 + number)
            below.append([below_rows, below_positives, 0])
            equal.append([size, positives, 0])
            before = sum(row < positives for row in ordered[: rank - 1])
            row = ordered[rank - 1]
            want.append([keys[row], int(row < positives), before] if size <= largest else [0, 0, 0])
        below_rows, below_positives = below_rows + size, below_positives + positives
    cut_keys = np.zeros(len(cuts), np.uint64)
    label, before = np.zeros((2, len(cuts), 2), np.int64)
    ties.split_binary_groups(
        STATE,
        np.int64(n),
        np.array(ranks),
        words_of(cuts),
        np.array(below),
        np.array(equal),
        largest,
        cut_keys,
        label,
        before,
    )
    got = [[key, y[0], b[0]] for key, y, b in zip(cut_keys.tolist(), label, before, strict=True)]
    assert got == want
    assert not label[:, 1].any()
    assert not before[:, 1].any()


def test_sums_between_cuts_leave_out_the_cuts_and_borrow_from_the_high_limb():
    sums = [5 * 2**38 + 9, 2**62 + 1, 2**62 + 2**38 + 3]  # up to each cut, and of everything
    labels = [3 * 2**38 + 10, 5]
    interior = np.full((3, 2), UNTOUCHED)
    ties.sums_between_cuts(
        np.array([limbs(s) for s in sums[:2]]),
        np.array([limbs(y) for y in labels]),
        np.array(limbs(sums[2])),
        interior,
    )
    want = [sums[0], sums[1] - sums[0] - labels[0], sums[2] - sums[1] - labels[1]]
    assert interior.tolist() == [limbs(total) for total in want]


def test_one_bin_has_everything_between_its_cuts():
    interior = np.full((1, 2), UNTOUCHED)
    none = np.zeros((0, 2), np.int64)
    ties.sums_between_cuts(none, none, np.array([3, 4]), interior)
    assert interior.tolist() == [[3, 4]]


@pytest.mark.parametrize("label", [0, 1])
def test_generated_rows_are_counted_by_the_top_bits_of_their_keys(label):
    packed = np.full(4, UNTOUCHED, np.uint64)
    ties.histogram_row_keys(STATE, 10, 50, np.uint64(label), np.uint64(62), packed)
    rows = [sum(row_hash(row) >> 62 == cell for row in range(10, 50)) for cell in range(4)]
    assert min(rows) > 0
    assert packed.tolist() == [UNTOUCHED + count + (label * count << 32) for count in rows]


@pytest.mark.parametrize("room", [0, 3, 40])
def test_generated_rows_of_wanted_cells_are_gathered_while_they_fit_and_counted_all(room):
    keys = np.full(room, UNTOUCHED, np.uint64)
    wanted = np.array([False, True, False, True])
    found = ties.gather_row_keys(STATE, 10, 50, np.uint64(62), wanted, keys)
    want = [row_hash(row) for row in range(10, 50) if row_hash(row) >> 62 in {1, 3}]
    assert found == len(want) > 3
    assert keys.tolist() == [*want, *[UNTOUCHED] * room][:room]


# --- pieces: the stretches that hold a cut ------------------------------------------------------------


def pieces_of(low, high, *, below=None, inside=None, atom=None, at_atom=None, rank_begin=None, rank_end=None):
    """Pieces with zeros where nothing is said."""
    n = len(low)

    def sums(rows):
        return np.array(rows or [[0, 0, 0]] * n, np.int64).reshape(n, 3)

    return Pieces(
        words_of(low),
        words_of(high),
        sums(below),
        sums(inside),
        words_of(atom or [0] * n),
        sums(at_atom),
        np.array(rank_begin or [0] * n),
        np.array(rank_end or [0] * n),
    )


def as_lists(pieces):
    return {name: getattr(pieces, name).tolist() for name in pieces.__dataclass_fields__}


def test_the_whole_line_is_one_piece_with_every_rank_or_none():
    whole = as_lists(Pieces.of_everything(np.array([9, 4, 2]), 3))
    zero = [[0, 0, 0]]
    assert whole == {
        "low": [0],
        "high": [2**64 - 1],
        "below": zero,
        "inside": [[9, 4, 2]],
        "atom": [0],
        "at_atom": zero,
        "rank_begin": [0],
        "rank_end": [3],
    }
    assert all(column == [] for column in as_lists(Pieces.of_everything(np.array([9, 4, 2]), 0)).values())


def test_pieces_are_taken_apart_and_joined_in_ascending_order():
    pieces = pieces_of(
        [10, 30, 50],
        [19, 30, 59],
        inside=[[7, 1, 0], [5, 2, 0], [4, 3, 0]],
        at_atom=[[2, 1, 0], [5, 2, 0], [0, 0, 0]],
        rank_begin=[0, 2, 3],
        rank_end=[2, 3, 6],
    )
    assert pieces.is_single().tolist() == [False, True, False]
    assert pieces.to_gather().tolist() == [5, 0, 4]
    assert pieces.piece_of_rank().tolist() == [0, 0, 1, 2, 2, 2]
    outer, middle = pieces.take(np.array([True, False, True])), pieces.take(np.array([1]))
    assert outer.low.tolist() == [10, 50]
    assert as_lists(outer.joined_with(middle)) == as_lists(pieces)
    assert as_lists(middle.joined_with(outer)) == as_lists(pieces)


def test_missing_or_extra_rows_of_a_piece_mean_that_the_data_changed():
    pieces = pieces_of([10], [19], inside=[[3, 1, 0]])
    pieces.check_gathered(Pool(words_of([10, 11, 12]), np.zeros(3, np.int64)))
    pieces.check_gathered(Pool(words_of([10, 12]), np.zeros(2, np.int64), np.array([2, 1])))
    for n in (2, 4):
        with pytest.raises(RuntimeError, match=f"data changed.*3 rows.*{n} were"):
            pieces.check_gathered(Pool(words_of([10] * n), np.zeros(n, np.int64)))
    # Without cuts there is nothing to gather, whatever the pool holds.
    pieces_of([], []).check_gathered(Pool(words_of([10]), np.zeros(1, np.int64)))


def test_the_gaps_leave_out_the_atoms_and_nothing_else():
    """An atom inside, at either end, at both ends of the key line, alone in its piece, and no atom."""
    top = 2**64 - 1
    pieces = pieces_of(
        [0, 10, 20, 30, 40, 90],
        [5, 19, 29, 30, 49, top],
        atom=[0, 14, 29, 30, 45, top],
        at_atom=[[4, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [0, 0, 0], [9, 0, 0]],
    )
    low, high = pieces.gaps()
    ranges = list(zip(low.tolist(), high.tolist(), strict=True))
    assert ranges == [(1, 5), (10, 13), (15, 19), (20, 28), (40, 49), (90, top - 1)]


def test_the_rows_at_the_atoms_are_counted_by_label():
    pieces = pieces_of(
        [10, 20, 30], [19, 29, 39], atom=[15, 25, 35], at_atom=[[6, 5, 0], [0, 0, 0], [4, 0, 0]]
    )
    pool = pieces.atom_rows()
    rows = zip(pool.keys.tolist(), pool.labels.tolist(), pool.copies.tolist(), strict=True)
    assert list(rows) == [(15, 2**38, 5), (35, 2**38, 0), (15, 0, 1), (35, 0, 4)]


def test_a_cut_keeps_the_cells_that_hold_a_rank_and_what_lies_below_them():
    """Two pieces, cut into three and four cells; ranks 1 and 2 of the plan lie in neither of them."""
    pieces = pieces_of(
        [100, 200],
        [129, 239],
        below=[[10, 2, LIMB_MASK], [50, 20, 0]],
        inside=[[9, 3, 3], [12, 4, 0]],
        rank_begin=[0, 3],
        rank_end=[1, 7],
    )
    totals = [[4, 1, 1], [0, 0, 0], [5, 2, 2], [1, 0, 0], [3, 2, 0], [6, 2, 0], [2, 0, 0]]
    low, high = [100, 110, 120, 200, 210, 220, 230], [109, 119, 129, 209, 219, 229, 239]
    ranks = [15, 25, 30, 51, 54, 55, 60]
    finer = pieces.cut(np.array(ranks), np.array([0, 3]), np.array(totals), words_of(low), words_of(high))
    assert as_lists(finer) == {
        "low": [120, 200, 210, 220],
        "high": [129, 209, 219, 229],
        "below": [[14, 4, 0], [50, 20, 0], [51, 20, 0], [54, 22, 0]],
        "inside": [totals[2], totals[3], totals[4], totals[5]],
        "atom": [0] * 4,
        "at_atom": [[0, 0, 0]] * 4,
        "rank_begin": [0, 3, 4, 5],
        "rank_end": [1, 4, 5, 7],
    }


@pytest.mark.parametrize(("threads", "rows_per_task"), [(1, 7), (2, 7), (1, _cuts.ROWS_PER_TASK)])
@pytest.mark.parametrize("distinct", [1, 3])
def test_a_tie_group_is_split_the_same_whether_its_keys_are_stored_or_generated(
    monkeypatch, threads, rows_per_task, distinct
):
    """The way of a large group on few rows, in several tasks, several keys to a cell."""
    monkeypatch.setattr("fastbin._cuts.SMALL_GROUP", 4)
    monkeypatch.setattr("fastbin._cuts.GROUP_CELL_BITS", 3)
    monkeypatch.setattr("fastbin._cuts.ROWS_PER_TASK", rows_per_task)
    for positives in (0, 20, 60):
        labels = (np.arange(60) < positives).astype(np.int8)
        scores = np.arange(60) * 7 % distinct / 2
        for n_bins in (2, 5, 30):
            cal = fb.fit_uniform_mass(scores, labels, n_bins, rng=3, threads=threads)
            ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, n_bins, 3))


# --- label words --------------------------------------------------------------------------------------

SOFT = [0.0, 1.0, 0.5, 2.0**-24, 2.0**-62, 1 - 2.0**-53, 1 / 3, 2.0**-63, 0.1]


def test_label_words_are_the_floor_of_the_label_in_units_of_its_last_bit():
    assert _fixedpoint.words(np.array(SOFT)).tolist() == [ref.fixed_point(y, True) for y in SOFT]
    assert _fixedpoint.binary_words(np.array([0, 1], np.uint8)).tolist() == [0, 2**38]
    assert _fixedpoint.soft_from_binary(np.array([0, 2**38])).tolist() == [0, 2**62]


def test_label_sums_have_carried_limbs():
    words = [ref.fixed_point(y, True) for y in SOFT]
    assert list(map(int, _fixedpoint.total(np.array(words), soft=True))) == limbs(sum(words))
    assert list(map(int, _fixedpoint.total(np.array([2**38, 0, 2**38]), soft=False))) == [2, 0]
    assert _fixedpoint.carry(7, -1) == (6, LIMB_MASK)
    assert _fixedpoint.carry(7, 2**38) == (8, 0)


def test_sums_are_divided_once():
    sums = [5 * 2**61 + 3, 2**62 - 1, 0]
    soft = np.array([limbs(total) for total in sums])
    divisors = np.array([3, 7, 1])
    want = [total / (divisor * 2**62) for total, divisor in zip(sums, divisors.tolist(), strict=True)]
    assert _fixedpoint.quotients(soft, divisors, soft=True).tolist() == want
    assert _fixedpoint.numbers(soft, soft=True).tolist() == [total / 2**62 for total in sums]
    binary = np.array([[5, 0], [2, 0]])
    assert _fixedpoint.quotients(binary, np.array([3, 7]), soft=False).tolist() == [5 / 3, 2 / 7]
    numbers = _fixedpoint.numbers(binary, soft=False)
    assert numbers.tolist() == [5, 2]
    assert not np.shares_memory(numbers, binary)


def test_no_accumulator_can_overflow_before_it_is_emptied():
    """Each is emptied at the end of a block; what a carry leaves behind is one limb more."""
    limbs_held = _fixedpoint.ROWS_BETWEEN_CARRIES + _steps.BLOCK_ROWS + 1
    assert limbs_held * LIMB_MASK < 2**63
    assert _steps.ROWS_PER_HALF_WORD + _steps.BLOCK_ROWS < 2**31


# --- distinct values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([0.5, 0.25], [0.5, 0.25]),
        ([0.5, 0.5, 0.25, 0.5], [0.5, 0.5 + ref.ULP, 0.25, 0.5 + 2 * ref.ULP]),
        ([0.0, 0.0], [0.0, ref.ULP]),
        # 0.5 + ULP is taken by the run that began at 0.5, so it moves on to the run's next step.
        ([0.5, 0.5 + ref.ULP, 0.5], [0.5, 0.5 + 2 * ref.ULP, 0.5 + ref.ULP]),
        ([1.0, 1.0, 1.0], [1 - 2 * ref.ULP, 1 - ref.ULP, 1.0]),
        ([1.0, 1 - ref.ULP, 1.0, 0.75], [1 - ref.ULP, 1 - 2 * ref.ULP, 1.0, 0.75]),
        ([0.75, 0.75, 0.9], [0.75, 0.75 + ref.ULP, 0.9]),
    ],
)
def test_equal_values_are_parted_by_steps_of_one_ulp(values, want):
    assert _values.distinct(np.array(values)).tolist() == want == ref.nudge(values)
