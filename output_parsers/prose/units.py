"""Units of measurement, by kind and by language, for numbers and durations."""

from __future__ import annotations


def _families(*families: str) -> tuple[dict[str, str], ...]:
    """Return for each kind of unit a dict from each spelling of a unit to the first one."""
    return tuple(
        {spelling: names.split()[0] for names in family.split(";") for spelling in names.split()}
        for family in families
    )


# The words for each unit of a duration, by its letter. The letters themselves may be other units: 5 m, 5 w.
TIME_UNITS = {
    "w": "week weeks wk wks woche wochen semaine semaines semana semanas settimana settimane weken tydzień tygodnie tygodni"
    " неделя недели недель 周 星期 週間 주 주일",
    "d": "day days tag tage tagen jour jours día días dia dias giorno giorni dag dagen dzień dni день дня дней 天 日間 일간",
    "h": "hour hours h hr hrs stunde stunden heure heures hora horas ora ore uur uren godzina godziny godzin час часа часов"
    " 小时 小時 个小时 個小時 時間 시간",
    "ms": "ms msec msecs millisecond milliseconds",
    "us": "us µs μs usec usecs microsecond microseconds",
    "m": "min mins minute minutes minuten minuto minutos minuti minuta minuty minut minuut минута минуты минут"
    " 分钟 分鐘 分間 分 분",
    "s": "sec secs s second seconds sekunde sekunden seconde secondes segundo segundos secondo secondi seconden"
    " sekunda sekundy sekund секунда секунды секунд 秒 秒钟 秒鐘 秒間 초",
}
# Months and years, whose lengths differ.
CALENDAR_UNITS = (
    "month months monat monate monaten mois mes meses mese mesi maand maanden",
    "year years yr yrs jahr jahre jahren an ans année années año años anno anni ano anos jaar jaren год года лет",
)
UNITS = _families(
    # "42 ora" is "not 42" in Javanese
    ";".join((*TIME_UNITS.values(), *CALENDAR_UNITS)).replace(" ora ", " "),
    "mm millimeter millimeters millimetre millimetres; cm centimeter centimeters centimetre centimetres zentimeter;"
    "m meter meters metre metres mètres metros metri; km kilometer kilometers kilometre kilometres;"
    "in inch inches; ft foot feet; yd yard yards; mi mile miles",
    "mg milligram milligrams; g gram grams gramm; kg kilo kilos kilogram kilograms kilogramm; t ton tons tonne tonnes;"
    "lb lbs pound pounds; oz ounce ounces",
    "ml milliliter milliliters; cl; liter liters litre litres; gal gallon gallons",
    "°c celsius; °f fahrenheit; °k kelvin; ° degree degrees grad",
    "byte bytes; kb kilobyte kilobytes; mb megabyte megabytes; gb gigabyte gigabytes; tb terabyte terabytes",
    "w watt watts; kw kilowatt kilowatts; kwh; v volt volts; hz hertz; khz; mhz; ghz; kcal calories kalorien; kj",
    "usd dollar dollars $; eur euro euros €; gbp; chf franken; jpy yen; cny yuan",
)
