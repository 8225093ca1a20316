"""When a page is worth another visit: what is believed of its changes, and what a visit would bring. Numpy, no I/O.

beliefs.py  a Gamma belief of a page's rate of changes in two bytes, and how a visit moves it
price.py    the worth of a visit, the time at which it meets the price, and the price
weight.py   importance of pages; the rules [[revisit_rule]]
hubs.py     what a visit is worth for the new links it brings
signals.py  how far signals of sitemaps and feeds are believed
visited.py  a page's row after a visit, and until when it rests
"""
