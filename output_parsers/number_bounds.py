"""Says when words of many languages beside a value bound it, move it or scale it."""

from __future__ import annotations

from collections.abc import Sequence

from .doubt import bare_word
from .errors import shorten

__all__ = ["bound"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Right before a value these make it a limit, or the end of a span: "more", "less", "before", "after",
# "until", "almost". A limit that is returned as the value is wrong, and nobody sees it: hence many languages.
_BEFORE = _words(
    """
    minimum maximum upwards north south shy excess short til
    mehr weniger mindestens wenigstens höchstens maximal minimal über unter vor nach seit ab bis spätestens
    frühestens knapp fast beinahe kaum
    plus moins avant après apres depuis jusqu'à jusqu’à jusqu'au jusqu’au jusque dès presque près sous
    más mas menos antes después despues desde hasta casi mínimo máximo bajo sobre
    più meno prima dopo fino oltre quasi almeno massimo minimo entro
    mais depois até quase acima abaixo
    meer minder voor na tot sinds bijna minstens hoogstens ruim
    mer mindre före efter innan nästan minst högst
    ponad mniej więcej przed po do od prawie
    более больше менее меньше свыше до после перед от почти минимум максимум минус не
    أكثر أقل قبل بعد حتى منذ
    至少 最少 最多 至多 超过 超過 不到 不足 少于 少於 多于 多於
    大于 大於 小于 小於 低于 低於 高于 高於
    近 负 負 少なくとも 최소 최대 약간
    """
)
# What may stand between such a word and the value: "plus de 5", "weniger als 5", "vor dem 2024-03-15".
_JOINTS = _words(
    """
    of to als dem den der die das zu de le la les du des d' que l' el los las del al di il lo gli dan än than
    a o às من
    """
)
_AFTER = _words(
    """
    fold plus upwards onwards mindestens höchstens 이상 이하 미만 초과 以上 以下 以内 未満 未满
    以前 以后 以後 之前 之后 之後 まで から より
    """
)
_UP = _words("up above over upwards below under beyond later earlier")
# A word for a scale that is not read: the number alone would be wrong by thousands.
_SCALES = _words("mil mill mille mila mio mrd tsd tys mln mld тыс млн млрд bin mn bn hundreds")
_SCALE_STEMS = tuple(
    """
    million milliard millier millon millón milion miliard miljo miljard milyon milhõ milhã bilh billion billon
    trillion trilh thousand tausend hundert duizend tusen tysi crore lakh миллион миллиард тысяч
    """.split()
)


def bound(before: Sequence[str], after: Sequence[str]) -> str | None:
    """Why a value between these words is not the value as it stands, or None."""
    for word in reversed(before):
        bare = bare_word(word)
        if bare in _BEFORE:
            return f'"{shorten(bare, 40)}" before it leaves the answer open'
        if bare not in _JOINTS:
            break
    following = [bare_word(word) for word in after[:2]]
    scaled = bool(following) and (following[0] in _SCALES or following[0].startswith(_SCALE_STEMS))
    if following and (scaled or following[0] in _AFTER):
        return f'"{shorten(following[0], 40)}" after it leaves the answer open'
    if len(following) == 2 and following[0] == "and" and following[1] in _UP:
        return f'"and {following[1]}" after it leaves the answer open'
    return None
