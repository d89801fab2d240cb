"""The hash is fixed to the bit: known answers, the kernels against Python integers, the keys seen outside."""

import numpy as np
import pytest

import fastbin as fb
import reference as ref
from fastbin import _streams
from fastbin._kernels import hashing
from surgery import with_edge_keys

WORDS = [0, 1, 2, 3, 2**31, 2**32 - 1, 2**53 + 1, 2**63, 2**64 - 1, ref.GOLDEN]

KNOWN_STREAMS = {  # tag: (stream(tag, 0), row_key(stream(tag, 0), 0), row_key(stream(tag, 2^64-1), 2^64-1))
    b"fb.atom ": (0xB79C9FF23B677A0F, 0x3AA373CE53C6CDD2, 0xB072D5A37B7B351A),
    b"fb.pred ": (0xE4D86B73A4131BEC, 0xA98CCD9A107D47B3, 0x498B51AEF0D88A06),
    b"fb.sort ": (0xE5039E4226330B98, 0x6258088404C53F8E, 0xBB511058C244428B),
    b"fb.delta": (0x6C95DF5633E64D4A, 0x60682C150684D3A6, 0x812ED1B66722A4A2),
    b"fb.text ": (0x77B388CC4C09C459, 0xEF7F6AE708E0910B, 0x123F34C83AFBD971),
}

KNOWN_TEXTS = {  # text id: (its word, its key in the predict stream of seed 0)
    "": (0x77B388CC4C09C459, 0x0EFB8EDE4F7544D9),
    "a": (0x3A2C115693DDE927, 0x3A87186AACC00EE7),
    "12345678": (0xA54D448C80FF3F85, 0x095C0E01690C50D9),
    "123456789": (0xA39A7275C40CBA54, 0x9AD3A37F99761BC4),
    "Zoë": (0x4D07D1F6CDBCE59D, 0xA0DDEDB5CB46949C),
}


@pytest.fixture(scope="module")
def one_atom():
    """Two bins, one cut, inside an atom: assign shows whether a row's key reaches the cut's key."""
    return fb.fit_uniform_mass(np.full(9, 0.5), np.arange(9) % 2, 2)


def reaches(cal, key, **how):
    """Is the key of the one row described by `how` exactly `key`? Asked through assign alone."""
    at = with_edge_keys(cal, [key]).assign([0.5], **how)[0] == 1
    above = key < 2**64 - 1 and with_edge_keys(cal, [key + 1]).assign([0.5], **how)[0] == 1
    return at and not above


def test_mix_is_the_published_splitmix64_finaliser():
    assert ref.mix(ref.GOLDEN) == 0xE220A8397B1DCDAF
    assert ref.mix(2 * ref.GOLDEN & ref.MASK) == 0x6E789E6AA1B965F4
    assert int(hashing.mix(np.uint64(ref.GOLDEN))) == 0xE220A8397B1DCDAF


@pytest.mark.parametrize("name", KNOWN_STREAMS)
def test_streams_have_known_answers(name):
    tag, last = ref.tag(name), ref.MASK
    got = ref.stream(tag, 0), ref.row_key(ref.stream(tag, 0), 0), ref.row_key(ref.stream(tag, last), last)
    assert got == KNOWN_STREAMS[name]


def test_a_stream_of_eight_words_has_a_known_answer():
    assert ref.stream(ref.ATOM, 0, 7, 2, 1, 0, 3, 2, 0) == 0x986C90AEECC71F53


@pytest.mark.parametrize("x", WORDS)
def test_mix_kernel_equals_python_integers(x):
    assert int(hashing.mix(np.uint64(x))) == ref.mix(x)


@pytest.mark.parametrize("h", WORDS[::3])
@pytest.mark.parametrize("w", WORDS)
def test_absorb_and_row_key_kernels_equal_python_integers(h, w):
    assert int(hashing.absorb(np.uint64(h), np.uint64(w))) == ref.absorb(h, w)
    assert int(hashing.row_key(np.uint64(h), np.uint64(w))) == ref.row_key(h, w)


def test_row_keys_of_one_stream_are_distinct():
    keys = ref.keys_vectorised(0, np.arange(100_000))
    assert len(np.unique(keys)) == len(keys)


def test_order_keys_order_as_scores_do():
    scores = np.array(
        [-np.inf, -1e300, -1.0, -5e-324, 0.0, 5e-324, 1e-300, 0.5, np.nextafter(0.5, 1), 1.0, np.inf]
    )
    keys = np.empty(len(scores), np.uint64)
    assert hashing.order_keys(scores, keys) == 0
    assert (keys[1:] > keys[:-1]).all()
    assert hashing.order_key(-0.0) == hashing.order_key(0.0)
    assert hashing.order_keys(np.array([np.nan, 1.0, np.nan]), np.empty(3, np.uint64)) == 2


