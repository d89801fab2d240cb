"""Ground truth: laws of (score, label) whose bin masses and bin means are known in closed form.

A law is a finite set of atoms (score, mass, eta) plus an optional uniform part on (0, 1) with mass c and a
regression function eta(s) whose primitive is known. For a key pair (s, u), with u in [0, 1),

    W(s, u) = c*s + sum_{v<s} q_v + u*q_s          the mass lexicographically below (s, u)
    G(s, u) = c*H(s) + sum_{v<s} q_v*eta_v + u*q_s*eta_s   the mass of positives below it

so the bin between two cuts has mass P = dW and mean label p = dG/dW.
"""

from dataclasses import dataclass, field
from math import pi

import numpy as np


@dataclass(frozen=True)
class Law:
    name: str
    atoms: tuple = ()
    weight: float = 0.0
    eta: object = None
    primitive: object = None
    table: np.ndarray = field(init=False, compare=False, repr=False)

    def __post_init__(self):
        table = np.array(sorted(self.atoms), float).reshape(-1, 3)
        assert abs(table[:, 1].sum() + self.weight - 1) < 1e-12
        object.__setattr__(self, "table", table)

    def sample(self, rng, n):
        """n iid (score, label) pairs."""
        score, mass, eta = self.table.T
        part = rng.choice(len(score) + 1, size=n, p=np.r_[mass, self.weight] / (mass.sum() + self.weight))
        s = rng.random(n)
        p = np.zeros(n) if self.eta is None else np.array(self.eta(s))
        atom = part < len(score)
        s[atom], p[atom] = score[part[atom]], eta[part[atom]]
        return s, (rng.random(n) < p).astype(np.int8)

    def eta_at(self, scores):
        """E[Y | score] at each score."""
        score, _, eta = self.table.T
        values = np.full(len(scores), np.nan) if self.eta is None else np.array(self.eta(np.asarray(scores)))
        for s, e in zip(score, eta, strict=True):
            values[scores == s] = e
        return values

    def below(self, s, u):
        """(W, G) at the keys (s, u)."""
        s, u = np.atleast_1d(np.asarray(s, float)), np.atleast_1d(np.asarray(u, float))
        score, mass, eta = self.table.T
        share = np.where(score[None] < s[:, None], 1.0, np.where(score[None] == s[:, None], u[:, None], 0.0))
        inside = np.clip(s, 0.0, 1.0)
        w = self.weight * inside + share @ mass
        g = share @ (mass * eta)
        if self.primitive is not None:
            g = g + self.weight * self.primitive(inside)
        return w, g

    def truth(self, edges, edge_keys):
        """(P_b, p_b) of the bins between lexicographic cuts, when every test row has a fresh uniform key."""
        w, g = self.below(edges, np.asarray(edge_keys, np.uint64).astype(float) * 2.0**-64)
        top_w, top_g = self.below([np.inf], [1.0])
        masses, positives = np.diff(np.r_[0.0, w, top_w]), np.diff(np.r_[0.0, g, top_g])
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.clip(positives / masses, 0.0, 1.0)
        return masses, p

    def truth_by_atom(self, bins, n_bins):
        """(P_b, p_b) when atom i (in order of score) goes as a whole to bin bins[i]; no uniform part."""
        assert self.weight == 0
        _, mass, eta = self.table.T
        masses = np.bincount(bins, mass, minlength=n_bins)
        positives = np.bincount(bins, mass * eta, minlength=n_bins)
        with np.errstate(invalid="ignore"):
            return masses, positives / masses


def _uniform(name, eta, primitive):
    return Law(name, (), 1.0, eta, primitive)


