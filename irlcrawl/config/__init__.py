"""The configuration: every key with its meaning, where its value comes from, and which values are refused.

keys.py        every key once: default, help, bounds, and whether it may change on resume
checks.py      allowed values, relations between keys, what a start needs
toml.py        reading and writing: defaults, file, options, JOB/irlcrawl.toml, the reference
rewrite.py     irlcrawl.toml with other values and its own comments
lists.py       files of names that a configuration points to
headers.py     headers that the operator adds to requests, and files of secrets
proxies.py     proxies before hosts, and the file of their logins
plugins.py     plug-ins of other packages: found by their entry points, and made
signing_key.py  the key with which requests are signed, and its directory
commands.py    which commands of a configuration may run
rests.py       how long what failed rests
hours.py       the hours of the day in which hosts may be asked
overrides.py   `[site."NAME"]`: the value of a key for a host
__main__.py    `python -m irlcrawl.config` prints the reference
"""
