"""The chat page and the dashboard in a real Chromium, with a server of this test's own behind them.
usage: page_test.py [--screenshots DIRECTORY]"""

import json
import math
import pathlib
import re
import sys
import unittest

from chromium import Chromium, Page, program
from page_server import KEY, PageServer, Script, chunk, end, pieces, usage

SHOTS = pathlib.Path(sys.argv.pop()) if "--screenshots" in sys.argv else None
if SHOTS:
    sys.argv.remove("--screenshots")

MARKDOWN = """# Paged caches

A *page* holds **16 tokens**; `free_pages` counts the rest. See [the paper](https://example.org/paged?a=1&b=2).

1. Hash each full page.
2. Look it up:
   - a hit adds a reference,
   - a miss takes a page from the ~~heap~~ free list.

- [x] counted
- [ ] swapped

> Quoted, and
> still quoted.

| pool | pages | free |
|:-----|------:|:----:|
| GPU | 4,096 | `1\\|024` |
| host | 512 | yes |

```python
def hash_page(parent: int, tokens: list[int]) -> int:
    \"\"\"Chained: equal hashes mean equal prefixes.\"\"\"
    return hash((parent, *tokens))  # no salt < & >
```

---

Two
lines, 2 * 3 * 4 = 24, snake_case_name and <b>no bold</b>."""

HOSTILE = """<img src=x onerror="window.hacked = 1"> <script>window.hacked = 2</script>

[click](javascript:window.hacked=3) [data](data:text/html,<script>window.hacked=4</script>) [vb](vbscript:x)
[tab](java\tscript:window.hacked=5) <javascript:window.hacked=6> ![pixel](http://203.0.113.9/pixel.png)

| <img src=x onerror=window.hacked=7> | b |
|---|---|
| <svg onload=window.hacked=8> | c |

```html" onmouseover="window.hacked=9
<iframe src="javascript:window.hacked=10"></iframe>
```
<style>body { display: none }</style> [safe](https://example.org/"onclick="window.hacked=11)"""

PICTURE = """Sort by start, then extend the last interval while the next one **overlaps** it:

```python
def merge(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:  # touches the last one
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
```

`merge([(1, 3), (2, 6), (8, 9)])` gives `[(1, 6), (8, 9)]`. The cost:

| step | time | memory |
|:-----|:----:|-------:|
| sorting | O(n log n) | O(n) |
| merging | O(n) | O(n) |

1. Equal ends are merged, since the test is `<=`.
2. An empty list gives an empty list."""


def setUpModule():
    if not program():
        raise unittest.SkipTest("no chromium; scripts/setup.sh test installs it")
    global BROWSER
    BROWSER = Chromium()
    unittest.addModuleCleanup(BROWSER.close)


class Pages(unittest.TestCase):
    path = "/"

    def setUp(self):
        self.server = PageServer()
        self.addCleanup(self.server.close)
        self.addCleanup(self.server.gate.set)
        self.prepare()
        self.page = Page(BROWSER, self.server.url + self.path)
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
        if SHOTS:
            SHOTS.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(SHOTS / name)

    def text(self, selector):
        return self.page.js(f"document.querySelector({json.dumps(selector)})?.innerText")

    def texts(self, selector):
        return self.page.js(f"[...document.querySelectorAll({json.dumps(selector)})].map((n) => n.innerText)")

    def count(self, selector):
        return self.page.js(f"document.querySelectorAll({json.dumps(selector)}).length")


