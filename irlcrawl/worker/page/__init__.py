"""One page: its links, and what makes it a link list or a near-duplicate. Pure functions of bytes; no network, no disk.

links.py         the links of a page: references found, resolved, made canonical
requisites.py    what a page needs to be seen as it is: images, styles, scripts, fonts
scan.py          start tags by HTML's tokenizer rules, and what hides them, in linear time
metas.py         the <meta> elements of a head that have certain names
charset.py       which encoding a page is in
labels.py        the labels of the web's encodings, and a codec for each
sitemaps.py      what a site itself lists: sitemaps, feeds, the Sitemap: lines of a robots.txt
entries.py       what sitemaps and feeds say of the pages that they list
lastmods.py      when pages changed, by what sitemaps and feeds say
interstitial.py  what a server may send in the place of a page: a challenge, a parking page
linklist.py      whether a page is a list of links, which supports no site
fingerprint.py   the fingerprint of what a page says: its texts, digits apart
sketch.py        what tells that two pages say almost the same: SimHashes of their words
wording.py       what a page says, told from an earlier wording of the same
repetition.py    near-duplicates in a row in one directory
"""
