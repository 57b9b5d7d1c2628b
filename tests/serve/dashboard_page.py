"""The dashboard."""

import json
import math
import unittest

from page_cases import Pages
from page_server import KEY


def numbers(poll, healthy=True):
    """A busy minute, one poll later each time."""
    wave = [{"second": s, "prompt_tokens": round(3000 + 900 * math.sin(s / 4) + 400 * math.cos(s * 1.7)),
             "generation_tokens": round(1350 + 180 * math.sin(s / 9) + 45 * math.cos(s * 2.3)), "requests": 4}
            for s in range(40 + poll, 100 + poll) if s != 42]
    return {
        "model": "demo-model", "version": "0.9.0", "uptime_s": 100.4 + poll, "healthy": healthy, "running": 6, "waiting": 2,
        "max_num_seqs": 256, "max_model_len": 8192,
        "throughput": {"window_s": 10, "prompt_tokens_per_s": 3120.5, "generation_tokens_per_s": 1500.0 + poll, "requests_per_s": 4.25},
        "history": wave,
        "latency_ms": {"ttft": {"p50": 84.2, "p90": 131, "p95": 162, "p99": 340.4}, "itl": {"p50": 6.31, "p90": 9.8, "p95": 11.2, "p99": 24},
                       "tpot": {"p50": 6.8, "p90": 9.1, "p95": 10.4, "p99": 15.5}, "e2e": {"p50": 1210, "p90": 3480, "p95": 4110, "p99": 12840}},
        "cache": {"usage": 0.63, "pages": 4096, "free_pages": 1516, "prefix_hit_rate": 0.416},
        "totals": {"prompt_tokens": 3128400 + poll, "generation_tokens": 948210, "preemptions": 3, "steps": 41250 + poll, "finished_stop": 5120,
                   "finished_length": 410, "finished_cancelled": 12, "finished_error": 0, "draft_tokens": 0, "accepted_tokens": 0},
        "requests": [{"id": str(5543 + i), "state": "running" if i < 6 else "waiting", "prompt_tokens": 180 + 211 * i, "output_tokens": max(0, 240 - 45 * i + poll),
                      "age_s": 3.9 - 0.45 * i} for i in range(8)],
    }


