"""Tests the choice of projects, and the page of outcomes."""

import unittest

import add_survey


class Survey(unittest.TestCase):
    def test_chooses_at_least_one_of_each_kind(self):
        everything = add_survey.listed([], None, 0)
        kinds = {project.kind for project in everything}
        on_index = [project for project in everything if project.source in ("sdist", "wheel")]
        self.assertGreaterEqual(len(on_index), 40)
        self.assertEqual(len({project.name for project in everything}), len(everything))
        for seed in range(50):
            chosen = add_survey.listed([], 20, seed)
            self.assertEqual((len(chosen), {project.kind for project in chosen}), (20, kinds))
            again = add_survey.listed([], 20, seed)
            self.assertEqual([p.name for p in chosen], [p.name for p in again])
            self.assertNotIn("pandas", [project.name for project in chosen])
        self.assertEqual([p.name for p in add_survey.listed(["pandas", "six"], 20, 0)], ["six", "pandas"])

    def test_shows_what_failed(self):
        whole, broken = add_survey.listed(["six", "sd"], None, 0)
        whole.added = whole.built = whole.installed = "yes"
        broken.added, broken.built = "yes", broken.fail("build", "%build: no | memory")
        text = add_survey.page([whole, broken], 1)
        self.assertIn("1 of 2 were built and installed.", text)
        self.assertIn("\n- sd, build: %build: no | memory\n", text)
        self.assertIn("| sd | - | program in Rust | yes | - | no | - | - |\n", text)


if __name__ == "__main__":
    unittest.main()