D1 = _uniform("D1", lambda s: s, lambda s: s * s / 2)
D2 = _uniform("D2", lambda s: s * s, lambda s: s**3 / 3)
D3 = _uniform(
    "D3", lambda s: 0.5 + 0.5 * np.sin(6 * pi * s), lambda s: s / 2 + (1 - np.cos(6 * pi * s)) / (12 * pi)
)
D4 = _uniform(
    "D4", lambda s: np.where(s < 0.4, 0.1, 0.8), lambda s: np.where(s < 0.4, 0.1 * s, 0.8 * s - 0.28)
)
D5 = _uniform("D5", lambda s: np.full_like(s, 0.5), lambda s: 0.5 * s)
D6 = Law("D6", ((0.7, 1.0, 0.4),))
D7 = Law(
    "D7",
    (
        (0.1, 0.05, 0.0),
        (0.25, 0.1, 0.3),
        (0.5, 0.5, 0.9),
        (0.5000001, 0.05, 0.1),
        (0.8, 0.1, 0.6),
        (1.0, 0.2, 0.2),
    ),
)
D8 = Law(
    "D8",
    ((0.0, 0.1, 0.9), (0.3, 0.25, 0.2), (0.31, 0.05, 1.0), (1.0, 0.3, 0.5)),
    0.3,
    lambda s: s,
    lambda s: s * s / 2,
)
D10 = Law("D10", tuple((i / 8, 1 / 8, (i / 8) ** 2) for i in range(8)))
D11 = Law("D11", tuple(((i + 1) / 16, 1 / 15, float(i % 2)) for i in range(15)))

ALL = {law.name: law for law in (D1, D2, D3, D4, D5, D6, D7, D8, D10, D11)}


# --- awkward score columns, by name -------------------------------------------------------------------


def columns(n, seed=0):
    """Score columns that have broken someone's binning: name -> float64 array of length n."""
    rng = np.random.default_rng(seed)
    u = rng.random(n)
    half = n // 2
    decades = np.where(u < 0.5, -1.0, 1.0) * 10.0 ** (600 * rng.random(n) - 300)
    return {
        "uniform": u,
        "all equal": np.full(n, 0.3),
        "all zero, both signs": np.where(u < 0.5, 0.0, -0.0),
        "two values": np.where(u < 0.7, 0.25, 0.75),
        "two neighbours": np.where(u < 0.5, 0.3, np.nextafter(0.3, 1)),
        "one outlier": np.r_[np.full(n - 1, 0.5), 1e300][rng.permutation(n)],
        "two decimals": np.round(u, 2),
        "exponents": 10.0 ** (-300 * u),
        "both signs, all exponents": decades,
        "all exponents and infinities": np.where(u < 0.2, -np.inf, np.where(u > 0.8, np.inf, decades)),
        "sorted": np.sort(u),
        "reversed": np.sort(u)[::-1].copy(),
        "1e-17 apart": 1e-3 + 1e-17 * rng.integers(0, n, n),
        "one ulp apart": 1.0 + 2.0**-52 * rng.permutation(n),
        "saturated": np.clip(np.round(1 / (1 + np.exp(-80 * (u - 0.5))), 17), 0.0, 1.0),
        "zeros and ones": np.r_[np.zeros(half), np.ones(n - half)][rng.permutation(n)],
        "infinities": np.where(u < 0.3, -np.inf, np.where(u > 0.8, np.inf, u)),
        "only infinities": np.where(u < 0.5, -np.inf, np.inf),
        "subnormals": 5e-324 * rng.integers(0, max(2, n // 3), n),
        "subnormals, both signs": 5e-324 * rng.integers(-3, 4, n),
        "above one": 1e6 * u,
        "logits": rng.standard_cauchy(n),
        "90 % zeros": np.where(u < 0.9, 0.0, u),
        "huge": np.where(u < 0.5, -1.0, 1.0) * np.finfo(float).max * rng.random(n),
    }


COLUMN_NAMES = tuple(columns(4))


def distinct_scores(rng, n, distinct):
    """n scores from `distinct` values (None: a continuous law)."""
    if distinct is None:
        return rng.normal(size=n)
    return rng.choice(np.sort(rng.normal(size=distinct)), size=n)