class Dashboard(Pages):
    path = "/dashboard"

    def prepare(self):
        self.server.dashboard = numbers

    def live(self):
        self.page.until("document.getElementById('health').innerText === 'Live'")

    def test_numbers_are_shown(self):
        self.live()
        self.assertEqual(self.text("#model"), "demo-model")
        self.assertRegex(self.text("#about"), r"^easydel 0\.9\.0 · up 1 min 4\d s · context of 8,192 tokens$")
        self.assertRegex(self.text("#generation-rate"), r"^1,50\d$")
        self.assertEqual([self.text(i) for i in ("#prompt-rate", "#running", "#running-of", "#waiting-note", "#request-rate")],
                         ["3,121", "6", "of 256", "2 waiting", "4.25"])
        self.assertEqual([self.text(i) for i in ("#finished-note", "#finished-length", "#finished-cancelled")], ["5,542 in all", "410", "12"])
        self.assertEqual(self.texts("#latency tr:first-child td"), ["Time to first token\nfrom arrival", "84 ms", "131 ms", "162 ms", "340 ms"])
        self.assertEqual(self.texts("[data-measure=e2e] td")[1:], ["1.21 s", "3.48 s", "4.11 s", "12.8 s"])
        self.assertEqual(self.texts("[data-measure=itl] td")[1], "6.3 ms")
        self.assertEqual([self.text(i) for i in ("#cache-use", "#cache-note", "#hit-rate", "#preemptions")], ["63", "2,580 of 4,096 pages", "42 %", "3"])
        self.assertEqual(self.page.js("document.getElementById('cache-bar').getAttribute('aria-valuenow')"), "63")
        self.assertEqual(self.count("#requests tbody tr"), 8)
        self.assertEqual(self.texts("#requests .state"), ["running"] * 6 + ["waiting"] * 2)
        self.assertEqual(self.page.js("document.querySelectorAll('#generation-chart .line')[0].getAttribute('d').split('L').length"), 60)
        self.assertEqual(self.page.js("charts.generation.values.filter((v) => v === 0).length"), 1)  # the second without an entry

    def test_numbers_change_every_second(self):
        self.live()
        first = self.page.js("[document.getElementById('generation-rate').innerText, document.querySelector('#generation-chart .line').getAttribute('d'), performance.now()]")
        again = self.page.until(f"document.getElementById('generation-rate').innerText !== {json.dumps(first[0])} && "
                                "[document.querySelector('#generation-chart .line').getAttribute('d')]")
        self.assertNotEqual(again[0], first[1])
        self.page.click("#pause")
        self.assertEqual(self.text("#health"), "Paused")
        polls = self.server.polls
        self.page.click("#pause")
        self.live()
        self.assertGreater(self.server.polls, polls)

    def test_a_server_that_has_done_nothing(self):
        none = {p: None for p in ("p50", "p90", "p95", "p99")}
        empty = {**numbers(0), "uptime_s": 0.3, "history": [], "running": 0, "waiting": 0, "requests": [],
                 "latency_ms": {k: none for k in ("ttft", "itl", "tpot", "e2e")}, "throughput": dict.fromkeys(
                     ("window_s", "prompt_tokens_per_s", "generation_tokens_per_s", "requests_per_s"), 0)}
        self.server.dashboard = empty
        self.page.until("document.getElementById('running').innerText === '0'")
        self.assertEqual(self.texts("#latency tr:first-child td")[1:], ["–"] * 4)
        self.assertEqual(self.text("#requests-empty"), "Nothing runs or waits.")
        self.assertEqual(self.text("#generation-peak"), "peak 0")

    def test_trouble_is_said(self):
        self.live()
        self.server.dashboard = lambda poll: numbers(poll, healthy=False)
        self.page.until("document.getElementById('health').innerText === 'Engine failed'")
        self.server.dashboard, self.server.dashboard_status = {"error": {"message": "Not ready."}}, 503
        self.page.until("document.getElementById('health').innerText === 'No data'")
        self.assertRegex(self.text("#problem"), r"^Not ready\. \(503\) The numbers are \d+ s old\.$")
        self.server.dashboard, self.server.dashboard_status = numbers, 200
        self.live()
        self.assertIsNone(self.page.js("document.getElementById('problem').offsetParent"))

    def test_the_key_of_the_chat_page_serves_here_too(self):
        self.server.api_key = KEY
        self.page.until("document.getElementById('key').offsetParent")
        self.page.js("document.getElementById('key').focus()")
        self.page.type(KEY)
        self.page.press("Enter")
        self.live()
        self.assertEqual(self.server.keys[-1], "Bearer " + KEY)

    def test_hostile_names_stay_text(self):
        name = "<img src=x onerror=window.hacked=1>"
        self.server.dashboard = lambda poll: {**numbers(poll), "model": name, "requests": [{**numbers(0)["requests"][0], "id": name, "state": name}]}
        self.page.until(f"document.getElementById('model').innerText === {json.dumps(name)}")
        self.assertEqual(self.text("#requests tbody td"), name)
        self.assertEqual(self.count("main img"), 0)

    @unittest.skipUnless(Pages.shots, "images only with --screenshots")
    def test_images(self):
        self.page.resize(1280, 1140)
        self.page.until("document.getElementById('generation-rate').innerText >= '1,503'")
        self.shot("dashboard.png")
        self.page.click("#theme")
        self.shot("dashboard-dark.png")

    def test_a_narrow_window_has_no_sideways_scrolling(self):
        self.page.resize(375, 720)
        self.live()
        self.assertEqual(self.page.js("document.documentElement.scrollWidth"), 375)
        self.shot("dashboard-narrow.png")
