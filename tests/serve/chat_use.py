"""The chat page: what one does with it, and what it asks of the server."""

import json

from page_cases import ChatPages
from page_server import KEY, Script, chunk, end, pieces, usage


class ChatUse(ChatPages):
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
