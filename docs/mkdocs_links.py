"""What the documentation's site makes of pages that are written for the repository."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).parents[1]

#: Pages of the repository's top, by their places on the site.
_TOP = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top that have no page of the site in their place."""
    for name, place in _TOP.items():
        if files.get_file_from_path(place) is None:
            text = (_ROOT / name).read_text(encoding="utf-8")
            files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(
    markdown: str,
    page: Page,
    config: MkDocsConfig,  # noqa: ARG001 - as mkdocs calls it
    files: Files,
) -> str:
    """Lead links to pages of the site; what is source only is named, not linked."""
    source, depth = _find_source(page.file.src_uri), page.file.src_uri.count("/")

    def lead(found: re.Match[str]) -> str:
        path, anchor = found["path"], found["anchor"] or ""
        if not path or "://" in path:
            return found[0]
        target = (source.parent / path).resolve()
        if not target.is_relative_to(_ROOT):
            return found[0]
        name = target.relative_to(_ROOT).as_posix()
        place = _TOP.get(name, name.removeprefix("docs/"))
        if name == "README.md":
            return f"[{found['text']}]({'../' * depth}index.md)"
        if files.get_file_from_path(place) is None:
            return found["text"]
        return f"[{found['text']}]({'../' * depth}{place}{anchor})"

    return _LINK.sub(lead, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt: what machines read first, with the pages as they are written."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for path in sorted((_ROOT / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        title, _, rest = text.partition("\n")
        about = rest.strip().partition("\n\n")[0].replace("\n", " ")
        lines.append(f"- [{title.lstrip('# ')}]({config.site_url}{path.name}): {about}")
        (Path(config.site_dir) / path.name).write_text(text, encoding="utf-8")
    target = Path(config.site_dir) / "llms.txt"
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _find_source(place: str) -> Path:
    for name, other in _TOP.items():
        if other == place and not (_ROOT / "docs" / place).is_file():
            return _ROOT / name
    return _ROOT / "docs" / place
