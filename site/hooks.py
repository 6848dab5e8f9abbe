"""Hooks of MkDocs: generated pages, and links that leave docs/."""

import os
import pathlib
import re
import subprocess

from mkdocs.structure.files import File

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
#: The program whose help becomes the reference.
WEIR = os.environ.get("WEIR", str(ROOT / "target/debug/weir"))
LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#]*)(#[^)]*)?\)")


def said(*words):
    """What the program prints."""
    run = subprocess.run([WEIR, *words], capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}, check=True)
    return run.stdout


def commands():
    """A page with the help of each command."""
    names = re.findall(r"^  ([a-z][a-z0-9_-]*) {2,}", said("--help"), re.MULTILINE)
    parts = [f"## {name}\n\n```\n{said(name, '--help').strip()}\n```\n" for name in dict.fromkeys(names) if name != "help"]
    return "# Commands\n\nEach command says this with `--help`.\n\n" + "\n".join(parts)


def fields():
    """A page with all fields of filters."""
    import csv
    import io

    rows = list(csv.DictReader(io.StringIO(said("fields", "--format", "csv"))))
    names = list(rows[0])
    clean = lambda text: text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    head = "| " + " | ".join(names) + " |\n|" + "---|" * len(names) + "\n"
    lines = ("| " + " | ".join(f"`{row[n]}`" if n == names[0] else clean(row[n]) for n in names) + " |" for row in rows)
    return f"# Fields\n\n`weir fields` lists the same {len(rows)} fields.\n\n{head}" + "\n".join(lines) + "\n"


def gallery():
    """A page with the explained filters of docs/gallery."""
    parts = []
    for path in sorted((ROOT / "docs/gallery").glob("*.txt")):
        text = path.read_text()
        if path.name != "filters.txt":
            parts.append(f"## {path.stem}\n\n```\n{text.strip()}\n```\n")
    return "# Explained filters\n\nWhat the compiler makes of a filter: `weir explain FILTER`.\n\n" + "\n".join(parts)


def on_files(files, config):
    """Adds the generated pages."""
    made = {
        "index.md": (HERE / "index.md").read_text(),
        "reference/commands.md": commands(),
        "reference/fields.md": fields(),
        "reference/gallery.md": gallery(),
    }
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links to files outside docs/ name the file: the site does not have the sources. A missing file is an error."""

    def outside(match):
        text, target, _ = match.groups()
        place = (ROOT / "docs" / pathlib.Path(page.file.src_uri).parent / target).resolve()
        if not place.exists():
            raise SystemExit(f"{page.file.src_uri}: the link to {target} leads nowhere")
        name = place.relative_to(ROOT).as_posix()
        return text if name in text else f"{text} (`{name}`)"

    return LINK.sub(outside, markdown)
