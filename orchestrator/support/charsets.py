"""Bytes to text, where whoever sent the bytes names their charset.

Python's codecs are more than charsets: `punycode` takes quadratic time, `unicode_escape` and
`utf_7` make another text than was sent, `idna` and `undefined` raise. So a name is looked up in a
list of charsets that texts are really in (mostly those of the WHATWG's Encoding Standard), and
never given to `codecs` before. Any other name means UTF-8.
"""

from __future__ import annotations

_LABELS = """
utf-8 utf8 us-ascii ascii utf-16 utf-16le utf-16be utf-32 utf-32le utf-32be
latin1 latin-1 macintosh koi8-r koi8-u cp437 cp850 cp866 ibm866 cp874 tis-620
gb2312 gbk gb18030 big5 big5-hkscs shift-jis shiftjis sjis cp932 euc-jp iso-2022-jp
euc-kr ks-c-5601-1987 cp949
"""
_CHARSETS = {
    *_LABELS.split(),
    *(f"{prefix}{number}" for prefix in ("windows-", "cp") for number in range(1250, 1259)),
    *(f"iso-8859-{number}" for number in range(1, 17) if number != 12),
}


def decode_text(data: bytes, charset: str = "") -> str:
    """`data` as text; what has no meaning in its charset becomes U+FFFD. Never raises."""
    name = charset.lower().replace("_", "-")
    return data.decode(name if name in _CHARSETS else "utf-8", "replace")
