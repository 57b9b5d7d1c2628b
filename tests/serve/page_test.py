"""The chat page and the dashboard in a real Chromium: with a server of the tests' own behind them, or with EASYDEL's.
usage: page_test.py [EASYDEL] [--screenshots DIRECTORY]"""

import pathlib
import sys
import unittest

from page_cases import Pages

if "--screenshots" in sys.argv:
    at = sys.argv.index("--screenshots")
    Pages.shots = pathlib.Path(sys.argv[at + 1])
    del sys.argv[at:at + 2]
if len(sys.argv) > 1 and pathlib.Path(sys.argv[1]).is_file():
    import served_page

    served_page.EASYDEL = sys.argv.pop(1)
    from served_page import ServedPage
else:
    from chat_drawing import ChatDrawing
    from chat_use import ChatUse
    from dashboard_page import Dashboard

if __name__ == "__main__":
    unittest.main()
