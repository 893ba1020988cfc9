import unittest

import launch_table
from launch_table import AXES, ROWS, legal_pairs, pairs_of, reason_against
from launched_training import main


class Coverage(unittest.TestCase):
    """Checks that the launch table covers its axes. Starts no processes."""

    def test_rows_have_a_value_of_every_axis_and_can_run(self):
        for _, row in ROWS:
            self.assertEqual(list(row), list(AXES))
            for axis, value in row.items():
                self.assertIn(value, AXES[axis], row)
            self.assertIsNone(reason_against(row), row)

    def test_every_two_values_that_can_meet_do(self):
        missing = legal_pairs().difference(*(pairs_of(row) for _, row in ROWS))
        self.assertEqual(sorted(missing), [])

    def test_no_row_is_there_for_nothing(self):
        pairs = [pairs_of(row) for _, row in ROWS]
        for i, (_, row) in enumerate(ROWS):
            self.assertTrue(pairs[i].difference(*pairs[:i], *pairs[i + 1:]), row)

    def test_the_fast_rows_have_every_value(self):
        fast = [row for is_fast, row in ROWS if is_fast]
        self.assertLessEqual(len(fast), 12)
        for axis, values in AXES.items():
            self.assertEqual({row[axis] for row in fast} | {"-"}, {*values, "-"}, axis)

    def test_it_would_be_noticed_that_a_pair_is_missing(self):
        _, row = ROWS[0]
        others = [pairs_of(other) for _, other in ROWS[1:]]
        self.assertTrue(legal_pairs().difference(*others), row)
        # The return ternary is possible with servers but not with codec bf16.
        self.assertTrue(launch_table.can_be_completed({"return": "ternary", "exchange": "servers"}))
        self.assertFalse(launch_table.can_be_completed({"return": "ternary", "codec": "bf16"}))


if __name__ == "__main__":
    main()
