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
    "usd dollar dollars us$ $; eur euro euros €; gbp £; chf franken; jpy yen; cny yuan rmb; inr rupees ₹; pln zł zloty",
)
# The signs and the codes of currencies, and words for them.
CURRENCY_SIGNS = r"(?:US|CA|AU|NZ|HK|R|S|C|A)?\$|[€£¥₹₽₩₺₴₪฿₫₦]"
CURRENCY_CODES = (
    "USD EUR GBP JPY CNY CHF INR CAD AUD NZD SEK NOK DKK PLN CZK HUF RON BGN RUB UAH TRY BRL MXN ARS CLP COP ZAR KRW HKD"
    " SGD THB IDR MYR PHP VND ILS SAR AED EGP NGN KES PKR BDT TWD RMB BTC ETH euros? dollars? Euro Fr Rs Rp kr zł zl лв"
    " руб грн Ft Kč"
).replace(" ", "|")
# Words after a number that multiply it, by their powers of ten. Inflected words have their stems.
SCALES = {
    2: "hundreds? hunderte? honderd cientos cent[oi]s centaines? centinaia centenas сот(?:ен|ня|ни)? "
    "сотн[яи] sto hundra hundrede? सौ"
    " مئة مائة מאות ร้อย\\S*",
    3: "thousands? k tsd thsd thou tausende?n? milliers? mille mila milhar(?:es)? millares duizend tys "
    "tysi[ąę]c\\w* тыс тысяч\\w*"
    " тис тисяч\\w* хил хиляд\\w* хиљад\\w* tusen tusinde? tis tisíc\\w* tisuć\\w* tuhat tuhatta ezer mii "
    "ribu rb nghìn ngàn"
    " χιλιάδ\\w* χιλ हज़ार हजार ألف آلاف الف هزار אלף אלפים พัน\\S* elfu",
    4: "หมื่น\\S* myriads?",
    5: "lakhs? lacs? laki लाख แสน\\S* لاکھ লাখ",
    6: "millions? mio mill mln mn mns millionen milli[oó]n\\w* millon\\w* millón millones mili[oó]\\w* "
    "milh(?:ão|ões) milhao milhoes"
    " miljoen\\w* miljon\\w* milj mili(?:j|o)un\\w* milijon\\w* млн миллион\\w* мільйон\\w* милион\\w* "
    "εκατομμύρι\\w* εκατ εκ"
    " milyon juta jt triệu مليون ملايين میلیون מיליון मिलियन ล้าน\\S* milioni miljoona\\w* milijun\\w* "
    "millió",
    7: "crores? cr करोड़ کروڑ কোটি",
    9: "billions? bn bln mrd milliarden? milliards? miliard\\w* milliard\\w* miljard\\w* milijard\\w* "
    "mil(?:har|miliard)\\w* mld mds? md mia"
    " bilh(?:ão|ões) milyar млрд миллиард\\w* мільярд\\w* милиард\\w* δισ\\w* tỷ tỉ مليار میلیارد מיליארד "
    "अरब",
    12: "trillions? tn trn trln billionen billón billones biljoen\\w* biliones bilion\\w* biliões bilioner "
    "billioner trilh(?:ão|ões) трлн"
    " триллион\\w* трильйон\\w* τρισ\\w* trilyun",
    15: "quadrillions?",
}
EAST_ASIAN_POWERS = {
    scale: power
    for power, scales in {1: "十拾십", 2: "百佰백", 3: "千仟천", 4: "万萬만", 8: "亿億억", 12: "兆조"}.items()
    for scale in scales
}
