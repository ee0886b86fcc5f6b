"""Whether a user's answer to "Shall I go ahead?" is a yes or a no.

Only an answer of which every word is known is a yes, so an answer in a language that is not here,
or one that adds something, is none: the model then reads it, and the user may be asked again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_YES = frozenset(
    "yes yep yeah yup ok okay sure certainly absolutely definitely confirm confirmed agreed agree"
    " proceed y"  # English
    " ja jawohl jo klar gerne sicher natürlich einverstanden genau bestätigt bestätige"  # German
    " oui ouais d'accord volontiers confirme"  # French
    " sí si claro vale confirmo adelante"  # Spanish
    " sim certo"  # Portuguese
    " sì va bene certo confermo"  # Italian
    " graag akkoord jazeker"  # Dutch
    " tak da да evet はい ええ네 예".split()
)
_PHRASES = (
    *("go ahead", "do it", "do so", "do that", "go on", "of course", "all right", "please do"),
    *("mach das", "mach es", "tu das", "tu es", "in ordnung", "vas-y", "allez-y", "bien sûr"),
    *("por favor", "de acuerdo", "hazlo", "pode ser", "per favore", "doe maar", "s'il vous plaît"),
    *("s'il te plaît",),
)
# Beside one of these, words of the call are no contradiction: "yes, cancel it". Beside an "ok" they
# may be: "ok, cancel".
_STRONG = frozenset("yes yep yeah ja jawohl oui sí sim sì da да evet".split())
# Words that may stand beside a yes.
_BESIDE = frozenset(
    "please the it that this to now thanks thank you very much great good fine right and then i a"
    " bitte danke das es jetzt so gut gern merci s'il te plait por favor gracias obrigado grazie"
    " prego dank je u alstublieft".split()
)
_PLAIN_NO = frozenset("no nope nah nein nee non não nie нет hayır いいえ 아니요".split())
_NO = _PLAIN_NO | frozenset(
    "cancel never stop don't not thanks thank you danke lieber nicht merci pas grazie"
    " gracias".split()
)
# "No problem, send it" is no "no".
_OBSTACLES = frozenset(
    "problem problems problema problemas probleme probleem worry worries rush hurry doubt wait need"
    " objection objections matter".split()
)
_NO_PHRASES = ("never mind", "not now", "leave it", "forget it", "do not", "lass es", "lass das")

_CHINESE_YES = re.compile(
    "(?:是的|是|好的|好|可以|行|对的|对|确认|确定|没问题|同意|当然|嗯)+"
    "(?:请|继续|吧|啊|的|谢谢|就这样)*"
)
_CHINESE_NO = re.compile("(?:不|不要|不用|不是|不行|别|算了|取消|谢谢|了|吧)+")
# Characters of an answer that is nothing but a yes or a no.
_LONGEST = 200
_MARKS = re.compile(r"[\s.,!。，！、]+")


def is_yes(text: str, named: Iterable[str] = ()) -> bool:
    """Whether an answer is a yes and nothing else.

    Args:
        text: What the user wrote.
        named: The words of the call's name, which may stand beside a plain yes.
    """
    if len(text) > _LONGEST:
        return False
    if _CHINESE_YES.fullmatch(_MARKS.sub("", text)):
        return True
    words, agrees = _drop_phrases(text, _PHRASES)
    beside = _BESIDE | {*named} if not _STRONG.isdisjoint(words) else _BESIDE
    agrees = agrees or any(word in _YES for word in words)
    return agrees and all(word in _YES or word in beside for word in words)


def is_no(text: str) -> bool:
    """Whether an answer is a no and nothing else."""
    if len(text) > _LONGEST:
        return False
    if _CHINESE_NO.fullmatch(_MARKS.sub("", text)):
        return True
    words, refuses = _drop_phrases(text, _NO_PHRASES)
    return (
        (refuses or bool(words))
        and all(word in _NO or word in _BESIDE for word in words)
        and (refuses or any(word in _NO and word not in _BESIDE for word in words))
    )


def begins_with_no(text: str) -> bool:
    """Whether an answer begins with a no, whatever follows, and has no word of a yes."""
    words, agrees = _drop_phrases(text[:_LONGEST], _PHRASES)
    if not words or words[0] not in _PLAIN_NO or agrees:
        return False
    return _YES.isdisjoint(words) and _OBSTACLES.isdisjoint(words)


def _drop_phrases(text: str, phrases: Iterable[str]) -> tuple[list[str], bool]:
    words = " ".join(_MARKS.split(text.casefold().replace("\u2019", "'"))).strip()
    rest = f" {words} "
    for phrase in phrases:
        rest = rest.replace(f" {phrase} ", " ")
    return rest.split(), rest.strip() != words
