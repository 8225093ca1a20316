"""Which language a text is in, by resiliparse's detector: 17 microseconds a page, 30 times faster than py3langid at a
page's first 4,000 characters. It is right about texts of some sentences; of shorter ones it says little.
"""

from __future__ import annotations

from irlcrawl.export.media.extras import needed

CHARS_LEAST = 50
CHARS_READ = 10_000

# ISO 639-1 to ISO 639-3, as cc-index has languages.
_CODES = {
    "af": "afr", "ar": "ara", "as": "asm", "az": "aze", "ba": "bak", "be": "bel", "bg": "bul", "bn": "ben",
    "bo": "bod", "br": "bre", "ca": "cat", "ce": "che", "cs": "ces", "cv": "chv", "cy": "cym", "da": "dan",
    "de": "deu", "dv": "div", "el": "ell", "en": "eng", "eo": "epo", "es": "spa", "et": "est", "eu": "eus",
    "fa": "fas", "fi": "fin", "fo": "fao", "fr": "fra", "fy": "fry", "ga": "gle", "gd": "gla", "gl": "glg",
    "gu": "guj", "ha": "hau", "he": "heb", "hi": "hin", "hr": "hrv", "hu": "hun", "hy": "hye", "id": "ind",
    "io": "ido", "is": "isl", "it": "ita", "ja": "jpn", "jv": "jav", "ka": "kat", "kk": "kaz", "km": "khm",
    "kn": "kan", "ko": "kor", "ku": "kur", "ky": "kir", "la": "lat", "lb": "ltz", "lt": "lit", "lv": "lav",
    "mg": "mlg", "mk": "mkd", "ml": "mal", "mn": "mon", "mr": "mar", "mt": "mlt", "my": "mya", "ne": "nep",
    "nl": "nld", "no": "nor", "or": "ori", "pa": "pan", "pl": "pol", "ps": "pus", "pt": "por", "rm": "roh",
    "ro": "ron", "ru": "rus", "sa": "san", "sc": "srd", "sd": "snd", "si": "sin", "sk": "slk", "sl": "slv",
    "so": "som", "sq": "sqi", "sr": "srp", "sv": "swe", "sw": "swa", "ta": "tam", "te": "tel", "tg": "tgk",
    "th": "tha", "tk": "tuk", "tl": "tgl", "tr": "tur", "tt": "tat", "ug": "uig", "uk": "ukr", "ur": "urd",
    "uz": "uzb", "vi": "vie", "vo": "vol", "yi": "yid", "zh": "zho",
}  # fmt: skip


def language_of(text: str) -> str | None:
    """The language of a text, as three letters (ISO 639-3); None if the detector does not know it. JobError if it is
    not installed."""
    detect = needed("resiliparse.parse.lang", "--language").detect_fast
    if len(text) < CHARS_LEAST:
        return None
    code, _ = detect(text[:CHARS_READ])
    return _CODES.get(code)