class Chat(Pages):
    def prepare(self):
        pass

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

    def test_text_appears_while_it_streams(self):
        self.server.script = Script(chunk(role="assistant", content=""), *pieces("Half a sen"), Script.GATE, *pieces("tence."), end(), usage(5))
        self.say("Go on")
        self.page.until("document.querySelector('.assistant .content')?.innerText === 'Half a sen'")
        self.assertEqual(self.page.js("document.querySelector('.assistant').getAttribute('aria-busy')"), "true")
        self.assertEqual(self.page.js("document.getElementById('send').getAttribute('aria-label')"), "Stop")
        self.server.gate.set()
        self.answered()
        self.assertEqual(self.text(".assistant .content"), "Half a sentence.")
        self.assertRegex(self.text(".assistant .stats"), r"^5 tokens · [\d,.]+ tokens/s · first token [\d.]+ m?s · [\d.]+ m?s$")
        self.assertEqual(self.server.bodies, [{"model": "tiny", "messages": [{"role": "user", "content": "Go on"}], "stream": True,
                                               "stream_options": {"include_usage": True}}])

    def test_markdown_becomes_elements(self):
        self.ask("Explain", Script.text(MARKDOWN))
        inside = ".assistant .content "
        self.assertEqual(self.text(inside + "h1"), "Paged caches")
        self.assertEqual(self.texts(inside + "strong"), ["16 tokens"])
        self.assertEqual(self.texts(inside + "em"), ["page"])
        self.assertEqual(self.texts(inside + "del"), ["heap"])
        self.assertEqual(self.page.js(f"document.querySelector('{inside}a').href"), "https://example.org/paged?a=1&b=2")
        self.assertEqual(self.page.js(f"document.querySelector('{inside}a').rel"), "noopener noreferrer nofollow")
        self.assertEqual(self.texts(inside + "ol > li > ul > li"), ["a hit adds a reference,", "a miss takes a page from the heap free list."])
        self.assertEqual(self.page.js(f"[...document.querySelectorAll('{inside}input')].map((n) => n.checked)"), [True, False])
        self.assertEqual(self.text(inside + "blockquote"), "Quoted, and\nstill quoted.")
        self.assertEqual(self.texts(inside + "td"), ["GPU", "4,096", "1|024", "host", "512", "yes"])
        self.assertEqual(self.page.js(f"document.querySelector('{inside}td:nth-child(2)').style.textAlign"), "right")
        code = MARKDOWN.split("```python\n")[1].split("\n```")[0]
        self.assertEqual(self.page.js(f"document.querySelector('{inside}pre code').textContent"), code)
        self.assertEqual(self.texts(inside + "pre .k"), ["def", "return"])
        self.assertEqual(self.texts(inside + "pre .c"), ["# no salt < & >"])
        self.assertEqual(self.text(inside + "> :last-child"), "Two\nlines, 2 * 3 * 4 = 24, snake_case_name and <b>no bold</b>.")
        self.assertEqual(self.count(inside + "hr"), 1)

    def test_code_is_copied(self):
        BROWSER.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
                     browserContextId=self.page.context)
        self.ask("Code", Script.text("```c\nint x = 1;\n\nreturn x;\n```"))
        self.page.click(".code-head button")
        self.page.until("document.querySelector('.code-head button').innerText.includes('Copied')")
        self.assertEqual(self.page.js("navigator.clipboard.readText()"), "int x = 1;\n\nreturn x;")

    def test_pieces_give_what_the_whole_gives(self):
        different = self.page.js("""(() => {
          const texts = %s, wrong = [];
          const plain = (view) => view.root.innerHTML.replace(/<\\/?span[^>]*>/g, "");
          for (const text of texts) {
            const whole = new MarkdownView(document.createElement("div"));
            whole.update(text, true);
            for (const size of [1, 3, 7, 50]) {
              const grown = new MarkdownView(document.createElement("div"));
              for (let n = size; n < text.length; n += size) grown.update(text.slice(0, n));
              grown.update(text, true);
              if (plain(grown) !== plain(whole)) wrong.push([size, plain(grown), plain(whole)]);
            }
          }
          return wrong;
        })()""" % json.dumps([MARKDOWN, HOSTILE, "- a\n\n1. b\n2. c\n\n\n   ```js\n   let x = `1\n2`;\n   ```\n3. d\n\ntext\n~~~\nopen `code", "**a *b* c** __d__ ***e*** *f", ""]))
        self.assertEqual(different, [])

    def test_settled_blocks_are_not_drawn_again(self):
        self.server.script = Script(*pieces("zeroth\n\nfirst\n\nsecond\n\nthird"), Script.GATE, *pieces(" grows\n\nfourth"), end(), usage(9))
        self.say("Go on")
        self.page.until("document.querySelector('.content')?.innerText.endsWith('third')")
        self.page.js("(window.kept = [...document.querySelectorAll('.content > *')].slice(0, -2)).length")
        self.server.gate.set()
        self.answered()
        self.assertEqual(self.texts(".content > *"), ["zeroth", "first", "second", "third grows", "fourth"])
        self.assertTrue(self.page.js("kept.length === 2 && kept.every((n, i) => n === document.querySelectorAll('.content > *')[i])"))

    def test_hard_texts_take_linear_time(self):
        # Each once and ten times as long: what grows with the square would take a hundred times as long.
        slow = self.page.js("""(() => {
          const slow = [];
          for (const unit of ["[", "![", "*a ", "**a*", "`", "``a`", "_a*", "> ", "- ", "|", "|a\\n|-\\n", "<http://", "http://a", "# ", "1. a\\n", "\\\\", "[a](", " \\n", "~~~\\n", "((", "[](<"]) {
            const time = (count) => {
              const start = performance.now();
              new MarkdownView(document.createElement("div")).update(unit.repeat(count), true);
              return performance.now() - start;
            };
            time(500);
            const short = Math.max(time(2000), 4), long = time(20000);
            if (long / short > 60) slow.push([unit, short, long]);
          }
          return slow;
        })()""")
        self.assertEqual(slow, [])

    def test_hostile_text_stays_text(self):
        self.ask(HOSTILE, Script.text(HOSTILE))
        self.assertEqual(self.count("#log :is(img, script, iframe, style, object, [onerror], [onload], [onclick], [onmouseover])"), 0)
        self.assertEqual(self.page.js("[...document.querySelectorAll('#log a')].map((a) => new URL(a.href).protocol)"), ["http:", "https:"])
        self.assertIn('<img src=x onerror="window.hacked = 1">', self.text(".assistant .content"))
        self.assertIn("[click](javascript:window.hacked=3)", self.text(".assistant .content"))
        self.assertEqual(self.page.js("document.querySelector('.user .body').textContent"), HOSTILE)
        self.assertIsNone(self.page.js("window.hacked"))
        self.assertNotEqual(self.page.js("getComputedStyle(document.body).display"), "none")
        # Were there a mistake, the policy of the page would still refuse markup from strings.
        self.assertIn("TrustedHTML", self.page.js("(() => { try { document.body.innerHTML = '<b>'; } catch (e) { return e.message; } })()"))
        BROWSER.events = [e for e in BROWSER.events if e.get("method") not in ("Log.entryAdded",)]

    def test_escape_and_the_button_stop(self):
        for stop in (lambda: self.page.press("Escape"), lambda: self.page.click("#send")):
            self.server.left.clear()
            self.server.script = Script(*pieces("So far"), Script.LEAVE)
            self.say("Talk")
            self.page.until("document.querySelector('.message:last-child .content')?.innerText === 'So far'")
            stop()
            self.answered()
            self.assertTrue(self.server.left.wait(30), "the connection stays open")
            self.assertEqual(self.texts(".assistant .content")[-1], "So far")
            self.assertIn("stopped", self.texts(".assistant .stats")[-1])
            self.assertEqual(self.count(".error"), 0)
        self.assertEqual([m["content"] for m in self.server.bodies[1]["messages"]], ["Talk", "So far", "Talk"])

    def test_a_message_is_edited_and_an_answer_made_again(self):
        self.ask("One", Script.text("First"))
        self.ask("Two", Script.text("Second"))
        self.page.click(".assistant:last-child [aria-label='Answer again']")
        self.server.script = Script.text("Unused")
        self.page.until("!running.size")
        self.assertEqual([m["content"] for m in self.server.bodies[2]["messages"]], ["One", "First", "Two"])
        self.server.script = Script.text("Third")
        self.page.click(".user [aria-label=Edit]")
        self.page.js("document.querySelector('.editor textarea').select()")
        self.page.type("Uno\n")
        self.page.press("Enter", shift=True)
        self.page.type("dos")
        self.page.press("Enter")
        self.answered()
        self.assertEqual(self.server.bodies[3]["messages"], [{"role": "user", "content": "Uno\n\ndos"}])
        self.assertEqual(self.texts(".message :is(.body, .content)"), ["Uno\n\ndos", "Third"])
        self.page.js("document.getElementById('input').focus()")
        self.page.press("ArrowUp")  # edits the last one
        self.page.press("Escape")
        self.assertEqual(self.texts(".user .body"), ["Uno\n\ndos"])

    def test_settings_reach_the_request(self):
        values = {"temperature": 0.3, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "max_tokens": 99, "seed": 7, "repetition_penalty": 1.1,
                  "presence_penalty": -0.5, "frequency_penalty": 0.25}
        tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
        self.page.click("#tune")
        self.set("#s-system", "Be brief.")
        self.set("#s-tools", json.dumps(tools))
        for name, value in values.items():
            self.set(f"#n-{name}", str(value))
        self.shot("settings.png")
        self.ask("Hi")
        sent = self.server.bodies[0]
        self.assertEqual({k: sent[k] for k in values}, values)
        self.assertEqual(sent["tools"], tools)
        self.assertEqual(sent["messages"][0], {"role": "system", "content": "Be brief."})
        self.page.open(self.server.url + "/?")  # they outlive the page
        self.page.until("document.getElementById('model').value")
        self.ask("Again")
        self.assertEqual({k: self.server.bodies[1][k] for k in values}, values)
        self.page.click("#tune")
        self.page.click("#defaults")
        self.ask("And again")
        self.assertNotIn("temperature", self.server.bodies[2])

    def test_a_wrong_setting_is_said_and_not_sent(self):
        self.page.click("#tune")
        self.set("#n-top_p", "3")
        self.say("Hi")
        self.assertEqual(self.text("#wrong"), "Top p must be from 0 to 1.")
        self.assertEqual(self.page.js("document.activeElement.id"), "n-top_p")
        self.assertEqual(self.page.js("document.getElementById('input').value"), "Hi")
        self.assertEqual(self.server.bodies, [])
        self.set("#n-top_p", "0.5")
        self.set("#s-tools", "{")
        self.page.click("#send")
        self.assertIn("Tools must be a JSON list", self.text("#wrong"))
        self.assertEqual(self.server.bodies, [])

    def test_reasoning_is_folded(self):
        for field in ("reasoning_content", "reasoning"):
            self.server.gate.clear()
            self.server.script = Script(*[chunk(**{field: t}) for t in ("Let me ", "think.")], Script.GATE, *pieces("42."), end(), usage(4))
            self.say("Why?")
            self.page.until("document.querySelector('.message:last-child .reasoning summary')?.innerText === 'Thinking…'")
            self.server.gate.set()
            self.answered()
            self.assertRegex(self.texts(".reasoning summary")[-1], "^Thought for ")
            self.assertFalse(self.page.js("document.querySelector('.message:last-child .reasoning').open"))
            self.assertEqual(self.texts(".content")[-1], "42.")
        self.page.click(".message:last-child .reasoning summary")
        self.assertEqual(self.texts(".reasoning .inside")[-1], "Let me think.")
        self.assertEqual(self.server.bodies[1]["messages"][1], {"role": "assistant", "content": "42."})

    def test_tool_calls_are_folded_and_answered(self):
        call = [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}]
        more = [[{"index": 0, "function": {"arguments": a}}] for a in ('{"city": "Os', 'lo"}')]
        other = [{"index": 1, "id": "call_2", "type": "function", "function": {"name": "time", "arguments": "{}"}}]
        self.ask("Weather?", Script(*[chunk(tool_calls=c) for c in (call, *more, other)], end("tool_calls"), usage(12)))
        self.assertEqual(self.texts(".tool-call summary"), ["Tool call\nweather", "Tool call\ntime"])
        self.assertEqual(self.count(".tool-call[open]"), 0)
        self.page.click(".tool-call summary")
        self.assertEqual(self.text(".tool-call .inside"), '{\n  "city": "Oslo"\n}')
        self.server.script = Script.text("It is 21 °C.")
        self.set(".results textarea", '{"celsius": 21}')
        self.page.click(".results button")
        self.answered()
        calls = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}}
                 for i, n, a in (("call_1", "weather", '{"city": "Oslo"}'), ("call_2", "time", "{}"))]
        self.assertEqual(self.server.bodies[1]["messages"][1:], [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_1", "content": '{"celsius": 21}'}, {"role": "tool", "tool_call_id": "call_2", "content": ""}])
        self.assertEqual(self.texts(".tool-result summary"), ["Result of\nweather", "Result of\ntime"])
        self.assertEqual(self.count(".results"), 0)
        self.assertEqual(self.texts(".content")[-1], "It is 21 °C.")

    def test_models_and_adapters_are_listed(self):
        self.assertEqual(self.page.js("[...document.querySelectorAll('#model optgroup')].map((g) => [g.label, ...[...g.children].map((o) => o.value)])"),
                         [["Models", "tiny"], ["Adapters", "poet"]])
        self.set("#model", "poet")
        self.ask("Rhyme")
        self.assertEqual(self.server.bodies[0]["model"], "poet")
        self.assertEqual(self.text(".assistant .who"), "poet")
        self.page.open(self.server.url + "/?")
        self.page.until("document.getElementById('model').value === 'poet'")

    def test_errors_are_readable(self):
        error = {"error": {"message": "max_tokens must be at most 4096; got 9999.", "type": "invalid_request_error", "param": "max_tokens"}}
        self.ask("Long", Script(error, status=400))
        self.assertEqual(self.text(".error strong"), "The server refused the request (400)")
        self.assertEqual(self.text(".error p"), error["error"]["message"])
        self.server.script = Script.text("Fine.")
        self.page.click(".error button")
        self.answered()
        self.assertEqual(self.texts(".message :is(.body, .content)"), ["Long", "Fine."])
        self.ask("More", Script({"error": {"message": "The queue is full.", "type": "rate_limit_error"}}, status=429, headers=[("Retry-After", "3")]))
        self.assertEqual(self.texts(".error :is(strong, p)"), ["The server is busy (429)", "The queue is full. Try again in 3 s."])
        self.ask("Mid", Script(*pieces("Some"), {"error": {"message": "The engine failed.", "type": "internal_error"}}, done=False))
        self.assertEqual(self.texts(".content")[-1], "Some")
        self.assertIn("The engine failed.", self.texts(".error")[-1])
        self.ask("Cut", Script(*pieces("Some"), done=False))
        self.assertIn("closed the connection before the end", self.texts(".error")[-1])
        self.ask("Odd", Script(b"<h1>Bad gateway</h1>", status=502))
        self.assertIn("<h1>Bad gateway</h1>", self.texts(".error")[-1])
        self.assertEqual([m["content"] for m in self.server.bodies[-1]["messages"]], ["Long", "Fine.", "More", "Mid", "Some", "Cut", "Some", "Odd"])

    def test_the_key_is_asked_for_and_sent(self):
        self.server.api_key = KEY
        self.page.open(self.server.url + "/?")
        self.page.until("document.querySelector('#notice .error')")
        self.assertEqual(self.text("#notice strong"), "The API key is missing or wrong (401)")
        self.assertEqual(self.page.js("document.activeElement.id"), "s-key")
        self.page.type(KEY)
        self.page.press("Enter")
        self.page.until("document.getElementById('model').value && !document.querySelector('#notice .error')")
        self.ask("Hi")
        self.assertEqual(self.server.keys[-1], "Bearer " + KEY)
        self.assertNotIn(KEY, self.page.js("JSON.stringify(localStorage)"))

    def test_conversations_are_kept_and_deleted(self):
        self.ask("About rain", Script.text("Wet."))
        self.page.click("#new")
        self.ask("About snow", Script.text("Cold."))
        self.page.open(self.server.url + "/?")
        self.assertEqual(self.texts(".chat-row .open"), ["About snow", "About rain"])
        self.assertEqual(self.count(".message"), 0)
        self.page.click("[title='About rain']")
        self.assertEqual(self.texts(".message :is(.body, .content)"), ["About rain", "Wet."])
        self.page.click("[aria-current] .drop")
        self.assertEqual(self.texts(".chat-row .open"), ["About snow"])
        self.page.click("#toast button")
        self.assertEqual(self.texts(".chat-row .open"), ["About snow", "About rain"])
        self.assertEqual(self.texts(".message :is(.body, .content)"), ["About rain", "Wet."])
        self.page.click("[aria-current] .drop")
        self.page.open(self.server.url + "/")
        self.assertEqual(self.texts(".chat-row .open"), ["About snow"])

    def test_an_answer_goes_on_while_another_conversation_is_open(self):
        self.server.script = Script(*pieces("One "), Script.GATE, *pieces("two"), end(), usage(2))
        self.say("Count")
        self.page.until("document.querySelector('.content')?.innerText.startsWith('One')")
        self.page.click("#new")
        self.assertEqual(self.count(".message"), 0)
        self.server.gate.set()
        self.page.until("!running.size")
        self.page.click("[title=Count]")
        self.assertEqual(self.texts(".content"), ["One two"])

    def test_enter_sends_and_shift_enter_breaks_the_line(self):
        self.page.js("document.getElementById('input').focus()")
        self.page.press("Enter")  # nothing to send
        self.page.type("a")
        self.page.press("Enter", shift=True)
        self.page.type("b")
        self.page.press("Enter")
        self.answered()
        self.assertEqual([b["messages"][0]["content"] for b in self.server.bodies], ["a\nb"])

    def test_dark_and_light(self):
        background = "getComputedStyle(document.body).backgroundColor"
        light = self.page.js(background)
        self.page.prefer("dark")
        self.page.until(f"{background} !== {json.dumps(light)}")
        self.page.click("#theme")
        self.assertEqual(self.page.js(background), light)
        self.page.open(self.server.url + "/?")  # the choice is kept against the system's
        self.assertEqual(self.page.js(background), light)
        self.page.open(self.server.url + "/dashboard")
        self.assertEqual(self.page.js("document.documentElement.dataset.theme"), "light")

    @unittest.skipUnless(SHOTS, "pictures only with --screenshots")
    def test_pictures(self):
        for question in ("Plan a week of training runs", "Why does my loss spike at step 2,000?", "Rewrite this paragraph", "Names for a checkpoint"):
            self.ask(question)
            self.page.click("#new")
        self.page.resize(1280, 860)
        thought = [chunk(reasoning_content=w) for w in "They want code and the idea behind it. A sort, then one pass.".split()]
        tokens = [chunk(content=t) for t in re.findall(r"\s*\S+", PICTURE)]
        self.ask("Merge overlapping intervals in Python, please, and say how fast it is.",
                 Script(*thought, *tokens, end(), usage(len(tokens) * 2), pace=0.01))
        self.page.js("document.getElementById('scroll').scrollTop = 0")
        self.shot("chat.png")
        self.page.click("#theme")
        self.shot("chat-dark.png")
        call = [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]
        self.ask("What is the weather in Oslo?", Script(*thought, chunk(tool_calls=call), end("tool_calls"), usage(30), pace=0.01))
        self.page.click(".tool-call summary")
        self.page.js("follow(true)")
        self.shot("chat-tools.png")
        self.ask("And now?", Script({"error": {"message": "This model's context is 4096 tokens; the request has 4310.", "param": "messages"}}, status=400))
        self.shot("chat-error.png")

    def test_every_control_has_a_name(self):
        self.ask("Hi", Script.text(MARKDOWN))
        self.page.click("#tune")
        nameless = self.page.js("""[...document.querySelectorAll("button, input, select, textarea, a")].filter((n) =>
          !(n.getAttribute("aria-label") || n.innerText.trim() || [...(n.labels ?? [])].some((l) => l.innerText.trim()))).map((n) => n.outerHTML)""")
        self.assertEqual(nameless, [])

    def test_a_narrow_window_has_no_sideways_scrolling(self):
        self.page.resize(375, 720)
        self.ask("Hi", Script.text(MARKDOWN + "\n\n" + "wide" * 80 + "\n\n```\n" + "wide " * 80 + "\n```"))
        self.assertEqual(self.page.js("[document.documentElement.scrollWidth, document.getElementById('scroll').scrollWidth <= 375]"), [375, True])
        self.shot("narrow.png")
        self.page.click("#menu")
        self.page.until("document.getElementById('side').getBoundingClientRect().x === 0")
        self.page.click("[title=Hi]")
        self.page.until("document.getElementById('side').getBoundingClientRect().right <= 0")


def numbers(poll, healthy=True):
    """A busy minute, one poll later each time."""
    wave = [{"second": s, "prompt_tokens": round(3000 + 900 * math.sin(s / 4) + 400 * math.cos(s * 1.7)),
             "generation_tokens": round(1350 + 180 * math.sin(s / 9) + 45 * math.cos(s * 2.3)), "requests": 4}
            for s in range(40 + poll, 100 + poll) if s != 42]
    return {
        "model": "Llama-3.2-1B-Instruct", "version": "0.9.0", "uptime_s": 100.4 + poll, "healthy": healthy, "running": 6, "waiting": 2,
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
        self.assertEqual(self.text("#model"), "Llama-3.2-1B-Instruct")
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

    @unittest.skipUnless(SHOTS, "pictures only with --screenshots")
    def test_pictures(self):
        self.page.resize(1280, 1040)
        self.page.until("document.getElementById('generation-rate').innerText >= '1,503'")
        self.shot("dashboard.png")
        self.page.click("#theme")
        self.shot("dashboard-dark.png")

    def test_a_narrow_window_has_no_sideways_scrolling(self):
        self.page.resize(375, 720)
        self.live()
        self.assertEqual(self.page.js("document.documentElement.scrollWidth"), 375)
        self.shot("dashboard-narrow.png")


if __name__ == "__main__":
    unittest.main()
