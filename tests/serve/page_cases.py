"""What the tests of the pages share: a browser for all, and for each test a server and a tab."""

import atexit
import json
import unittest

from chromium import Chromium, Page, program
from page_server import PageServer


class Pages(unittest.TestCase):
    path = "/"
    shots = None  # a folder for images
    browser = None

    @classmethod
    def setUpClass(cls):
        if not program():
            raise unittest.SkipTest("no chromium; scripts/setup.sh test installs it")
        if not Pages.browser:
            Pages.browser = Chromium()
            atexit.register(Pages.browser.close)  # the classes are in several modules

    def make_server(self):
        self.server = PageServer()
        self.addCleanup(self.server.close)
        self.addCleanup(self.server.gate.set)

    def setUp(self):
        self.make_server()
        self.prepare()
        self.page = Page(self.browser, self.server.url + self.path)
        self.addCleanup(self.page.close)
        self.addCleanup(self.check_page)

    def prepare(self):
        pass

    def check_page(self):
        """Whatever a test did: no other host was asked, and nothing went wrong unseen."""
        for url in self.page.requested():
            self.assertTrue(url.startswith((self.server.url + "/", "data:")), url)
        self.assertEqual(self.page.complaints(), [])

    def shot(self, name):
        if self.shots:
            self.shots.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(self.shots / name)

    def text(self, selector):
        return self.page.js(f"document.querySelector({json.dumps(selector)})?.innerText")

    def texts(self, selector):
        return self.page.js(f"[...document.querySelectorAll({json.dumps(selector)})].map((n) => n.innerText)")

    def count(self, selector):
        return self.page.js(f"document.querySelectorAll({json.dumps(selector)}).length")


class ChatPages(Pages):
    """With the chat page open and its models listed."""

    def setUp(self):
        super().setUp()
        self.page.until("document.getElementById('model').value")

    def say(self, text):
        self.page.js("document.getElementById('input').focus()")
        self.page.type(text)
        self.page.press("Enter")

    def answered(self):
        self.page.until("document.querySelector('.message:last-child:is(.assistant)[aria-busy=false]') && !running.size")

    def ask(self, text, script=None):
        self.server.script = script or self.server.script
        self.say(text)
        self.answered()

    def set(self, selector, value):
        self.page.js(f"(() => {{ const n = document.querySelector({json.dumps(selector)}); n.value = {json.dumps(value)};"
                     "n.dispatchEvent(new Event('input', {bubbles: true})); n.dispatchEvent(new Event('change', {bubbles: true})); })()")
