"""Conversion of Python arguments to arrays, integers and rows of token ids."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import numpy as np

from tpc.library import TpcError, shorten

MAX_INT64 = (1 << 63) - 1


def has_mask(value, depth: int = 64) -> bool:
    """Returns whether an array, or one in a list, has masked elements."""
    if isinstance(value, np.ma.MaskedArray):
        return bool(np.ma.is_masked(value))
    return (
        depth > 0
        and isinstance(value, (list, tuple))
        and any(has_mask(each, depth - 1) for each in value)
    )


def _has_bool(value, depth: int = 64) -> bool:
    """Returns whether a list contains True or False, which numpy converts to 1 and 0."""
    if isinstance(value, (bool, np.bool_)):
        return True
    return (
        depth > 0
        and isinstance(value, (list, tuple))
        and any(_has_bool(each, depth - 1) for each in value)
    )


def make_array(what: str, value, wanted: np.dtype | None) -> np.ndarray:
    """Converts a value to an array, of the wanted type if that preserves all numbers."""
    try:
        found = np.asarray(value)
    except Exception as error:  # includes errors of objects that convert themselves
        raise TpcError(f"{what} is not an array: {error}") from None
    if wanted is None or found.dtype == wanted:
        if wanted is None or wanted.kind == "b" or not _has_bool(value):
            return found
    if wanted.kind != "b" and _has_bool(value):
        raise TpcError(f"{what} is {wanted}, but the argument contains True or False: give numbers")
    exact = (
        found.size == 0
        or found.dtype.kind in "biu"
        and (wanted.kind in "iu" or wanted.kind == "b" and ((found == 0) | (found == 1)).all())
    )
    if not exact and (wanted.kind in "biu" or found.dtype.kind not in "biuf"):
        return found  # the program has a more specific error
    with np.errstate(over="ignore"):
        made = found.astype(wanted)
    if not (
        (made == found).all() if exact else np.array_equal(np.isfinite(made), np.isfinite(found))
    ):
        raise TpcError(
            f"{what} has a number outside the range of {wanted}: the largest is {found.max()}, the "
            f"smallest {found.min()}"
        )
    return made


def to_integer(name: str, value, low: int, high: int) -> int:
    """Checks the range of an integer, because ctypes would truncate it to 64 bits."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TpcError(f"{name} {shorten(value)}: expected an integer") from None
    if not low <= number <= high:
        text = str(number) if abs(number) < 10**80 else "of so many digits"
        raise TpcError(f"{name} {text}: expected an integer from {low} to {high}")
    return number


def to_float(name: str, value) -> float:
    try:
        if isinstance(value, (str, bytes, bool, np.bool_)):
            raise TypeError
        return float(value)
    except OverflowError:
        raise TpcError(f"{name}: expected a 64-bit number, but it has too many digits") from None
    except (TypeError, ValueError):
        raise TpcError(f"{name} {shorten(value)} is not a number") from None


def _check_row(what: str, ids) -> None:
    if (
        isinstance(ids, (str, bytes, bytearray, Mapping))
        or not hasattr(ids, "__iter__")
        or isinstance(ids, np.ndarray)
        and ids.ndim == 0
    ):
        raise TpcError(f"{what} must be a row of token ids, not {shorten(ids)}")
    if has_mask(ids):
        raise TpcError(
            f"{what} has a mask, which is not supported: give the valid ids, such as x.compressed()"
        )


def to_row(what: str, ids) -> np.ndarray:
    """Returns a row of token ids as an array."""
    _check_row(what, ids)
    try:
        ids = ids if isinstance(ids, np.ndarray) else list(ids)
        if _has_bool(ids):
            raise TpcError(f"{what} must be a row of token ids, but contains True or False")
        array = np.asarray(ids)
    except TpcError:
        raise
    except Exception:  # rows of different lengths, and objects that are not convertible
        raise TpcError(f"{what} must be a row of token ids, not a row of rows") from None
    if array.ndim != 1 or array.size and array.dtype.kind not in "iu":
        raise TpcError(
            f"{what} must be a row of token ids, not {array.dtype} of shape {list(array.shape)}"
        )
    if array.dtype.kind == "u" and array.size and array.max() > MAX_INT64:
        raise TpcError(f"{what} has token {array.max()}, which is not a valid id")
    return np.ascontiguousarray(array, np.int64)


def to_prompts(ids) -> tuple[list[np.ndarray], bool]:
    """Returns rows of ids, and whether the argument was one row instead of a list of rows."""
    _check_row("a prompt", ids)
    rows = ids if isinstance(ids, np.ndarray) else list(ids)
    is_single = (
        rows.ndim == 1
        if isinstance(rows, np.ndarray)
        else not any(hasattr(row, "__len__") for row in rows)
    )
    return [to_row("a prompt", row) for row in ([rows] if is_single else rows)], is_single
