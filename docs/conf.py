"""How the documentation is built: `make docs`."""

import sys
from pathlib import Path

# Document the packages of this checkout, not those of an installed copy.
sys.path.insert(0, str(Path(__file__).parents[1]))

project = "Batch dispatcher"
author = "the maintainers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docs.directives",
]
html_theme = "furo"
html_title = "Batch dispatcher"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["tables.css", "code.css"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
python_maximum_signature_line_length = 80
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
nitpicky = False
smartquotes = False  # what is copied from a page has to work
