"""What a page says, by its media type: title, description, links, text. One file a type, behind one small seam.

content.py     the shapes that handlers give
extras.py      libraries that only some exports need
bounded.py     reading in a process of its own, with bounds
sniff.py       the media type that a body has, whatever its header says
kinds.py       the seam: which handler reads which media type
html.py        HTML, by Lexbor
tame.py        ... or in such a process, where the parser may take hours
xhtml.py       XHTML
plain.py       plain text
pdf.py         PDF, by option
pdf_reader.py  the process in which it is read
xml.py         feeds, sitemaps and other XML
"""