@pytest.mark.parametrize("text", KNOWN_TEXTS)
def test_text_ids_have_known_answers_seen_through_assign(one_atom, text):
    word, key = KNOWN_TEXTS[text]
    assert ref.text_word(text) == word
    assert reaches(one_atom, key, row_ids=[text])


@pytest.mark.parametrize("row_id", [0, 1, 2**31, 2**63 - 1])
@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_integer_ids_give_the_specified_key(one_atom, row_id, seed):
    key = ref.predict_keys(seed, [row_id])[0]
    assert reaches(one_atom, key, row_ids=[row_id], rng=seed)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", ">i4", "int64", "uint64"])
def test_equal_integers_of_any_width_give_equal_keys(one_atom, dtype):
    assert reaches(one_atom, ref.predict_keys(0, [77])[0], row_ids=np.array([77], dtype))


def test_negative_ids_are_read_modulo_two_to_the_64(one_atom):
    key = ref.row_key(ref.stream(ref.PRED, 0), 2**64 - 5)
    assert reaches(one_atom, key, row_ids=np.array([-5], np.int8))
    assert reaches(one_atom, key, row_ids=np.array([2**64 - 5], np.uint64))


def test_text_ids_agree_between_lists_numpy_strings_and_objects(one_atom):
    scores, ids = np.full(6, 0.5), ["", "a", "b", "Zoë", "12345678", "a much longer identifier"]
    cal = with_edge_keys(one_atom, [2**63])
    want = ref.assign_reference(cal, scores, ids)
    assert 0 < want.sum() < 6
    for form in (ids, np.array(ids), np.array(ids, dtype=object)):
        np.testing.assert_array_equal(cal.assign(scores, row_ids=form, threads=1), want)


def test_without_ids_the_row_position_is_the_id(one_atom):
    scores = np.full(1000, 0.5)
    by_position = one_atom.assign(scores)
    np.testing.assert_array_equal(by_position, one_atom.assign(scores, row_ids=np.arange(1000)))
    np.testing.assert_array_equal(by_position, ref.assign_vectorised(one_atom, scores))
    assert 0 < by_position.sum() < 1000


@pytest.mark.parametrize("state", WORDS[::4])
def test_the_hash_without_numba_is_the_same_hash(state):
    for word in WORDS:
        assert _streams.absorb(state, word) == ref.absorb(state, word)
    rows = np.array(WORDS, np.uint64)
    assert _streams.row_keys(state, rows).tolist() == [ref.row_key(state, w) for w in WORDS]
    assert _streams.stream(b"fb.atom ", *WORDS) == ref.stream(ref.ATOM, *WORDS)


def test_many_text_ids_are_hashed_by_the_kernel_as_by_the_definition(one_atom):
    """Lengths 0..40, two- to four-byte characters: every padding of the last word."""
    ids = [("aé漢😀z" * 40)[i % 17 : i % 17 + i % 41] + str(i)[: i % 3] for i in range(2_500)]
    cal = with_edge_keys(one_atom, [2**63])
    scores = np.full(len(ids), 0.5)
    want = ref.assign_reference(cal, scores, ids)
    assert 1_000 < want.sum() < 1_500
    forms = [ids, np.array(ids), np.array(ids, dtype=object)]
    if hasattr(np.dtypes, "StringDType"):  # NumPy 2
        forms.append(np.array(ids, dtype=np.dtypes.StringDType()))
    for form in forms:
        np.testing.assert_array_equal(cal.assign(scores, row_ids=form), want)


def test_bytes_ids_are_the_text_they_encode(one_atom):
    cal = with_edge_keys(one_atom, [2**63])
    ids = ["a", "bc", "Zoë", "12345678", "123456789"] * 40
    encoded = [text.encode() for text in ids]
    np.testing.assert_array_equal(
        cal.assign(np.full(200, 0.5), row_ids=np.array(encoded)), ref.assign_reference(cal, [0.5] * 200, ids)
    )


@pytest.mark.parametrize("n", [200, 3_000])
def test_python_integers_in_an_object_array_are_integers(one_atom, n):
    ids = [i * 7**20 for i in range(n)]
    cal = with_edge_keys(one_atom, [2**63])
    got = cal.assign(np.full(n, 0.5), row_ids=np.array(ids, dtype=object))
    np.testing.assert_array_equal(got, ref.assign_reference(cal, [0.5] * n, ids))
