import contextlib
import io
import unittest

import shop_cli


class Main(unittest.TestCase):
    def test_nothing_is_wrong_use(self):
        self.assertEqual(shop_cli.main([]), 2)

    def test_the_total_is_printed(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            shop_cli.main(["100", "5"])
        self.assertEqual(printed.getvalue(), "95\n")

    def test_what_is_no_price_is_wrong_use(self):
        self.assertEqual(shop_cli.main(["tea"]), 2)
