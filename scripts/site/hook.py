"""What mkdocs does beside its own work, for documents that are read in the repository too.

Links to files outside docs/ become links to the repository, if the file exists; otherwise the
build fails. Drawings are put into the page, so that they follow its colour scheme.
"""

import os
import re

from mkdocs.exceptions import PluginError

LINK = re.compile(r"\]\(((?:\.\./)+)([^)#\s]*)(#[^)\s]*)?\)")
IMAGE = re.compile(r'<p><img alt="([^"]*)" src="([^"]+\.svg)"\s*/?></p>')
STYLE = re.compile(r"<style>.*?</style>\n?", re.S)


def on_page_markdown(markdown, page, config, files):
    docs = config["docs_dir"]
    root = os.path.dirname(config["config_file_path"])
    here = os.path.dirname(os.path.join(docs, page.file.src_path))

    def outside(match):
        up, rest, anchor = match.group(1), match.group(2), match.group(3) or ""
        target = os.path.normpath(os.path.join(here, up + rest))
        if target.startswith(docs + os.sep):
            return match.group(0)
        if not os.path.exists(target):
            raise PluginError(f"{page.file.src_path}: no file {up}{rest}")
        kind = "tree" if os.path.isdir(target) else "blob"
        return f"]({config['repo_url'].rstrip('/')}/{kind}/main/{os.path.relpath(target, root)}{anchor})"

    return LINK.sub(outside, markdown)


def on_page_content(html, page, config, files):
    here = os.path.dirname(os.path.join(config["docs_dir"], page.file.src_path))

    def inline(match):
        name = os.path.normpath(os.path.join(here, match.group(2)))
        if os.path.basename(os.path.dirname(name)) != "img":
            return f'<div class="plot">{match.group(0)[3:-4]}</div>'
        with open(name, encoding="utf-8") as f:
            return f'<div class="drawing">{STYLE.sub("", f.read())}</div>'

    return IMAGE.sub(inline, html)
