# SPDX-License-Identifier: MIT
"""The expected results of the kernels, computed on the CPU.

All inputs are small integers, so every sum is exact in single precision in any
order of the additions, and results can be compared for equality.
"""

import random
from array import array

LOW, HIGH = -3, 3


def inputs(count: int, seed: int) -> array:
    """`count` integers from LOW to HIGH, determined by the seed."""
    values = [float(v) for v in range(LOW, HIGH + 1)]
    return array("f", random.Random(seed).choices(values, k=count))


def add(a: array, b: array) -> array:
    """The sum, element by element."""
    return array("f", map(float.__add__, a, b))


def row(a: array, b: array, size: int, index: int) -> array:
    """One row of the product of two square row-major matrices."""
    sums = [0.0] * size
    for k in range(size):
        factor = a[index * size + k]
        sums = [s + factor * v for s, v in zip(sums, b[k * size : (k + 1) * size])]
    return array("f", sums)


def multiply(a: array, b: array, size: int) -> array:
    """The product of two small square row-major matrices."""
    product = array("f")
    for index in range(size):
        product.extend(row(a, b, size, index))
    return product


def wrong_element(found: array, expected: array) -> str | None:
    """Describes the first element that differs, or None if all are equal."""
    if found == expected:
        return None
    for index, (f, e) in enumerate(zip(found, expected)):
        if not f == e:  # also true for NaN
            return f"element {index}: expected {e:g}, found {f:g}"
    return f"expected {len(expected)} elements, found {len(found)}"


def wrong_product(found: array, a: array, b: array, size: int, seed: int) -> str | None:
    """Describes an element of `found` that differs from a times b, or None.

    Freivalds' check: with a random vector r, found·r must equal a·(b·r). It
    checks every element in time proportional to their number. A wrong row
    passes with a probability below one in a million; all numbers stay below
    2^53 (size at most 4096), so the sums are exact.
    """
    r = [float(v) for v in random.Random(seed).choices(range(1, 1 << 20), k=size)]

    def times(matrix: array, vector: list[float]) -> list[float]:
        starts = range(0, size * size, size)
        return [sum(map(float.__mul__, matrix[s : s + size], vector)) for s in starts]

    expected = times(a, times(b, r))
    for index, (f, e) in enumerate(zip(times(found, r), expected)):
        if not f == e:
            right = row(a, b, size, index)
            for column in range(size):
                value = found[index * size + column]
                if not value == right[column]:
                    return f"row {index}, column {column}: expected {right[column]:g}, found {value:g}"
    return None
