"""Tests of irlcrawl/export/media: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

content.py    export/test_dataset.py
extras.py     export/test_dataset.py
kinds.py      export/media/test_handlers.py
plain.py      export/media/test_handlers.py
xhtml.py      export/media/test_handlers.py
xml.py        export/media/test_handlers.py
sniff.py      export/media/test_handlers.py
html.py       export/media/test_handlers.py
pdf_reader.py  export/media/test_pdf.py
tame.py       export/media/test_bounded.py
"""
