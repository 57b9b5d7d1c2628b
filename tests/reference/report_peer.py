"""Checks that a report is well formed and asks for nothing outside of itself; prints its visible text and its data.
usage: report_peer.py REPORT.html"""

import html.parser
import json
import pathlib
import re
import sys

VOID = {"meta", "input", "br", "link", "img"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text, self.data, self.faults = [], [], "", []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in {"src", "href", "srcset", "action", "data"} or name.startswith("on"):
                self.faults.append(f"{tag} has {name}={value!r}")
        if tag in {"link", "img", "iframe", "object", "embed", "base"}:
            self.faults.append(f"there is a {tag}")
        if tag not in VOID:
            self.open.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.faults.append(f"</{tag}> ends {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data):
        tag, attributes = self.open[-1] if self.open else ("", {})
        if attributes.get("id") == "data":
            self.data += data
        elif tag not in {"script", "style"} and data.strip():
            self.text.append(data.strip())


source = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
page = Page()
page.feed(source)
page.close()
page.faults += [f"{tag} is not closed" for tag, _ in page.open]
page.faults += [f"names {found!r}" for found in re.findall(r"https?:|url\(|@import|//\w+\.\w+/", source)]
# parse_constant: NaN is no JSON for a browser.
data = json.loads(page.data, parse_constant=lambda name: page.faults.append(f"{name} in the data"))
print(json.dumps({"faults": page.faults, "text": page.text, "series": data["series"], "runs": data["runs"]}))
