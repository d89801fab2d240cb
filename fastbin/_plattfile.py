"""What is in the model file of a Platt scaler, and how it is believed."""

from __future__ import annotations

from typing import Any

from fastbin._modelfile import LARGEST_FLOAT, LARGEST_INTEGER, Schema, field_error
from fastbin.platt import SCALES, PlattScaler

SCHEMA = Schema(
    format="fastbin platt scaler",
    version=1,
    fields=dict.fromkeys(
        ("on", "smooth_targets", "labels", "n_samples", "positives", "slope", "intercept"), 1
    ),
    reals=("slope", "intercept"),
    sums=("positives",),
)


def scaler_to_dict(scaler: PlattScaler) -> dict[str, Any]:
    """Everything a scaler is, as JSON types, sealed."""
    return SCHEMA.sealed(
        {
            "on": scaler.on,
            "smooth_targets": scaler.smooth_targets,
            "labels": "soft" if scaler.soft_labels else "binary",
            "n_samples": scaler.n_samples,
            "positives": scaler.positives,
            "slope": scaler.slope,
            "intercept": scaler.intercept,
        }
    )


def scaler_from_dict(data: Any) -> PlattScaler:
    """The scaler described by ``data``; every field is checked before it is believed."""
    SCHEMA.check_seal(data)

    def require(name: str, rule: str, *, holds: bool) -> None:
        if not holds:
            raise field_error(name, rule)

    def is_real(value: Any) -> bool:
        return type(value) in (int, float) and abs(value) <= LARGEST_FLOAT

    n, positives = data["n_samples"], data["positives"]
    require("on", "one of logit, probability", holds=data["on"] in SCALES)
    require("smooth_targets", "true or false", holds=type(data["smooth_targets"]) is bool)
    require("labels", "one of binary, soft", holds=data["labels"] in ("binary", "soft"))
    require(
        "n_samples",
        "an integer of at least 1, below 2**63",
        holds=type(n) is int and 1 <= n <= LARGEST_INTEGER,
    )
    for name in ("slope", "intercept"):
        require(name, "a finite number", holds=is_real(data[name]))
    soft = data["labels"] == "soft"
    counted = is_real(positives) if soft else type(positives) is int
    require("positives", "the sum of n_samples labels", holds=counted and 0 <= positives <= n)
    if not (soft or data["smooth_targets"]):
        require("positives", "some of the rows, not all, without smoothed targets", holds=0 < positives < n)
    return PlattScaler(
        float(data["slope"]), float(data["intercept"]), data["on"], data["smooth_targets"], n,
        float(positives) if soft else positives,
    )  # fmt: skip
