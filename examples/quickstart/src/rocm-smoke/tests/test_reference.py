# SPDX-License-Identifier: MIT
import unittest
from array import array

from rocm_smoke import reference
from rocm_smoke.targets import runs


class Reference(unittest.TestCase):
    def test_multiplies_known_matrices(self):
        a, b = array("f", [1, 2, 3, 4]), array("f", [5, 6, 7, 8])
        self.assertEqual(reference.multiply(a, b, 2), array("f", [19, 22, 43, 50]))

    def test_multiplies_by_definition(self):
        n = 17
        a, b = reference.inputs(n * n, 5), reference.inputs(n * n, 6)
        defined = array(
            "f",
            [
                sum(a[i * n + k] * b[k * n + j] for k in range(n))
                for i in range(n)
                for j in range(n)
            ],
        )
        self.assertEqual(reference.multiply(a, b, n), defined)

    def test_inputs_depend_only_on_seed(self):
        self.assertEqual(reference.inputs(100, 1), reference.inputs(100, 1))
        self.assertNotEqual(reference.inputs(100, 1), reference.inputs(100, 2))

    def test_accepts_correct_product(self):
        for n in (1, 2, 31):
            a, b = reference.inputs(n * n, 1), reference.inputs(n * n, 2)
            product = reference.multiply(a, b, n)
            self.assertIsNone(reference.wrong_product(product, a, b, n, 3))

    def test_finds_every_wrong_element(self):
        n = 9
        a, b = reference.inputs(n * n, 1), reference.inputs(n * n, 2)
        product = reference.multiply(a, b, n)
        for index in range(n * n):
            for bad in (product[index] + 1, float("nan"), float("inf")):
                wrong = array("f", product)
                wrong[index] = bad
                found = reference.wrong_product(wrong, a, b, n, 3)
                self.assertIn(f"row {index // n}, column {index % n}: expected", found)

    def test_finds_exchanged_rows(self):
        n = 8
        a, b = reference.inputs(n * n, 1), reference.inputs(n * n, 2)
        product = reference.multiply(a, b, n)
        exchanged = product[n : 2 * n] + product[:n] + product[2 * n :]
        self.assertIsNotNone(reference.wrong_product(exchanged, a, b, n, 3))

    def test_describes_first_difference(self):
        a, b = array("f", [1, 2, 3]), array("f", [10, 20, 30])
        total = reference.add(a, b)
        self.assertIsNone(reference.wrong_element(total, array("f", [11, 22, 33])))
        self.assertEqual(
            reference.wrong_element(array("f", [11, float("nan"), 33]), total),
            "element 1: expected 22, found nan",
        )


class Targets(unittest.TestCase):
    def test_matches_targets_to_gpus(self):
        for target, arch, expected in [
            ("gfx1151", "gfx1151", True),
            ("gfx1151", "gfx1150", False),
            ("gfx11-generic", "gfx1151", True),
            ("gfx12-generic", "gfx1151", False),
            ("gfx90a", "gfx90a:sramecc+:xnack-", True),
            ("gfx90a:xnack-", "gfx90a:sramecc+:xnack-", True),
            ("gfx90a:xnack+", "gfx90a:sramecc+:xnack-", False),
        ]:
            self.assertEqual(runs(target, arch), expected, f"{target} on {arch}")


if __name__ == "__main__":
    unittest.main()
