#!/usr/bin/env python3
"""links.py DIR: every link inside a built site leads to a file, and to an anchor in it.

Nothing may be loaded from other hosts: scripts, styles, images and fonts are the site's own.
Links to other hosts are counted and not followed. Exit status 1 names what is broken.
"""

import os
import sys
import urllib.parse
from html.parser import HTMLParser


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        have = dict(attrs)
        if have.get("id"):
            self.ids.add(have["id"])
        if tag == "a" and have.get("name"):
            self.ids.add(have["name"])
        if tag == "a" and have.get("href"):
            self.links.append(have["href"])
        if tag in ("script", "img", "iframe", "source") and have.get("src"):
            self.loads.append(have["src"])
        if tag == "link" and have.get("href") and have.get("rel") in ("stylesheet", "preload", "icon"):
            self.loads.append(have["href"])


def main(root):
    pages = {}
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as f:
                    pages[path] = Page(f.read())
    broken, inside, outside = [], 0, 0
    for path, page in sorted(pages.items()):
        if os.path.basename(path) == "404.html":
            continue
        for url in page.links + page.loads:
            parts = urllib.parse.urlsplit(url)
            if parts.scheme or parts.netloc:
                outside += 1
                if url in page.loads and parts.scheme != "data":
                    broken.append(f"{path}: loads {url} from another host")
                continue
            inside += 1
            target = path
            if parts.path:
                target = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(parts.path)))
            if os.path.isdir(target):
                target = os.path.join(target, "index.html")
            if not os.path.exists(target):
                broken.append(f"{path}: {url} leads nowhere")
            elif parts.fragment and target in pages:
                if urllib.parse.unquote(parts.fragment) not in pages[target].ids:
                    broken.append(f"{path}: {url}: no such anchor")
    for line in broken:
        print(line, file=sys.stderr)
    print(f"{len(pages)} pages, {inside} links inside, {outside} to other hosts, {len(broken)} broken")
    return 1 if broken or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
