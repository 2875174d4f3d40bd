"""How the documentation is built: `make docs`."""

import sys
import tomllib
from pathlib import Path

# Document the packages of this checkout, not those of an installed copy.
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
_settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
_address = _settings["tool"]["hatch"]["metadata"]["hooks"]["custom"]["address"]

project = "Batch dispatcher"
author = "the maintainers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "docs.directives",
]
html_theme = "furo"
html_title = "Batch dispatcher"
if _address:  # each page links to its source
    html_theme_options = {
        "source_repository": _address,
        "source_branch": "main",
        "source_directory": "docs/",
    }
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["code.css", "headings.css", "tables.css"]
html_js_files = ["tables.js"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
python_maximum_signature_line_length = 80
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
# Neither prompts nor what is printed are copied, and what only was printed has no button.
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"
nitpicky = False
smartquotes = False  # what is copied from a page has to work
