"""The chat page: what it makes of the text of an answer, and how it looks."""

import json
import re
import unittest

from page_cases import ChatPages, Pages
from page_server import Script, chunk, end, pieces, usage
from page_texts import HOSTILE, MARKDOWN, IMAGE


class ChatDrawing(ChatPages):
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
        self.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
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
            const short = Math.max(time(2000), 4);
            let long = time(20000);  // once more if the machine was busy with something else
            for (let i = 0; i < 2 && long / short > 60; ++i) long = Math.min(long, time(20000));
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
        self.browser.events.clear()  # what the policy said about it

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

    @unittest.skipUnless(Pages.shots, "images only with --screenshots")
    def test_images(self):
        self.server.models = [{"id": "demo-model"}, {"id": "my-adapter", "parent": "demo-model"}]
        self.page.open(self.server.url + "/?")
        self.page.until("document.getElementById('model').value.startsWith('demo')")
        for question in ("Plan a week of training runs", "Why does my loss spike at step 2,000?", "Rewrite this paragraph", "Names for a checkpoint"):
            self.ask(question)
            self.page.click("#new")
        self.page.resize(1280, 920)
        thought = [chunk(reasoning_content=w) for w in "They want code and the idea behind it. A sort, then one pass.".split()]
        tokens = [chunk(content=t) for t in re.findall(r"\s*\S+", IMAGE)]
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
